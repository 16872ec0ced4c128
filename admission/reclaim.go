package admission

import "sync/atomic"

// A full budget is shared out in two ways. A backend that rests for reclaimIdle in a pool with nobody to serve, or for
// keepIdle if the pool has no more than an equal part, is closed for whoever waits. (With one time for all, pools with a
// request now and then would give their only backend to a busy pool and take it back, again and again.) And a pool below its share whose oldest eligible waiter waits for starveAfter is starving:
// pools above their share are asked (a bit in their word), and their next releases close the backend instead of reusing
// it. The freed places go to the starving pools first, one by one, so a share is reached as fast as backends close.

const (
	reclaimIdle  = 100e6 // ns a backend rests before another pool may have its place
	keepIdle     = 1e9   // the same in a pool that has no more than an equal part
	starveAfter  = 100e6 // ns a pool below its share waits before others are asked to give
	keepGiven    = 1e9   // ns for which a pool that was given a place gives none
	evaluateTick = 40e6  // ns between two evaluations of one budget
	pressureScan = 256   // eligible routes of a pool that one evaluation looks at
)

// mark is a waiting pool as an evaluation finds it.
type mark struct {
	s      *stake
	oldest int64 // ns
	need   int   // places that it could use
}

// Tick does what takes time: called about every 50 ms on each loop while anything waits (Controller.Waiting > 0, or a
// holder waits for a connect).
func (c *Controller) Tick(loop int, now int64) {
	l := c.enter(loop, now)
	for _, b := range *c.budgets.Load() {
		if b.waiters.Load() == 0 {
			continue
		}
		if due(&b.evaluated, now) {
			b.evaluate(l)
		}
		b.reclaim(l)
	}
	l.settle(false)
}

// due lets one loop in per evaluateTick.
func due(last *atomic.Int64, now int64) bool {
	yield()
	t := last.Load()
	return (t == 0 || now-t >= evaluateTick) && last.CompareAndSwap(t, max(now, 1))
}

// evaluate finds out what the waiting pools need, which of them starve, and whom to ask.
func (b *budget) evaluate(l *loop) {
	l.marks = l.marks[:0]
	b.mu.Lock()
	for _, list := range []*stakeList{&b.starve, &b.want} {
		for s := list.head; s != nil; s = s.next {
			l.marks = append(l.marks, mark{s: s})
		}
	}
	b.mu.Unlock()
	for i := range l.marks {
		l.marks[i].measure(l.now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shareOut()
	b.need = 0
	for _, m := range l.marks {
		b.need += m.need
		s := m.s
		if s.where == &b.want && m.oldest >= starveAfter && s.places() < min(b.share, int(s.pool.max.Load())) {
			s.where.remove(s)
			s.starving = true
			b.starve.push(s)
		}
	}
	if b.starve.head == nil || mutNoAsk {
		return
	}
	for _, s := range b.stakes {
		if s.places() > b.floor {
			s.pool.setBit(poolAsked, true)
		}
	}
}

// askAll asks every pool for a place if the budget holds more than a lowered limit allows. Under the budget's mutex.
func (b *budget) askAll() {
	if b.size-b.moves <= b.max {
		return
	}
	for _, s := range b.stakes {
		s.pool.setBit(poolAsked, true)
	}
}

// shareOut divides the budget by the pools with demand, and by those that have places or want some.
func (b *budget) shareOut() {
	demand, all := 0, 0
	for _, s := range b.stakes {
		switch w := poolWord(s.pool.word.load()); {
		case !s.past && (w.used() > 0 || w.eligible() > 0):
			demand++
			all++
		case s.held > 0:
			all++
		}
	}
	b.floor = b.max / max(demand, 1)
	b.share = max(b.floor, 1)
	b.keep = b.max / max(all, 1)
}

// places is what the pool has of the budget, less what it is closing already. Under the budget's mutex.
func (s *stake) places() int { return s.held + s.credit - int(s.closing.Load()) }

// measure looks at the pool's eligible routes; one that lost them no longer waits.
func (m *mark) measure(now int64) {
	p := m.s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w := poolWord(p.word.load())
	if w.serves() {
		r := p.ring.head
		for range min(p.ring.n, pressureScan) {
			rw := routeWord(r.word.load())
			m.oldest = max(m.oldest, r.oldestWait(now))
			m.need += min(rw.waiting(), rw.limit()-rw.inFlight())
			r = r.ringNext
		}
		m.need = min(m.need, int(p.max.Load())-w.size())
	}
	if m.need > 0 {
		return
	}
	m.need, m.oldest = 0, 0
	m.s.b.mu.Lock()
	m.s.b.unlist(m.s)
	m.s.b.mu.Unlock()
}

// reclaim closes what rests on this loop for too long in pools that have nobody to serve.
func (b *budget) reclaim(l *loop) {
	l.marks = l.marks[:0]
	b.mu.Lock()
	keep := b.keep
	if b.need > 0 && b.moves < b.maxMoves {
		for _, s := range b.stakes {
			l.marks = append(l.marks, mark{s: s})
		}
	}
	b.mu.Unlock()
	for _, m := range l.marks {
		p := m.s.pool
		if w := poolWord(p.word.load()); w.eligible() > 0 || w.holders() > 0 {
			continue
		}
		for pl, next := p.idle[l.id].tail, (*Place)(nil); pl != nil && m.s.spares(pl, keep, l.now); pl = next {
			next = pl.prev
			if pl.countsIn(m.s) && !b.reclaimOne(l, pl) {
				break
			}
		}
	}
}

// spares tells whether the pool's idle place has rested for long enough to go to another pool.
func (s *stake) spares(pl *Place, keep int, now int64) bool {
	rested := now - pl.IdleSince
	if rested >= keepIdle || rested < reclaimIdle {
		return rested >= keepIdle
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.places() > keep
}

// countsIn tells whether pl is one of the places of s: on the host, where s is a host's.
func (pl *Place) countsIn(s *stake) bool { return s.host == nil || s == pl.home }

func (b *budget) reclaimOne(l *loop, pl *Place) bool {
	b.mu.Lock()
	ok := b.need > 0 && b.moves < b.maxMoves
	if ok {
		b.need--
		b.moves++
	}
	b.mu.Unlock()
	if !ok {
		return false
	}
	if !pl.pool.takeForClosing(pl) {
		b.notMoved()
		return false
	}
	pl.forCap = b
	l.closeSoon(pl)
	return true
}

// moved ends a move.
func (b *budget) moved() {
	b.mu.Lock()
	b.moves--
	b.mu.Unlock()
}

// notMoved takes back a move that came to nothing; who found no surplus because of it must be asked again.
func (b *budget) notMoved() {
	b.mu.Lock()
	b.moves--
	b.askAll()
	b.mu.Unlock()
}

// moveSurplus counts a move if the budget holds more than a lowered limit allows.
func (b *budget) moveSurplus() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size-b.moves <= b.max {
		return false
	}
	b.moves++
	return true
}

// giveAway closes pl, just released, if a lowered limit or a starving pool wants its place.
func (p *Pool) giveAway(l *loop, pl *Place) bool {
	if !poolWord(p.word.load()).asked() {
		return false
	}
	g := p.give(l, pl)
	if g == givesNot {
		// Who asks sets the bit after it changed what give reads. So look again once it is cleared: no asking is lost.
		p.setBit(poolAsked, false)
		if !mutAskForgotten {
			g = p.give(l, pl)
		}
		if g == givesNot && p.asksElsewhere(l, pl) {
			g = givesLater
		}
		if g != givesNot {
			p.setBit(poolAsked, true)
		}
	}
	return g == givesNow
}

// give closes pl if that is wanted now.
func (p *Pool) give(l *loop, pl *Place) giving {
	if b, surplus := pl.surplus(); surplus {
		pl.forCap = b
		p.close(l, pl)
		return givesNow
	}
	g := givesNot
	for _, s := range pl.home.all {
		switch s.gives(l.now) {
		case givesNow:
			pl.forCap = s.b
			p.close(l, pl)
			return givesNow
		case givesLater:
			g = givesLater
		}
	}
	return g
}

type giving uint8

const (
	givesNot giving = iota
	givesNow
	givesLater
)

// gives decides whether the pool's released place goes to a starving pool, and counts the move.
func (s *stake) gives(now int64) giving {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	g := s.wouldGive(now)
	if g == givesNow {
		b.moves++
	}
	return g
}

// wouldGive is gives without counting. Under the budget's mutex.
func (s *stake) wouldGive(now int64) giving {
	b, deficit := s.b, 0
	for other := b.starve.head; other != nil; other = other.next {
		deficit += max(b.share-other.places(), 0)
	}
	switch {
	case deficit == 0 || s.places() <= b.floor:
		return givesNot
	case s.given != 0 && now-s.given < keepGiven, b.moves >= min(b.maxMoves, deficit):
		return givesLater
	}
	return givesNow
}
