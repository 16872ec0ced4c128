package admission

// TryRun is the fast path: when nobody waits in r, no route of its pool is eligible, nothing is paused and the pool has
// an idle place on loop, it takes permit and place and returns the loop's newest idle place; else nil, and Enter
// decides. No allocation, no lock, no message.
func (r *Route) TryRun(loop int) *Place {
	p := r.pool
	idle := &p.idle[loop]
	if idle.head == nil {
		return nil
	}
	if w := poolWord(p.word.load()); !w.open() || !w.hasIdle() {
		return nil
	}
	n := r.reserve()
	if n == 0 {
		return nil
	}
	if !p.takeIdle() {
		r.rollback(loop)
		return nil
	}
	pl := idle.head
	idle.remove(pl)
	pl.state, pl.route = placeUsed, r
	r.peakInFlight.note(n)
	r.count(int32(loop), Admitted)
	return pl
}

// reserve takes a permit of r if a newcomer may have one, and answers how many are then in flight, else 0. It never flips
// r's eligibility, since nobody waits.
func (r *Route) reserve() int {
	for {
		w := routeWord(r.word.load())
		if !w.admits() && !(mutDeadAdmits && (w &^ routeDead).admits()) {
			return 0
		}
		if r.word.cas(uint64(w), uint64(w+oneInFlight)) {
			return w.inFlight() + 1
		}
	}
}

// takeIdle claims one idle place, wherever it is, for a newcomer.
func (p *Pool) takeIdle() bool {
	for {
		w := poolWord(p.word.load())
		if !mutPauseIgnored && !w.open() || !w.hasIdle() {
			return false
		}
		if p.word.cas(uint64(w), uint64(w+oneUsed)) {
			return true
		}
	}
}

// rollback gives back a permit for which there was no place. Who began to wait meanwhile found the limit reached, so
// this must look for them as a release does.
func (r *Route) rollback(loop int) {
	if r.returnQuietly() {
		return
	}
	p, l := r.pool, &r.pool.c.loops[loop]
	p.mu.Lock()
	p.changeRoute(r, returned)
	p.schedule(l, nil)
	p.mu.Unlock()
	l.settle(true)
}

// returnQuietly gives back a permit of r if nobody waits for one.
func (r *Route) returnQuietly() bool {
	for {
		w := routeWord(r.word.load())
		if w.waiting() > 0 && !mutReturnBlind {
			return false
		}
		if r.word.cas(uint64(w), uint64(w-oneInFlight)) {
			return true
		}
	}
}

// Release ends the request that p carried: p is clean and attached to loop. Its permit returns to the route it was
// taken in; p goes to a holder, to the next waiter, or rests on this loop.
func (c *Controller) Release(loop int, now int64, p *Place) {
	l := c.enter(loop, now)
	l.release(p)
	l.settle(false)
}

func (l *loop) release(pl *Place) {
	must(pl.state == placeUsed && pl.route != nil && pl.loop == l.id, "release of a place that carries no request here")
	r, p := pl.route, pl.pool
	pl.route = nil
	if r.returnQuietly() {
		if p.restQuietly(l, pl) {
			return
		}
		p.mu.Lock()
		p.schedule(l, pl)
		p.mu.Unlock()
		return
	}
	p.mu.Lock()
	if !p.handOver(l, r, pl) {
		p.changeRoute(r, returned)
		p.schedule(l, pl)
	}
	p.mu.Unlock()
}

// handOver gives the permit and the place of a finished request of r, which is at its limit, to r's next waiter, if
// nobody else has a claim to the place: r never becomes eligible, so the other routes keep their fast path.
func (p *Pool) handOver(l *loop, r *Route, pl *Place) bool {
	w, pw := routeWord(r.word.load()), poolWord(p.word.load())
	if w.waiting() == 0 || w.paused() || w.inFlight() > w.limit() ||
		!pw.open() || pw&(poolHolders|poolAsked) != 0 {
		return false
	}
	next := r.choose(l.id, p.c.slack.Load())
	r.dequeue(next)
	p.c.dropWaiter()
	p.changeRoute(r, handed)
	l.grant(next, pl)
	return true
}

// restQuietly lets pl rest on this loop if nobody has a use for it. The place is published before the CAS that frees
// it, so whoever is promised it finds it; the CAS reads everything that could want it. While there are holders nothing is
// published that is not free: their asks would chase it (loop.ask).
func (p *Pool) restQuietly(l *loop, pl *Place) bool {
	w := poolWord(p.word.load())
	if !mutReleaseBlind && !w.rests() {
		return false
	}
	idle := &p.idle[l.id]
	idle.push(pl)
	for !p.word.cas(uint64(w), uint64(w-oneUsed)) {
		w = poolWord(p.word.load())
		if !mutReleaseBlind && !w.rests() {
			idle.remove(pl)
			return false
		}
	}
	pl.state, pl.IdleSince = placeIdle, l.now
	return true
}

// rest is the same inside the critical section, when the scheduler found no use for pl.
func (p *Pool) rest(l *loop, pl *Place) {
	if pl.aged {
		p.idle[l.id].pushAged(pl)
	} else {
		pl.IdleSince = l.now
		p.idle[l.id].push(pl)
	}
	p.sub(oneUsed)
	pl.state = placeIdle
}
