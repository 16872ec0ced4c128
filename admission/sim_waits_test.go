//go:build sim

package admission

import "slices"

// The simulator's own account of waits: what each waiter did with its time, who was overtaken, and the peaks. The world
// sees a state only between two steps, so what a step hides is checked in worlds that park at every atomic, and what the
// time inside a call blurs in worlds that never park.

// tally is what the world saw of one waiter; queuedAt and order are 0 until it was seen in its queue.
type tally struct {
	still, connect int64
	queuedAt       int // step
	order          int // among all that were queued
}

// run is the unbroken run of pauses that a route is in.
type run struct {
	paused bool
	since  int64
}

func (r *Route) standsStill() bool {
	return routeWord(r.word.v.Load()).paused() || poolWord(r.pool.word.v.Load()).paused()
}

// pass books the time up to next, before the clock moves.
func (w *world) pass(next int64) {
	for _, c := range w.clients {
		x := c.wait
		if c.state != clientPending || x == nil || x.Route == nil {
			continue
		}
		switch {
		case x.state == waiterOpening:
			c.tally.connect += next - w.now
		case x.state == waiterQueued && x.Route.standsStill():
			c.tally.still += next - w.now
		}
	}
}

// watch runs after every step: who is newly in a queue, which queues stand still, which peaks rose.
func (w *world) watch() {
	for _, c := range w.clients {
		if x := c.wait; c.state == clientPending && x != nil {
			w.watchWaiter(c, x)
		}
	}
	for _, r := range w.routes {
		n := routeWord(r.word.v.Load())
		w.reserved[r] = max(w.reserved[r], n.inFlight())
		w.peaks[&r.peakWaiting] = max(w.peaks[&r.peakWaiting], n.waiting())
		if k := w.runs[r]; k.paused != r.standsStill() {
			w.runs[r] = run{!k.paused, w.now}
		}
	}
	for _, p := range w.pools {
		w.peaks[&p.peak] = max(w.peaks[&p.peak], poolWord(p.word.v.Load()).size())
	}
	w.peaks[&w.c.peak] = max(w.peaks[&w.c.peak], int(w.c.waiting.Load()))
}

func (w *world) watchWaiter(c *client, x *Waiter) {
	switch {
	case x.state == waiterQueued && c.tally.order == 0:
		w.queued++
		c.tally.order, c.tally.queuedAt = w.queued, w.steps
	case c.tally.order != 0 && (x.state == waiterClaim || x.state == waiterOpening || x.state == waiterGranted):
		w.checkOrder(c, x)
		c.tally.order = -1
	}
}

// checkOrder: x, which got its permit just now, left nobody in the queue that came more than the slack before it. The
// order of a queue is that of the critical section, which may differ from that of the arrivals by the time inside Enter.
func (w *world) checkOrder(c *client, x *Waiter) {
	head := x.Route.fifo.head
	if c.tally.order <= 0 || head == nil {
		return
	}
	oldest := head.Owner.(*client)
	before := oldest.tally.order > 0 && oldest.tally.queuedAt < c.tally.queuedAt
	if d := x.Since - head.Since; before && d > w.slack {
		fail("a waiter was overtaken by one that came %d ns after it, with a slack of %d", d, w.slack)
	}
}

// checkSpent holds a waiter's own account against the world's; on its loop, or with every loop at rest.
func (w *world) checkSpent(c *client, x *Waiter, now int64) {
	spent := x.Spent(now)
	sum := int64(0)
	for cause, n := range spent {
		if n < 0 {
			fail("a waiter spent %d ns on %v", n, Cause(cause))
		}
		sum += n
		if n > 0 {
			w.drew(Cause(cause).String())
		}
	}
	if sum != now-x.Since {
		fail("a waiter spent %v, which is %d ns, in a wait of %d ns", spent, sum, now-x.Since)
	}
	still, total, since := x.Paused(now)
	if w.park > 0 {
		return
	}
	if total != spent[CausePause] || total != c.tally.still || spent[CauseConnect] != c.tally.connect {
		fail("a waiter spent %v and was paused for %d ns, but stood still for %d and waited for a connect for %d",
			spent, total, c.tally.still, c.tally.connect)
	}
	if still != (x.state == waiterQueued && x.Route.standsStill()) {
		fail("a waiter says that it stands still: %v", still)
	}
	if began := max(w.runs[x.Route].since, x.Since); still && since != began {
		fail("a waiter stands still since %d, but says since %d", began, since)
	}
}

// checkWaits runs whenever no loop is inside a call.
func (w *world) checkWaits() {
	for _, c := range w.clients {
		if x := c.wait; c.state == clientPending && x != nil {
			w.checkSpent(c, x, w.now)
		}
	}
	for _, r := range w.routes {
		w.rested[r] = max(w.rested[r], routeWord(r.word.v.Load()).inFlight())
		if n := r.peakInFlight.load(); n < w.rested[r] {
			fail("a peak in flight of %d, but there were %d", n, w.rested[r])
		}
	}
	if w.park < 1 {
		return
	}
	for k, n := range w.peaks {
		if k.load() != n {
			fail("a peak of %d, but the highest was %d", k.load(), n)
		}
	}
	for r, n := range w.reserved {
		if r.peakInFlight.load() > n { // permits that were rolled back do not count
			fail("a peak in flight of %d, but the highest was %d", r.peakInFlight.load(), n)
		}
	}
	for b, n := range w.capPeak {
		if b.peak != n {
			fail("a host's or cap's peak of %d, but the highest was %d", b.peak, n)
		}
	}
}

// drew notes that a seed came by something, for wantDrawn.
func (w *world) drew(what string) {
	if !slices.Contains(w.drawn, what) {
		w.drawn = append(w.drawn, what)
	}
}
