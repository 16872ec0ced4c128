package admission

// Closed tells that PostgreSQL has closed its side of p, which carried a request or was claimed for closing: its place
// and its permit return, and whoever is eligible may open a new one.
func (c *Controller) Closed(loop int, now int64, p *Place) {
	must((p.state == placeUsed || p.state == placeClosing) && int(p.loop) == loop, "closed a place that was not in use here")
	l := c.enter(loop, now)
	pool := p.pool
	pool.mu.Lock()
	if r := p.route; r != nil {
		p.route = nil
		pool.changeRoute(r, returned)
	}
	if p.state == placeClosing {
		pool.closing.Add(-1)
		for _, s := range p.home.all {
			s.closing.Add(-1)
		}
	}
	if b := p.forCap; b != nil {
		p.forCap = nil
		b.moved()
	}
	pool.freePlace(l, p)
	pool.schedule(l, nil)
	pool.mu.Unlock()
	l.settle(false)
}

// freePlace takes a used place out of every count; what it was counted in may go to other pools.
func (p *Pool) freePlace(l *loop, pl *Place) {
	p.sub(onePlace + oneUsed)
	pl.home.unreserve(l)
	p.forget(pl)
}

func (p *Pool) forget(pl *Place) {
	if pl.home.past {
		p.settleFormer()
	}
	pl.state, pl.Owner, pl.holder, pl.warm, pl.givenUp, pl.home = placeFree, nil, nil, false, false, nil
	pl.next, p.free = p.free, pl
}

// Died tells that p, idle on loop, turned out dead and is closed. Its place is freed; or, if every idle place is
// promised to a holder that asks for one, the youngest of them opens the place anew.
func (c *Controller) Died(loop int, now int64, p *Place) {
	must(p.state == placeIdle && int(p.loop) == loop, "a place died that was not idle here")
	l := c.enter(loop, now)
	pool := p.pool
	pool.mu.Lock()
	pool.idle[loop].remove(p)
	for {
		pw := poolWord(pool.word.load())
		if !pw.hasIdle() && !mutDiedBlind {
			w := pool.claims.tail
			pool.claims.remove(w, byRoute)
			home := p.home
			pool.forget(p)
			pool.open(l, w, home)
			break
		}
		if pool.word.cas(uint64(pw), uint64(pw-onePlace)) {
			p.home.unreserve(l)
			pool.forget(p)
			break
		}
	}
	pool.schedule(l, nil)
	pool.mu.Unlock()
	l.settle(false)
}

// EachIdle calls f for the pool's idle places on loop, oldest first, until f answers false. f may take, or tell the
// death of, the place that it is called with, whatever that sets going; it must not call EachIdle for the same pool.
func (p *Pool) EachIdle(loop int, f func(*Place) bool) {
	idle := &p.idle[loop]
	for idle.cursor = idle.tail; idle.cursor != nil; {
		pl := idle.cursor
		idle.cursor = pl.prev
		if !f(pl) {
			idle.cursor = nil
		}
	}
}

// TakeIdle claims p, idle on loop, for closing; false if every idle place of the pool is promised to somebody. After
// true the engine closes it and then calls Closed.
func (c *Controller) TakeIdle(loop int, now int64, p *Place) bool {
	return c.TakeSpare(loop, now, p, 0)
}

// TakeSpare is TakeIdle as long as more than keep idle places of the pool are promised to nobody.
func (c *Controller) TakeSpare(loop int, now int64, p *Place, keep int) bool {
	must(p.state == placeIdle && int(p.loop) == loop, "took a place that is not idle here")
	c.enter(loop, now)
	if mutSpareBlind && p.pool.Counts().Idle() > keep {
		keep = 0
	}
	if !p.pool.claimIdle(p, keep) {
		return false
	}
	p.pool.closes(p)
	return true
}

// SetAside claims p, idle on loop, for a look at it: nobody is given it until PutBack. false if every idle place of the
// pool is promised to somebody. What turns out bad is closed, as after TakeIdle.
func (c *Controller) SetAside(loop int, now int64, p *Place) bool {
	must(p.state == placeIdle && int(p.loop) == loop, "set a place aside that is not idle here")
	c.enter(loop, now)
	if !p.pool.claimIdle(p, 0) {
		return false
	}
	p.state = placeUsed
	return true
}

// PutBack ends a SetAside: p is live, clean and attached to loop. It goes to whoever is due one, or rests on as if it
// had not been taken.
func (c *Controller) PutBack(loop int, now int64, p *Place) {
	must(p.state == placeUsed && p.route == nil && int(p.loop) == loop, "put back a place that was not set aside here")
	l := c.enter(loop, now)
	pool := p.pool
	pool.mu.Lock()
	p.aged = true
	if mutAsideRests {
		pool.rest(l, p)
	} else {
		pool.schedule(l, p)
	}
	p.aged = false
	pool.mu.Unlock()
	l.settle(false)
}

func (p *Pool) takeForClosing(pl *Place) bool {
	if !p.claimIdle(pl, 0) {
		return false
	}
	p.closes(pl)
	return true
}

// claimIdle takes pl off its loop's idle list, unless all but keep of the pool's idle places are promised to somebody.
func (p *Pool) claimIdle(pl *Place, keep int) bool {
	for {
		w := poolWord(p.word.load())
		if w.size()-w.used() <= keep && !mutReclaimBlind {
			return false
		}
		if p.word.cas(uint64(w), uint64(w+oneUsed)) {
			break
		}
	}
	p.idle[pl.loop].remove(pl)
	return true
}

func (p *Pool) closes(pl *Place) {
	pl.state = placeClosing
	p.closing.Add(1)
	for _, s := range pl.home.all {
		s.closing.Add(1)
	}
}

// close ends pl, which is in hand and carries no permit.
func (p *Pool) close(l *loop, pl *Place) {
	p.closes(pl)
	l.closeSoon(pl)
}

func (l *loop) closeSoon(pl *Place) {
	m := &pl.msg
	m.what, m.to = msgClose, l.id
	l.todo.push(m)
}

// Trim closes idle places of loop that are more than a lowered limit of their pool, host or cap allows; places in use
// follow when they are released. The engine calls it on each loop after lowering such a limit, and in its sweeps.
func (c *Controller) Trim(loop int, now int64) {
	l := c.enter(loop, now)
	c.mu.Lock()
	for p := range c.pools {
		if poolWord(p.word.load()).asked() {
			p.trim(l)
		}
	}
	c.mu.Unlock()
	l.settle(false)
}

func (p *Pool) trim(l *loop) {
	for pl, next := p.idle[l.id].tail, (*Place)(nil); pl != nil; pl = next {
		next = pl.prev
		b, surplus := pl.surplus()
		if !surplus {
			continue
		}
		if !p.takeForClosing(pl) {
			if b != nil {
				b.notMoved()
			}
			return
		}
		pl.forCap = b
		l.closeSoon(pl)
	}
}

// surplus tells whether pl is one too many, by its pool's limit or by that of a budget in which it counts; the latter's
// move is then counted.
func (pl *Place) surplus() (*budget, bool) {
	p := pl.pool
	if poolWord(p.word.load()).size()-int(p.closing.Load()) > int(p.max.Load()) {
		return nil, true
	}
	for _, s := range pl.home.all {
		if s.b.moveSurplus() {
			return s.b, true
		}
	}
	return nil, false
}
