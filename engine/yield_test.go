package engine_test

import (
	"slices"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// pipelining keeps fifty groups of 5 ms on their way for as long as it lasts, so that c never has all its answers, however
// busy the machine. The channel is closed when the session has ended.
func pipelining(c *pgwire.Conn) (ended <-chan struct{}) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		group := pgwire.Query("select pg_sleep(0.005)")
		if c.Send(slices.Repeat([][]byte{group}, 50)...) != nil {
			return
		}
		for {
			if _, err := c.ReadUntil('Z', 1); err != nil || c.Send(group) != nil {
				return
			}
		}
	}()
	return gone
}

// TestPipelineYieldsToPause: a client that always has a further group on the way rides on its permit only while nothing is
// paused.
func TestPipelineYieldsToPause(t *testing.T) {
	t.Parallel()
	for _, scope := range []view.Scope{{}, {Database: "postgres"}, {Route: plain}} {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.route-key=database,user")
			pipelining(login(t, address))
			until(t, "it runs", func() bool { return e.Totals().Queries > 10 })
			must(t, answer(t, pausing(e, t.Context(), scope)))
			waiting(t, e, 1)
			n := e.Totals().Queries
			must(t, e.Resume(scope))
			until(t, "it goes on", func() bool { return e.Totals().Queries > n+10 })
		})
	}
}

// TestPipelineYieldsToLoweredLimit: nobody waits, and yet fewer of them run once the limit is lower.
func TestPipelineYieldsToLoweredLimit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"capacity.max_route_in_flight", "capacity.pool_max_size", "capacity.max_backends"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.route-key=database,user")
			for range 4 {
				pipelining(login(t, address))
			}
			until(t, "four run", func() bool { return e.Tally(plain).InFlight == 4 })
			must(t, e.SetLimit(name, "1"))
			until(t, "one runs, three wait", func() bool {
				n := e.Tally(plain)
				return n.InFlight == 1 && n.Waiting == 3
			})
		})
	}
}

// TestPipelineYieldsToDrain: a drain ends a pipeline between two groups, and cuts nothing.
func TestPipelineYieldsToDrain(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)))
	ended := pipelining(login(t, address))
	until(t, "it runs", func() bool { return e.Totals().Queries > 10 })
	if err := e.Drain(patience, nil); err != nil {
		t.Errorf("drain: %v", err)
	}
	<-ended
}

// TestFullHostWaits: a pool without a backend, on a host whose places others have, waits for checkout_timeout_ms, not for
// the shorter time in which a PostgreSQL that does not answer is given up.
func TestFullHostWaits(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	for _, capped := range []bool{false, true} {
		text := databases(pg) + "capacity: {checkout_timeout_ms: 3000, connect_timeout_ms: 1000, max_backends: 1}\n"
		if capped { // by the database
			text = "databases: [{name: \"*\", hosts: [\"" + pg.Addr() + "\"], max_backends: 1}]\ncapacity: {checkout_timeout_ms: 3000, connect_timeout_ms: 1000}\n"
		}
		_, address := startYAML(t, text)
		holder(t, address)
		began := time.Now()
		_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", role(t, pg), "database", "postgres")
		overloaded(t, err, "FATAL", "53300")
		if took := time.Since(began); took < 2990*time.Millisecond {
			t.Errorf("given up after %v", took)
		}
	}
}
