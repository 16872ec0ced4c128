package admission

import "sync/atomic"

// State: a Route: its word, its limits, its queues, its place in the pool's ring, its counters.
// Owner: the word by CAS; queues, ring, weight and policy by the pool's critical section; maxWaiters atomic; the
// counters of a loop are written by that loop only.
// Invariants: word.waiting = fifo.n = Σ local[i].n; the route is in the ring if and only if its word is eligible,
// whenever the critical section is free; in flight counts its permits: places with place.route == r, claims, openings,
// and reservations that a loop is about to fill or roll back.

// Route is one group of requests with limits, a queue and a weight of its own, in one pool.
type Route struct {
	Owner any // the engine's: name, key, rule

	word         word
	peakInFlight peak
	peakWaiting  peak
	maxWaiters   atomic.Int32
	pool         *Pool

	fifo   waiterList   // all waiters, oldest first
	local  []waiterList // the same by loop
	slots  []*Waiter    // the same in no order, kept only under DropRandom
	weight int32
	onFull atomic.Uint32 // Policy; changed in the critical section
	credit int32         // grants left in this round of the ring
	pauses routePauses

	ringNext, ringPrev *Route
	counts             []loopCounts
}

// loopCounts are one loop's share of a route's counters: one cache line.
type loopCounts [outcomes]atomic.Uint64

// NewRoute makes a route of p.
func (p *Pool) NewRoute(o RouteOptions) *Route {
	o = o.checked()
	n := len(p.c.loops)
	r := &Route{
		pool: p, weight: int32(o.Weight),
		local: make([]waiterList, n), counts: make([]loopCounts, n),
	}
	r.maxWaiters.Store(int32(o.MaxWaiters))
	r.onFull.Store(uint32(o.OnFull))
	r.word.v.Store(uint64(routeWord(0).withLimit(o.MaxInFlight)))
	p.listMu.Lock()
	defer p.listMu.Unlock()
	must(len(p.routes) < MaxRoutes, "too many routes in a pool")
	p.routes[r] = struct{}{}
	return r
}

// Pool is the pool that r belongs to.
func (r *Route) Pool() *Pool { return r.pool }

// Forget kills r if nothing is in flight or waiting, and answers whether it is dead. A dead route admits nobody:
// TryRun answers nil and Enter RouteDead. Any goroutine.
func (r *Route) Forget() bool {
	// Inside the critical section, so that Enter, which looks before it queues, finds a route alive or dead; the fast
	// path's own CAS settles it with this one.
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for {
		old := routeWord(r.word.load())
		if old.dead() {
			return true
		}
		if !mutForgetInUse && (old.inFlight() != 0 || old.waiting() != 0) {
			return false
		}
		if r.word.cas(uint64(old), uint64(old|routeDead)) {
			r.pool.delist(r)
			return true
		}
	}
}

// SetLimits changes r's limits while requests run. Lowering drains: nothing is taken back, and nothing new is admitted
// until the numbers are below the new limit. Raising runs waiters at once.
func (r *Route) SetLimits(loop int, now int64, o RouteOptions) {
	o = o.checked()
	l := r.pool.c.enter(loop, now)
	r.pool.mu.Lock()
	r.setWeight(o.Weight)
	r.setPolicy(o.OnFull)
	r.setBounds(l, o)
	r.pool.mu.Unlock()
	l.settle(false)
}

// SetBounds is SetLimits for a route whose weight others tell (SetWeight): it changes MaxInFlight and MaxWaiters only.
func (r *Route) SetBounds(loop int, now int64, maxInFlight, maxWaiters int) {
	o := RouteOptions{MaxInFlight: maxInFlight, MaxWaiters: maxWaiters}.checked()
	l := r.pool.c.enter(loop, now)
	r.pool.mu.Lock()
	r.setBounds(l, o)
	r.pool.mu.Unlock()
	l.settle(false)
}

// setBounds changes both bounds in the critical section, and runs whom that lets run.
func (r *Route) setBounds(l *loop, o RouteOptions) {
	r.maxWaiters.Store(int32(o.MaxWaiters))
	r.pool.changeRoute(r, func(w routeWord) routeWord { return w.withLimit(o.MaxInFlight) })
	if !mutRaiseNoKick {
		r.pool.schedule(l, nil)
	}
}

func (r *Route) setWeight(n int) {
	r.weight = int32(n)
	r.credit = min(r.credit, r.weight)
}

func (r *Route) policy() Policy { return Policy(r.onFull.Load()) }

func (r *Route) setPolicy(o Policy) {
	if o == r.policy() {
		return
	}
	r.onFull.Store(uint32(o))
	r.slots = r.slots[:0]
	if o != DropRandom {
		return
	}
	for w := r.fifo.head; w != nil; w = w.links[byRoute].next {
		w.slot = len(r.slots)
		r.slots = append(r.slots, w)
	}
}

// Pause stops admission to r; requests in flight end as usual and newcomers wait.
func (r *Route) Pause(loop int, now int64) { r.setPaused(loop, now, true) }

// Resume ends a pause and runs waiters at once.
func (r *Route) Resume(loop int, now int64) { r.setPaused(loop, now, false) }

func (r *Route) setPaused(loop int, now int64, paused bool) {
	l := r.pool.c.enter(loop, now)
	p := r.pool
	p.mu.Lock()
	p.changeRoute(r, func(w routeWord) routeWord {
		if paused {
			return w | routePaused
		}
		return w &^ routePaused
	})
	r.pauses.set(paused, p.tick(l), &p.pauses)
	if !mutRaiseNoKick {
		p.schedule(l, nil)
	}
	p.mu.Unlock()
	l.settle(false)
}

// RouteCounts is what a route's word says, with its limits.
type RouteCounts struct {
	InFlight, Waiting, Limit, MaxWaiters int
	PeakInFlight, PeakWaiting            int // the highest that admitted and queued requests ever met or made
	Paused, Dead                         bool
}

// Counts reads r's numbers. Any goroutine.
func (r *Route) Counts() RouteCounts {
	w := routeWord(r.word.load())
	return RouteCounts{
		InFlight: w.inFlight(), Waiting: w.waiting(), Limit: w.limit(), MaxWaiters: int(r.maxWaiters.Load()),
		PeakInFlight: r.peakInFlight.load(), PeakWaiting: r.peakWaiting.load(),
		Paused: w.paused(), Dead: w.dead(),
	}
}

// Count reads how many requests of r ended as o (or, for Queued, were queued) so far. Any goroutine.
func (r *Route) Count(o Outcome) uint64 {
	var n uint64
	for i := range r.counts {
		n += r.counts[i][o].Load()
	}
	return n
}

// count runs on loop only: a plain add by the single writer.
func (r *Route) count(loop int32, o Outcome) {
	n := &r.counts[loop][o]
	n.Store(n.Load() + 1)
}

// OldestWait is how long r's oldest waiter waits, in ns; 0 without waiters. Any goroutine; enters the pool's critical
// section.
func (r *Route) OldestWait(now int64) int64 {
	if routeWord(r.word.load()).waiting() == 0 {
		return 0
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return r.oldestWait(now)
}

func (r *Route) oldestWait(now int64) int64 {
	if r.fifo.head == nil {
		return 0
	}
	return max(now-r.fifo.head.Since, 0)
}

// enqueue appends w, which the word counts already.
func (r *Route) enqueue(l *loop, w *Waiter) {
	w.turn(r.pool.tick(l), waiterQueued, r.holdsBack(r.fifo.n))
	r.fifo.push(w, byRoute)
	r.local[w.loop].push(w, byLoop)
	if r.policy() == DropRandom {
		w.slot = len(r.slots)
		r.slots = append(r.slots, w)
	}
	r.pool.queued.Add(1)
}

// dequeue removes w from the queues; its count in the word is the caller's.
func (r *Route) dequeue(w *Waiter) {
	must(w.state == waiterQueued, "dequeue of a waiter that is not queued")
	r.fifo.remove(w, byRoute)
	r.local[w.loop].remove(w, byLoop)
	if r.policy() == DropRandom {
		last := len(r.slots) - 1
		moved := r.slots[last]
		r.slots[w.slot], moved.slot = moved, w.slot
		r.slots[last] = nil
		r.slots = r.slots[:last]
	}
	r.pool.queued.Add(-1)
}

// choose picks the waiter that a place on loop serves: the loop's own oldest if it arrived at most slack ns later than
// the route's oldest (moving a backend costs), else the route's oldest.
func (r *Route) choose(loop int32, slack int64) *Waiter {
	oldest, own := r.fifo.head, r.local[loop].head
	if own != nil && slack > 0 && own.Since-oldest.Since <= slack {
		return own
	}
	return oldest
}
