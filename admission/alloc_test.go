//go:build !race

package admission

import "testing"

func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestNothingAllocatesInSteadyState(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 100, FIFOSlack: 2e6}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 1})
	r.fill(rt, 0, 1)
	wantNoAllocs(t, "fast path", func() { r.c.Release(0, 1, rt.TryRun(0)) })

	p := rt.TryRun(0)
	r.loops[0].silent, r.loops[1].silent = true, true
	r.loops[0].linked = make([]*Place, 1)
	r.loops[1].linked = make([]*Place, 1)
	loop := 0
	wantNoAllocs(t, "wait and grant", func() {
		to := 1 - loop
		w := r.c.NewWaiter(to)
		if rt.Enter(to, 1, w) != Pending {
			t.Fatal("not queued")
		}
		r.c.Release(loop, 1, p)
		r.deliver()
		loop = to
		p = r.loops[to].linked[0]
	})

	r.c.Release(loop, 1, p)
	wantNoAllocs(t, "ask across loops", func() {
		to := 1 - loop
		if rt.TryRun(to) != nil || rt.Enter(to, 1, r.c.NewWaiter(to)) != Pending {
			t.Fatal("no permit")
		}
		r.deliver()
		loop = to
		r.c.Release(loop, 1, r.loops[to].linked[0])
	})

	p = rt.TryRun(loop)
	queued := r.c.NewWaiter(loop)
	rt.Enter(loop, 1, queued)
	wantNoAllocs(t, "the account of a wait", func() {
		spent := queued.Spent(3)
		if _, paused, _ := queued.Paused(3); spent[CauseRoute]+spent[CausePool] != 2 || paused != 0 {
			t.Fatalf("spent %v, paused %d", spent, paused)
		}
	})
	wantNoAllocs(t, "forecast", func() {
		if rt.Explain(3).Verdict != RouteFull {
			t.Fatal("another forecast")
		}
	})
	wantNoAllocs(t, "refusal", func() {
		w := r.c.NewWaiter(loop)
		if rt.Enter(loop, 1, w) != RouteFull {
			t.Fatal("not refused")
		}
		r.c.FreeWaiter(w)
	})
}
