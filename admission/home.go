package admission

import "slices"

// State: the host of a pool: home, and the hosts before, in which places of the pool still count.
// Owner: home and former: the pool's critical section; stake.past: the budget's mutex as well, for those who share out.
// Invariants: places are reserved on home only; a place counts where it was reserved, wherever home is by then, until it
// is closed or, before it has begun to connect anew, moved with its count (rehome); a pool waits for places of home, of no
// former host, and so gets no credit there; former holds the stakes in which something of the pool counts.

// SetHost changes the host on which places of p are opened. Those that there are stay, count where they were reserved,
// and serve until the engine closes them; connects in progress go on there. A place whose connect is tried again (Retry)
// moves if there is room for it.
func (p *Pool) SetHost(loop int, now int64, h *Host) {
	l := p.c.enter(loop, now)
	p.mu.Lock()
	if p.home.host != h {
		p.move(l, h)
		p.schedule(l, nil) // who waited for the old host's room may find some here
	}
	p.mu.Unlock()
	l.settle(false)
}

// newHome makes a stake in h. caps are what else places of the pool count in.
func (p *Pool) newHome(h *Host, caps []*stake) *stake {
	s := &stake{b: &h.budget, pool: p, host: h}
	s.all = append([]*stake{s}, caps...)
	return s
}

// move makes h home.
func (p *Pool) move(l *loop, h *Host) {
	old := p.home
	at := slices.IndexFunc(p.former, func(s *stake) bool { return s.host == h })
	if at >= 0 {
		p.home = p.former[at]
		p.former = slices.Delete(p.former, at, at+1)
		p.home.setPast(false)
	} else {
		p.home = p.newHome(h, old.all[1:])
		p.home.b.join(p.home)
	}
	p.former = append(p.former, old)
	old.setPast(true)
	old.passCredit(l)
	p.settleFormer()
}

// setPast notes whether s is of a host before; the pool waits for none of its places then.
func (s *stake) setPast(past bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.past = past
	if past && !mutWaitsThere {
		s.b.unlist(s)
	}
}

// settleFormer forgets the hosts before on which nothing of p is left.
func (p *Pool) settleFormer() {
	p.former = slices.DeleteFunc(p.former, func(s *stake) bool {
		s.b.mu.Lock()
		left := s.held > 0 || s.credit > 0
		s.b.mu.Unlock()
		if !left {
			s.b.leave(s)
		}
		return !left
	})
}

// rehome moves pl, which is reserved and not connecting, to the pool's present host if that has room.
func (p *Pool) rehome(l *loop, pl *Place) {
	old := pl.home
	if old == p.home || !p.home.take(false) {
		return
	}
	pl.home = p.home
	if mutCountStays {
		return
	}
	old.put(l)
	p.settleFormer()
}

// asksElsewhere tells whether a place of p is wanted for a host or cap in which pl does not count: then the asking stands
// although pl has nothing to give.
func (p *Pool) asksElsewhere(l *loop, pl *Place) bool {
	if p.home != pl.home && p.home.asks(l.now) {
		return true
	}
	return slices.ContainsFunc(p.former, func(s *stake) bool { return s != pl.home && s.asks(l.now) })
}

// asks tells whether the budget wants a place of the pool, for a lowered limit or a starving pool.
func (s *stake) asks(now int64) bool {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.b.size-s.b.moves > s.b.max || s.wouldGive(now) != givesNot
}

// DropHost forgets a host in which no pool counts, and answers whether it did. The caller sees to it that no pool comes to
// it meanwhile. Any goroutine.
func (c *Controller) DropHost(h *Host) bool { return c.dropBudget(&h.budget) }
