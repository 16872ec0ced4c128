package engine

// Parse: answered here where the server has the text; else sent, under the name of
// a new copy. One that cannot be kept is sent as it is, and its client pinned; so are
// the statements that SQL names (expose).
//
// State: none of its own (prepared.go, prepared_raw.go).

import (
	"fmt"

	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
)

// emptyStatement is a Parse's body behind the name: no text, no types.
var emptyStatement = []byte{0, 0, 0}

// passParse passes on a Parse of which inspect has found l.
func (c *client) passParse(m []byte, l *look) disposition {
	s := c.srv
	if l.stmt == nil { // too large to be kept, malformed, or not tracked
		return c.passOwnName(m, l)
	}
	if d := c.readyColumns(l.stmt); d != take {
		return d
	}
	name, at, _ := protocol.ParseHead(m[protocol.HeaderLen:])
	if len(name) == 0 {
		d := c.passAsIs(protocol.FrontendParse, m, l)
		if d == take || d == takeFlush {
			c.parsedUnnamed(l.stmt)
		}
		return d
	}
	if c.rawUndecided(name) {
		return c.hold()
	}
	if c.isRaw(name) {
		return c.passAsIs(protocol.FrontendParse, m, l)
	}
	found := c.prep.catalog.Lookup(name)
	if s.undecided(found.Since) {
		return c.hold()
	}
	if found.Statement != nil {
		return c.passNameInUse(m, found, at)
	}
	if !c.prep.catalog.Fits(l.stmt, statementBytesFactor*c.limits.MaxClientBufferBytes) {
		return c.failInPlace(protocol.FrontendParse, c.statementsFull())
	}
	cp, since := s.held.Find(l.stmt)
	if s.undecided(since) {
		return c.hold()
	}
	if cp != nil && s.tracker.MayAnswer(protocol.FrontendParse) {
		if c.outputHigh() {
			return c.hold()
		}
		s.tracker.Local(protocol.FrontendParse)
		n := s.tracker.Sent()
		s.held.Use(cp, n)
		c.prep.catalog.Parse(n, name, l.stmt)
		return c.answerHere(n, parseComplete)
	}
	v := s.tracker.Offer(protocol.FrontendParse, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	n := s.tracker.Sent()
	cp = s.held.Parse(n, l.stmt)
	c.prep.catalog.Parse(n, name, l.stmt)
	c.sendHead(m, cp, at)
	c.w.stats.prepared[preparedParsed].inc()
	c.sentOne()
	s.evict()
	return sentAs(v)
}

// sendHead sends a Parse under the name of a copy; m's body goes on from at.
func (c *client) sendHead(m []byte, cp *statements.Copy, at int) {
	s := c.srv
	c.putRun()
	var name [headMax]byte
	rest := m[protocol.HeaderLen+at:]
	s.putMade(protocol.AppendParseHead(s.made(headMax), cp.AppendName(name[:0]), len(rest)))
	s.put(rest)
}

// passNameInUse passes on a Parse of a name that has a statement, which the server
// is to refuse: there it has the name of that one's copy.
func (c *client) passNameInUse(m []byte, found statements.Found, at int) disposition {
	s := c.srv
	cp, d := c.copyOf(found.Statement)
	if cp == nil {
		return d
	}
	v := s.tracker.Offer(protocol.FrontendParse, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	c.uses(cp, found)
	c.sendHead(m, cp, at)
	c.sentOne()
	return sentAs(v)
}

// parsedUnnamed notes that a Parse of the unnamed statement has been sent.
func (c *client) parsedUnnamed(st *statements.Statement) {
	c.replacesUnnamed()
	n := c.srv.tracker.Sent()
	p := c.prepares()
	p.passing = false
	p.catalog.Parse(n, nil, st)
	c.srv.held.ParseUnnamed(n, st)
	c.strange = false
}

// replacesUnnamed: an unnamed statement that was not kept is no reason to stay here
// any more.
func (c *client) replacesUnnamed() {
	c.recheck = c.recheck || c.unkept()
}

// unkept tells that c stays on its server for an unnamed statement that is there only.
func (c *client) unkept() bool {
	if c.pins&pinLargeParse == 0 || c.prep == nil || c.prep.passing {
		return false
	}
	st := c.prep.catalog.Lookup(nil).Statement
	return st != nil && !st.Kept()
}

// passOwnName passes on a Parse that cannot be kept: its statement exists on this
// server only, under the client's own name.
func (c *client) passOwnName(m []byte, l *look) disposition {
	name, _, ok := protocol.ParseHead(m[protocol.HeaderLen:])
	if ok && len(name) > 0 && (!c.mayPin(pinLargeParse) || !c.pin(pinLargeParse)) {
		return c.failInPlace(protocol.FrontendParse, c.pinRefused(pinLargeParse))
	}
	if d := c.expose(name, true); d != take {
		return d
	}
	d := c.passAsIs(protocol.FrontendParse, m, l)
	if d != take && d != takeFlush || !ok {
		return d
	}
	switch {
	case len(name) > 0:
		c.addRaw(c.srv.tracker.Sent(), name, false)
		c.pin(pinLargeParse)
	default:
		c.unbound = true
		c.parsedUnnamed(statements.Unkept)
	}
	return d
}

// expose makes a statement of c's, if it has one of this name, exist on its server
// under that name, for a message that PostgreSQL itself is to resolve.
func (c *client) expose(name []byte, extended bool) disposition {
	st, d := c.mentioned(name)
	if st == nil {
		return d
	}
	n, d := c.materialise(name, st.Body(), extended)
	if n != 0 {
		c.addRaw(n, name, false)
	}
	return d
}

// mentioned gives c's statement of a name that PostgreSQL itself is to resolve. nil:
// with d take the message may go on as it is, since c has none, or it exists on the
// server under that name.
func (c *client) mentioned(name []byte) (st *statements.Statement, d disposition) {
	if c.rawUndecided(name) {
		return nil, c.hold()
	}
	if len(name) == 0 || c.isRaw(name) {
		return nil, take
	}
	found := c.catalog().Lookup(name)
	if c.srv.undecided(found.Since) {
		return nil, c.hold()
	}
	return found.Statement, take
}

// materialise makes a name of c's exist on its server as c calls it, with this
// body, ahead of the message in hand, which names it: a text in a Query (extended
// is false), a Parse or an Execute. d is take if the message may go on; n is the
// number of the Parse, 0 if none was sent.
func (c *client) materialise(name, body []byte, extended bool) (n uint64, d disposition) {
	s := c.srv
	t := &s.tracker
	if !t.MayInject() {
		return 0, c.hold()
	}
	var v protocol.Verdict
	if alone := !extended && t.AtBoundary(); alone {
		v = t.Inject(protocol.FrontendParse)
		extended = false
	} else {
		v = t.Prepare()
		extended = true
	}
	switch v {
	case protocol.Drop:
		return 0, take
	case protocol.Hold, protocol.Full:
		return 0, c.hold()
	}
	n = t.Sent()
	c.putRun()
	s.putMade(protocol.AppendParseHead(s.made(headMax+len(name)), name, len(body)))
	s.put(body)
	c.traffic.inc(trafficServerParses)
	if !extended {
		t.Inject(protocol.FrontendSync)
		s.put(syncMessage)
		s.groupAt = t.Sent() + 1
	} else if v == protocol.ForwardFlush {
		s.put(flushMessage)
	}
	return n, take
}

// statementsFull is what a client is told whose prepared statements take too much.
func (c *client) statementsFull() *protocol.ErrorFields {
	return &protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeProgramLimitExceeded,
		Message: "pg-kinetic: the prepared statements of this session take too much memory",
		Detail: fmt.Sprintf("%d statements, %d bytes; at most %d bytes (%d x max_client_buffer_bytes)", c.prep.catalog.Len(),
			c.prep.catalog.Bytes(), statementBytesFactor*c.limits.MaxClientBufferBytes, statementBytesFactor),
		Hint: "Close statements that are not used any more, or raise max_client_buffer_bytes.",
	}
}
