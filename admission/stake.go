package admission

import "sync/atomic"

// stake is what a pool has to do with one of its budgets. Owner: the budget's mutex, but for what is fixed (b, pool, host,
// all) and closing, an atomic.
type stake struct {
	b          *budget
	pool       *Pool
	host       *Host        // whose budget it is; nil for a cap
	all        []*stake     // of a host's: everything in which a place there counts: it, the database's, the user's
	held       int          // places of the pool that count here
	closing    atomic.Int32 // of them, those that are being closed
	past       bool         // of a host that is not the pool's present one
	credit     int          // places of the budget that are this pool's to open
	given      int64        // ns, when a starving pool was last given a place; it gives none for a second
	starving   bool         // below its share for too long: waits in starve as long as it is below
	where      *stakeList
	next, prev *stake
}

type stakeList struct{ head, tail *stake }

func (l *stakeList) push(s *stake) {
	s.where, s.prev, s.next = l, l.tail, nil
	if l.tail == nil {
		l.head = s
	} else {
		l.tail.next = s
	}
	l.tail = s
}

func (l *stakeList) remove(s *stake) {
	if s.prev == nil {
		l.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.where, s.next, s.prev = nil, nil, nil
}

func (b *budget) join(s *stake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stakes = append(b.stakes, s)
}

func (b *budget) leave(s *stake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlist(s)
	for i, other := range b.stakes {
		if other == s {
			b.stakes = append(b.stakes[:i:i], b.stakes[i+1:]...)
			return
		}
	}
}

func (b *budget) unlist(s *stake) {
	if s.where != nil {
		s.where.remove(s)
		b.waiters.Add(-1)
	}
}

// next takes the pool that a free place is due to off the lists.
func (b *budget) next(now int64) *stake {
	s := b.starve.head
	if s != nil {
		s.given = now
	} else if s = b.want.head; s == nil {
		return nil
	}
	b.unlist(s)
	return s
}

// take counts one more place of the pool here, or lists the pool as waiting. wait is false for a place that nobody
// waits for.
func (s *stake) take(wait bool) bool {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.credit > 0 {
		s.credit--
		s.held++
		return true
	}
	if b.size < b.max {
		b.grow()
		s.held++
		return true
	}
	if !wait || s.where != nil {
		return false
	}
	s.starving = s.starving && s.places() < b.share
	if s.starving {
		b.starve.push(s)
	} else {
		b.want.push(s)
	}
	b.waiters.Add(1)
	return false
}

func (b *budget) grow() {
	b.size++
	b.peak = max(b.peak, b.size)
}

// put takes one place of the pool out of the count, or makes it the credit of the next waiting pool, which the caller
// must wake.
func (s *stake) put(l *loop) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.held--
	s.b.pass(l)
}

func (b *budget) pass(l *loop) {
	if b.size <= b.max && !mutNoPass {
		if s := b.next(l.now); s != nil {
			s.credit++
			l.wakes = append(l.wakes, s.pool)
			return
		}
	}
	b.size--
}

// reserve counts one more place of p on its present host, in the order host, database, user; or nothing, and then p waits,
// if wait, for the first that refused.
func (p *Pool) reserve(l *loop, wait bool) bool {
	for i, s := range p.home.all {
		if s.take(wait) {
			continue
		}
		for _, taken := range p.home.all[:i] {
			taken.put(l)
		}
		return false
	}
	return true
}

// unreserve takes a place on the host of home out of what it counts in.
func (home *stake) unreserve(l *loop) {
	for _, s := range home.all {
		s.put(l)
	}
}

// wake schedules a pool that was given a credit and passes on what it had no use for.
func (p *Pool) wake(l *loop) {
	p.mu.Lock()
	p.schedule(l, nil)
	for _, s := range p.home.all {
		s.passCredit(l)
	}
	for _, s := range p.former {
		s.passCredit(l)
	}
	p.mu.Unlock()
}

// passCredit gives up what the pool has no use for.
func (s *stake) passCredit(l *loop) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for s.credit > 0 {
		s.credit--
		s.b.pass(l)
	}
}
