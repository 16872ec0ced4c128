package admission

import "sync/atomic"

// State: a Pool: its word, its holders, its ring of eligible routes, its idle places by loop.
// Owner: the word by CAS; idle[i] by loop i; routes by listMu; everything else by the critical section mu.
// A pool has one present host, home, on which its places are opened; former are the hosts before, as long as places of
// the pool count there (SetHost).
// Invariants, whenever mu is free: word.eligible = ring.n; word.holders = claims.n + openings.n; idle places on all
// lists and in hand = size − used + claims.n; if an eligible route exists and nothing is paused, then used = size and
// the pool is at its maximum or waits in the list of a full budget; no idle place is unclaimed while openings exist.

// Pool is the set of backends of one database and user.
type Pool struct {
	Owner any // the engine's

	word     word
	max      atomic.Int32
	peak     peak         // of size
	queued   atomic.Int32 // waiters of all its routes
	reserved atomic.Int32 // places that are queued, connecting or failed
	closing  atomic.Int32 // places in state closing

	c *Controller

	listMu mutex // taken inside mu or by itself
	routes map[*Route]struct{}

	mu       mutex
	home     *stake   // of its present host
	former   []*stake // of hosts before, while places or credits are counted there
	dropped  bool     // forgotten: nothing is opened in it any more
	now      int64    // ns, the latest that the critical section was told
	pauses   poolPauses
	ring     ring
	claims   waiterList // holders promised some idle place, oldest first
	openings waiterList // holders waiting for a connect, oldest first
	free     *Place     // free places

	idle []idleList
}

// NewPool makes a pool. Any goroutine.
func (c *Controller) NewPool(o PoolOptions) *Pool {
	must(o.Host != nil && o.MaxSize >= 1 && o.MaxSize <= MaxPoolSize, "pool options out of range")
	p := &Pool{c: c, routes: map[*Route]struct{}{}, idle: make([]idleList, len(c.loops))}
	p.max.Store(int32(o.MaxSize))
	var caps []*stake
	for _, cap := range []*Cap{o.Database, o.User} {
		if cap != nil {
			caps = append(caps, &stake{b: &cap.budget, pool: p})
		}
	}
	p.home = p.newHome(o.Host, caps)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		p.word.v.Store(uint64(processPaused))
		p.pauses.set(true, c.since)
	}
	c.pools[p] = struct{}{}
	for _, s := range p.home.all {
		s.b.join(s)
	}
	return p
}

// Drop forgets a pool that has no place and no waiter, and answers whether it did. The caller sees to it that no
// request enters it meanwhile. Any goroutine.
func (c *Controller) Drop(p *Pool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if poolWord(p.word.load()).size() != 0 || p.queued.Load() != 0 {
		return false
	}
	p.dropped = true
	delete(c.pools, p)
	for _, s := range append(p.former, p.home.all...) {
		s.b.leave(s)
	}
	return true
}

// SetMaxSize changes the largest number of places while they are in use: raising lets waiters open more at once, a
// lowered one is reached as places are released, and by Trim.
func (p *Pool) SetMaxSize(loop int, now int64, n int) {
	must(n >= 1 && n <= MaxPoolSize, "pool size out of range")
	l := p.c.enter(loop, now)
	p.mu.Lock()
	yield()
	p.max.Store(int32(n))
	if poolWord(p.word.load()).size() > n {
		p.setBit(poolAsked, true)
	}
	if !mutRaiseNoKick {
		p.schedule(l, nil)
	}
	p.mu.Unlock()
	l.settle(false)
}

// Pause stops admission to p: requests in flight end, newcomers and waiters wait. Done when Drained.
func (p *Pool) Pause(loop int, now int64) {
	l := p.c.enter(loop, now)
	p.setPaused(l, poolPaused, true)
	l.settle(false)
}

// Resume ends a pause of p and runs its waiters at once.
func (p *Pool) Resume(loop int, now int64) {
	l := p.c.enter(loop, now)
	p.setPaused(l, poolPaused, false)
	l.settle(false)
}

func (p *Pool) setPaused(l *loop, bit poolWord, paused bool) {
	p.mu.Lock()
	p.setBit(bit, paused)
	p.pauses.set(poolWord(p.word.load()).paused(), p.tick(l))
	if !mutRaiseNoKick {
		p.schedule(l, nil)
	}
	p.mu.Unlock()
}

// Drained tells whether no place is in use: a pause is done. Any goroutine.
func (p *Pool) Drained() bool { return poolWord(p.word.load()).used() == 0 }

// HasEligible tells whether giving a backend back now would do more than let it rest: somebody is eligible to run or
// holds a permit without a backend, a pause waits, or another pool starves. One load. Any goroutine.
func (p *Pool) HasEligible() bool {
	w := poolWord(p.word.load())
	return w.paused() || !w.rests()
}

// PoolCounts is what a pool's word says, with its limit.
type PoolCounts struct {
	Size, Used, Holders, Eligible, Max int
	Connecting                         int // places that are reserved for a connect or connecting
	Closing                            int // places that are being closed after they were idle or released
	Waiting                            int // waiters of all routes
	PeakSize                           int // the highest size that there ever was
	Paused                             bool
}

// Idle is the number of idle places that are promised to nobody.
func (n PoolCounts) Idle() int { return n.Size - n.Used }

// IdleOn is the number of idle places on loop. Any goroutine.
func (p *Pool) IdleOn(loop int) int { return int(p.idle[loop].published.Load()) }

// Counts reads p's numbers. Any goroutine.
func (p *Pool) Counts() PoolCounts {
	w := poolWord(p.word.load())
	return PoolCounts{
		Size: w.size(), Used: w.used(), Holders: w.holders(), Eligible: w.eligible(), Max: int(p.max.Load()),
		Connecting: int(p.reserved.Load()), Closing: int(p.closing.Load()), Waiting: int(p.queued.Load()), PeakSize: p.peak.load(),
		Paused: w.paused(),
	}
}

// OldestWait is how long the oldest waiter of p waits, in ns; 0 without waiters. Any goroutine; walks all routes of the
// pool, so not for a hot path.
func (p *Pool) OldestWait(now int64) int64 {
	var oldest int64
	if p.queued.Load() > 0 {
		p.EachRoute(func(r *Route) { oldest = max(oldest, r.OldestWait(now)) })
	}
	return oldest
}

// EachRoute calls f for the routes of p that exist when it is called; f may call anything. Any goroutine; allocates, so
// not for a hot path.
func (p *Pool) EachRoute(f func(*Route)) {
	p.listMu.Lock()
	routes := make([]*Route, 0, len(p.routes))
	for r := range p.routes {
		routes = append(routes, r)
	}
	p.listMu.Unlock()
	for _, r := range routes {
		f(r)
	}
}

func (p *Pool) delist(r *Route) {
	p.listMu.Lock()
	delete(p.routes, r)
	p.listMu.Unlock()
}

// add adds delta to the word, whatever the other loops do to it.
func (p *Pool) add(delta poolWord) {
	for {
		old := p.word.load()
		if p.word.cas(old, old+uint64(delta)) {
			return
		}
	}
}

// sub takes delta from the word.
func (p *Pool) sub(delta poolWord) { p.add(-delta) }

func (p *Pool) setBit(bit poolWord, on bool) {
	for {
		old := poolWord(p.word.load())
		updated := old &^ bit
		if on {
			updated |= bit
		}
		if p.word.cas(uint64(old), uint64(updated)) {
			return
		}
	}
}

// changeRoute changes r's word inside the critical section, and the pool's when that flips r's eligibility. Outside the
// critical section the route word only changes while nobody waits, which flips nothing.
func (p *Pool) changeRoute(r *Route, f func(routeWord) routeWord) {
	var old, updated routeWord
	for {
		old = routeWord(r.word.load())
		updated = f(old)
		if r.word.cas(uint64(old), uint64(updated)) {
			break
		}
		if mutStaleChange {
			r.word.v.Store(uint64(updated))
			break
		}
	}
	if updated.inFlight() > old.inFlight() {
		r.peakInFlight.note(updated.inFlight())
	}
	if updated.waiting() > old.waiting() {
		r.peakWaiting.note(updated.waiting())
	}
	switch {
	case old.eligible() == updated.eligible():
	case updated.eligible():
		p.ring.add(r)
		p.add(oneEligible)
	default:
		p.ring.remove(r)
		p.sub(oneEligible)
	}
}

func returned(w routeWord) routeWord { return w - oneInFlight }
func granted(w routeWord) routeWord  { return w - oneWaiting + oneInFlight }
func handed(w routeWord) routeWord   { return w - oneWaiting }
func left(w routeWord) routeWord     { return w - oneWaiting }
func queued(w routeWord) routeWord   { return w + oneWaiting }
func demoted(w routeWord) routeWord  { return w - oneInFlight + oneWaiting }
