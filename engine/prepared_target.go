package engine

// Describe of a statement: as Bind. Close of a statement: answered here, but for what
// exists on the server under the client's own name.
//
// State: none of its own (prepared.go).

import "pgkinetic/protocol"

// passTarget passes on a Describe or Close.
func (c *client) passTarget(typ byte, m []byte, l *look) disposition {
	s := c.srv
	kind, name, ok := protocol.DescribeTarget(m[protocol.HeaderLen:])
	if ok && kind == protocol.TargetPortal && typ == protocol.FrontendClose {
		d := c.passAsIs(typ, m, l)
		if d == take || d == takeFlush {
			c.marks.Close(kind, name)
		}
		return d
	}
	if !ok || kind != protocol.TargetStatement {
		return c.passAsIs(typ, m, l)
	}
	if typ == protocol.FrontendClose {
		return c.passClose(m, l, name)
	}
	if len(name) == 0 {
		if _, d := c.readyUnnamed(); d != take {
			return d
		}
		return c.passAsIs(typ, m, l)
	}
	found := c.catalog().Lookup(name)
	if s.undecided(found.Since) || c.rawUndecided(name) {
		return c.hold()
	}
	if found.Statement == nil || c.isRaw(name) {
		return c.passAsIs(typ, m, l)
	}
	cp, d := c.copyToUse(m, found, 0)
	if cp == nil {
		return d
	}
	v := s.tracker.Offer(typ, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	c.uses(cp, found)
	c.putRun()
	var server [headMax]byte
	s.putMade(protocol.AppendDescribe(s.made(headMax), kind, cp.AppendName(server[:0])))
	c.sentOne()
	s.evict()
	return sentAs(v)
}

// passClose answers a Close of a named statement here, and passes on that of the
// unnamed one and of those that exist on this server only.
func (c *client) passClose(m []byte, l *look, name []byte) disposition {
	s := c.srv
	if c.rawUndecided(name) {
		return c.hold()
	}
	if len(name) > 0 && !c.isRaw(name) && s.tracker.MayAnswer(protocol.FrontendClose) {
		if c.outputHigh() {
			return c.hold()
		}
		if st := c.catalog().Lookup(name).Statement; st != nil && st.Own() {
			s.held.Drop(st) // nobody else will use it
			c.putRun()
			s.evict()
		}
		s.tracker.Local(protocol.FrontendClose)
		n := s.tracker.Sent()
		c.catalog().Close(n, name)
		return c.answerHere(n, closeComplete)
	}
	d := c.passAsIs(protocol.FrontendClose, m, l)
	if d == take || d == takeFlush {
		n := s.tracker.Sent()
		if len(name) == 0 {
			c.replacesUnnamed()
			s.held.CloseUnnamed(n)
		} else {
			c.dropRaw(n, name)
		}
		c.catalog().Close(n, name)
	}
	return d
}
