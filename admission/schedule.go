package admission

// schedule runs in the critical section of p, on loop l, after everything that may let somebody run: it gives away the
// place in hand, if any, and then permits and places until nobody is eligible or no place is to be had. Order: holders
// first (those waiting for a connect, then those promised an idle place elsewhere), then a starving pool of the same
// host, then the eligible routes in deficit round robin.
func (p *Pool) schedule(l *loop, inHand *Place) {
	if inHand != nil {
		p.place(l, inHand)
	}
	for p.grantNext(l) {
	}
}

// place gives pl, which is used and carries no permit, to whom it is due.
func (p *Pool) place(l *loop, pl *Place) {
	switch {
	case p.openings.n > 0:
		w := p.openings.head
		p.openings.remove(w, byRoute)
		p.sub(oneHolder)
		p.orphan(l, w)
		l.grant(w, pl)
	case p.claims.n > 0:
		// Its claim on an idle place returns with this: one more of them may be claimed.
		w := p.claims.head
		p.claims.remove(w, byRoute)
		p.sub(oneHolder + oneUsed)
		l.grant(w, pl)
	case p.giveAway(l, pl):
	case poolWord(p.word.load()).serves():
		r := p.ring.charge()
		w := r.choose(l.id, p.c.slack.Load())
		p.permit(r, w)
		l.grant(w, pl)
	default:
		p.rest(l, pl)
	}
}

// grantNext gives one permit with an idle place or with a place to open, or one idle place to a holder that waits for a
// connect; false when nothing is left to do.
func (p *Pool) grantNext(l *loop) bool {
	pw := poolWord(p.word.load())
	if p.openings.n > 0 && pw.hasIdle() {
		if p.word.cas(uint64(pw), uint64(pw+oneUsed)) {
			w := p.openings.head
			p.openings.remove(w, byRoute)
			p.sub(oneHolder)
			p.orphan(l, w)
			p.claim(l, w)
		}
		return true
	}
	if !pw.serves() {
		return false
	}
	if pw.hasIdle() {
		if p.word.cas(uint64(pw), uint64(pw+oneUsed)) {
			p.claim(l, p.nextPermit())
		}
		return true
	}
	if pw.size() >= int(p.max.Load()) || !p.reserve(l, true) {
		return false
	}
	// Nothing rests while a route is eligible, and only the critical section changes size.
	p.add(onePlace + oneUsed + oneHolder)
	p.open(l, p.nextPermit(), p.home)
	return true
}

// nextPermit gives a permit to the oldest waiter of the route whose turn it is.
func (p *Pool) nextPermit() *Waiter {
	r := p.ring.charge()
	w := r.fifo.head
	p.permit(r, w)
	return w
}

// permit moves w from waiting to in flight.
func (p *Pool) permit(r *Route, w *Waiter) {
	r.dequeue(w)
	p.c.dropWaiter()
	p.changeRoute(r, granted)
}

// grant sends pl, which is on this loop, to w, which holds a permit.
func (l *loop) grant(w *Waiter, pl *Place) {
	w.turn(pl.pool.tick(l), waiterGranted, CausePool)
	pl.state, pl.route = placeUsed, w.Route
	w.place = pl
	m := &pl.msg
	m.what, m.w, m.to = msgGive, w, w.loop
	l.todo.push(m)
}

// claim settles which idle place w gets; w holds a permit and one unit of used for it. A place on its own loop or, when
// that publishes none, on this one is had at once; else w's ask goes to the loop that publishes most.
func (p *Pool) claim(l *loop, w *Waiter) {
	own := &p.idle[l.id]
	if own.head != nil && (w.loop == l.id || p.idle[w.loop].published.Load() == 0) {
		pl := own.head
		own.remove(pl)
		l.grant(w, pl)
		return
	}
	p.add(oneHolder)
	w.turn(p.tick(l), waiterClaim, CausePool)
	p.claims.push(w, byRoute)
	w.msg.hops = 0
	if !w.abroad {
		l.ask(w)
	}
	// An ask of an earlier claim that still travels serves this one, or is sent again when it is back.
}

// ask sends w's ask to the loop that publishes most idle places of the pool, w's own first.
//
// It ends: while w is among the claims, every place that becomes free goes to a holder, and a release that sees a holder
// publishes nothing, so the idle lists only shrink and a loop found empty stays empty. (A release that saw none just
// before w's claim may have published a place that it then gives to a holder: gone, too, by the time of the visit.) There
// are at least as many idle places as claims, each published before it was promised. So the ask finds one after visiting
// each loop at most once, unless a release serves w before.
func (l *loop) ask(w *Waiter) {
	p := w.Route.pool
	best, most := w.loop, int32(0)
	for i := range p.idle {
		yield()
		n := p.idle[i].published.Load()
		if n > 0 && int32(i) == w.loop {
			best, most = w.loop, n
			break
		}
		if n > most {
			best, most = int32(i), n
		}
	}
	must(most > 0, "a claim without an idle place")
	w.msg.hops++
	must(int(w.msg.hops) <= len(p.idle)+1, "an ask came back to a loop that it had found empty")
	w.abroad = true
	w.msg.what, w.msg.to = msgAsk, best
	l.todo.push(&w.msg)
}

// answer gives the asking waiter this loop's newest idle place, or passes the ask on; a waiter that was served or left
// meanwhile gets its ask back.
func (l *loop) answer(m *Message) {
	w := m.w
	p := w.Route.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.state != waiterClaim {
		m.what, m.to = msgHome, w.loop
		l.todo.push(m)
		return
	}
	pl := p.idle[l.id].head
	if pl == nil {
		l.ask(w)
		return
	}
	p.idle[l.id].remove(pl)
	p.claims.remove(w, byRoute)
	p.sub(oneHolder)
	w.abroad = false
	l.grant(w, pl)
}

// welcome takes an ask back that had become needless; by now w may have a claim again.
func (l *loop) welcome(w *Waiter) {
	p := w.Route.pool
	p.mu.Lock()
	w.abroad = false
	gone := w.state == waiterGone && (w.place == nil || mutHomeRecycles) // else its grant is still to arrive
	if w.state == waiterClaim {
		l.ask(w)
	}
	p.mu.Unlock()
	if gone {
		l.recycle(w)
	}
}
