package admission

import (
	"slices"
	"testing"
)

// ledger records, at each link and end, what the waiter spent.
type ledger struct {
	rigLoop
	spent map[any][Causes]int64
}

func (l *ledger) Link(w *Waiter, p *Place) {
	l.spent[w.Owner] = w.Spent(l.r.now)
	l.rigLoop.Link(w, p)
}

func (l *ledger) End(w *Waiter, o Outcome) {
	l.spent[w.Owner] = w.Spent(l.r.now)
	l.rigLoop.End(w, o)
}

// withLedger makes loop 0 of a rig keep one.
func withLedger(r *rig) map[any][Causes]int64 {
	l := &ledger{spent: map[any][Causes]int64{}}
	l.rigLoop = *r.loops[0]
	r.loops[0] = &l.rigLoop
	r.c.loops[0].driver = l
	return l.spent
}

func TestTimeIsSpentOnWhatHeldTheRequestBack(t *testing.T) {
	limits := RouteOptions{MaxInFlight: 2, MaxWaiters: 1, OnFull: DropOldest}
	for _, c := range []struct {
		name string
		want [Causes]int64
		wait func(r *rig, rt *Route)
	}{
		{"a connect", [Causes]int64{CauseConnect: 10}, func(r *rig, rt *Route) {
			r.enter(rt, 0, "w")
			r.now += 10
			r.opened(0)
		}},
		{"a connect that a release forestalls", [Causes]int64{CauseConnect: 10}, func(r *rig, rt *Route) {
			r.fill(rt, 0, 1)
			p := rt.TryRun(0)
			r.enter(rt, 0, "w")
			r.now += 10
			r.c.Release(0, r.now, p)
		}},
		{"the limit", [Causes]int64{CauseRoute: 10}, func(r *rig, rt *Route) {
			r.fill(rt, 0, 2)
			p := rt.TryRun(0)
			rt.TryRun(0)
			r.enter(rt, 0, "w")
			r.now += 10
			r.c.Release(0, r.now, p)
		}},
		{"a full pool", [Causes]int64{CausePool: 10}, func(r *rig, rt *Route) {
			r.fill(rt, 0, 1)
			r.pool.SetMaxSize(0, r.now, 1)
			p := rt.TryRun(0)
			r.enter(rt, 0, "w")
			r.now += 10
			r.c.Release(0, r.now, p)
		}},
		{"a full host", [Causes]int64{CauseHost: 10, CauseConnect: 4}, func(r *rig, rt *Route) {
			r.fill(rt, 0, 1)
			r.host.SetMax(r.c, 0, r.now, 1)
			rest := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 2}).NewRoute(limits)
			r.enter(rest, 0, "w")
			r.now += 10
			r.c.Closed(0, r.now, rt.TryRun(0))
			r.now += 4
			r.opened(0)
		}},
		{"a full database", [Causes]int64{CauseHost: 10}, func(r *rig, _ *Route) {
			capped := r.c.NewPool(PoolOptions{Host: r.host, Database: r.c.NewCap("d", 1), MaxSize: 2}).NewRoute(limits)
			r.fill(capped, 0, 1)
			p := capped.TryRun(0)
			r.enter(capped, 0, "w")
			r.now += 10
			r.c.Release(0, r.now, p)
		}},
		{"a backend of another loop", [Causes]int64{CausePool: 10}, func(r *rig, rt *Route) {
			r.fill(rt, 1, 1)
			w := r.c.NewWaiter(0)
			w.Owner = "w"
			rt.Enter(0, r.now, w)
			r.now += 10
			r.deliver()
		}},
		{"its end", [Causes]int64{CauseRoute: 10}, func(r *rig, rt *Route) {
			r.fill(rt, 0, 2)
			rt.TryRun(0)
			rt.TryRun(0)
			r.enter(rt, 0, "w")
			r.now += 10
			r.enter(rt, 0, "newcomer")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Loops: 2, MaxWaiters: 100}, 2, 9)
			spent := withLedger(r)
			c.wait(r, r.pool.NewRoute(limits))
			if got, ended := spent["w"]; !ended || got != c.want {
				t.Fatalf("spent %v, want %v", got, c.want)
			}
		})
	}
}

// The waiters that the limit will hold back wait for the route, those that could run had the pool a place for the pool.
func TestPositionInTheQueueDecidesTheCause(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 10)
	busy := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 2, MaxWaiters: 9})
	r.fill(busy, 0, 1)
	busy.TryRun(0)
	var got []Cause
	for i := range 4 {
		w, _ := r.enter(rt, 0, i)
		spent := w.Spent(r.now + 1)
		got = append(got, Cause(slices.Index(spent[:], 1)))
	}
	if want := []Cause{CausePool, CausePool, CauseRoute, CauseRoute}; !slices.Equal(got, want) {
		t.Fatalf("causes %v, want %v", got, want)
	}
}

// Overlapping pauses of route, pool and process count once, and what is left of the wait belongs to the route.
func TestPausesAreAUnion(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
	r.fill(rt, 0, 1)
	rt.TryRun(0)
	w, _ := r.enter(rt, 0, nil)
	start := r.now
	steps := []struct {
		do           func()
		still        bool
		since, total int64 // after start
	}{
		{do: func() {}},
		{func() { rt.Pause(0, r.now) }, true, 20, 0},
		{func() { r.pool.Pause(0, r.now) }, true, 20, 10},
		{func() { rt.Resume(0, r.now) }, true, 20, 20},
		{func() { r.c.Pause(0, r.now) }, true, 20, 30},
		{func() { r.pool.Resume(0, r.now) }, true, 20, 40},
		{func() { rt.Pause(0, r.now) }, true, 20, 50},
		{func() { r.c.Resume(0, r.now) }, true, 20, 60},
		{func() { rt.Resume(0, r.now) }, false, 0, 70},
		{func() {}, false, 0, 70},
		{func() { r.c.Pause(0, r.now) }, true, 110, 70},
		{func() { r.c.Pause(0, r.now) }, true, 110, 80},
		{func() { r.c.Resume(0, r.now) }, false, 0, 90},
	}
	for i, s := range steps {
		r.now += 10
		s.do()
		still, total, since := w.Paused(r.now)
		if s.still {
			since -= start
		}
		if still != s.still || total != s.total || since != s.since {
			t.Fatalf("step %d: stands still %v, %d ns, since %d; want %v, %d, %d", i, still, total, since, s.still, s.total, s.since)
		}
		if spent := w.Spent(r.now); spent != [Causes]int64{CausePause: s.total, CauseRoute: r.now - start - s.total} {
			t.Fatalf("step %d: spent %v", i, spent)
		}
	}
}

func TestWaiterQueuedDuringAPauseStandsStillFromItsArrival(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 10)
	r.c.Pause(0, r.now)
	r.now += 50
	p := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 1})
	rt := p.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
	w, _ := r.enter(rt, 0, nil)
	arrived := r.now
	r.now += 30
	if still, total, since := w.Paused(r.now); !still || total != 30 || since != arrived {
		t.Fatalf("stands still %v for %d ns since %d, want 30 ns since %d", still, total, since, arrived)
	}
	r.c.Resume(0, r.now) // it gets its permit, and a connect begins
	r.now += 4
	if spent := w.Spent(r.now); spent != [Causes]int64{CausePause: 30, CauseConnect: 4} {
		t.Fatalf("spent %v", spent)
	}
	r.c.Pause(0, r.now) // a holder does not stand still
	r.now += 4
	if still, total, _ := w.Paused(r.now); still || total != 30 {
		t.Fatalf("a holder stands still: %v, %d ns", still, total)
	}
}

// The loop that grants may be ahead of the waiter's, or behind it: the sum is still the wait.
func TestClocksOfLoopsDiffer(t *testing.T) {
	for _, skew := range []int64{-40, 40} {
		r := newRig(t, Options{Loops: 2, MaxWaiters: 100}, 1, 10)
		spent := withLedger(r)
		rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
		r.fill(rt, 1, 1)
		p := rt.TryRun(1)
		r.enter(rt, 0, "w")
		r.now += 10
		r.c.Release(1, r.now+skew, p)
		r.deliver()
		got := spent["w"]
		if sum := got[CauseRoute] + got[CausePool]; sum != 10 || got[CauseRoute] < 0 || got[CausePool] < 0 {
			t.Fatalf("skew %d: spent %v, want 10 in all", skew, got)
		}
	}
}

func TestCausesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range Causes {
		seen[Cause(c).String()] = true
	}
	if len(seen) != Causes || seen["unknown"] || Cause(Causes).String() != "unknown" {
		t.Fatalf("names: %v", seen)
	}
}
