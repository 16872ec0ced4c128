package engine

// What a client is told whose request finds no room, or has waited too long: an
// error on a session that stays, with the figures and a hint when to come back.

import (
	"fmt"
	"math/rand/v2"
	"unicode/utf8"

	"pgkinetic/protocol"
)

// labelMax bounds a route's name in an error, so that a locally made answer stays
// within localAnswerMax.
const labelMax = 256

// shown is a label cut to labelMax bytes, but not inside a character: errors are
// UTF-8.
func shown(label string) string {
	if len(label) <= labelMax {
		return label
	}
	n := labelMax
	for n > labelMax-utf8.UTFMax && !utf8.RuneStart(label[n]) {
		n--
	}
	return label[:n]
}

// overloaded is the refusal of a request of c on its present route. what names
// what was full.
func (c *client) overloaded(what string) *protocol.ErrorFields {
	rt := c.route
	r := rt.adm.Counts()
	return &protocol.ErrorFields{
		Severity: "ERROR", Code: c.limits.OverloadErrorCode,
		Message: "pg-kinetic: " + what,
		Detail: fmt.Sprintf("route %s: %d of %d in flight, %d of %d waiting; %s",
			shown(rt.label), r.InFlight, r.Limit, r.Waiting, r.MaxWaiters, rt.pool.figures()),
		Hint: fmt.Sprintf("retry after %d ms", c.retryAfterMs()),
	}
}

// processFull is the refusal of a request that finds the process's queue full.
func (c *client) processFull() *protocol.ErrorFields {
	e := c.w.eng
	f := c.overloaded("process queue full")
	f.Detail = fmt.Sprintf("process: %d waiting of %d; %s",
		e.adm.Waiting(), e.settings.Load().cfg.Capacity.MaxCheckoutWaiters, f.Detail)
	return f
}

// retryAfterMs is the route's estimate, within reason, with a jitter of a quarter
// so that those who are refused together do not come back together.
func (c *client) retryAfterMs() int64 {
	most := int64(c.limits.CheckoutTimeoutMs)
	est := min(max(c.route.retryAfterMs(c.w.now()), min(retryMinMs, most)), most)
	return est + rand.Int64N(est/4+1)
}

const retryMinMs = 10

// checkoutError words the end of c's wait, and tells as what it counts for a
// login.
func (c *client) checkoutError(waited int64, connecting bool) (closeReason, *protocol.ErrorFields) {
	p := c.up.pool
	if cause := p.host.state.Cause(); cause != nil && p.live() == 0 {
		return reasonConnectFailed, answerOf(cause)
	}
	if connecting && p.live() == 0 {
		return reasonConnectTimeout, &protocol.ErrorFields{
			Severity: "ERROR", Code: protocol.CodeConnectionFailure,
			Message: fmt.Sprintf("no connection to PostgreSQL at %s after %d ms", p.host.name, waited/ms),
		}
	}
	return reasonOverload, c.overloaded(fmt.Sprintf("checkout timed out after %d ms; %s", waited/ms, p.figures()))
}

// pauseError words the end of a wait while admission is paused.
func (c *client) pauseError(waited int64) *protocol.ErrorFields {
	return c.overloaded(fmt.Sprintf("paused by an administrator: waited %d ms (pause_timeout_ms)", waited/ms))
}
