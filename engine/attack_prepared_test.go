package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestLargeParseRefused: of a Parse that is refused before all of it is here, nothing reaches PostgreSQL.
func TestLargeParseRefused(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2", "--capacity.max-pinned=1")
	exec(t, login(t, address), "create temp table pinning (x int)")
	c := login(t, address)
	large := pgwire.Parse("large", "select 7 --"+strings.Repeat("x", 1<<20))
	send(t, c, large, pgwire.Bind("", "large"), pgwire.Execute("", 0), pgwire.Sync())
	if got := types(t, c, 1); got != "EZI" {
		t.Error(got)
	}
	usable(t, c)
}

// TestLargeParseBehindAStalePlan: a group is not sent again inside a message that has begun.
func TestLargeParseBehindAStalePlan(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	table := role(t, pg)
	pg.Exec(t, "create table "+table+" as select 1 as x")
	_, address := start(t, pg, "--capacity.pool-max-size=1")
	c := login(t, address)
	send(t, c, pgwire.Parse("s", "select * from "+table), invoke("s"))
	types(t, c, 1)
	pg.Exec(t, "alter table "+table+" add y int")
	large := pgwire.Parse("large", "select 7 --"+strings.Repeat(" ", 100_000))
	send(t, c, invoke("s"), large[:60_000])
	if got := types(t, c, 1); got != "EZI" && got != "2TDCZI" { // the latter if the network has cut there
		t.Error(got)
	}
	send(t, c, large[60_000:], invoke("large"))
	if got := types(t, c, 1); got != "12TDCZI" {
		t.Error(got)
	}
}

// TestSetsBehindNamesOfTheServer: what is set by a statement that has been made to exist under its own name is followed.
func TestSetsBehindNamesOfTheServer(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	c := login(t, address)
	send(t, c, pgwire.Parse("a", "set statement_timeout = 106000"), pgwire.Sync())
	types(t, c, 1)
	_, err := c.Exec("prepare a as select 1")
	refused(t, err, "ERROR", "42P05")
	send(t, c, pgwire.Bind("", "a"), pgwire.Execute("", 0), pgwire.Sync())
	types(t, c, 1)
	exec(t, c, "deallocate all")
	for want, conn := range map[string]*pgwire.Conn{"106s": c, "0": login(t, address)} {
		if got := one(t, conn, "show statement_timeout"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestNothingTrackedLeavesNothing: with max_prepared_statements 0 as well nobody meets what another client has set, taken or
// listens to by the extended protocol.
func TestNothingTrackedLeavesNothing(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.max-prepared-statements=0")
	for _, name := range []string{"", "named"} {
		for _, sql := range []string{
			"set work_mem = '77MB'", "select pg_advisory_lock(5)", "create temp table here (x int)", "listen here",
			"select set_config('work_mem', '77MB', false)",
		} {
			t.Run(fmt.Sprintf("%q %s", name, sql), func(t *testing.T) {
				c := login(t, address)
				send(t, c, pgwire.Parse(name, sql), pgwire.Bind("", name), pgwire.Execute("", 0), pgwire.Close('S', name), pgwire.Sync())
				if got := types(t, c, 1); strings.Contains(got, "E") {
					t.Fatal(got)
				}
				c.Close()
				if got := one(t, login(t, address), leftovers); got != clean {
					t.Errorf("left: %s", got)
				}
			})
		}
	}
}
