package engine

// Writing to a client, and the ways in which a client ends.

import (
	"strings"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

// localAnswerMax bounds one locally made answer (an error with detail and hint).
const localAnswerMax = 2048

// send writes p to the client; what the socket does not take is kept in out. A
// failed write marks the client: the caller's walk ends normally and settle or
// the next event closes it.
func (c *client) send(p []byte) {
	if c.due.n > 0 {
		c.putDue()
		c.put(p)
		c.push()
		return
	}
	c.push()
	c.write([][]byte{p})
}

func (c *client) write(pieces [][]byte) {
	taken, n := 0, total(pieces)
	c.traffic.add(trafficSent, uint64(n))
	if c.out.Len() == 0 {
		var err error
		if taken, err = writeGathered(&c.sock, pieces); err != nil {
			c.failWrite()
			return
		}
		if taken == n {
			return
		}
		c.full()
	}
	if c.reason == reasonNone {
		appendFrom(c.w, &c.out, pieces, taken)
	}
}

// full: the socket takes no more, so that out is used from now on.
func (c *client) full() {
	c.sock.WantWrite(true)
	if c.state < clientClosing { // which has a clock of its own
		c.drainAt, c.drained = c.w.now(), 0
		c.armTimer()
	}
}

// OnUnsent: the socket did not take all that was written in the round. A failure
// is dealt with in an event of its own.
func (c *client) OnUnsent(_ *reactor.Socket, rest []byte, err error) {
	switch {
	case err != nil:
		c.failWrite()
		c.w.loop.Later(&c.sock)
	case !c.reason.gone():
		c.full()
		c.out.Append(c.w.loop, rest)
	}
}

func (c *client) failWrite() {
	if c.reason == reasonNone {
		c.reason = reasonClientGone
		c.out.Release(c.w.loop)
		c.w.dying = append(c.w.dying, c)
	}
}

// flush writes what out holds and, when it has drained, lets its sources go on.
func (c *client) flush() {
	before := c.out.Len()
	if _, err := c.out.WriteTo(&c.sock); err != nil && err != errAgain {
		c.failWrite()
		return
	}
	left := c.out.Len()
	if took := int(c.drained) + before - left; took < drainQuantum {
		c.drained = int32(took)
	} else {
		c.drainAt, c.drained = c.w.now(), 0
	}
	if left == 0 {
		c.drainAt = 0
		c.sock.WantWrite(false)
		c.takeConsole()
	}
	if s := c.srv; s != nil && s.wantRead && s.room() > 0 {
		c.w.loop.Later(&s.sock)
	}
	if c.held && !c.outputHigh() {
		c.w.later(c)
	}
}

// drainQuantum is what a client must take within client_write_timeout_ms.
const drainQuantum = 64 << 10

// outputHigh: so much waits for the client that it gets no new checkout and no
// locally made answers.
func (c *client) outputHigh() bool {
	return c.out.Len() > 0 && c.out.Len() > c.limits.MaxBackendBufferBytes/2-localAnswerMax
}

// sendError writes an ErrorResponse made here.
func (c *client) sendError(e *protocol.ErrorFields) {
	c.told(e)
	c.w.answer = protocol.AppendError(c.w.answer[:0], *e)
	c.send(c.w.answer)
}

// sendReady writes a ReadyForQuery made here.
func (c *client) sendReady(status byte) {
	c.w.answer = protocol.AppendReadyForQuery(c.w.answer[:0], status)
	c.send(c.w.answer)
}

// violation: the client broke the protocol. Answers before it are given first.
func (c *client) violation(typ byte, err error) {
	if c.state == clientLinked && c.srv.tracker.Busy() {
		c.held = true
		return
	}
	c.fatal(reasonClientProtocol, violationError(typ, err))
}

// fatal tells the client why it ends, as a FATAL error, and closes it.
func (c *client) fatal(r closeReason, e *protocol.ErrorFields) {
	if c.state >= clientClosing {
		return
	}
	f := *e
	f.Severity = "FATAL"
	if c.srv != nil && c.srv.rest > 0 && !c.srv.restSwal {
		c.close(r) // half a message was passed on: no word fits there
		return
	}
	c.told(&f)
	c.w.answer = protocol.AppendError(c.w.answer[:0], f)
	c.send(c.w.answer)
	if c.reason == reasonNone {
		c.reason = r
	}
	if c.state < clientIdle {
		c.countRefused()
		if r != reasonAuthFailed { // of that there is a line already
			c.logRefused(&f)
		}
	}
	c.part()
	c.beginLinger()
}

// countRefused counts a login that is not let in.
func (c *client) countRefused() {
	switch {
	case c.traffic.tally != nil:
		c.traffic.inc(trafficRefused)
	case c.auth != nil:
		c.w.eng.registry.traffic.refused(routing.Tenant{Database: c.auth.database, User: c.auth.user}, c.w.id)
	}
}

// logRefused writes one line about a login that was refused.
func (c *client) logRefused(e *protocol.ErrorFields) {
	if !c.w.eng.logsConnections() {
		return
	}
	database, user := "", ""
	switch {
	case c.up != nil:
		database, user = c.up.pool.key.database, c.up.tenant.User
	case c.auth != nil:
		database, user = c.auth.database, c.auth.user // as the client says
	}
	c.w.log.Info("login refused", "client", c.id, "address", c.address(), "database", database, "user", user,
		"cause", c.reason.String(), "sqlstate", e.Code, "message", strings.Clone(e.Message)) // a log may keep it
}

// close ends the client without a word.
func (c *client) close(r closeReason) {
	if c.state == clientGone {
		return
	}
	if c.reason == reasonNone {
		c.reason = r
	}
	c.part()
	c.vanish()
}

// part separates the client from whatever it holds: its backend goes to
// recovery, its place in a queue is given up.
func (c *client) part() {
	c.push()
	if s := c.srv; s != nil {
		s.recover(c)
	}
	c.unpin(pinReason)
	c.leaveConsole()
	if c.waiter != nil {
		o := admission.Disconnected
		if c.reason == reasonDraining {
			o = admission.Drained
		}
		c.leave(o)
	}
	c.in.Release(c.w.loop)
	c.scan, c.judge, c.large = nil, nil, nil
	c.rest, c.held, c.wantRead = 0, false, false
}

// beginLinger closes after the last message has been taken: the write side is
// shut, what still comes is read and dropped until the peer closes, at most for
// a second, so that unread input does not turn our FATAL into a reset.
func (c *client) beginLinger() {
	if c.reason.gone() {
		c.vanish()
		return
	}
	c.setState(clientClosing)
	c.w.loop.Wheel().Schedule(&c.timer, c.w.now()+lingerTime)
	c.lingerWrite()
	c.w.loop.Later(&c.sock) // reads only in an event of its own: the scratch may be in use
}

const lingerTime = 1e9

func (c *client) linger(ev reactor.Events) {
	if ev&reactor.Hangup != 0 {
		c.vanish()
		return
	}
	if !c.lingerWrite() {
		c.vanish()
		return
	}
	for range 16 {
		n, err := c.sock.Read(c.w.loop.Scratch())
		if err == errAgain {
			return
		}
		if err != nil || n == 0 {
			c.vanish()
			return
		}
	}
	c.w.loop.Later(&c.sock)
}

// lingerWrite writes what is left and then shuts the write side.
func (c *client) lingerWrite() bool {
	c.sock.Flush()
	if c.out.Len() > 0 {
		if _, err := c.out.WriteTo(&c.sock); err != nil && err != errAgain {
			return false
		}
	}
	if c.out.Len() > 0 {
		c.sock.WantWrite(true)
		return true
	}
	return c.sock.ShutdownWrite() == nil
}

// vanish frees everything; the client is not to be touched again.
func (c *client) vanish() {
	w := c.w
	c.setState(clientGone)
	w.loop.Wheel().Cancel(&c.timer)
	c.in.Release(w.loop)
	c.out.Release(w.loop)
	c.unlistenAll()
	c.sock.Close()
	w.forget(c)
}
