package admission

import "sync/atomic"

// State: a Place, one of a pool's places, and the idle places of a pool on one loop.
//
// Owner: the loop p.loop while idle, used or closing; the pool's critical section while reserved (queued, connecting,
// failed) as far as holder goes; the free list of the pool afterwards.
// Invariants: a place is in exactly one of these states; size counts all but free ones, used counts all but idle ones
// plus the claims (holders of a permit that were promised some idle place): idle = size − used + claims. A place is on
// its loop's idle list, and counted in idle.published, before the CAS that frees it, and leaves them after the CAS that
// takes it: whoever was promised an idle place finds one published.

type placeState uint8

const (
	placeFree       placeState = iota
	placeQueued                // reserved, waits for a connect slot of its host (in the host's queue)
	placeConnecting            // has a connect slot: Open was called or travels
	placeFailed                // reserved, its last attempt failed, the engine will Retry or GiveUp
	placeIdle                  // on its loop's idle list
	placeUsed                  // a request runs on it, or it travels to its request, or it is set aside
	placeClosing               // claimed while idle or just released; its socket is being closed
)

// Place is one backend's place in its pool. Admission makes it and gives it to the engine with Driver.Open; the
// engine's backend hangs on Owner. After Closed, GiveUp, a Failed or Retry that answered false, and Died, the engine
// must not refer to it any more.
type Place struct {
	Owner any // the engine's; nil at Open

	pool    *Pool
	home    *stake  // of the host on which it is, or is to be, opened
	route   *Route  // the permit's route while a request owns the place
	holder  *Waiter // queued, connecting, failed: who waits for this connect, if anybody
	loop    int32
	state   placeState
	warm    bool    // opened ahead, for the pool's own sake
	aged    bool    // put back: it rests with the age that it had
	givenUp bool    // failed for good: freed as soon as its holder is gone
	forCap  *budget // closing for this budget's sake: counted in its moves

	IdleSince  int64  // ns, set when it became idle
	next, prev *Place // idle list, connect queue, free list
	msg        Message
}

// Loop is the loop that owns p.
func (p *Place) Loop() int { return int(p.loop) }

// Host is the host on which p was reserved. Called on p's loop.
func (p *Place) Host() *Host { return p.home.host }

// Pool is the pool whose place this is.
func (p *Place) Pool() *Pool { return p.pool }

// Route is the route whose permit p carries, nil when it carries none. Called on p's loop.
func (p *Place) Route() *Route { return p.route }

// Idle tells whether p is idle. Called on p's loop.
func (p *Place) Idle() bool { return p.state == placeIdle }

// Ahead tells whether p is being opened for the pool's own sake (Controller.Warm). Called on p's loop.
func (p *Place) Ahead() bool { return p.warm }

// Holder is the waiter that waits for this connect, nil if it was served otherwise or left. Called on p's loop, where
// the waiter lives too.
func (p *Place) Holder() *Waiter {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return p.holder
}

// Wanted tells whether giving p back now would run somebody else, or close it, or bring a pause or a lowered limit
// nearer: the engine then holds the next pipelined group back instead of letting it ride on the same permit. Two loads;
// called on p's loop.
func (p *Place) Wanted() bool {
	return p.pool.HasEligible() || p.route != nil && !routeWord(p.route.word.load()).carries()
}

// idleList holds a pool's idle places on one loop, newest first.
type idleList struct {
	head, tail *Place
	n          int32
	published  atomic.Int32 // n, for the other loops
	cursor     *Place       // the next one of EachIdle
	_          [32]byte     // one cache line per loop
}

func (l *idleList) push(p *Place) { l.insert(p, nil) }

// pushAged puts p where its age belongs. It looks from the oldest end, where such places come from.
func (l *idleList) pushAged(p *Place) {
	newer := l.tail
	for newer != nil && newer.IdleSince < p.IdleSince {
		newer = newer.prev
	}
	l.insert(p, newer)
}

// insert puts p behind newer, or first.
func (l *idleList) insert(p, newer *Place) {
	next := &l.head
	if newer != nil {
		next = &newer.next
	}
	p.prev, p.next = newer, *next
	if p.next == nil {
		l.tail = p
	} else {
		p.next.prev = p
	}
	*next = p
	l.n++
	yield()
	l.published.Store(l.n)
}

func (l *idleList) remove(p *Place) {
	if l.cursor == p {
		l.cursor = p.prev
	}
	if p.prev == nil {
		l.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.next, p.prev = nil, nil
	l.n--
	yield()
	l.published.Store(l.n)
}

// placeList is a first-in first-out list of places over the same links.
type placeList struct{ head, tail *Place }

func (l *placeList) push(p *Place) {
	p.prev, p.next = l.tail, nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.next = p
	}
	l.tail = p
}

func (l *placeList) remove(p *Place) {
	if p.prev == nil {
		l.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.next, p.prev = nil, nil
}
