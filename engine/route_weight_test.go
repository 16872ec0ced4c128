package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// press keeps clients asking, in goroutines, until stop is closed and all have ended.
func press(t testing.TB, clients []*pgwire.Conn, sql string, stop chan struct{}, all *sync.WaitGroup) {
	t.Helper()
	for _, c := range clients {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Exec(sql); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// TestWeights: two routes that are never without waiters share a pool that is smaller than either limit as their weights say,
// to within 5 %, wherever their clients live.
func TestWeights(t *testing.T) {
	const pool, clients, grants = 4, 48, 3000
	for _, test := range []struct{ loops, slack int }{{1, 0}, {2, 2}, {4, 0}} {
		t.Run(fmt.Sprintf("loops %d, slack %d ms", test.loops, test.slack), func(t *testing.T) {
			e, address := startYAML(t, `routes:
  - {name: heavy, match: {application_name: heavy}, weight: 3, max_route_in_flight: 8}
  - {name: light, match: {application_name: light}, weight: 1, max_route_in_flight: 8}
`+databases(pgtest.Shared(t)), fmt.Sprintf("--capacity.pool-max-size=%d", pool), fmt.Sprintf("--server.loops=%d", test.loops),
				fmt.Sprintf("--admission.fifo-slack-ms=%d", test.slack))
			stop := make(chan struct{})
			var all sync.WaitGroup
			for _, name := range []string{"heavy", "light"} {
				k := crowd(t, address, test.loops, clients, "user", "postgres", "database", "postgres", "application_name", name)
				spread(t, test.loops, k)
				press(t, k, "select pg_sleep(0.001)", stop, &all)
			}
			saturated := func() bool { return e.Tally("heavy").Waiting > 0 && e.Tally("light").Waiting > 0 }
			until(t, "both routes waiting", func() bool { return saturated() && e.Totals().Servers == pool })
			heavy, light := uint64(0), uint64(0)
			// Weights say nothing of a time in which a route had no waiter, as when the machine has starved its clients:
			// that time does not count.
			until(t, "a time in which both routes always had waiters", func() bool {
				h, l, idle := e.Tally("heavy").Admitted, e.Tally("light").Admitted, false
				until(t, "enough grants", func() bool {
					idle = idle || !saturated()
					return e.Tally("heavy").Admitted+e.Tally("light").Admitted >= h+l+grants
				})
				heavy, light = e.Tally("heavy").Admitted-h, e.Tally("light").Admitted-l
				return !idle
			})
			close(stop)
			all.Wait()
			rested(t, e)
			ratio := float64(heavy) / float64(light)
			t.Logf("%d to %d: %.3f", heavy, light, ratio)
			if ratio < 3*0.95 || ratio > 3*1.05 {
				t.Errorf("throughput %d to %d is %.3f, want 3 within 5 %%", heavy, light, ratio)
			}
		})
	}
}

// TestNoRouteStarves: a single client of the lightest route gets its turn in every round of the others, however many they are.
func TestNoRouteStarves(t *testing.T) {
	const pool, grants = 2, 4000
	weights := []int{1, 2, 20}
	var rules strings.Builder
	rules.WriteString("routes:\n")
	round := uint64(0)
	for _, w := range weights {
		round += uint64(w)
		fmt.Fprintf(&rules, "  - {name: w%d, match: {application_name: w%[1]d}, weight: %[1]d, max_route_in_flight: 8}\n", w)
	}
	e, address := startYAML(t, rules.String()+databases(pgtest.Shared(t)), fmt.Sprintf("--capacity.pool-max-size=%d", pool), "--server.loops=2")
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i, clients := range []int{1, 8, 32} {
		name := fmt.Sprintf("w%d", weights[i])
		press(t, crowd(t, address, 2, clients, "user", "postgres", "database", "postgres", "application_name", name), "select pg_sleep(0.0005)", stop, &all)
	}
	until(t, "the others waiting", func() bool { return e.Tally("w2").Waiting > 0 && e.Tally("w20").Waiting > 0 })
	count := func() (own, sum uint64) {
		own = e.Tally("w1").Admitted
		return own, own + e.Tally("w2").Admitted + e.Tally("w20").Admitted
	}
	ownBefore, sumBefore := count()
	until(t, "enough grants", func() bool { _, sum := count(); return sum >= sumBefore+grants })
	own, sum := count()
	close(stop)
	all.Wait()
	rested(t, e)
	own, sum = own-ownBefore, sum-sumBefore
	t.Logf("%d of %d requests were the lightest route's", own, sum)
	// One of each round, less the rounds that pass while its client is told and asks again.
	if own*round*3 < sum {
		t.Errorf("%d of %d requests were the lightest route's: not one in three rounds of %d", own, sum, round)
	}
}
