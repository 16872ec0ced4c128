package engine_test

import (
	"strconv"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestKillClient: one client is told and closed, its transaction rolled back, its backend serves the next.
func TestKillClient(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1", "--server.loops=2")
	victim, waiter, other := login(t, address), login(t, address), login(t, address)
	exec(t, victim, "begin")
	backend := one(t, victim, "select pg_backend_pid()")
	exec(t, victim, "create temp table left_behind (n int)")
	queue(t, e, waiter, "select pg_backend_pid()")
	id := e.ClientID(victim.PID)
	must(t, e.KillClient(id))
	if f := ended(t, victim, "57P01"); !strings.Contains(f.Fields['M'], "KILL_CLIENT") {
		t.Errorf("message %q", f.Fields['M'])
	}
	all, err := waiter.ReadUntil('Z', 1)
	if err != nil || typesOf(all) != "TDCZI" || !strings.Contains(pgwire.Transcript(all), backend) {
		t.Errorf("the next one got %s, %v, want backend %s", pgwire.Transcript(all), err, backend)
	}
	must(t, e.KillClient(e.ClientID(waiter.PID))) // idle
	ended(t, waiter, "57P01")
	for _, gone := range []uint64{id, 0, 1 << 60} {
		if err := e.KillClient(gone); err == nil || !strings.Contains(err.Error(), strconv.FormatUint(gone, 10)) {
			t.Errorf("killing %d: %v", gone, err)
		}
	}
	until(t, "two killed", func() bool { return e.Totals().Closed["killed"] == 2 })
	usable(t, other)
	rested(t, e)
}

// TestKillClientSparesOperators: the console's clients are not to be killed.
func TestKillClientSparesOperators(t *testing.T) {
	t.Parallel()
	e, address, _ := startConsole(t, pgtest.Shared(t).Addr(), consoleSettings)
	operator := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	if err := e.KillClient(e.ClientID(operator.PID)); err == nil {
		t.Error("an operator was killed")
	}
	one(t, operator, "who")
}
