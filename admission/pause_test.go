package admission

import "testing"

func TestPauseHoldsNewcomersUntilResume(t *testing.T) {
	pauses := map[string]func(r *rig, rt *Route, on bool){
		"route": func(r *rig, rt *Route, on bool) {
			if on {
				rt.Pause(0, r.now)
			} else {
				rt.Resume(0, r.now)
			}
		},
		"pool": func(r *rig, rt *Route, on bool) {
			if on {
				r.pool.Pause(0, r.now)
			} else {
				r.pool.Resume(0, r.now)
			}
		},
		"process": func(r *rig, rt *Route, on bool) {
			if on {
				r.c.Pause(0, r.now)
			} else {
				r.c.Resume(0, r.now)
			}
		},
	}
	for name, pause := range pauses {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 3, 20)
			rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
			r.fill(rt, 0, 3)
			p := rt.TryRun(0)
			pause(r, rt, true)
			if rt.TryRun(0) != nil {
				t.Fatal("the fast path admits during a pause")
			}
			for i := range 2 {
				if _, v := r.enter(rt, 0, i); v != Pending {
					t.Fatalf("verdict %d", v)
				}
			}
			r.wantCounts(rt, 1, 2)
			if r.pool.Drained() {
				t.Fatal("drained with a request in flight")
			}
			r.c.Release(0, r.now, p)
			if !r.pool.Drained() || len(r.loops[0].linked) != 0 {
				t.Fatal("not drained after the last release")
			}
			pause(r, rt, false)
			if n := len(r.loops[0].linked); n != 2 {
				t.Fatalf("%d run after the resume, want 2", n)
			}
			r.wantCounts(rt, 2, 0)
		})
	}
}

func TestPoolMadeDuringAPauseIsPaused(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 3, 20)
	r.c.Pause(0, r.now)
	p := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 1})
	rt := p.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.enter(rt, 0, nil)
	r.wantCounts(rt, 0, 1)
	r.c.Resume(0, r.now)
	r.wantCounts(rt, 1, 0)
}

func TestForgottenRouteAdmitsNobody(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	if rt.Forget() {
		t.Fatal("a route in use was forgotten")
	}
	r.c.Release(0, r.now, p)
	for range 2 {
		if !rt.Forget() {
			t.Fatal("an unused route was not forgotten")
		}
	}
	if rt.TryRun(0) != nil {
		t.Fatal("a dead route runs")
	}
	if _, v := r.enter(rt, 0, nil); v != RouteDead {
		t.Fatalf("verdict %d, want RouteDead", v)
	}
	if rt.Count(Rejected) != 0 {
		t.Fatal("a dead route counts a refusal")
	}
}

func TestDropRefusesAPoolInUse(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	if r.c.Drop(r.pool) {
		t.Fatal("a pool with a backend was dropped")
	}
	r.c.Closed(0, r.now, rt.TryRun(0))
	if !r.c.Drop(r.pool) {
		t.Fatal("an empty pool was not dropped")
	}
}

func TestOldestWait(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	r.enter(rt, 0, nil)
	if rt.OldestWait(r.now) != 0 || r.pool.OldestWait(r.now) != 0 {
		t.Fatal("a holder counts as a waiter")
	}
	r.enter(rt, 0, nil)
	r.now += 70
	r.enter(rt, 0, nil)
	if rt.OldestWait(r.now) != 70 || r.pool.OldestWait(r.now) != 70 {
		t.Fatalf("oldest wait %d, %d, want 70", rt.OldestWait(r.now), r.pool.OldestWait(r.now))
	}
}
