package admission

// State: connects: the places of a pool that are reserved for one, and the connect slots of a host.
// Owner: place.holder, givenUp: the pool's critical section. place.state among queued and connecting, the host's slots
// and queues: the host's budget mutex. The engine drives each attempt on the place's loop.
// Invariants: host.connecting = places in state connecting ≤ maxConnects (unless lowered), host.warming those of them
// that were opened ahead; a queued place is in host.queue; openings = places with a holder, and holder.place is that
// place, on the holder's loop.

// Warm opens one place ahead, for the pool's own sake, and tells whether it does: never beyond a limit, nor while
// somebody waits in the pool. Such a connect waits for nothing and nobody waits for it: it takes a connect slot of the
// host that is free now, and all of them together at most half of the slots, so that a permit holder finds one. When it
// succeeds it is a release; when it fails the place is free again.
func (c *Controller) Warm(loop int, now int64, p *Pool) bool {
	l := c.enter(loop, now)
	p.mu.Lock()
	pw := poolWord(p.word.load())
	h := p.home.host
	ok := !p.dropped && pw.open() && pw.size() < int(p.max.Load()) && h.takeWarmSlot()
	if ok && !p.reserve(l, false) {
		h.slotFree(l, true)
		ok = false
	}
	if ok {
		p.add(onePlace + oneUsed)
		pl := p.newPlace(l.id, p.home)
		pl.warm = true
		l.begin(pl)
	}
	p.mu.Unlock()
	l.settle(false)
	return ok
}

// takeWarmSlot takes a slot for a connect that nobody waits for.
func (h *Host) takeWarmSlot() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connecting >= h.maxConnects || h.warming >= max(h.maxConnects/2, 1) {
		return false
	}
	h.takeSlot()
	h.warming++
	return true
}

// newPlace takes a free place; its size and used, and what it counts in, are the caller's.
func (p *Pool) newPlace(loop int32, home *stake) *Place {
	pl := p.free
	if pl == nil {
		pl = &Place{pool: p}
		pl.msg.p = pl
	} else {
		p.free, pl.next = pl.next, nil
	}
	pl.loop, pl.home = loop, home
	p.reserved.Add(1)
	p.peak.note(poolWord(p.word.load()).size())
	return pl
}

// open makes a place on the host of home for w, which holds a permit, and starts its connect; words and budgets are the
// caller's.
func (p *Pool) open(l *loop, w *Waiter, home *stake) {
	pl := p.newPlace(w.loop, home)
	w.turn(p.tick(l), waiterOpening, CauseConnect)
	p.openings.push(w, byRoute)
	w.place, pl.holder = pl, w
	p.startConnect(l, pl)
}

// startConnect begins pl's connect on its loop when the host has a free slot, else queues it.
func (p *Pool) startConnect(l *loop, pl *Place) {
	h := pl.home.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connecting < h.maxConnects {
		h.takeSlot()
		l.begin(pl)
		return
	}
	pl.state = placeQueued
	h.queue.push(pl)
}

// takeSlot counts one more connect in progress. Under the host's mutex.
func (h *Host) takeSlot() {
	h.connecting++
	h.peakConnecting = max(h.peakConnecting, h.connecting)
}

// begin sends pl, which has a slot, to its loop.
func (l *loop) begin(pl *Place) {
	pl.state = placeConnecting
	m := &pl.msg
	m.what, m.to = msgOpen, pl.loop
	l.todo.push(m)
}

// slotFree passes the slot of an ended attempt on.
func (h *Host) slotFree(l *loop, warm bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connecting--
	if warm {
		h.warming--
	}
	h.beginNext(l)
}

func (h *Host) beginNext(l *loop) {
	for h.connecting < h.maxConnects {
		pl := h.queue.head
		if pl == nil {
			return
		}
		h.queue.remove(pl)
		h.takeSlot()
		l.begin(pl)
	}
}

// orphan ends w's wait for its connect. A connect under way goes on for the pool; one that had not begun, or had failed
// for good, is given up here.
func (p *Pool) orphan(l *loop, w *Waiter) {
	pl := w.place
	w.place, pl.holder = nil, nil
	h := pl.home.host
	h.mu.Lock()
	idle := pl.state == placeQueued
	if idle {
		h.queue.remove(pl)
	}
	h.mu.Unlock()
	if idle || pl.state == placeFailed && pl.givenUp {
		p.reserved.Add(-1)
		p.freePlace(l, pl)
	}
}

// Opened tells that the connect of p succeeded: p is live, clean and attached to loop. Its holder runs, or, if that
// left or was served, the next who needs a backend.
func (c *Controller) Opened(loop int, now int64, p *Place) {
	must(p.state == placeConnecting && int(p.loop) == loop, "opened a place that was not connecting here")
	l := c.enter(loop, now)
	pool := p.pool
	p.home.host.slotFree(l, p.warm)
	pool.mu.Lock()
	pool.reserved.Add(-1)
	p.state, p.warm = placeUsed, false
	if w := p.holder; w != nil {
		p.holder = nil
		pool.openings.remove(w, byRoute)
		pool.sub(oneHolder)
		l.grant(w, p)
	} else {
		pool.schedule(l, p)
	}
	pool.mu.Unlock()
	l.settle(false)
}

// Failed tells that an attempt to connect p failed. While a holder waits for it the place stays reserved (kept is true)
// and the engine calls Retry when it may try again, or GiveUp; else the place is free and the engine forgets it.
func (c *Controller) Failed(loop int, now int64, p *Place) (kept bool) {
	must(p.state == placeConnecting && int(p.loop) == loop, "failed to open a place that was not connecting here")
	l := c.enter(loop, now)
	pool := p.pool
	p.home.host.slotFree(l, p.warm)
	pool.mu.Lock()
	kept = p.holder != nil
	if kept {
		p.state = placeFailed
	} else {
		pool.dropReserved(l, p)
	}
	pool.mu.Unlock()
	l.settle(false)
	return kept
}

// Retry tries a kept place again, as soon as the host has a connect slot: Driver.Open follows. If the pool has another host
// by now, the place goes there, unless that is full: then it stays where it is, and the engine tells from Place.Host. If nobody waits for it
// any more the place is freed instead, Retry answers false and the engine forgets it.
func (c *Controller) Retry(loop int, now int64, p *Place) bool {
	must(p.state == placeFailed && int(p.loop) == loop && !p.givenUp, "retry of a place that had not failed here")
	l := c.enter(loop, now)
	pool := p.pool
	pool.mu.Lock()
	again := p.holder != nil
	if again {
		p.Owner = nil
		pool.rehome(l, p)
		pool.startConnect(l, p)
	} else {
		pool.dropReserved(l, p)
	}
	pool.mu.Unlock()
	l.settle(false)
	return again
}

// GiveUp frees a kept place that the engine will not try again: at once, or, while a holder waits for it, as soon as
// that is served otherwise or leaves. The engine forgets it.
func (c *Controller) GiveUp(loop int, now int64, p *Place) {
	must(p.state == placeFailed && int(p.loop) == loop && !p.givenUp, "gave up a place that had not failed here")
	l := c.enter(loop, now)
	pool := p.pool
	pool.mu.Lock()
	if p.holder != nil {
		p.givenUp = true
	} else {
		pool.dropReserved(l, p)
	}
	pool.mu.Unlock()
	l.settle(false)
}

// dropReserved frees a place whose connect is over without success.
func (p *Pool) dropReserved(l *loop, pl *Place) {
	p.reserved.Add(-1)
	p.freePlace(l, pl)
	p.schedule(l, nil)
}
