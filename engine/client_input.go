package engine

// Walking a client's messages: what is forwarded to its backend, what is
// answered here, what is dropped, and where the walk must stop.
//
// Frames are walked in place; a run of forwarded messages goes to the backend
// in one write. Nothing is ever forwarded in part unless the message is larger
// than protocol.SmallMessage, so that a client that vanishes cannot leave half a
// small message on a backend.

import (
	"bytes"

	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// disposition is what becomes of one client message.
type disposition uint8

const (
	take      disposition = iota // forward it
	takeFlush                    // forward it, then a Flush of ours
	sent                         // it has been put, in another form
	sentFlush                    // so it has, and a Flush of ours is to follow
	drop                         // it has been answered, or needs no answer
	stop                         // not now: it stays held
	leave                        // it is a Terminate: what came before it goes out, then the client leaves
	exclude                      // statement mode excludes it: as leave, with c.w.refusal
	gone                         // the client was closed; nothing before it was taken
)

func indexNUL(p []byte) int { return bytes.IndexByte(p, 0) }

// consume walks p, which starts at a message boundary or inside the rest of a
// large message, and returns how many bytes it has dealt with. p is valid only
// during the call: what was passed on has been pushed when it returns.
func (c *client) consume(p []byte) int {
	switch c.state {
	case clientStartup:
		return c.consumeStartup(p)
	case clientAuth:
		return c.consumeAuth(p)
	case clientConsole:
		return c.consumeConsole(p)
	}
	used := 0
	if c.gathered() && len(p) == 0 {
		c.gather(nil)
	} else {
		used = c.walk(p)
	}
	c.w.pushServer()
	c.w.pushClient()
	return used
}

func (c *client) walk(p []byte) int {
	i, run := 0, 0
	for i < len(p) {
		if c.large != nil {
			n, done := c.gather(p[i:])
			if i += n; !done {
				return i
			}
			run = i
			continue
		}
		if c.rest > 0 {
			n := int(min(c.rest, int64(len(p)-i)))
			i, run = c.passRest(p, i, run, n)
			continue
		}
		typ, size, err := protocol.PeekFrontend(p[i:])
		if err == protocol.ErrShort {
			break
		}
		if err != nil {
			c.forward(p[run:i])
			c.violation(typ, err)
			return i
		}
		n := min(size, len(p)-i)
		if c.mustGather(typ, size) {
			c.forward(p[run:i])
			run = i
			c.large = make([]byte, 0, size)
			continue
		}
		if n < size && c.awaitsWhole(typ, size, n) {
			break
		}
		c.w.ahead, c.w.run = p[i+n:], p[run:i]
		d := c.dispose(typ, p[i:i+n], size)
		if c.w.run == nil { // it has been put, and something behind it
			run = i
		}
		if d >= stop {
			c.endWalk(d, p[run:i])
			return i
		}
		i, run = c.passed(d, p, i, run, n, size)
	}
	c.forward(p[run:i])
	return i
}

// awaitsWhole tells whether a message of which n bytes are here is to be looked at
// when more of it is: a request asks for admission when so much is here, whatever
// the network has cut.
func (c *client) awaitsWhole(typ byte, size, n int) bool {
	return size <= protocol.SmallMessage || c.state == clientIdle && n < protocol.SmallMessage ||
		typ == protocol.FrontendParse && c.keeps(size)
}

// passed moves over a message that has been dealt with in way d: its first n bytes
// lie at p[i], what is before it from run on is still to be forwarded.
func (c *client) passed(d disposition, p []byte, i, run, n, size int) (int, int) {
	c.rest, c.restDrop = int64(size-n), d == drop
	flush := d == takeFlush || d == sentFlush
	switch {
	case d == drop:
		c.forward(p[run:i])
	case d == take, d == takeFlush && c.rest > 0:
		c.flushDue = c.flushDue || flush
		return i + n, run
	case d == takeFlush:
		c.forward(p[run : i+n])
	}
	if flush && c.rest > 0 {
		c.flushDue = true
	} else if flush {
		c.forward(flushMessage)
	}
	return i + n, i + n
}

// endWalk ends a walk at a message that is not dealt with now; run is what is before
// it.
func (c *client) endWalk(d disposition, run []byte) {
	if d == gone {
		return
	}
	c.forward(run) // the server's tracker has counted it
	switch d {
	case leave:
		c.close(reasonClientTerminate)
	case exclude:
		c.fatal(reasonStatementMode, c.w.refusal)
	}
}

// passRest moves over n bytes of the large message in transit.
func (c *client) passRest(p []byte, i, run, n int) (int, int) {
	if c.restDrop {
		c.forward(p[run:i])
		i += n
		run = i
	} else {
		if c.scan != nil {
			c.scan.feed(p[i : i+n])
		}
		i += n
	}
	c.rest -= int64(n)
	if c.rest > 0 {
		return i, run
	}
	if c.flushDue {
		c.flushDue = false
		c.forward(p[run:i])
		run = i
		c.forward(flushMessage)
	}
	if c.scan != nil {
		flags := c.scan.lex.End().Flags
		c.scan = nil
		c.executedUnseen(flags)
	}
	return i, run
}

func (c *client) forward(p []byte) {
	if len(p) > 0 && c.srv != nil {
		c.srv.put(p)
	}
}

// dispose decides about one message; m is what of it is here (all of it unless
// it is larger than SmallMessage), size its whole length.
func (c *client) dispose(typ byte, m []byte, size int) disposition {
	if c.listening() {
		return c.hold()
	}
	switch c.state {
	case clientLinked:
		return c.offer(typ, m, size)
	case clientIdle:
		return c.disposeIdle(typ, m, size)
	case clientSkipping:
		return c.disposeSkipping(typ)
	}
	return stop
}

func (c *client) disposeIdle(typ byte, m []byte, size int) disposition {
	switch typ {
	case protocol.FrontendTerminate:
		c.close(reasonClientTerminate)
		return gone
	case protocol.FrontendFlush:
		c.putDue()
		return drop
	case protocol.FrontendCopyData, protocol.FrontendCopyDone, protocol.FrontendCopyFail:
		return drop
	}
	if c.outputHigh() {
		c.held = true
		return stop
	}
	if typ == protocol.FrontendSync && size == protocol.HeaderLen {
		c.sendReady('I')
		return drop
	}
	if c.answerIdle(typ, m, size) {
		return drop
	}
	return c.request(typ, m, size)
}

func (c *client) disposeSkipping(typ byte) disposition {
	switch typ {
	case protocol.FrontendTerminate:
		c.close(reasonClientTerminate)
		return gone
	case protocol.FrontendSync:
		c.setState(clientIdle)
		c.sendReady('I')
	}
	return drop
}

// offer is dispose for a client that owns a backend.
func (c *client) offer(typ byte, m []byte, size int) disposition {
	s := c.srv
	t := &s.tracker
	if typ == protocol.FrontendTerminate {
		if t.Busy() {
			c.held = true // it takes effect after the answers before it
			return stop
		}
		return leave
	}
	if s.await || c.listening() || !s.fresh && t.Owed() > 0 && t.AtBoundary() && (c.mustYield(t) || c.mustWait()) {
		c.held = true
		return stop
	}
	l := c.inspect(typ, m, size)
	if l.refused != nil {
		return c.refuseInPlace(l.refused)
	}
	return c.pass(typ, m, &l)
}

// pass gives a message that inspect has seen to the backend, as far as the
// tracker allows.
func (c *client) pass(typ byte, m []byte, l *look) disposition {
	d := c.passOn(typ, m, l)
	if c.w.slow.after > 0 && d <= sentFlush {
		c.remember(typ, m, l)
	}
	switch {
	case d >= stop:
	case typ == protocol.FrontendBind:
		c.traffic.inc(trafficBinds)
	case typ == protocol.FrontendParse:
		c.traffic.inc(trafficParses)
		if d != drop {
			c.traffic.inc(trafficServerParses)
		}
	}
	return d
}

func (c *client) passOn(typ byte, m []byte, l *look) disposition {
	switch typ {
	case protocol.FrontendQuery:
		return c.passQuery(m, l)
	case protocol.FrontendExecute:
		return c.passExecute(m, l)
	}
	if c.virtual() {
		switch typ {
		case protocol.FrontendParse:
			return c.passParse(m, l)
		case protocol.FrontendBind:
			return c.passBind(m, l)
		case protocol.FrontendDescribe, protocol.FrontendClose:
			return c.passTarget(typ, m, l)
		}
	}
	return c.passAsIs(typ, m, l)
}

// passAsIs passes on a message as the client has sent it.
func (c *client) passAsIs(typ byte, m []byte, l *look) disposition {
	s := c.srv
	v := s.tracker.Offer(typ, l.mayCopy)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	if typ == protocol.FrontendSync || typ == protocol.FrontendQuery || typ == protocol.FrontendFunctionCall {
		s.groupAt = s.tracker.Sent() + 1
	}
	if typ == protocol.FrontendFunctionCall {
		s.unseen = s.unseen || c.limits.ResetCheck
	}
	c.note(typ, m, l)
	c.sentOne()
	if typ == protocol.FrontendFlush && s.tracker.Owed() == 0 {
		c.putDue()
	}
	if v == protocol.ForwardFlush {
		return takeFlush
	}
	return take
}

// notSent is what becomes of a message that the tracker does not let pass.
func (c *client) notSent(v protocol.Verdict) disposition {
	if v == protocol.Drop {
		c.scan = nil
		c.recheck = c.recheck || c.pins&pinsChecked != 0 // it may have begun one
		return drop
	}
	return c.hold()
}

// sentAs is what becomes of a message that was put in another form.
func sentAs(v protocol.Verdict) disposition {
	if v == protocol.ForwardFlush {
		return sentFlush
	}
	return sent
}

// sentOne: something of the client's is on its way.
func (c *client) sentOne() {
	s := c.srv
	s.fresh = false
	if s.cycleAt == 0 {
		c.requestAt = c.w.now()
		s.beginCycle(c.requestAt)
	}
}

// putRun puts what is to be forwarded before the message in hand, so that something
// may follow it.
func (c *client) putRun() {
	c.forward(c.w.run)
	c.w.run = nil
}

// mustYield: a further Sync group must wait for the answers before it, because
// somebody eligible waits for the backend (permits are per request), a pause or a
// lowered limit wants it back, or c is to go.
func (c *client) mustYield(t *protocol.Tracker) bool {
	return c.pins == 0 && t.Status() == 'I' && (c.srv.place.Wanted() || c.departs())
}

// look is what a message shows about itself.
type look struct {
	sql     []byte                // the text of a whole Query
	stmt    *statements.Statement // of a Parse that is kept
	size    int                   // of the whole message
	flags   sqllex.Flags
	class   sqllex.Class
	refused *protocol.ErrorFields
	mayCopy bool
	named   bool // a Parse with a statement name
}

// inspect decodes the few message types that matter. m may be only the first
// part of a large message: then the text is lexed while it streams through, and
// until its end is seen it may be a COPY.
func (c *client) inspect(typ byte, m []byte, size int) (l look) {
	body := m[protocol.HeaderLen:]
	whole := len(m) == size
	l.size = size
	switch typ {
	case protocol.FrontendQuery:
		if whole {
			l.sql = body[:max(len(body)-1, 0)]
			l.text(l.sql)
		} else {
			l.part(c.startScan(body, 0))
		}
	case protocol.FrontendParse:
		name, sql, ok := protocol.ParseMessage(body)
		l.named = !ok || len(name) > 0
		if whole && ok && c.keeps(size) {
			l.stmt = c.w.statements.Statement(c.environment(), body[len(name)+1:])
		}
		if l.stmt != nil {
			l.lexed(l.stmt.Lexed())
		} else if whole && ok {
			l.text(sql)
		} else {
			l.part(c.startScan(body, 1))
			l.flags = sqllex.CopyFromStdin
		}
	case protocol.FrontendExecute:
		portal, ok := protocol.ExecutePortal(body)
		l.mayCopy = !ok || c.marks.Execute(portal)
	}
	if c.up.pool.mode == modeStatement {
		l.refused = c.statementModeRefusal(&l)
	}
	return l
}

// text notes what a whole statement text shows.
func (l *look) text(sql []byte) {
	l.lexed(sqllex.Scan(sql))
}

func (l *look) lexed(r sqllex.Result) {
	l.flags, l.class = r.Flags, r.Class
	l.mayCopy = r.Flags&sqllex.CopyFromStdin != 0
}

// part notes what the beginning of a text shows whose rest is still to come.
func (l *look) part(s *streamScanner) {
	l.class = s.lex.Class()
	l.mayCopy = true
}

func (c *client) startScan(body []byte, skip int) *streamScanner {
	c.scan = &streamScanner{skip: skip}
	c.scan.lex.Reset()
	c.scan.feed(body)
	return c.scan
}

// note keeps what a message that is forwarded as it is means for pins and COPY
// marks; m may be the first part of a large message.
func (c *client) note(typ byte, m []byte, l *look) {
	body := m[protocol.HeaderLen:]
	switch typ {
	case protocol.FrontendSync:
		if c.unbound {
			c.unbound = false
			if c.up.pool.mode != modeStatement { // there it ends with its group
				c.pin(pinLargeParse)
			}
		}
	case protocol.FrontendParse:
		name, _, _ := protocol.ParseMessage(body)
		c.marks.Parse(name, l.mayCopy)
		switch {
		case l.stmt != nil:
		case l.flags&effectFlags&^pinFlags != 0 && c.virtual(): // when it is executed is not seen
			c.executedUnseen(l.flags)
		default:
			c.pin(pinsOf(l.flags))
		}
	case protocol.FrontendBind, protocol.FrontendClose:
		if c.virtual() {
			return
		}
		if typ == protocol.FrontendBind {
			portal, stmt, _ := protocol.BindNames(body)
			c.marks.Bind(portal, stmt)
			return
		}
		kind, name, _ := protocol.CloseTarget(body)
		c.marks.Close(kind, name)
	}
}
