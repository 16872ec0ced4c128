package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// TestPgbenchPreparedStorm: pgbench's built-in scripts with prepared statements, 200 clients on 20 backends. A thread of
// pgbench blocks in the Parse of one client's BEGIN while its other clients hold all backends by their blocks: that Parse
// must be answered without a backend, or everybody waits.
func TestPgbenchPreparedStorm(t *testing.T) {
	const clients, size = 200, 20
	onlyKinetic(t)
	s := pgtest.Start(t, pgtest.MaxConnections(60))
	pgbenchTables(t, s)
	for _, script := range []string{"select-only", "tpcb-like"} {
		t.Run(script, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{PoolSize: size, Flags: []string{"--server.loops=2"}})
			before := baseline(t, p)
			samples := sampleSessions(t, s)
			pgbench(t, s, p, long(3*time.Second), "-M", "prepared", "-c", fmt.Sprint(clients), "-j", "2", "-b", script)
			sessions, _ := samples.end(t)
			if sessions > size || sessions < size/2 {
				t.Errorf("PostgreSQL had %d sessions at once, the pool's size is %d", sessions, size)
			}
			if log := p.Log(); strings.Contains(log, "ERROR") {
				t.Errorf("the log has errors:\n%s", p.LogTail(20))
			}
			steady(t, s, p, size, before)
		})
	}
}
