package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestLivesOfEntriesAndUsers: each database and each user may have its own times, 0 turns one off, and what is open follows a
// change.
func TestLivesOfEntriesAndUsers(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	never, idle, old := role(t, pg), role(t, pg), role(t, pg)
	text := func(user, more string) string {
		return fmt.Sprintf(`databases:
  - {name: "*", hosts: [%[1]q], dbname: postgres}
  - {name: short, hosts: [%[1]q], dbname: postgres, pool_idle_timeout_ms: 50, pool_max_lifetime_ms: 0}
users: [{name: %[2]s, pool_max_lifetime_ms: 50, pool_idle_timeout_ms: 0}]
capacity: {pool_idle_timeout_ms: 0, pool_max_lifetime_ms: 0%[3]s}
`, pg.Addr(), user, more)
	}
	e, address := startYAML(t, text(old, ""))
	for database, who := range map[string]string{"any": never, "short": idle, "other": old} {
		usable(t, pgwire.Login(t, "tcp", address, "user", who, "database", database))
	}
	until(t, "one by its idle time, one by its life", func() bool {
		n := e.Totals()
		return n.Evictions["idle_timeout"] == 1 && n.Evictions["max_lifetime"] == 1
	})
	if n := e.Totals(); n.Servers != 1 || len(strings.Fields(sessionsOf(t, pg, never))) != 1 {
		t.Errorf("%d open, want the one that may stay", n.Servers)
	}
	reload(t, e, text(never, ""))
	until(t, "that one as well", func() bool { return e.Totals().Evictions["max_lifetime"] == 2 && e.Totals().Servers == 0 })
}

// TestClocksOfRules: the clocks of a client that keeps its backend follow the rule of its request.
func TestClocksOfRules(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := startYAML(t, `routes:
  - {match: {application_name: pin}, idle_pin_timeout_ms: 150}
  - {match: {application_name: stall}, client_stall_timeout_ms: 150}
  - {match: {application_name: write}, client_write_timeout_ms: 150}
`+databases(pg))
	app := func(name string) *pgwire.Conn { return login(t, address, "application_name", name) }
	pin, stays := app("pin"), app("other")
	for _, c := range []*pgwire.Conn{pin, stays} {
		exec(t, c, "create temp table pinned (a int)")
	}
	ended(t, pin, "57P05")
	stall := app("stall")
	for _, c := range []*pgwire.Conn{stall, stays} {
		send(t, c, pgwire.Parse("", "select 1"), pgwire.Bind("", ""))
	}
	ended(t, stall, "08006")
	send(t, stays, pgwire.Sync())
	if got := types(t, stays, 1); got != "12ZI" {
		t.Errorf("got %s", got)
	}
	write, large := app("write"), pgwire.Query("select repeat('x', 100000) from generate_series(1, 500)")
	send(t, write, large)
	send(t, stays, large)
	until(t, "the one that does not read is closed", func() bool {
		return pg.Value(t, "select count(*) from pg_stat_activity where state = 'active' and query like 'select repeat%'") == "1"
	})
	if all, err := write.ReadAll(); err != nil || strings.Contains(typesOf(all), "Z") {
		t.Errorf("the rest was %d messages, %v", len(all), err)
	}
	if got := types(t, stays, 1); !strings.HasSuffix(got, "CZI") {
		t.Errorf("the other's answer ended with %s", got[max(len(got)-5, 0):])
	}
}
