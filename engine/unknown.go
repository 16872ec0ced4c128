package engine

// Clients that have not proved who they are: how many there may be, and whom a
// newcomer displaces when there are that many, so that strangers cannot keep users
// out.
//
// Owner: the worker has the list, in the order of arrival; the count is the
// process's. Invariant: a client is in its worker's list and in the count, or in
// neither (counted).

import "pgkinetic/engine/reactor"

const (
	// unknownGrace is what a client has at least to prove who it is: whoever has had
	// less is not displaced.
	unknownGrace = 1000 * ms
	// acceptsUnderWay is how many the acceptor lets in above the limit: a worker
	// decides whether they stay.
	acceptsUnderWay = 64
)

type unknownList struct{ first, last *client }

func (l *unknownList) add(c *client) {
	c.counted = true
	c.before, c.behind = l.last, nil
	if l.last != nil {
		l.last.behind = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *unknownList) remove(c *client) {
	if c.before != nil {
		c.before.behind = c.behind
	} else {
		l.first = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	} else {
		l.last = c.before
	}
	c.counted, c.before, c.behind = false, nil, nil
}

// admitSocket counts a new socket in, unless there are far too many.
func (e *Engine) admitSocket() bool {
	n, most := e.unauthenticated.Add(1), int64(e.server().MaxUnauthenticated)
	if n > most+acceptsUnderWay {
		e.unauthenticated.Add(-1)
		return false
	}
	raise(&e.peakUnknown, min(n, most))
	return true
}

// makeRoom is for a newcomer that has been counted: if there are too many, the
// oldest of this loop has to go, if its time was long enough.
func (w *worker) makeRoom() bool {
	if w.eng.unauthenticated.Load() <= int64(w.eng.server().MaxUnauthenticated) {
		return true
	}
	oldest := w.unknown.first
	if oldest == nil || w.now()-oldest.since < unknownGrace {
		return false
	}
	oldest.close(reasonDisplaced)
	return true
}

// turnAway closes a newcomer that has been counted, unseen.
func (w *worker) turnAway(fd int, r closeReason) {
	reactor.CloseFD(fd)
	w.eng.unauthenticated.Add(-1)
	w.stats.closed[r].inc()
}

// known takes a client out of the count: it has proved who it is, or is gone.
func (w *worker) known(c *client) {
	if c.counted {
		w.unknown.remove(c)
		w.eng.unauthenticated.Add(-1)
	}
}
