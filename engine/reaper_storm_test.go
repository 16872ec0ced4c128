package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestReaperStorm: short lives, questions all the time, backends opened ahead, operators, and backends that end by themselves,
// under load: no client notices but those whose backend was ended under them, and nothing is left behind.
func TestReaperStorm(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := startYAML(t, entry(pg.Addr(), who, "pool_max_size: 6, pool_min_idle: 2, pool_max_lifetime_ms: 300, pool_idle_timeout_ms: 200")+
		"reaper: {server_check_delay_ms: 0, server_check_query: select 1}\nserver: {loops: 2}\n")
	var all sync.WaitGroup
	var stop atomic.Bool
	var served, cut atomic.Int64
	for i := range 16 {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				want := fmt.Sprintf("%d.%d", i, n)
				rows, err := c.Exec("select '" + want + "'")
				var fault *pgwire.Error
				switch {
				case err == nil && rows[0][0] == want:
					served.Add(1)
				case errors.As(err, &fault) && fault.Fields['S'] == "ERROR" && (fault.Code() == "57P01" || fault.Code() == "08006"):
					cut.Add(1)
				default:
					t.Errorf("client %d: %v, %v, want %s", i, rows, err, want)
					return
				}
				if i%4 == 0 { // these let backends rest
					time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				}
			}
		})
	}
	kills := 0
	for end, n := time.Now().Add(3*time.Second), 0; time.Now().Before(end); n++ {
		switch n % 5 {
		case 0:
			must(t, e.Reconnect("app"))
		case 1:
			must(t, e.Pause(t.Context(), view.Scope{Database: "app"}))
			must(t, e.Resume(view.Scope{Database: "app"}))
		case 2:
			kills += pg.KillBackends(t, "usename = '"+who+"' and state = 'idle'")
		case 3:
			must(t, e.SetLimit("capacity.max_backends", fmt.Sprint(2+n%7)))
		}
		time.Sleep(70 * time.Millisecond)
	}
	stop.Store(true)
	all.Wait()
	until(t, "at rest, two kept", func() bool {
		return len(e.Unrest()) == 0 && e.Totals().Servers == 2
	})
	n := e.Totals()
	t.Logf("%d requests, %d cut, %d backends killed; %d logins, evictions %v", served.Load(), cut.Load(), kills, n.ServerLogins, n.Evictions)
	if served.Load() < 100 || n.Evictions["max_lifetime"] == 0 || n.Evictions["unhealthy"] == 0 || n.Evictions["reload"] == 0 {
		t.Error("not all of it has happened")
	}
	if cut.Load() > int64(kills) {
		t.Errorf("%d requests failed, but %d backends were killed", cut.Load(), kills)
	}
}
