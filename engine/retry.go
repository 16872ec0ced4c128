package engine

// Plans gone stale: a use of a copy fails on its server because its tables have
// changed (0A000) or because something there has taken it away (26000). Where
// nobody can tell the difference, the group is sent once more, behind a new Parse;
// else the error passes, and the next use works. This is one of the two allowed
// differences from PostgreSQL.
//
// The group is sent again only if it was a transaction of its own (the status was
// idle and nothing else is owed), what failed was its first message for the server
// and used a copy that was there before, and the client learns the new columns: it
// asks for them in this group, or has not used the statement before. A first use
// that could not be sent again gets a new copy at once (renew).
//
// State: server.again. Owner: the client's loop. Invariant: bytes are held from the
// moment the first message is sent until it has been answered, at most retryMax.

import (
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

const retryMax = 16 << 10

type retry struct {
	number uint64 // of the message whose failure is not to be seen; 0: none
	bytes  []byte // of the group from that message on
	types  []byte // the ParameterDescription of a Describe, until it is certain
	first  bool   // the client has not used the statement before
	told   bool   // it is a Describe, and the parameters have been told
	failed bool   // it has failed; the ReadyForQuery of the group is awaited
	again  bool   // the bytes are to be read once more
}

// armRetry holds the group that begins with m, which uses a statement with these
// flags and is to be sent next, if it may be sent again.
func (c *client) armRetry(m []byte, flags sqllex.Flags, first bool) {
	n := c.retryable(m, flags, first)
	if n < 0 {
		return
	}
	k := &c.srv.again
	if k.bytes == nil {
		k.bytes = c.w.takeRetryBuffer()
	}
	// m and what is behind it lie one after the other in the scratch.
	k.bytes = append(append(k.bytes[:0], m...), c.w.ahead[:n]...)
	k.number, k.first, k.failed, k.told = c.srv.tracker.Sent()+1, first, false, false
}

// retryable gives how many bytes behind m belong to its group, -1 if the group may
// not be sent again.
func (c *client) retryable(m []byte, flags sqllex.Flags, first bool) (n int) {
	t := &c.srv.tracker
	if t.Status() != protocol.StatusIdle || t.Owed() > 0 || flags&effectFlags != 0 || len(m) > retryMax {
		return -1
	}
	n, described := groupBehind(c.w.ahead, m)
	if n < 0 || len(m)+n > retryMax || !described && !first {
		return -1
	}
	return n
}

// renew gives up the server's copy of a statement that c is about to use for the
// first time, by m, where a failure could not be made good: who has only just
// prepared a text is never told that its plan is old.
func (c *client) renew(m []byte, st *statements.Statement, flags sqllex.Flags) {
	if c.retryable(m, flags, true) >= 0 {
		return
	}
	held := c.srv.held
	st = c.w.statements.Under(c.environment(), st)
	for cp, since := held.Find(st); cp != nil && since == 0; cp, since = held.Find(st) { // older ones come to light
		held.Stale(cp)
	}
}

// mustSettle tells whether c's first use of a statement has to wait until the groups
// before it have ended: its copy may have been there before c came, and only when
// nothing else is owed can its failure be made good.
func (c *client) mustSettle() bool { return c.srv.tracker.Done()+1 < c.srv.groupAt }

// groupBehind gives how many bytes of p belong to the group that m begins, Sync
// included, -1 if its Sync is not there; described tells that it asks for the
// columns of m's portal or statement.
func groupBehind(p, m []byte) (n int, described bool) {
	described = m[0] == protocol.FrontendDescribe
	portal, _, _ := protocol.BindNames(m[protocol.HeaderLen:])
	for range lookahead {
		typ, size, err := protocol.PeekFrontend(p[n:])
		if err != nil || n+size > len(p) {
			return -1, false
		}
		body := p[n+protocol.HeaderLen : n+size]
		n += size
		switch typ {
		case protocol.FrontendSync:
			return n, described
		case protocol.FrontendDescribe:
			kind, name, ok := protocol.DescribeTarget(body)
			described = described || ok && kind == protocol.TargetPortal && string(name) == string(portal)
		case protocol.FrontendBind, protocol.FrontendExecute, protocol.FrontendClose, protocol.FrontendFlush:
		default:
			return -1, false
		}
	}
	return -1, false
}

// disarm lets the bytes go: the message has been answered.
func (c *client) disarm() {
	k := &c.srv.again
	if k.bytes != nil {
		c.w.giveRetryBuffer(k.bytes)
	}
	*k = retry{}
}

// mayRetry tells whether the error of message n, with this SQLSTATE, is to be made
// good.
func (s *server) mayRetry(c *client, n uint64, code []byte) bool {
	t := &s.tracker
	return n != 0 && n == c.srv.again.number && (isStale(code) || c.srv.again.first && mayBeStale(code)) && c.rest == 0 && c.large == nil && t.Owed() == 1 && t.ReadyOwed() == 1
}

func isStale(code []byte) bool {
	return string(code) == protocol.CodeFeatureNotSupported || string(code) == protocol.CodeInvalidSQLStatementName
}

// mayBeStale tells whether an error may be that of a copy whose parameters have the
// types of before a migration: then the client that meets it first would be the first
// of many. An error that has another cause comes once more, from the new Parse.
func mayBeStale(code []byte) bool {
	switch string(code) {
	case "42883", "42804", "42846", "22P02", "22P03", "08P01":
		return true
	}
	return isStale(code)
}

// retrying takes an answer to the message that may be sent again. false: it is not to
// be seen.
func (s *server) retrying(c *client, head uint64, m, code []byte, whole bool) (seen bool) {
	k := &c.srv.again
	switch {
	case m[0] == protocol.BackendParameterDescription && whole:
		k.types = append(k.types[:0], m...)
		return false
	case m[0] == protocol.BackendParameterDescription:
		k.told = true
		return true
	case code != nil && s.mayRetry(c, head, code):
		k.failed = true
		c.srv.dropParameters, k.types = k.told, nil
		s.w.stats.prepared[preparedStale].add(uint64(s.held.Outdated(head)))
		return false
	}
	if len(k.types) > 0 {
		s.toClient(k.types)
	}
	c.disarm()
	return true
}

// sendAgain: the group that has failed has ended, and its bytes are read again,
// before what the client has sent since.
func (c *client) sendAgain() {
	k := &c.srv.again
	k.again, k.failed, k.number = true, false, 0
	c.putBack(k.bytes)
}

// maxRetryBuffers bounds the buffers that a loop keeps for the next groups.
const maxRetryBuffers = 64

func (w *worker) takeRetryBuffer() []byte {
	if n := len(w.retries); n > 0 {
		b := w.retries[n-1]
		w.retries = w.retries[:n-1]
		return b
	}
	return make([]byte, 0, 512)
}

func (w *worker) giveRetryBuffer(b []byte) {
	if len(w.retries) < maxRetryBuffers && cap(b) <= 4096 {
		w.retries = append(w.retries, b[:0])
	}
}
