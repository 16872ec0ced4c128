package engine

// What a client is told whose request finds no room, or has waited too long: an
// error on a session that stays, with the figures and a hint when to come back.
// Under overload this is what a loop does most, so a refusal allocates nothing.
//
// Owner: a worker's words are its loop's; each refusal takes them over from the
// one before.

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"pgkinetic/protocol"
)

// labelMax bounds a route's name in an error, so that a locally made answer stays
// within localAnswerMax.
const labelMax = 256

// words is where a worker makes an overload error.
type words struct {
	fields protocol.ErrorFields // its texts lie in text
	text   []byte
}

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
// what was full. It is valid until the next one of c's loop.
func (c *client) overloaded(what string) *protocol.ErrorFields { return c.overload(what, false) }

// processFull is the refusal of a request that finds the process's queue full.
func (c *client) processFull() *protocol.ErrorFields { return c.overload("process queue full", true) }

func (c *client) overload(what string, process bool) *protocol.ErrorFields {
	k := &c.w.words
	t := append(append(k.text[:0], "pg-kinetic: "...), what...)
	message := len(t)
	if process {
		e := c.w.eng
		t = appendPair(append(t, "process: "...), e.adm.Waiting(), " waiting of ", e.settings.Load().cfg.Capacity.MaxCheckoutWaiters, "; ")
	}
	t = c.route.appendFigures(t)
	detail := len(t)
	t = append(strconv.AppendInt(append(t, "retry after "...), c.retryAfterMs(), 10), " ms"...)
	k.text = t
	all := unsafe.String(unsafe.SliceData(t), len(t)) // as long as nobody takes k over
	k.fields = protocol.ErrorFields{
		Severity: "ERROR", Code: c.limits.OverloadErrorCode,
		Message: all[:message], Detail: all[message:detail], Hint: all[detail:],
	}
	return &k.fields
}

// appendFigures says how full a route and its pool are.
func (rt *route) appendFigures(dst []byte) []byte {
	r := rt.adm.Counts()
	dst = append(append(append(dst, "route "...), shown(rt.label)...), ": "...)
	dst = appendPair(dst, r.InFlight, " of ", r.Limit, " in flight, ")
	dst = appendPair(dst, r.Waiting, " of ", r.MaxWaiters, " waiting; ")
	return rt.pool.appendFigures(dst)
}

// appendFigures names the pool and says how full it is.
func (p *pool) appendFigures(dst []byte) []byte {
	a := p.adm.Counts()
	dst = append(append(append(append(dst, "pool "...), p.key.database...), '/'), p.key.user...)
	dst = appendPair(append(dst, ": "...), a.Size, " of ", a.Max, " backends, ")
	return appendPair(dst, a.Used, " in use, ", a.Waiting, " waiting")
}

func appendPair(dst []byte, a int, between string, b int, behind string) []byte {
	dst = append(strconv.AppendInt(dst, int64(a), 10), between...)
	return append(strconv.AppendInt(dst, int64(b), 10), behind...)
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
	if cause := p.backing.Load().cause(); cause != nil && p.live() == 0 {
		return reasonConnectFailed, answerOf(cause)
	}
	if connecting && p.live() == 0 {
		return reasonConnectTimeout, &protocol.ErrorFields{
			Severity: "ERROR", Code: protocol.CodeConnectionFailure,
			Message: fmt.Sprintf("no connection to PostgreSQL at %s after %d ms", p.host().name, waited/ms),
		}
	}
	return reasonOverload, c.overloaded(fmt.Sprintf("checkout timed out after %d ms; %s", waited/ms, p.appendFigures(nil)))
}

// pauseError words the end of a wait while admission is paused.
func (c *client) pauseError(waited int64) *protocol.ErrorFields {
	return c.overloaded(fmt.Sprintf("paused by an administrator: waited %d ms (pause_timeout_ms)", waited/ms))
}
