package admission

import "testing"

// Two routes that always have waiters share a pool 3 to 1, each in its turn.
func TestThroughputFollowsTheWeights(t *testing.T) {
	for _, loops := range []int{1, 3} {
		r := newRig(t, Options{Loops: loops, MaxWaiters: 1000}, 2, 10)
		heavy := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50, Weight: 3})
		light := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50, Weight: 1})
		served := map[*Route]int{}
		for i := range 40 {
			r.enter(heavy, i%loops, heavy)
			r.enter(light, i%loops, light)
		}
		for i := range loops {
			r.opened(i)
		}
		for range 4000 {
			r.step(served)
		}
		if h, l := served[heavy], served[light]; h < l*3-30 || h > l*3+30 {
			t.Fatalf("%d loops: served %d and %d, want 3 to 1", loops, h, l)
		}
	}
}

// step releases one linked backend and lets the client that had it ask again.
func (r *rig) step(served map[*Route]int) {
	r.now += 1e6
	for i, l := range r.loops {
		if len(l.linked) == 0 {
			continue
		}
		p, owner := l.linked[0], l.owners[0].(*Route)
		l.linked, l.owners = l.linked[1:], l.owners[1:]
		served[owner]++
		r.c.Release(i, r.now, p)
		r.deliver()
		if _, v := r.enter(owner, i, owner); v != Pending {
			r.t.Fatalf("verdict %d", v)
		}
		return
	}
	r.t.Fatal("no request runs")
}

// A route that was idle gets no more than its turn when it comes back, and is served within one round.
func TestIdleRouteEarnsNoCreditAndNobodyStarves(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 1000}, 1, 10)
	noisy := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 500, Weight: 5})
	quiet := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 500, Weight: 1})
	r.fill(noisy, 0, 1)
	p := noisy.TryRun(0)
	for range 100 {
		r.enter(noisy, 0, noisy)
	}
	for range 50 {
		r.c.Release(0, r.now, p)
	}
	for range 10 {
		r.enter(quiet, 0, quiet)
	}
	l := r.loops[0]
	l.owners = l.owners[:0]
	for range 12 {
		r.c.Release(0, r.now, p)
	}
	quiets := 0
	for _, o := range l.owners {
		if o == quiet {
			quiets++
		}
	}
	if quiets != 2 {
		t.Fatalf("the quiet route was served %d times of 12, want 2", quiets)
	}
}

func TestSlackLetsALoopServeItsOwnWaiter(t *testing.T) {
	const slack = 2e6
	for _, c := range []struct {
		age  int64
		want string
	}{{slack, "own"}, {slack + 1, "oldest"}} {
		r := newRig(t, Options{Loops: 2, MaxWaiters: 10, FIFOSlack: slack}, 1, 10)
		rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 9})
		r.fill(rt, 0, 1)
		p := rt.TryRun(0)
		r.enter(rt, 1, "oldest")
		r.now += c.age
		r.enter(rt, 0, "own")
		r.c.Release(0, r.now, p)
		r.deliver()
		got := append(r.loops[0].owners, r.loops[1].owners...)
		if len(got) != 1 || got[0] != c.want {
			t.Fatalf("%d ns later: %v runs, want %s", c.age, got, c.want)
		}
	}
}

func TestStrictOrderWithoutSlack(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 9})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.enter(rt, 1, "first")
	r.enter(rt, 0, "second") // at the same time, and still behind
	r.c.Release(0, r.now, p)
	r.deliver()
	if got := r.loops[1].owners; len(got) != 1 || got[0] != "first" {
		t.Fatalf("%v runs", got)
	}
}

// No grant overtakes another waiter of its route by more than the slack, whatever the loops.
func TestOrderWithinTheSlack(t *testing.T) {
	const slack = 2e6
	r := newRig(t, Options{Loops: 4, MaxWaiters: 1000, FIFOSlack: slack}, 3, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 999})
	for i := range 60 {
		r.enter(rt, i%4, r.now)
		r.now += 3e5
	}
	for i := range 4 {
		r.opened(i)
	}
	for range 60 {
		for i, l := range r.loops {
			if len(l.linked) > 0 {
				p := l.linked[0]
				l.linked = l.linked[1:]
				r.c.Release(i, r.now, p)
				r.deliver()
				break
			}
		}
	}
	if len(r.order) != 60 {
		t.Fatalf("%d requests ran", len(r.order))
	}
	oldest := r.order[59].(int64)
	overtaken := false
	for i := 58; i >= 0; i-- {
		since := r.order[i].(int64)
		if since > oldest+slack {
			t.Fatalf("a waiter was overtaken by one that came %d ns later", since-oldest)
		}
		overtaken = overtaken || since > oldest
		oldest = min(oldest, since)
	}
	if !overtaken {
		t.Fatal("the slack was never used")
	}
}

// While a route waits at its limit, another route of the pool keeps its fast path, and no release of either sends a
// message.
func TestRouteAtItsLimitLeavesTheFastPathToOthers(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 100}, 4, 10)
	full := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	other := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.fill(other, 0, 3)
	p := full.TryRun(0)
	for range 40 {
		r.enter(full, 0, nil)
	}
	for range 40 {
		q := other.TryRun(0)
		if q == nil {
			t.Fatal("the other route lost its fast path")
		}
		r.c.Release(0, r.now, q)
		r.c.Release(0, r.now, p)
		if r.pool.HasEligible() || r.loops[1].mail.first != nil {
			t.Fatal("the full route became eligible, or a message was sent")
		}
	}
	r.wantCounts(full, 1, 0)
}

// A request on a loop without idle backends gets one from the loop that has some, not a new one.
func TestIdleBackendMovesToTheLoopThatNeedsIt(t *testing.T) {
	r := newRig(t, Options{Loops: 3, MaxWaiters: 10}, 5, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 9})
	r.fill(rt, 2, 2)
	for i := range 2 {
		if _, v := r.enter(rt, i, "moved"); v != Pending {
			t.Fatalf("verdict %d", v)
		}
		if l := r.loops[i]; len(l.linked) != 1 || l.linked[0].Loop() != i {
			t.Fatalf("loop %d has no backend", i)
		}
	}
	r.wantPool(2, 2)
}
