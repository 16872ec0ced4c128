package engine_test

import (
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestSettingsReachKeptBackends: a client that never gives its backend back, whether of session mode or pinned, is under
// settings of run time as soon as it rests, and a running query is not.
func TestSettingsReachKeptBackends(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		for _, busy := range []bool{false, true} {
			pg := pgtest.Shared(t)
			e, address := startYAML(t, databases(pg), "--server.pool-mode="+mode)
			c, g := login(t, address), shut(t, pg, 1)
			exec(t, c, "create temp table kept (a int)")
			if busy {
				send(t, c, pgwire.Query(g.query(0)))
				g.running(t, 0)
			}
			must(t, e.SetLimit("capacity.idle_client_timeout_ms", "100"))
			must(t, e.SetLimit("capacity.query_timeout_ms", "60000"))
			if busy {
				g.open(t, 0)
				answered(t, c, "TDCZI")
			}
			ended(t, c, "57P05")
			rested(t, e)
		}
	}
}
