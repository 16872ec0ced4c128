package engine

// A client's clocks. One timer per client serves all of them, lazily: the hot
// path writes timestamps only; when the timer fires, the earliest deadline of
// the present state is computed from them and the timer is set again.

import (
	"math"

	"pgkinetic/reaper"
)

type timeoutKind uint8

const (
	timeoutCheckout timeoutKind = iota
	timeoutPause
	timeoutQuery
	timeoutTransaction
	timeoutIdleClient
	timeoutIdleTransaction
	timeoutIdlePin
	timeoutClientWrite
	timeoutClientStall
	timeoutLogin
	timeoutConnect
	timeoutRecovery
	timeoutKinds

	// timeoutAnswer is no time-out: the answer to a wrong proof has been held back.
	timeoutAnswer = timeoutKinds
)

const (
	never = int64(math.MaxInt64)
	ms    = int64(1e6)
	// copyStallFactor: inside COPY IN a client may think longer.
	copyStallFactor = 10
)

// earliest collects the nearest of several deadlines.
type earliest struct {
	at   int64
	kind timeoutKind
}

func (e *earliest) add(kind timeoutKind, since, limitMs int64) {
	if limitMs <= 0 {
		return
	}
	if at := since + limitMs*ms; at < e.at {
		e.at, e.kind = at, kind
	}
}

// deadline gives the nearest deadline of c's state.
func (c *client) deadline() earliest {
	e := earliest{at: never}
	w := c.w
	if c.state < clientIdle {
		e.add(timeoutLogin, c.since, int64(w.eng.server().LoginTimeoutMs))
	}
	if c.state == clientAuth && c.auth.away == awayDelay && c.auth.answerAt < e.at {
		e.at, e.kind = c.auth.answerAt, timeoutAnswer
	}
	l := c.limits
	if l == nil {
		return e
	}
	if c.drainAt != 0 {
		e.add(timeoutClientWrite, c.drainAt, int64(l.ClientWriteTimeoutMs))
	}
	switch c.state {
	case clientLoginWait, clientWaiting:
		c.waitDeadline(&e)
	case clientIdle, clientSkipping:
		if w.suspended == suspendedNot && !c.wantRead { // else it may have sent something
			e.add(timeoutIdleClient, c.since, int64(l.IdleClientTimeoutMs))
		}
	case clientLinked:
		if w.suspended == suspendedNot {
			c.linkedDeadlines(&e)
		}
	}
	return e
}

// waitDeadline: the checkout clock of a waiting client stands still while
// admission to its route is paused; another clock runs meanwhile.
func (c *client) waitDeadline(e *earliest) {
	paused, total, since := c.waiter.Paused(c.w.now())
	if paused {
		e.add(timeoutPause, since, int64(c.limits.PauseTimeoutMs))
		return
	}
	e.add(timeoutCheckout, c.waiter.Since+total, c.up.pool.checkoutLimitMs(c.limits))
}

// linkedDeadlines: exactly one of three is true for a client that owns a
// backend: PostgreSQL works (query clock), the client owes bytes (stall clock),
// or the client thinks (idle clocks).
func (c *client) linkedDeadlines(e *earliest) {
	s := c.srv
	t := &s.tracker
	l := c.limits
	if s.xactAt != 0 {
		e.add(timeoutTransaction, s.xactAt, int64(l.TransactionTimeoutMs))
	}
	switch {
	case s.cancelled:
		e.add(timeoutQuery, s.cancelAt, int64(l.RecoveryTimeoutMs))
	case s.cycleAt != 0 && t.Busy(): // not while the client thinks after an answered Flush
		e.add(timeoutQuery, s.cycleAt, int64(l.QueryTimeoutMs))
	}
	if t.Busy() && c.rest == 0 || c.wantRead || s.out.Len() > 0 {
		return // what the client has sent is yet to be read, or to be taken by PostgreSQL
	}
	since := max(c.since, s.waitAt)
	switch {
	case c.rest > 0 || c.in.Len() > 0 && !c.held:
		e.add(timeoutClientStall, since, int64(l.ClientStallTimeoutMs))
	case t.InCopyIn():
		e.add(timeoutClientStall, since, copyStallFactor*int64(l.ClientStallTimeoutMs))
	case t.ClientOwes() && !t.FlushAnswered():
		e.add(timeoutClientStall, since, int64(l.ClientStallTimeoutMs))
	case t.ClientOwes() || t.Status() != 'I':
		e.add(timeoutIdleTransaction, since, int64(l.IdleTransactionTimeoutMs))
	default:
		e.add(timeoutIdleClient, since, int64(l.IdleClientTimeoutMs))
		if c.pins&pinReason != 0 {
			e.add(timeoutIdlePin, since, int64(l.IdlePinTimeoutMs))
		}
	}
}

// armTimer makes sure that the timer fires no later than the present deadline.
func (c *client) armTimer() {
	at := c.deadline().at
	if c.state == clientWaiting || c.state == clientLoginWait {
		// The host may cease to answer while c waits, which shortens its wait.
		at = min(at, c.waiter.Since+c.up.pool.failLimit())
	}
	if at != never {
		c.w.loop.Wheel().ScheduleBefore(&c.timer, at)
	}
}

// queryExpired cancels the query on the server, whose 57014 then passes to the
// client; a cancel that has no effect ends the session.
func (c *client) queryExpired() {
	s := c.srv
	if s.cancelled {
		c.fatal(reasonQueryTimeout, errQueryTimeout)
		return
	}
	s.cancelled, s.cancelAt = true, c.w.now()
	c.w.cancels.start(s, nil)
}

// Fire is the client's timer.
func (c *client) Fire(now int64) (next int64) {
	if c.state == clientClosing {
		c.vanish()
		return 0
	}
	e := c.deadline()
	if e.at > now {
		return e.next(now)
	}
	c.expired(e.kind)
	c.w.drainTodo()
	if c.state >= clientClosing {
		return 0
	}
	return c.deadline().next(now)
}

// next is the deadline as a timer wants it: 0 for none, never in the past.
func (e earliest) next(now int64) int64 {
	if e.at == never {
		return 0
	}
	return max(e.at, now+reaper.Tick)
}

func (c *client) expired(kind timeoutKind) {
	if kind != timeoutCheckout && kind != timeoutAnswer {
		c.w.stats.timeouts[kind].inc()
	}
	switch kind {
	case timeoutAnswer:
		c.answerRefused()
	case timeoutLogin:
		c.fatal(reasonLoginTimeout, errLoginTimeout)
	case timeoutCheckout:
		c.checkoutExpired()
	case timeoutPause:
		c.pauseExpired()
	case timeoutQuery:
		c.queryExpired()
	case timeoutTransaction:
		c.fatal(reasonTransactionTimeout, errTransactionTimeout)
	case timeoutIdleTransaction:
		c.fatal(reasonIdleTransaction, errIdleTransaction)
	case timeoutIdleClient:
		c.fatal(reasonIdleClient, errIdleClient)
	case timeoutIdlePin:
		c.fatal(reasonIdlePin, errIdlePin)
	case timeoutClientWrite:
		c.fatal(reasonClientWrite, errClientWrite)
	case timeoutClientStall:
		c.fatal(reasonClientStall, errClientStall)
	}
}
