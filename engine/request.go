package engine

// A request asks admission for a permit and a backend: at once on the fast
// path, else it waits, is refused, or fails with the cause why PostgreSQL is
// not to be had. A refusal is only ever produced when nothing is owed to the
// client, outside a block.

import (
	"pgkinetic/admission"
	"pgkinetic/protocol"
)

// request is dispose for the first message of a client that owns no backend.
func (c *client) request(typ byte, m []byte, size int) disposition {
	w := c.w
	c.requestAt = w.now()
	l := c.inspect(typ, m, size)
	if l.refused != nil {
		c.scan = nil
		return c.refuse(typ, l.refused)
	}
	if c.departs() {
		c.leaveAtBoundary()
		return gone
	}
	c.choose(c.classOf(typ, &l))
	if place := c.route.adm.TryRun(w.id); place != nil {
		place.Owner.(*server).link(c)
		return c.begin(typ, m, &l)
	}
	c.scan = nil // it is looked at again when its turn has come
	if e := c.up.pool.unavailable(w.now()); e != nil {
		return c.refuse(typ, e)
	}
	if e := c.enter(clientWaiting); e != nil {
		c.setState(clientIdle)
		return c.refuse(typ, e)
	}
	c.held = true
	return stop
}

// begin is offer for the first message of a request that has just been given a
// backend, which inspect has seen already.
func (c *client) begin(typ byte, m []byte, l *look) disposition {
	if c.srv.await {
		c.scan = nil
		c.held = true
		return stop
	}
	return c.pass(typ, m, l)
}

// enter puts c into its route's queue, in state to (waiting or login wait), or
// tells why not; the caller then undoes the state.
func (c *client) enter(to clientState) *protocol.ErrorFields {
	w := c.w
	c.setState(to)
	wt := w.adm.NewWaiter(w.id)
	wt.Owner = c
	c.waiter = wt
	v := c.route.adm.Enter(w.id, w.now(), wt)
	for v == admission.RouteDead {
		c.chooseAnew()
		v = c.route.adm.Enter(w.id, w.now(), wt)
	}
	if v == admission.Pending {
		c.armTimer()
		return nil
	}
	c.waiter = nil
	w.adm.FreeWaiter(wt)
	if v == admission.ProcessFull {
		return c.processFull()
	}
	return c.overloaded("route queue full")
}

// granted: admission gives c the server s; both are on this loop.
func (c *client) granted(s *server) {
	c.endWait()
	if s.hangup || !s.sock.Alive() { // it has ended on its way to this loop
		s.eof = true
		s.discard(reasonServerGone, "")
		c.askAnew()
		return
	}
	s.link(c)
	// A grant that another loop has caused may overtake the event that tells that c
	// has gone, also one that is given here: the limit that it waited for is freed by
	// any loop. With one loop it cannot (reactor.Loop serves such events first).
	if len(c.w.eng.workers) > 1 && c.sock.HungUp() {
		c.w.dying = append(c.w.dying, c)
	} else {
		c.w.later(c)
	}
}

// askAnew: the server that c was given turned out to have ended before anything was
// sent to it.
func (c *client) askAnew() {
	if c.state == clientLoginWait {
		c.setState(clientLogin)
		c.requestLogin()
		return
	}
	c.setState(clientIdle)
	c.held = false
	c.w.later(c)
}

// refuse answers a request with an error on a session that stays: ERROR and
// ReadyForQuery for a simple request, ERROR and a skip to Sync for an extended
// one, in one write. It returns drop: the message has been dealt with.
func (c *client) refuse(typ byte, e *protocol.ErrorFields) disposition {
	w := c.w
	c.told(e)
	w.answer = protocol.AppendError(w.answer[:0], *e)
	simple := typ == protocol.FrontendQuery || typ == protocol.FrontendFunctionCall
	if simple {
		w.answer = protocol.AppendReadyForQuery(w.answer, 'I')
	}
	c.send(w.answer)
	if c.state >= clientClosing {
		return gone
	}
	if !simple {
		c.setState(clientSkipping)
	}
	return drop
}

// refuseHeld refuses the request that waits at the front of the held input. A
// login that waits ends with it, for reason r.
func (c *client) refuseHeld(r closeReason, e *protocol.ErrorFields) {
	if c.state == clientLoginWait {
		c.fatal(r, e)
		return
	}
	c.setState(clientIdle)
	if c.gathered() {
		c.large = nil
		if c.refuse(protocol.FrontendParse, e) != gone {
			c.w.later(c)
		}
		return
	}
	var head [protocol.HeaderLen]byte
	c.in.CopyTo(head[:])
	typ, size, _ := protocol.PeekFrontend(head[:])
	if c.refuse(typ, e) == gone {
		return
	}
	n := min(size, c.in.Len())
	c.in.Discard(c.w.loop, n)
	c.rest, c.restDrop = int64(size-n), true
	c.w.later(c)
}

// refuseInPlace refuses a message of a linked client (statement mode): at a
// group's start it waits until the answers before it are complete and is then
// refused as a request of its own; inside a group the session cannot go on.
func (c *client) refuseInPlace(e *protocol.ErrorFields) disposition {
	c.scan = nil
	if c.srv.tracker.AtBoundary() && c.srv.tracker.Owed() > 0 {
		c.held = true
		return stop
	}
	c.w.refusal = e
	return exclude
}

// leave takes a waiting client out of its queue without an answer.
func (c *client) leave(o admission.Outcome) {
	if wt := c.waiter; wt != nil {
		c.endWait()
		c.w.adm.Leave(c.w.id, c.w.now(), wt, o)
	}
}

// endWait notes how long c has waited, and for what.
func (c *client) endWait() {
	whole := c.route.stats.waited(c.w.id, c.waiter.Spent(c.w.now()))
	c.traffic.add(trafficWaitTime, uint64(whole))
	c.waiter = nil
}

// shed: the client's place in the queue was taken by a newcomer (on_full).
func (c *client) shed() {
	c.endWait()
	c.refuseHeld(reasonOverload, c.overloaded("shed from the route queue"))
}

// checkoutExpired: the wait has reached its limit. What is told depends on what
// was waited for: a place in a busy pool, or a PostgreSQL that does not answer.
func (c *client) checkoutExpired() {
	wt := c.waiter
	_, connecting := wt.Connecting()
	reason, e := c.checkoutError(c.w.now()-wt.Since, connecting)
	c.leave(admission.TimedOut)
	c.w.stats.timeouts[timeoutCheckout].inc()
	c.refuseHeld(reason, e)
}

// pauseExpired: c has waited for pause_timeout_ms while admission was paused.
func (c *client) pauseExpired() {
	e := c.pauseError(c.w.now() - c.waiter.Since)
	c.leave(admission.TimedOut)
	c.refuseHeld(reasonOverload, e)
}

// cancelWaiting: a CancelRequest for a client that waits.
func (c *client) cancelWaiting() {
	c.leave(admission.Canceled)
	c.refuseHeld(reasonNone, errCanceled)
}

// cancelUnsent: a CancelRequest for a client that owns a backend, but whose
// request still waits for its settings: it must not hit those.
func (c *client) cancelUnsent() {
	s := c.srv
	s.unlink()
	s.startRecovery(triggerCancel)
	c.refuseHeld(reasonNone, errCanceled)
}

var errCanceled = &protocol.ErrorFields{
	Severity: "ERROR", Code: protocol.CodeQueryCanceled,
	Message: "canceling statement due to user request",
}

// statementModeRefusal: what a message shows that statement mode excludes.
func (c *client) statementModeRefusal(l *look) *protocol.ErrorFields {
	switch {
	case l.flags&beginFlags != 0:
		return errStatementModeBlock
	case l.flags&pinFlags != 0:
		return errStatementModeState
	}
	return nil
}
