package admission

import "testing"

func TestConnectsAreBoundedPerHost(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 100, MaxConnectsPerHost: 3}, 10, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 10, MaxWaiters: 50})
	for i := range 8 {
		r.enter(rt, i%2, i)
	}
	if n := len(r.loops[0].opening) + len(r.loops[1].opening); n != 3 {
		t.Fatalf("%d connects begun, want 3", n)
	}
	if n := r.host.Counts(); n.Connecting != 3 || n.Size != 8 {
		t.Fatalf("host: %+v", n)
	}
	for range 4 {
		r.opened(0)
		r.opened(1)
	}
	r.wantPool(8, 8)
	if n := r.host.Counts(); n.Connecting != 0 {
		t.Fatalf("host: %+v", n)
	}
}

func TestHolderComesFirstForARelease(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 2, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 2, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	holder, _ := r.enter(rt, 0, "holder")
	if pl, connecting := holder.Connecting(); !connecting || pl.Holder() != holder {
		t.Fatal("the holder does not wait for its connect")
	}
	r.enter(rt, 0, "waiter")
	r.c.Release(0, r.now, p)
	if got := r.loops[0].owners; len(got) != 1 || got[0] != "holder" {
		t.Fatalf("%v runs, want the holder", got)
	}
	r.opened(0) // a connect without a holder is a release
	if got := r.loops[0].owners; len(got) != 2 || got[1] != "waiter" {
		t.Fatalf("%v run", got)
	}
	r.wantCounts(rt, 2, 0)
	r.wantPool(2, 2)
}

func TestLeavingHolderReturnsItsPermitAndTheConnectGoesOn(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	w, _ := r.enter(rt, 0, "gone")
	r.c.Leave(0, r.now, w, Disconnected)
	r.wantCounts(rt, 0, 0)
	r.wantPool(1, 1)
	r.opened(0)
	r.wantPool(1, 0)
	if rt.TryRun(0) == nil {
		t.Fatal("the backend does not rest")
	}
}

func TestFailedConnectIsKeptForItsHolderOnly(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	w, _ := r.enter(rt, 0, nil)
	l := r.loops[0]
	p := l.opening[0]
	if !r.c.Failed(0, r.now, p) || !r.c.Retry(0, r.now, p) || len(l.opening) != 2 {
		t.Fatal("the place was not kept and tried again")
	}
	if !r.c.Failed(0, r.now, p) {
		t.Fatal("the place was not kept")
	}
	r.c.Leave(0, r.now, w, TimedOut)
	if r.c.Retry(0, r.now, p) {
		t.Fatal("a connect that nobody waits for was tried again")
	}
	r.wantPool(0, 0)
	if n := r.host.Counts(); n.Size != 0 || n.Connecting != 0 {
		t.Fatalf("host: %+v", n)
	}
}

func TestGivenUpPlaceIsFreedWhenItsHolderIsGone(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	w, _ := r.enter(rt, 0, nil)
	p := r.loops[0].opening[0]
	r.c.Failed(0, r.now, p)
	r.c.GiveUp(0, r.now, p)
	r.wantPool(1, 1)
	r.c.Leave(0, r.now, w, TimedOut)
	r.wantPool(0, 0)
}

func TestConnectThatHadNotBegunIsGivenUpWithItsHolder(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100, MaxConnectsPerHost: 1}, 3, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.enter(rt, 0, nil)
	w, _ := r.enter(rt, 0, nil)
	r.wantPool(2, 2)
	r.c.Leave(0, r.now, w, Canceled)
	r.wantPool(1, 1)
	r.wantCounts(rt, 1, 0)
}

func TestWarmTakesSlotsThatAreFree(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100, MaxConnectsPerHost: 4}, 9, 8)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50})
	warm := func(want bool) {
		t.Helper()
		if got := r.c.Warm(0, r.now, r.pool); got != want {
			t.Fatalf("warm: %v, want %v", got, want)
		}
	}
	warm(true)
	warm(true)
	warm(false) // half of the slots
	l := r.loops[0]
	if !l.opening[0].Ahead() || l.opening[0].Holder() != nil {
		t.Fatal("a warm connect does not say so")
	}
	r.enter(rt, 0, "a")
	r.enter(rt, 0, "b")
	r.enter(rt, 0, "c") // waits for a slot
	if r.c.Failed(0, r.now, l.opening[0]) {
		t.Fatal("a warm place was kept after its failure")
	}
	if len(l.opening) != 5 || l.opening[4].Ahead() {
		t.Fatal("the slot of a warm connect did not go to who waited for one")
	}
	warm(false) // no slot
	l.opening = l.opening[1:]
	r.opened(0)
	r.wantPool(4, 3)
	if l.linked[0].Ahead() {
		t.Fatal("an open backend is said to be opened ahead")
	}
	warm(true)
	warm(true)
	warm(false)
	r.opened(0)
	r.wantPool(6, 3)
	if n := r.pool.IdleOn(0); n != 3 {
		t.Fatalf("%d idle on the loop, want 3", n)
	}
	warm(true)
	r.opened(0)
	warm(true)
	r.opened(0)
	warm(false) // the host is full
}

func TestWarmIsNobodysWhoWaits(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 2, 8)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	r.pool.Pause(0, r.now)
	if r.c.Warm(0, r.now, r.pool) {
		t.Fatal("a warm connect in a paused pool")
	}
	r.pool.Resume(0, r.now)
	rt.TryRun(0)
	if !r.c.Warm(0, r.now, r.pool) {
		t.Fatal("no warm connect")
	}
	r.enter(rt, 0, "w") // the pool is full: it gets what is being opened
	r.opened(0)
	if l := r.loops[0]; len(l.owners) != 1 || l.owners[0] != "w" {
		t.Fatalf("%v ran, want w", l.owners)
	}
	if r.c.Warm(0, r.now, r.pool) {
		t.Fatal("a warm connect beyond the pool's limit")
	}
}

func TestPutBackRestsInItsOldPlace(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 9, 8)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50})
	r.fill(rt, 0, 4)
	var all []*Place
	for range 4 {
		all = append(all, rt.TryRun(0))
	}
	for _, p := range all {
		r.now++
		r.c.Release(0, r.now, p)
	}
	order := func() (got []*Place) {
		r.pool.EachIdle(0, func(p *Place) bool { got = append(got, p); return true })
		return got
	}
	for i := range all {
		r.now++
		if !r.c.SetAside(0, r.now, all[i]) {
			t.Fatal("not set aside")
		}
		r.wantPool(4, 1)
		if len(order()) != 3 {
			t.Fatal("set aside, and idle still")
		}
		r.c.PutBack(0, r.now, all[i])
		for k, p := range order() {
			if p != all[k] {
				t.Fatalf("the order has changed with place %d", i)
			}
		}
	}
	r.c.SetAside(0, r.now, all[1])
	r.c.SetAside(0, r.now, all[2])
	r.c.PutBack(0, r.now, all[1])
	r.c.PutBack(0, r.now, all[2])
	if p := order()[1]; p != all[1] {
		t.Fatal("the order has changed")
	}
	if p := rt.TryRun(0); p != all[3] {
		t.Fatal("not the newest was taken")
	}
	r.wantPool(4, 1)
}

func TestPutBackServesWhoWaits(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 8)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	var p *Place
	r.pool.EachIdle(0, func(pl *Place) bool { p = pl; return true })
	r.c.SetAside(0, r.now, p)
	if rt.TryRun(0) != nil {
		t.Fatal("a request was given what is set aside")
	}
	r.enter(rt, 0, "w")
	r.c.PutBack(0, r.now, p)
	r.deliver()
	if l := r.loops[0]; len(l.owners) != 1 {
		t.Fatal("who waited was not served")
	}
	r.c.Release(0, r.now, p)
	r.c.SetAside(0, r.now, p)
	r.c.Closed(0, r.now, p)
	r.wantPool(0, 0)
}

func TestTakeSpareLeavesWhatIsKept(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 9, 8)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50})
	r.fill(rt, 0, 4)
	rt.TryRun(0)
	taken := 0
	r.pool.EachIdle(0, func(p *Place) bool {
		if r.c.TakeSpare(0, r.now, p, 2) {
			taken++
		}
		return true
	})
	if n := r.pool.Counts(); taken != 1 || n.Idle() != 2 {
		t.Fatalf("%d taken, %d idle; want 1 and 2", taken, n.Idle())
	}
}

func TestClosedBackendReturnsPermitAndPlace(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.enter(rt, 0, "next")
	r.c.Closed(0, r.now, p)
	r.wantCounts(rt, 1, 0)
	r.wantPool(1, 1)
	r.opened(0)
	if got := r.loops[0].owners; len(got) != 1 || got[0] != "next" {
		t.Fatalf("%v runs", got)
	}
}

func TestSweepTakesIdlePlacesOnly(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 3, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 50})
	r.fill(rt, 0, 3)
	rt.TryRun(0)
	var taken []*Place
	r.pool.EachIdle(0, func(p *Place) bool {
		if r.c.TakeIdle(0, r.now, p) {
			taken = append(taken, p)
		}
		return true
	})
	if len(taken) != 2 {
		t.Fatalf("%d taken, want 2", len(taken))
	}
	r.wantPool(3, 3)
	for _, p := range taken {
		r.c.Closed(0, r.now, p)
	}
	r.wantPool(1, 1)
}

func TestLoweredPoolSizeDrainsAndTrims(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 4, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 50})
	r.fill(rt, 0, 4)
	busy := []*Place{rt.TryRun(0), rt.TryRun(0)}
	l := r.loops[0]
	r.pool.SetMaxSize(0, r.now, 1)
	r.c.Trim(0, r.now)
	if len(l.closing) != 2 {
		t.Fatalf("%d idle backends are closed, want 2", len(l.closing))
	}
	for _, p := range busy {
		r.c.Release(0, r.now, p)
	}
	if len(l.closing) != 3 {
		t.Fatalf("%d backends are closed, want 3", len(l.closing))
	}
	for _, p := range l.closing {
		r.c.Closed(0, r.now, p)
	}
	r.wantPool(1, 0)
}

func TestLoweredHostLimitDrainsAndTrims(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 4, 4)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 50})
	r.fill(rt, 0, 4)
	busy := rt.TryRun(0)
	r.host.SetMax(r.c, 0, r.now, 1)
	r.c.Trim(0, r.now)
	l := r.loops[0]
	r.c.Release(0, r.now, busy)
	for _, p := range l.closing {
		r.c.Closed(0, r.now, p)
	}
	r.wantPool(1, 0)
	if n := r.host.Counts(); n.Size != 1 || n.Moves != 0 {
		t.Fatalf("host: %+v", n)
	}
}

func TestIdleBackendsOfOnePoolAreReclaimedForAnother(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 2, 2)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 50})
	r.fill(rt, 0, 2)
	other := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 2}).NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
	r.enter(other, 0, "other")
	r.now += reclaimIdle - 1
	r.c.Tick(0, r.now)
	l := r.loops[0]
	if len(l.closing) != 0 {
		t.Fatal("a backend was reclaimed too early")
	}
	r.now += evaluateTick
	r.c.Tick(0, r.now)
	if len(l.closing) != 1 {
		t.Fatalf("%d backends reclaimed, want 1", len(l.closing))
	}
	r.c.Closed(0, r.now, l.closing[0])
	r.opened(0)
	if got := l.owners; len(got) != 1 || got[0] != "other" {
		t.Fatalf("%v runs", got)
	}
	r.wantPool(1, 0)
}

// A pool with no more than an equal part of the host keeps what it used within the last second.
func TestEqualPartIsKeptForAWhile(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 2, 2)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 50})
	r.fill(rt, 0, 1)
	greedy := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 2}).NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
	r.enter(greedy, 0, "first")
	r.opened(0)
	r.enter(greedy, 0, "second")
	l, idle := r.loops[0], r.now
	for r.now < idle+keepIdle-evaluateTick {
		r.now += evaluateTick
		if r.c.Tick(0, r.now); len(l.closing) != 0 {
			t.Fatalf("a backend was reclaimed after %d ms", (r.now-idle)/1e6)
		}
	}
	r.now += evaluateTick
	if r.c.Tick(0, r.now); len(l.closing) != 1 {
		t.Fatalf("%d backends reclaimed after a second, want 1", len(l.closing))
	}
}

func TestCapsBoundTheSumOfTheirPools(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 9, 20)
	database := r.c.NewCap("d", 2)
	a := r.c.NewPool(PoolOptions{Host: r.host, Database: database, MaxSize: 9}).NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 9})
	b := r.c.NewPool(PoolOptions{Host: r.host, Database: database, User: r.c.NewCap("u", 1), MaxSize: 9}).NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 9})
	r.enter(b, 0, "b1")
	r.enter(b, 0, "b2") // the user's cap
	r.enter(a, 0, "a1")
	r.enter(a, 0, "a2") // the database's cap
	if n := database.Counts(); n.Size != 2 || n.WaitingPools != 1 {
		t.Fatalf("database: %+v", n)
	}
	r.wantCounts(a, 1, 1)
	r.wantCounts(b, 1, 1)
	r.opened(0)
	r.c.Closed(0, r.now, r.loops[0].linked[0])
	r.opened(0)
	if n := database.Counts(); n.Size != 2 {
		t.Fatalf("database: %+v", n)
	}
	if n := r.host.Counts(); n.Size != 2 {
		t.Fatalf("host: %+v", n)
	}
}
