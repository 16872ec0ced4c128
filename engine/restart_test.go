package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestRestartWithIdleBackends: PostgreSQL restarts, in whatever way, while nobody uses its backends: no client's next request
// fails, those that come while it is away wait for it, and what is kept idle is there again.
func TestRestartWithIdleBackends(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	e, address := startYAML(t, entry(pg.Addr(), "postgres", "pool_min_idle: 3")+"server: {loops: 2}\n")
	clients := make([]*pgwire.Conn, 8)
	for i := range clients {
		clients[i] = pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
		exec(t, clients[i], fmt.Sprintf("set application_name to 'client %d'", i))
	}
	full := func() bool {
		n := e.Pools()[0]
		return n.SvIdle >= 3 && n.SvLogin == 0
	}
	ask := func(when string) {
		t.Helper()
		var all sync.WaitGroup
		for i, c := range clients {
			all.Go(func() {
				if rows, err := c.Exec("show application_name"); err != nil || rows[0][0] != fmt.Sprintf("client %d", i) {
					t.Errorf("%s, client %d: %v, %v", when, i, rows, err)
				}
			})
		}
		all.Wait()
	}
	for _, mode := range []pgtest.Mode{pgtest.Fast, pgtest.Immediate} {
		until(t, "three are idle", full)
		must(t, pg.Restart(mode))
		ask("after a restart")
		until(t, "three are idle again", full)

		must(t, pg.Stop(mode))
		until(t, "their loss is noticed", func() bool {
			n := e.Pools()[0]
			return n.SvIdle+n.SvActive+n.SvUsed+n.SvTested == 0
		})
		back := make(chan error)
		go func() {
			time.Sleep(time.Second) // so long the requests wait
			back <- pg.StartAgain()
		}()
		ask("while it is away")
		must(t, <-back)
	}
	if n := e.Totals(); n.BackendsLost != 0 {
		t.Errorf("%d backends lost to clients", n.BackendsLost)
	}
	until(t, "at rest", func() bool { return len(e.Unrest()) == 0 })
}
