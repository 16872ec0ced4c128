package admission

import "testing"

func TestExactlyTheLimitsAreAdmittedFromAColdPool(t *testing.T) {
	for _, loops := range []int{1, 2, 5} {
		r := newRig(t, Options{Loops: loops, MaxWaiters: 1000}, 20, 90)
		rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 8, MaxWaiters: 4})
		verdicts := map[Verdict]int{}
		for i := range 13 {
			_, _, v := r.request(rt, i%loops, i)
			verdicts[v]++
		}
		if verdicts[Pending] != 12 || verdicts[RouteFull] != 1 {
			t.Fatalf("%d loops: verdicts %v", loops, verdicts)
		}
		r.wantCounts(rt, 8, 4)
		r.wantPool(8, 8)
		for i := range loops {
			r.opened(i)
		}
		if n := rt.Count(Admitted); n != 8 {
			t.Fatalf("%d requests run, want 8", n)
		}
	}
}

func TestFastPathTakesTheNewestIdlePlace(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 3, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 4})
	r.fill(rt, 0, 3)
	r.wantCounts(rt, 0, 0)
	a, b := rt.TryRun(0), rt.TryRun(0)
	r.c.Release(0, r.now, a)
	r.c.Release(0, r.now, b)
	if got := rt.TryRun(0); got != b {
		t.Fatal("the newest idle place was not taken first")
	}
	r.wantCounts(rt, 1, 0)
	r.wantPool(3, 1)
}

func TestReleaseRunsTheOldestWaiter(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 4})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.enter(rt, 1, "first")
	r.enter(rt, 0, "second")
	r.wantCounts(rt, 1, 2)
	r.c.Release(0, r.now, p)
	r.deliver()
	if l := r.loops[1]; len(l.owners) != 1 || l.owners[0] != "first" || l.linked[0] != p || p.Loop() != 1 {
		t.Fatalf("the oldest waiter does not run: %v", l.owners)
	}
	r.c.Release(1, r.now, p)
	r.deliver()
	if l := r.loops[0]; len(l.owners) != 1 || l.owners[0] != "second" {
		t.Fatalf("the second waiter does not run: %v", l.owners)
	}
	r.wantCounts(rt, 1, 0)
	r.c.Release(0, r.now, p)
	r.wantCounts(rt, 0, 0)
	r.wantPool(1, 0)
}
