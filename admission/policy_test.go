package admission

import "testing"

func TestOneWaiterTooManyIsRefusedAndCounted(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 5, MaxWaiters: 2})
	r.fill(rt, 0, 1)
	rt.TryRun(0)
	for range 2 {
		if _, v := r.enter(rt, 0, nil); v != Pending {
			t.Fatalf("verdict %d", v)
		}
	}
	w, v := r.enter(rt, 0, nil)
	if v != RouteFull {
		t.Fatalf("verdict %d, want RouteFull", v)
	}
	r.wantCounts(rt, 1, 2)
	if rt.Count(Rejected) != 1 || rt.Count(Queued) != 2 || rt.Count(Admitted) != 2 {
		t.Fatalf("rejected %d, queued %d, admitted %d", rt.Count(Rejected), rt.Count(Queued), rt.Count(Admitted))
	}
	r.c.FreeWaiter(w)
}

func TestFullProcessRefusesUnderEveryPolicy(t *testing.T) {
	for _, policy := range []Policy{RejectNew, DropOldest, DropRandom} {
		r := newRig(t, Options{Loops: 1, MaxWaiters: 1}, 1, 10)
		a := r.pool.NewRoute(RouteOptions{MaxInFlight: 5, MaxWaiters: 1, OnFull: policy})
		r.fill(a, 0, 1)
		a.TryRun(0)
		r.enter(a, 0, "first")
		if _, v := r.enter(a, 0, "second"); v != ProcessFull {
			t.Fatalf("policy %d: verdict %d, want ProcessFull", policy, v)
		}
		if len(r.loops[0].ended) != 0 || r.c.Waiting() != 1 {
			t.Fatalf("policy %d: ended %v, %d waiting", policy, r.loops[0].ended, r.c.Waiting())
		}
	}
}

func TestDropOldestShedsTheOldestForTheNewcomer(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 5, MaxWaiters: 2, OnFull: DropOldest})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.enter(rt, 1, "first")
	r.enter(rt, 0, "second")
	if _, v := r.enter(rt, 0, "third"); v != Pending {
		t.Fatalf("verdict %d", v)
	}
	r.wantCounts(rt, 1, 2)
	if e := r.loops[1].ended; len(e) != 1 || e[0] != "first" || rt.Count(Shed) != 1 {
		t.Fatalf("shed %v, counted %d", e, rt.Count(Shed))
	}
	r.c.Release(0, r.now, p)
	if got := r.loops[0].owners; len(got) != 1 || got[0] != "second" {
		t.Fatalf("%v runs after the shedding", got)
	}
}

func TestDropRandomShedsEachWaiterSometimes(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10, Seed: 3}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 5, MaxWaiters: 4, OnFull: DropRandom})
	r.fill(rt, 0, 1)
	rt.TryRun(0)
	for i := range 4 {
		r.enter(rt, 0, i)
	}
	places := map[int]int{}
	for i := 4; i < 204; i++ {
		r.enter(rt, 0, i)
		shed := r.loops[0].ended[i-4].(int)
		if shed == i {
			t.Fatal("the newcomer was shed")
		}
		places[min(i-shed, 4)]++
	}
	if len(places) != 4 {
		t.Fatalf("ages of the shed: %v", places)
	}
	r.wantCounts(rt, 1, 4)
}

func TestPolicyChangesWhileRequestsWait(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 1, 10)
	o := RouteOptions{MaxInFlight: 5, MaxWaiters: 3}
	rt := r.pool.NewRoute(o)
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	for i := range 3 {
		r.enter(rt, 0, i)
	}
	o.OnFull = DropRandom
	rt.SetLimits(0, r.now, o)
	if _, v := r.enter(rt, 0, 3); v != Pending || len(r.loops[0].ended) != 1 {
		t.Fatalf("verdict %d, ended %v", v, r.loops[0].ended)
	}
	o.OnFull = RejectNew
	rt.SetLimits(0, r.now, o)
	if _, v := r.enter(rt, 0, 4); v != RouteFull {
		t.Fatalf("verdict %d, want RouteFull", v)
	}
	for range 3 {
		r.c.Release(0, r.now, p)
	}
	r.c.Release(0, r.now, p)
	r.wantCounts(rt, 0, 0)
}

// With more waiters than a lowered bound allows a newcomer still replaces one, so the queue shrinks with each grant only.
func TestDropPoliciesAboveALoweredBound(t *testing.T) {
	for _, policy := range []Policy{DropOldest, DropRandom} {
		r := newRig(t, Options{Loops: 2, MaxWaiters: 20}, 1, 10)
		o := RouteOptions{MaxInFlight: 1, MaxWaiters: 6, OnFull: policy}
		rt := r.pool.NewRoute(o)
		r.fill(rt, 0, 1)
		p := rt.TryRun(0)
		for i := range 6 {
			r.enter(rt, i%2, i)
		}
		o.MaxWaiters = 2
		rt.SetLimits(0, r.now, o)
		for want := 6; want > 2; want-- {
			if _, v := r.enter(rt, 0, "newcomer"); v != Pending {
				t.Fatalf("verdict %d", v)
			}
			r.wantCounts(rt, 1, want)
			r.c.Release(p.Loop(), r.now, p)
			r.deliver()
			r.wantCounts(rt, 1, want-1)
		}
		o.MaxWaiters = 0
		rt.SetLimits(0, r.now, o)
		if _, v := r.enter(rt, 0, "newcomer"); v != RouteFull {
			t.Fatalf("verdict %d of a route without a queue", v)
		}
		r.wantCounts(rt, 1, 2)
	}
}

// A paused route sheds as usual, and who is left runs after the resume.
func TestDropOldestInAPausedRoute(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 20}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 2, OnFull: DropOldest})
	r.fill(rt, 0, 1)
	rt.Pause(1, r.now)
	for i := range 5 {
		r.enter(rt, i%2, i)
	}
	r.wantCounts(rt, 0, 2)
	if rt.Count(Shed) != 3 {
		t.Fatalf("%d shed", rt.Count(Shed))
	}
	rt.Resume(1, r.now)
	r.deliver()
	r.wantCounts(rt, 1, 1)
	if got := r.loops[1].owners; len(got) != 1 || got[0] != 3 {
		t.Fatalf("%v runs", got)
	}
}
