package admission

import (
	"math/rand/v2"
	"testing"
)

// Two routes that always have waiters share a pool 3 to 1, whatever the loops of their clients and the slack.
func TestThroughputFollowsTheWeights(t *testing.T) {
	for _, c := range []struct {
		loops int
		slack int64
	}{{1, 0}, {2, 0}, {2, 2e6}, {3, 0}, {3, 2e6}} {
		r := newRig(t, Options{Loops: c.loops, MaxWaiters: 1000, FIFOSlack: c.slack}, 2, 10)
		heavy := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50, Weight: 3})
		light := r.pool.NewRoute(RouteOptions{MaxInFlight: 9, MaxWaiters: 50, Weight: 1})
		served := r.saturate(heavy, light, 4000)
		if h, l := served[heavy], served[light]; h < l*3*95/100 || h > l*3*105/100 {
			t.Fatalf("%+v: served %d and %d, want 3 to 1", c, h, l)
		}
	}
}

// saturate serves n requests of two routes that both have forty clients: those of the first on loop 0, those of the
// second on the last.
func (r *rig) saturate(first, second *Route, n int) map[*Route]int {
	served := map[*Route]int{}
	for range 40 {
		r.enter(first, 0, first)
		r.enter(second, len(r.loops)-1, second)
	}
	for i := range r.loops {
		r.opened(i)
	}
	for range n {
		r.step(served)
	}
	return served
}

// Weights count from the next turn on when they change while the routes wait.
func TestWeightsChangeWhileRoutesWait(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 1000}, 2, 10)
	o := RouteOptions{MaxInFlight: 9, MaxWaiters: 50, Weight: 8}
	a, b := r.pool.NewRoute(o), r.pool.NewRoute(o)
	r.saturate(a, b, 1003)
	o.Weight = 1
	a.SetLimits(0, r.now, o)
	o.Weight = 4
	b.SetLimits(1, r.now, o)
	served := map[*Route]int{}
	for range 1000 {
		r.step(served)
	}
	if n := served[a]; n < 195 || n > 205 {
		t.Fatalf("served %d of 1000, want 200", n)
	}
}

// Whatever joins, leaves and changes its weight: a route that stays eligible is served again after at most as many
// grants to others as their weights add up to.
func TestNoEligibleRouteStarves(t *testing.T) {
	const most = 5
	longest := 0
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		routes := make([]*Route, 2+rnd.IntN(20))
		for i := range routes {
			routes[i] = &Route{weight: int32(1 + rnd.IntN(most))}
		}
		var g ring
		waited := map[*Route]int{} // grants to others since a route in the ring joined or was served
		for range 2000 {
			r := routes[rnd.IntN(len(routes))]
			_, in := waited[r]
			switch n := rnd.IntN(8); {
			case n == 0 && in:
				g.remove(r)
				delete(waited, r)
			case n == 0:
				g.add(r)
				waited[r] = 0
			case n == 1:
				r.weight = int32(1 + rnd.IntN(most))
				r.credit = min(r.credit, r.weight)
			case g.n > 0:
				next := g.charge()
				for other := range waited {
					waited[other]++
				}
				waited[next] = 0
			}
			for r, n := range waited {
				if bound := most * (len(waited) - 1); n > most*(len(routes)-1) {
					t.Fatalf("seed %d: a route of weight %d waited for %d grants among %d, bound %d", seed, r.weight, n, len(waited), bound)
				}
				longest = max(longest, n)
			}
		}
	}
	if longest < 10 {
		t.Fatalf("no route waited for more than %d grants", longest)
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
		first, now, age int64
		want            string
	}{{slack, slack, slack, "own"}, {slack, slack, slack + 1, "oldest"}, {0, slack, slack, "own"}, {slack, 0, 1, "oldest"}} {
		r := newRig(t, Options{Loops: 2, MaxWaiters: 10, FIFOSlack: c.first}, 1, 10)
		r.c.SetFIFOSlack(c.now)
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
			t.Fatalf("%+v: %v runs", c, got)
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

// While a route waits at its limit, another route of the pool keeps its fast path, and its requests cost no more
// messages than without.
func TestRouteAtItsLimitCostsOthersNoMessages(t *testing.T) {
	for _, c := range []struct {
		loops int
		slack int64
	}{{1, 0}, {2, 0}, {2, 2e6}, {4, 0}, {4, 2e6}} {
		alone, _ := messagesPerRequest(t, c.loops, c.slack, false)
		beside, fast := messagesPerRequest(t, c.loops, c.slack, true)
		if alone != beside || !fast {
			t.Errorf("%+v: %d messages alone, %d beside a route at its limit, fast path kept: %v", c, alone, beside, fast)
		}
	}
}

// messagesPerRequest runs 400 requests of a route whose clients sit on all loops, and counts the messages that they
// cause. With noise another route of the pool has three in flight, its limit, and a queue that is never empty; what its
// own requests cause does not count.
func messagesPerRequest(t *testing.T, loops int, slack int64, noise bool) (messages int, fast bool) {
	r := newRig(t, Options{Loops: loops, MaxWaiters: 1000, FIFOSlack: slack}, 3+2*loops, 100)
	full := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 500})
	other := r.pool.NewRoute(RouteOptions{MaxInFlight: 2 * loops, MaxWaiters: 50})
	for i := range loops {
		r.enter(other, i, other)
		r.enter(other, i, other)
	}
	r.openAll()
	if noise {
		for i := range 60 {
			r.enter(full, i%loops, full)
		}
		r.openAll()
	}
	for i, l := range r.loops {
		for k := len(l.linked) - 1; k >= 0; k-- {
			if l.owners[k] == any(other) {
				r.c.Release(i, r.now, l.take(k))
			}
		}
	}
	fast = true
	rnd := rand.New(rand.NewPCG(uint64(loops), 5))
	for n := range 400 {
		r.now += 1e6
		before := r.posts
		i := rnd.IntN(loops)
		p, _, _ := r.request(other, i, other)
		fast = fast && p != nil
		if p != nil {
			r.c.Release(i, r.now, p)
		}
		messages += r.posts - before
		if noise {
			r.turnOver(full, n%loops)
		}
	}
	if noise {
		r.wantCounts(full, 3, 57)
	}
	return messages, fast
}

// turnOver ends a request of rt on loop, if one runs there, and lets its client ask again.
func (r *rig) turnOver(rt *Route, loop int) {
	l := r.loops[loop]
	if len(l.linked) > 0 {
		r.c.Release(loop, r.now, l.take(0))
		r.deliver()
		r.enter(rt, loop, rt)
	}
}

func (r *rig) openAll() {
	for i := range r.loops {
		r.opened(i)
	}
}

// take takes the k-th place that was linked on l.
func (l *rigLoop) take(k int) *Place {
	p := l.linked[k]
	l.linked = append(l.linked[:k], l.linked[k+1:]...)
	l.owners = append(l.owners[:k], l.owners[k+1:]...)
	return p
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
