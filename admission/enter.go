package admission

// Enter is the way in when TryRun answered nil: w gets a permit and a backend that is elsewhere or must be opened, or
// it is queued, or refused. A refusal allocates nothing and touches no other loop; a full route that refuses newcomers
// costs a few loads. w.Owner must be ready, since Driver.Open may come from inside.
func (r *Route) Enter(loop int, now int64, w *Waiter) Verdict {
	must(w.state == waiterFree && int(w.loop) == loop, "a waiter entered twice or on another loop")
	p := r.pool
	l := p.c.enter(loop, now)
	v := r.look()
	if v == Pending {
		p.mu.Lock()
		w.begin(r, now)
		v = p.admit(l, r, w)
		p.mu.Unlock()
		if mutOfferFirst && v == Pending && w.state == waiterGranted {
			w.state = waiterQueued
		}
		l.settle(true)
	}
	switch v {
	case Pending:
	case RouteDead:
		w.Route = nil
	default:
		w.Route = nil
		r.count(l.id, Rejected)
	}
	return v
}

// look refuses, before anything is reserved, a request that would have to wait in a full queue.
func (r *Route) look() Verdict {
	w := routeWord(r.word.load())
	c := r.pool.c
	switch limit := int(r.maxWaiters.Load()); {
	case w.dead():
		return RouteDead
	case w.admits():
		return Pending
	case c.waiting.Load() >= c.maxWaiters.Load():
		return ProcessFull
	case w.waiting() >= limit && (limit == 0 || r.policy() == RejectNew):
		return RouteFull
	}
	return Pending
}

// admit gives w a permit and a place, or queues it, in the critical section.
func (p *Pool) admit(l *loop, r *Route, w *Waiter) Verdict {
	n := r.reserve()
	if n == 0 {
		if routeWord(r.word.load()).dead() {
			return RouteDead
		}
		return p.line(l, r, w, queued)
	}
	if p.newcomer(l, w) {
		r.peakInFlight.note(n)
		return Pending
	}
	v := p.line(l, r, w, demoted)
	if v != Pending {
		p.changeRoute(r, returned)
	}
	return v
}

// newcomer gives w, which holds a permit, an idle place or opens one, unless it would overtake an eligible route.
func (p *Pool) newcomer(l *loop, w *Waiter) bool {
	for {
		if p.takeIdle() {
			p.claim(l, w)
			return true
		}
		pw := poolWord(p.word.load())
		if !pw.open() || pw.size() >= int(p.max.Load()) || !p.reserve(l, true) {
			return false
		}
		for !pw.hasIdle() {
			if p.word.cas(uint64(pw), uint64(pw+onePlace+oneUsed+oneHolder)) {
				p.open(l, w, p.home)
				return true
			}
			pw = poolWord(p.word.load())
		}
		p.home.unreserve(l) // a place was released just now
	}
}

// line puts w at the end of r's queue, with change as its effect on the word, if process and route have room for one
// more waiter or the policy makes room.
func (p *Pool) line(l *loop, r *Route, w *Waiter, change func(routeWord) routeWord) Verdict {
	c := p.c
	if routeWord(r.word.load()).waiting() >= int(r.maxWaiters.Load()) {
		if c.waiting.Load() >= c.maxWaiters.Load() {
			return ProcessFull
		}
		victim := r.victim(l)
		if victim == nil {
			return RouteFull
		}
		if mutShedUnlocked {
			p.mu.Unlock()
			p.mu.Lock()
		}
		r.shed(l, victim)
		r.enqueue(l, w)
		r.count(l.id, Queued)
		return Pending
	}
	if !c.reserveWaiter() {
		return ProcessFull
	}
	p.changeRoute(r, change)
	r.enqueue(l, w)
	r.count(l.id, Queued)
	p.schedule(l, nil)
	return Pending
}

// victim is the waiter that a newcomer may replace under r's policy, nil if none.
func (r *Route) victim(l *loop) *Waiter {
	switch r.policy() {
	case DropOldest:
		return r.fifo.head
	case DropRandom:
		if len(r.slots) > 0 {
			return r.slots[l.dice.Uint64()%uint64(len(r.slots))]
		}
	}
	return nil
}

// shed ends a queued waiter, whose count in the words goes to a newcomer. Its loop tells its engine.
func (r *Route) shed(l *loop, w *Waiter) {
	r.dequeue(w)
	w.turn(r.pool.tick(l), waiterShed, w.cause)
	m := &w.msg
	m.what, m.to = msgEnd, w.loop
	l.todo.push(m)
}

// Leave ends w from the engine's side, on w's loop, with o as its outcome: TimedOut, Canceled, Disconnected or Drained.
// It always succeeds: a queued waiter leaves its queue; one that waits for a connect returns its permit at once, and
// the connect goes on for the pool; a grant or a notice that already travels ends when it arrives. The engine must not
// touch w afterwards.
func (c *Controller) Leave(loop int, now int64, w *Waiter, o Outcome) {
	must(int(w.loop) == loop && w.Route != nil, "leave of a waiter that is not pending on this loop")
	l := c.enter(loop, now)
	r := w.Route
	p := r.pool
	r.count(l.id, o)
	p.mu.Lock()
	done := true
	switch w.state {
	case waiterQueued:
		r.dequeue(w)
		c.dropWaiter()
		p.changeRoute(r, left)
	case waiterClaim:
		p.claims.remove(w, byRoute)
		p.sub(oneHolder + oneUsed)
		p.changeRoute(r, returned)
	case waiterOpening:
		p.openings.remove(w, byRoute)
		p.sub(oneHolder)
		p.orphan(l, w)
		p.changeRoute(r, returned)
	case waiterGranted, waiterShed:
		done = false
	default:
		must(false, "leave of a waiter that had ended")
	}
	if w.abroad || !done {
		w.state, w.Owner = waiterGone, nil
		done = false
	}
	p.schedule(l, nil)
	p.mu.Unlock()
	if done {
		l.recycle(w)
	}
	l.settle(false)
}
