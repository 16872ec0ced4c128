//go:build sim

package admission

// What must not show even for a moment: looked at from every yield point of one call.

import "testing"

// A release that somebody has a use for must not show its backend as idle, not even for a moment: asks of other loops go
// where most are published, and would come in vain, again and again.
func TestReleaseWithAHolderPublishesNothing(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 2, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 2, MaxWaiters: 4})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.enter(rt, 0, "holder")
	published := false
	simYield = func(bool) { published = published || r.pool.idle[0].published.Load() > 0 }
	defer func() { simYield = nil }()
	r.c.Release(0, r.now, p)
	if published {
		t.Fatal("a backend was published that went to a holder")
	}
	r.opened(0)
	if len(r.loops[0].linked) != 1 {
		t.Fatal("the holder does not run")
	}
	r.c.Release(0, r.now, p)
	if !published {
		t.Fatal("a backend that rests was not published")
	}
}

// A route at its limit must not become eligible between two of its requests, not even for a moment: the other routes of
// the pool would lose their fast path.
func TestRouteAtItsLimitIsNeverEligible(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 100}, 4, 10)
	full := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	other := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.fill(other, 0, 3)
	p := full.TryRun(0)
	for i := range 40 {
		r.enter(full, i%2, nil)
	}
	simYield = func(bool) {
		if poolWord(r.pool.word.v.Load()).eligible() > 0 {
			t.Fatal("the full route was eligible")
		}
	}
	defer func() { simYield = nil }()
	for range 40 {
		r.c.Release(p.Loop(), r.now, p)
		r.deliver()
	}
	if full.Count(Admitted) != 41 {
		t.Fatalf("%d admitted", full.Count(Admitted))
	}
}
