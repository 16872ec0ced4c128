package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestDisconnect: the clients of a database go between two transactions, whoever waits is served before, no transaction is
// cut; those of other databases stay, and so does whoever comes later.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	text := fmt.Sprintf("databases: [{name: a, hosts: [%q], dbname: postgres, pool_max_size: 2}, {name: b, hosts: [%q], dbname: postgres}]\n", pg.Addr(), pg.Addr())
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e, address := startYAML(t, text, "--server.pool-mode="+mode, "--server.loops=2")
			in := func(database string) *pgwire.Conn { return login(t, address, "database", database) }
			idle, busy, piping, waiter, other := in("a"), in("a"), in("a"), in("a"), in("b")
			exec(t, busy, "begin")
			usable(t, other)
			gone := func(c *pgwire.Conn) {
				t.Helper()
				if f := ended(t, c, "57P01"); !strings.Contains(f.Fields['M'], "DISCONNECT") {
					t.Errorf("message %q", f.Fields['M'])
				}
				c.Close()
			}
			send(t, piping, pgwire.Parse("", "select pg_sleep(0.3)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
			until(t, "both backends in use", func() bool {
				n := 0
				for label, tally := range e.Tallies() {
					if strings.HasPrefix(label, "a/") || strings.HasPrefix(label, "postgres/") {
						n += tally.InFlight
					}
				}
				return n >= 2
			})
			queue(t, e, waiter, "select 1")
			must(t, e.Disconnect("a"))
			gone(idle)
			late := in("a")
			if got := types(t, piping, 1); got != "12DCZI" {
				t.Errorf("in flight: %s", got)
			}
			gone(piping)
			answered(t, waiter, "TDCZI")
			gone(waiter)
			time.Sleep(100 * time.Millisecond) // two ticks
			exec(t, busy, "select 1")
			exec(t, busy, "commit")
			gone(busy)
			usable(t, late)
			usable(t, other)
			until(t, "four are counted", func() bool { return e.Totals().Closed["killed"] == 4 })
			if err := e.Disconnect("nobody"); err == nil {
				t.Error("a database that does not exist")
			}
		})
	}
}
