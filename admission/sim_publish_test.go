//go:build sim

package admission

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
