package engine

// Prepared statements in transaction and statement mode: a client's names are its
// own, a server's are ours, and a statement is parsed on whichever server is to run
// it, once per text (package statements).
//
// State: client.prep, what the client has prepared, nil until its first Parse;
// server.held, the copies that the server has. Owner: the loop of the two.
//
// A message that names a statement goes on under the name of the server's copy,
// with a Parse of ours before it where the server has none; a Parse of a text that
// the server has, and a Close, are answered here, in their place. What is told to
// the two at sending is settled by the tracker's outcomes behind each answer.
//
// Invariants:
//   - a message rests only on what is certain or was sent in its own Sync group;
//     else it is held until the groups before it have ended;
//   - a name in prep.raw exists on the present server as the client calls it, and
//     nowhere else: its client is pinned, and its messages go on as they are.

import (
	"fmt"

	"pgkinetic/engine/session"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// prepared is what one client has prepared.
type prepared struct {
	catalog statements.Catalog
	env     statements.Environment
	envOf   *session.Profile // whose settings env has; nil: those that were in doubt as of doubts
	doubts  uint64
	raw     rawNames

	aloneEnv statements.Environment // of c while it may have temporary tables
	aloneAt  uint64                 // doubts when it was made
	aloneOf  statements.Environment
	portals  []openPortal
}

// openPortal is a portal whose statement does something to the session.
type openPortal struct {
	name      string
	statement *statements.Statement
}

const (
	// wholeParse is the largest Parse that is walked in place; a larger one is
	// gathered first (client_large.go).
	wholeParse = 48 << 10
	// statementBytesFactor: the statements of one client may count for so many times
	// max_client_buffer_bytes.
	statementBytesFactor = 16
	// heldBytes bounds the texts whose copies one server has.
	heldBytes = 64 << 20
	// headMax is room for the head of a message with a name of ours.
	headMax = 64
)

// virtual tells whether c's prepared statements are: in session mode they are its
// backend's.
func (c *client) virtual() bool { return c.up.pool.mode != modeSession }

// keeps tells whether a Parse of that size is kept for c.
func (c *client) keeps(size int) bool {
	return c.virtual() && size <= c.maxIn() && (c.limits.MaxPreparedStatements > 0 || c.prep != nil)
}

// prepares gives what c has prepared, to be written to.
func (c *client) prepares() *prepared {
	if c.prep == nil {
		c.prep = &prepared{}
	}
	return c.prep
}

// catalog is nil for a client that has never prepared anything.
func (c *client) catalog() *statements.Catalog {
	if c.prep == nil {
		return nil
	}
	return &c.prep.catalog
}

// undecided tells that what a message rests on is in flight in an earlier group.
func (s *server) undecided(since uint64) bool { return since != 0 && since < s.groupAt }

// hold keeps the message for later.
func (c *client) hold() disposition {
	c.scan = nil
	c.held = true
	return stop
}

// passParse passes on a Parse of which inspect has found l.
func (c *client) passParse(m []byte, l *look) disposition {
	s := c.srv
	if l.stmt != nil && l.flags&sqllex.Execute != 0 { // its columns are those of what the name is on this server now
		if d := c.readyText(protocol.FrontendExecute, l.flags, l.stmt.Text()); d != take {
			return d
		}
		l.stmt = nil
	}
	if l.stmt == nil { // too large to be kept, malformed, or not tracked
		return c.passOwnName(m, l)
	}
	name, at, _ := protocol.ParseHead(m[protocol.HeaderLen:])
	if len(name) == 0 {
		d := c.passAsIs(protocol.FrontendParse, m, l)
		if d == take || d == takeFlush {
			n := s.tracker.Sent()
			c.prep.catalog.Parse(n, nil, l.stmt)
			s.held.ParseUnnamed(n, l.stmt)
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
	if found.Statement != nil { // it is to be refused as PostgreSQL does: the name is in use on the server, too
		cp, d := c.copyOf(found.Statement)
		if cp == nil {
			return d
		}
		return c.passRenamed(m, cp, at)
	}
	if !c.prep.catalog.Fits(l.stmt, statementBytesFactor*c.limits.MaxClientBufferBytes) {
		return c.failInPlace(protocol.FrontendParse, c.statementsFull())
	}
	cp, since := s.held.Find(l.stmt)
	if s.undecided(since) {
		return c.hold()
	}
	if cp != nil && s.tracker.MayAnswer(protocol.FrontendParse) {
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
	c.evict()
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

// passRenamed passes on a Parse of a name in use.
func (c *client) passRenamed(m []byte, cp *statements.Copy, at int) disposition {
	v := c.srv.tracker.Offer(protocol.FrontendParse, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	c.srv.held.Use(cp, c.srv.tracker.Sent())
	c.sendHead(m, cp, at)
	c.sentOne()
	return sentAs(v)
}

// passOwnName passes on a Parse that cannot be kept: its statement exists on this
// server only, under the client's own name.
func (c *client) passOwnName(m []byte, l *look) disposition {
	name, _, ok := protocol.ParseHead(m[protocol.HeaderLen:])
	if ok && len(name) > 0 && !c.mayPin(pinLargeParse) {
		return c.failInPlace(protocol.FrontendParse, c.pinRefused(pinLargeParse))
	}
	if d := c.expose(name, true); d != take {
		return d
	}
	d := c.passAsIs(protocol.FrontendParse, m, l)
	if d != take && d != takeFlush || !ok {
		return d
	}
	n := c.srv.tracker.Sent()
	switch {
	case len(name) > 0:
		c.addRaw(n, name, false)
		c.pin(pinLargeParse)
	default:
		c.unbound, c.strange = true, false
		c.srv.held.ParseUnnamed(n, nil)
		if c.prep != nil {
			c.prep.catalog.Close(n, nil)
		}
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

// passBind passes on a Bind.
func (c *client) passBind(m []byte, l *look) disposition {
	s := c.srv
	portal, name, at, ok := protocol.BindHead(m[protocol.HeaderLen:])
	if c.rawUndecided(name) {
		return c.hold()
	}
	if !ok || c.isRaw(name) {
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, nil)
	}
	if len(name) == 0 {
		st, d := c.readyUnnamed(protocol.FrontendBind)
		if d != take {
			return d
		}
		c.unbound = false
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, st)
	}
	found := c.catalog().Lookup(name)
	if s.undecided(found.Since) {
		return c.hold()
	}
	if found.Statement == nil {
		return c.boundTo(c.passAsIs(protocol.FrontendBind, m, l), portal, name, nil)
	}
	if c.mustSettle(name) {
		return c.hold()
	}
	first := c.prep.catalog.Unused(name)
	if first {
		c.renew(m, found.Statement, found.Statement.Flags())
	}
	cp, d := c.copyOf(found.Statement)
	if cp == nil {
		return d
	}
	if first {
		c.prep.catalog.FirstUse(name)
	}
	if cp.Since() == 0 {
		c.armRetry(m, found.Statement.Flags(), first)
	}
	v := s.tracker.Offer(protocol.FrontendBind, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	s.held.Use(cp, s.tracker.Sent())
	c.putRun()
	var server [headMax]byte
	rest := m[protocol.HeaderLen+at:]
	size := l.size - protocol.HeaderLen - at
	s.putMade(protocol.AppendBindHead(s.made(headMax+len(portal)), portal, cp.AppendName(server[:0]), size))
	s.put(rest)
	c.sentOne()
	if len(m) == l.size { // else the rest of it comes next
		c.evict()
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
	c.marks.Portal(portal, st.MayCopy())
	if st.Flags()&effectFlags != 0 || len(c.prep.portals) > 0 {
		c.prep.setPortal(portal, st)
	}
	return d
}

// maxOpenPortals bounds the portals of one client that are remembered; what a further
// one does is not seen.
const maxOpenPortals = 64

func (p *prepared) setPortal(name []byte, st *statements.Statement) {
	for i := range p.portals {
		if p.portals[i].name == string(name) {
			p.portals[i].statement = st
			return
		}
	}
	if st.Flags()&effectFlags != 0 && len(p.portals) < maxOpenPortals {
		p.portals = append(p.portals, openPortal{string(name), st})
	}
}

func (p *prepared) portal(name []byte) *statements.Statement {
	if p == nil {
		return nil
	}
	for i := range p.portals {
		if p.portals[i].name == string(name) {
			return p.portals[i].statement
		}
	}
	return nil
}

// copyOf gives the server's copy of a client's statement, with a Parse before the
// message in hand where there is none. nil: d says what becomes of the message.
func (c *client) copyOf(st *statements.Statement) (cp *statements.Copy, d disposition) {
	s := c.srv
	st = c.w.statements.Under(c.environment(), st)
	cp, since := s.held.Find(st)
	if s.undecided(since) {
		return nil, c.hold()
	}
	if cp != nil {
		c.w.stats.prepared[preparedHit].inc()
		return cp, take
	}
	v := protocol.Hold
	if s.tracker.MayInject() {
		v = s.tracker.Prepare()
	}
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return nil, c.notSent(v)
	}
	cp = s.held.Parse(s.tracker.Sent(), st)
	c.putRun()
	var name [headMax]byte
	s.putMade(protocol.AppendParseHead(s.made(headMax), cp.AppendName(name[:0]), len(st.Body())))
	s.put(st.Body())
	if v == protocol.ForwardFlush {
		s.put(flushMessage)
	}
	c.w.stats.prepared[preparedParsed].inc()
	return cp, take
}

// readyUnnamed makes the server's unnamed statement c's, before a message of c that
// uses it. d is take if the message may go on.
func (c *client) readyUnnamed(typ byte) (st *statements.Statement, d disposition) {
	s := c.srv
	found := c.catalog().Lookup(nil)
	has, since := s.held.Unnamed()
	if s.undecided(found.Since) {
		return nil, c.hold()
	}
	if c.unbound {
		return found.Statement, take
	}
	if !s.tracker.MayInject() {
		return nil, c.notSent(protocol.Hold)
	}
	if found.Statement == nil {
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
	st = c.w.statements.Under(c.environment(), found.Statement)
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
	return st, take
}

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
		if _, d := c.readyUnnamed(typ); d != take {
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
	if c.mustSettle(name) {
		return c.hold()
	}
	first := c.prep.catalog.Unused(name)
	if first {
		c.renew(m, found.Statement, 0)
	}
	cp, d := c.copyOf(found.Statement)
	if cp == nil {
		return d
	}
	if first {
		c.prep.catalog.FirstUse(name)
	}
	if cp.Since() == 0 {
		c.armRetry(m, 0, first)
	}
	v := s.tracker.Offer(typ, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	s.held.Use(cp, s.tracker.Sent())
	c.putRun()
	var server [headMax]byte
	s.putMade(protocol.AppendDescribe(s.made(headMax), kind, cp.AppendName(server[:0])))
	c.sentOne()
	c.evict()
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
		s.tracker.Local(protocol.FrontendClose)
		n := s.tracker.Sent()
		c.catalog().Close(n, name)
		return c.answerHere(n, closeComplete)
	}
	d := c.passAsIs(protocol.FrontendClose, m, l)
	if d == take || d == takeFlush {
		n := s.tracker.Sent()
		c.catalog().Close(n, name)
		if len(name) == 0 {
			s.held.CloseUnnamed(n)
		} else {
			c.dropRaw(n, name)
		}
	}
	return d
}

// evict closes copies on the server that are too many, or of no use any more.
func (c *client) evict() {
	s := c.srv
	for {
		id, ok := s.held.NextClose()
		if !ok || !s.tracker.MayInject() || s.tracker.Inject(protocol.FrontendClose) != protocol.Forward {
			return
		}
		s.held.CloseSent(s.tracker.Sent())
		var name [headMax]byte
		s.putMade(protocol.AppendClose(s.made(headMax), protocol.TargetStatement, statements.AppendName(name[:0], id)))
		c.w.stats.prepared[preparedEvicted].inc()
	}
}

// shedCopies closes copies that are still too many when a client's pipeline has been
// answered. true: the server is busy with that.
func (s *server) shedCopies() (busy bool) {
	t := &s.tracker
	busy = s.closeStrays(s.client)
	for t.MayInject() {
		id, ok := s.held.NextClose()
		if !ok || t.Inject(protocol.FrontendClose) != protocol.Forward {
			break
		}
		s.held.CloseSent(t.Sent())
		var name [headMax]byte
		s.w.answer = protocol.AppendClose(s.w.answer[:0], protocol.TargetStatement, statements.AppendName(name[:0], id))
		s.queue(s.w.answer)
		s.w.stats.prepared[preparedEvicted].inc()
		busy = true
	}
	if busy {
		t.Inject(protocol.FrontendSync)
		s.groupAt = t.Sent() + 1
		s.queue(syncMessage)
		s.flush()
	}
	return busy
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
	if !extended {
		t.Inject(protocol.FrontendSync)
		s.put(syncMessage)
		s.groupAt = t.Sent() + 1
	} else if v == protocol.ForwardFlush {
		s.put(flushMessage)
	}
	return n, take
}

// emptyStatement is a Parse's body behind the name: no text, no types.
var emptyStatement = []byte{0, 0, 0}

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

// kinds of what happens to prepared statements.
const (
	preparedParsed  = iota // parsed on a server
	preparedHit            // used where the server had it
	preparedLocal          // a Parse answered here
	preparedEvicted        // closed on a server
	preparedStale          // dropped because its plan or name was no good any more
	preparedKinds
)

var preparedNames = [preparedKinds]string{"parsed", "hit", "answered", "evicted", "stale"}

// effectFlags are those of statements whose execution does something that is
// followed here.
const effectFlags = sqllex.AllFlags &^ sqllex.CopyFromStdin
