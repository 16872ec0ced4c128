package admission

// State: a Waiter, one request between Route.Enter and its end.
//
// Owner: the loop w.loop (its engine and its free list); its state and links belong to the critical section of its
// route's pool, except where no other loop can refer to it (free, and granted on its own loop with no ask abroad).
//
// Where a waiter may be, and what counts it:
//   free     on its loop's free list, or in the engine's hands between NewWaiter and Enter; counted nowhere
//   queued   in its route's queue (all loops) and in the queue of its loop; counted in waiting
//   claim    holds a permit and one unit of used for some idle place; in the pool's claims; its ask travels
//   opening  holds a permit; waits for the connect of w.place (w.place.holder == w); in the pool's openings
//   granted  holds a permit with w.place, which travels to it
//   shed     counted nowhere; the message that tells its loop travels
//   gone     left by the engine, or linked, while messages still refer to it: its ask (abroad), the notice that it was
//            shed, its grant (place is set until that arrives); recycled when none is left
// It leaves queued, claim and opening only in the critical section, so each waiter ends exactly once.

type waiterState uint8

const (
	waiterFree waiterState = iota
	waiterQueued
	waiterClaim
	waiterOpening
	waiterGranted
	waiterShed
	waiterGone
)

// Waiter is one request that waits for a permit or a backend. It comes from Controller.NewWaiter and is recycled by
// admission once it ended.
type Waiter struct {
	Owner any    // the engine's
	Route *Route // set by Enter
	Since int64  // ns, set by Enter

	loop   int32
	state  waiterState
	cause  Cause // why it waits (cause.go)
	abroad bool  // msg travels as an ask
	told   bool  // its loop knows its end: nobody else touches it any more
	slot   int   // index in the route's slots, for DropRandom
	place  *Place
	links  [2]waiterLinks

	spent     [Causes]int64
	mark      int64 // ns, up to which spent is booked
	stillThen int64 // ns, for how long the route had stood still when w was queued

	msg     Message
	nextOwn *Waiter // free list
}

// Loop is the loop whose waiter this is.
func (w *Waiter) Loop() int { return int(w.loop) }

// Connecting tells whether w holds a permit and waits for a connect, and which. Called on w's loop; the answer may be
// outdated at once by a backend that another loop hands to w, in which case Link follows.
func (w *Waiter) Connecting() (*Place, bool) {
	if w.Route == nil {
		return nil, false
	}
	p := w.Route.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.state != waiterOpening {
		return nil, false
	}
	return w.place, true
}

type waiterLinks struct{ next, prev *Waiter }

// Which links a list uses. A waiter is in at most one list of each kind.
const (
	byRoute = iota // its route's queue, or the pool's claims or openings
	byLoop         // its route's queue of its loop
)

// waiterList is a first-in first-out list; every operation is O(1).
type waiterList struct {
	head, tail *Waiter
	n          int
}

func (l *waiterList) push(w *Waiter, by int) {
	w.links[by] = waiterLinks{prev: l.tail}
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.links[by].next = w
	}
	l.tail = w
	l.n++
}

func (l *waiterList) remove(w *Waiter, by int) {
	k := w.links[by]
	if k.prev == nil {
		l.head = k.next
	} else {
		k.prev.links[by].next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		k.next.links[by].prev = k.prev
	}
	w.links[by] = waiterLinks{}
	l.n--
}

// NewWaiter takes a waiter from loop's free list. It is the caller's until Enter answers Pending; a refused one may be
// entered again or given back with FreeWaiter.
func (c *Controller) NewWaiter(loop int) *Waiter {
	l := &c.loops[loop]
	w := l.free
	if w == nil {
		w = &Waiter{loop: int32(loop)}
		w.msg.w = w
		l.made.Add(1)
		return w
	}
	l.free, w.nextOwn = w.nextOwn, nil
	l.spare.Add(-1)
	return w
}

// FreeWaiter gives back a waiter that is not pending, on its loop.
func (c *Controller) FreeWaiter(w *Waiter) {
	must(w.state == waiterFree, "a pending waiter given back")
	c.loops[w.loop].recycle(w)
}

// recycle runs on w's loop, when nothing refers to w any more.
func (l *loop) recycle(w *Waiter) {
	w.state, w.Owner, w.Route, w.place = waiterFree, nil, nil, nil
	w.nextOwn, l.free = l.free, w
	l.spare.Add(1)
}

// finish ends w for admission, on its loop: at once, or when its ask is back.
func (l *loop) finish(w *Waiter) {
	if !w.abroad {
		l.recycle(w)
		return
	}
	p := w.Route.pool
	p.mu.Lock()
	w.state, w.Owner = waiterGone, nil
	p.mu.Unlock()
}
