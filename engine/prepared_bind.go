package engine

// Bind: sent under the name of the server's copy, behind a Parse where it has none.
//
// State: prep.portals, what the portals of the present transaction execute, where
// that does something to the session. Owner: the client's loop. Invariant: a portal
// that is not in the list does nothing that is followed, or is one of the rest.

import (
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// passBind passes on a Bind.
func (c *client) passBind(m []byte, l *look) disposition {
	s := c.srv
	portal, name, at, ok := protocol.BindHead(m[protocol.HeaderLen:])
	if c.rawUndecided(name) {
		return c.hold()
	}
	if !ok || c.isRaw(name) { // it is the same statement as c's, if c has one
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, c.catalog().Lookup(name).Statement)
	}
	if len(name) == 0 {
		st, d := c.readyUnnamed()
		if d != take {
			return d
		}
		if c.unbound {
			c.unbound, c.prep.passing = false, true
		}
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, st)
	}
	found := c.catalog().Lookup(name)
	if s.undecided(found.Since) {
		return c.hold()
	}
	if found.Statement == nil {
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, nil)
	}
	cp, d := c.copyToUse(m, found, found.Statement.Flags())
	if cp == nil {
		return d
	}
	v := s.tracker.Offer(protocol.FrontendBind, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	c.uses(cp, found)
	c.putRun()
	var server [headMax]byte
	rest := m[protocol.HeaderLen+at:]
	size := l.size - protocol.HeaderLen - at
	s.putMade(protocol.AppendBindHead(s.made(headMax+len(portal)), portal, cp.AppendName(server[:0]), size))
	s.put(rest)
	c.sentOne()
	if len(m) == l.size { // else the rest of it comes next
		s.evict()
	}
	return c.boundTo(sentAs(v), portal, name, found.Statement)
}

// boundTo notes of a portal what its statement is; st is nil if that is not known.
func (c *client) boundTo(d disposition, portal, name []byte, st *statements.Statement) disposition {
	switch d {
	case take, takeFlush, sent, sentFlush:
	default:
		return d
	}
	if st == nil {
		c.marks.Bind(portal, name)
		return d
	}
	if c.w.slow.after > 0 {
		c.srv.rememberBound(st)
	}
	c.marks.Portal(portal, st.MayCopy())
	if st.Flags()&effectFlags != 0 || len(c.prep.portals) > 0 {
		c.prep.setPortal(portal, st)
	}
	return d
}

// openPortal is a portal whose statement does something to the session, or, the last
// in the list and without a statement, all those beyond maxOpenPortals.
type openPortal struct {
	name      string
	statement *statements.Statement
	rest      sqllex.Flags
}

// maxOpenPortals bounds the portals of one client whose statements are remembered.
// Of further ones only the flags are, all together.
const maxOpenPortals = 64

func (p *prepared) setPortal(name []byte, st *statements.Statement) {
	known := p.portals[:min(len(p.portals), maxOpenPortals)]
	for i := range known {
		if known[i].name == string(name) {
			known[i].statement = st
			return
		}
	}
	switch flags := st.Flags() & effectFlags; {
	case flags == 0:
	case len(p.portals) < maxOpenPortals:
		p.portals = append(p.portals, openPortal{name: string(name), statement: st})
	case len(p.portals) == maxOpenPortals:
		p.portals = append(p.portals, openPortal{rest: flags})
	default:
		p.portals[maxOpenPortals].rest |= flags
	}
}

// portal gives the statement of a portal, if it is remembered; unseen are flags that
// it may have else.
func (p *prepared) portal(name []byte) (st *statements.Statement, unseen sqllex.Flags) {
	if p == nil {
		return nil, 0
	}
	for i := range p.portals {
		if i == maxOpenPortals {
			return nil, p.portals[i].rest
		}
		if p.portals[i].name == string(name) {
			return p.portals[i].statement, 0
		}
	}
	return nil, 0
}

// readyUnnamed makes the server's unnamed statement c's, before a message of c that
// uses it. d is take if the message may go on.
func (c *client) readyUnnamed() (st *statements.Statement, d disposition) {
	s := c.srv
	found := c.catalog().Lookup(nil)
	has, since := s.held.Unnamed()
	if s.undecided(found.Since) {
		return nil, c.hold()
	}
	st = found.Statement
	if st != nil && !st.Kept() {
		if !c.strange {
			return nil, take // it is there
		}
		st = nil
	}
	if !s.tracker.MayInject() {
		return nil, c.notSent(protocol.Hold)
	}
	if st == nil {
		if c.strange {
			c.strange = false
			if s.tracker.Inject(protocol.FrontendClose) == protocol.Forward {
				s.held.CloseUnnamed(s.tracker.Sent())
				c.putRun()
				s.put(closeUnnamed)
			}
		}
		return nil, take
	}
	if d = c.readyColumns(st); d != take {
		return nil, d
	}
	st = c.w.statements.Under(c.environment(), st)
	if has == st {
		if s.undecided(since) {
			return nil, c.hold()
		}
		return st, take
	}
	v := s.tracker.Prepare()
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return nil, c.notSent(v)
	}
	s.held.ParseUnnamed(s.tracker.Sent(), st)
	c.strange = false
	c.putRun()
	s.putMade(protocol.AppendParseHead(s.made(headMax), "", len(st.Body())))
	s.put(st.Body())
	if v == protocol.ForwardFlush {
		s.put(flushMessage)
	}
	c.traffic.inc(trafficServerParses)
	return st, take
}
