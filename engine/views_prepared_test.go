package engine_test

import (
	"slices"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestViewsOfSessions: who pins and for what, who has prepared what, and the counters of both.
func TestViewsOfSessions(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2")
	c, other := login(t, address, "application_name", "keeper"), login(t, address)
	exec(t, c, "select pg_advisory_lock(4711); create temp table seen (a int)")
	rows := e.Pinning()
	if len(rows) != 1 || rows[0].Reasons != "temp_table,advisory_lock" || rows[0].ApplicationName != "keeper" || rows[0].ServerPID == 0 {
		t.Errorf("%+v", rows)
	}
	s := e.Totals()
	if s.Pins["temp_table"] != 1 || s.Pinned["advisory_lock"] != 1 {
		t.Errorf("%v, %v", s.Pins, s.Pinned)
	}
	exec(t, c, "discard all")
	if rows := e.Pinning(); len(rows) != 0 || e.Totals().Pinned["temp_table"] != 0 {
		t.Errorf("%+v, %v", rows, e.Totals().Pinned)
	}
	for range 2 {
		send(t, other, pgwire.Parse("s", "select 1"), pgwire.Bind("", "s"), pgwire.Execute("", 0), pgwire.Sync())
		types(t, other, 1)
		send(t, other, pgwire.Bind("", "s"), pgwire.Execute("", 0), pgwire.Close('S', "s"), pgwire.Sync())
		types(t, other, 1)
	}
	send(t, other, pgwire.Parse("s", "select 1"), pgwire.Sync())
	types(t, other, 1)
	prepared := slices.Collect(e.Prepared())
	if len(prepared) != 2 || prepared[0].Client == 0 || prepared[0].Statements != 1 || prepared[1].Server == 0 || prepared[1].Statements != 1 {
		t.Errorf("%+v", prepared)
	}
	if s := e.Totals().Prepared; s["parsed"] != 1 || s["hit"] == 0 || s["answered"] < 4 {
		t.Errorf("%v", s)
	}
}
