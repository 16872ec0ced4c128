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
//
// What becomes of each message: prepared_parse.go, prepared_bind.go,
// prepared_target.go (Describe, Close), prepared_raw.go, prepared_idle.go.

import (
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
	passing  bool // the unnamed statement, where it is not kept, was bound in its own group: no reason to stay
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
	return c.virtual() && size <= c.maxIn() && c.limits.MaxPreparedStatements > 0
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

// copyOf gives the server's copy of a client's statement, with a Parse before the
// message in hand where there is none. nil: d says what becomes of the message.
func (c *client) copyOf(st *statements.Statement) (cp *statements.Copy, d disposition) {
	s := c.srv
	if d = c.readyColumns(st); d != take {
		return nil, d
	}
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
	c.traffic.inc(trafficServerParses)
	return cp, take
}

// readyColumns makes exist what an EXECUTE names, before a message that fixes the
// columns of st. d is take if the message may go on.
func (c *client) readyColumns(st *statements.Statement) (d disposition) {
	if st.Flags()&sqllex.Execute == 0 {
		return take
	}
	d = c.readyText(protocol.FrontendExecute, st.Flags(), st.Text())
	if d == take {
		c.pin(pinSQLPrepare) // what was made to exist is on this server only
	}
	return d
}

// copyToUse is copyOf for message m, which uses the statement that was found, with
// these flags where m executes it: an old plan is not met where that can be helped
// (retry.go).
func (c *client) copyToUse(m []byte, found statements.Found, flags sqllex.Flags) (cp *statements.Copy, d disposition) {
	first := found.Unused()
	if first {
		if c.mustSettle() {
			return nil, c.hold()
		}
		c.renew(m, found.Statement, flags)
	}
	if cp, d = c.copyOf(found.Statement); cp == nil {
		return nil, d
	}
	found.Use()
	if cp.Since() == 0 {
		c.armRetry(m, flags, first)
	}
	return cp, take
}

// uses notes that the message sent last needs a copy, under a name of the client's.
func (c *client) uses(cp *statements.Copy, found statements.Found) {
	t := &c.srv.tracker
	c.srv.held.Use(cp, t.Sent())
	c.prep.catalog.Use(t.Sent(), t.Done(), found)
}

// evict puts Closes of copies that are too many, or of no use any more.
func (s *server) evict() (any bool) {
	for s.tracker.MayInject() {
		id, ok := s.held.NextClose()
		if !ok || s.tracker.Inject(protocol.FrontendClose) != protocol.Forward {
			break
		}
		s.held.CloseSent(s.tracker.Sent())
		var name [headMax]byte
		s.putMade(protocol.AppendClose(s.made(headMax), protocol.TargetStatement, statements.AppendName(name[:0], id)))
		s.w.stats.prepared[preparedEvicted].inc()
		any = true
	}
	return any
}

// shedCopies closes what is still too much when a client's pipeline has been
// answered. true: the server is busy with that.
func (s *server) shedCopies() (busy bool) {
	strays := s.closeStrays(s.client)
	busy = s.evict() || strays
	if busy {
		s.tracker.Inject(protocol.FrontendSync)
		s.groupAt = s.tracker.Sent() + 1
		s.put(syncMessage)
		s.push()
	}
	return busy
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
