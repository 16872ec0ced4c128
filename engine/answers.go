package engine

// Answers made here in the place of the server's: ParseComplete and CloseComplete
// of statements that are known, and errors that take the place of an error of the
// server's.
//
// State: client.due, answers that are complete and not yet sent; client.later, those
// that wait for what is before them; server.swap, the message whose error is to be
// replaced. PostgreSQL sends such answers with the next Sync or Flush, and so do we:
// with the server's next message, or at once when nothing is owed and a Flush comes.

import (
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
)

// localAnswer is an answer made here.
type localAnswer uint8

const (
	parseComplete localAnswer = iota
	closeComplete
)

var localMessages = [...][]byte{
	parseComplete: protocol.AppendParseComplete(nil),
	closeComplete: protocol.AppendCloseComplete(nil),
}

// dueAnswers are answers in order, a bit each.
type dueAnswers struct {
	bits uint32
	n    uint8
}

// laterAnswers are answers that wait, each with the number of its message.
type laterAnswers struct {
	n     int // of list, from first
	first int
	list  []laterAnswer
}

type laterAnswer struct {
	number uint64
	answer localAnswer
}

// answerHere answers message n, which the tracker has counted as local.
func (c *client) answerHere(n uint64, a localAnswer) disposition {
	c.sentOne()
	c.w.stats.prepared[preparedLocal].inc()
	if c.srv.tracker.Done() < n {
		k := &c.srv.later
		switch {
		case k.n == 0:
			k.first, k.list = 0, k.list[:0]
		case k.first > k.n && len(k.list) == cap(k.list): // those that were answered make room
			k.first, k.list = 0, k.list[:copy(k.list, k.list[k.first:])]
		}
		k.list = append(k.list, laterAnswer{n, a})
		k.n++
		return drop
	}
	c.catalog().Settle(&c.srv.tracker)
	c.owe(a)
	return drop
}

func (c *client) owe(a localAnswer) {
	if c.due.n == 32 {
		c.putDue()
	}
	c.due.bits |= uint32(a) << c.due.n
	c.due.n++
}

// putDue sends the answers that are due.
func (c *client) putDue() {
	for c.due.n > 0 {
		c.put(localMessages[c.due.bits&1])
		c.due.bits >>= 1
		c.due.n--
	}
}

// settleLater moves what is complete from later to due.
func (c *client) settleLater(t *protocol.Tracker) {
	k := &c.srv.later
	for k.n > 0 && k.list[k.first].number <= t.Done() {
		if e := k.list[k.first]; t.Outcome(e.number) == protocol.Executed {
			c.owe(e.answer)
		}
		k.first++
		k.n--
	}
	if k.n == 0 && cap(k.list) > 64 {
		k.list = nil
	}
}

// failInPlace lets the message in hand fail on the server, whose state follows, with
// e in the place of the server's error.
func (c *client) failInPlace(typ byte, e *protocol.ErrorFields) disposition {
	s := c.srv
	c.scan = nil
	if s.swapAt > s.tracker.Done() {
		return c.hold()
	}
	failing := failingQuery
	if typ != protocol.FrontendQuery {
		typ, failing = protocol.FrontendParse, failingParse
	}
	v := s.tracker.Offer(typ, false)
	if v != protocol.Forward && v != protocol.ForwardFlush {
		return c.notSent(v)
	}
	n := s.tracker.Sent()
	s.swapAt, s.swap = n, e
	s.held.ParseUnnamed(n, nil)
	if typ == protocol.FrontendQuery {
		c.catalog().Query(n)
		s.groupAt = n + 1
	}
	c.putRun()
	s.put(failing)
	if v == protocol.ForwardFlush {
		s.put(flushMessage)
	}
	c.sentOne()
	return drop // with it what of the message is yet to come
}

var (
	failingQuery = protocol.AppendQuery(nil, "pg-kinetic refuses this statement")
	failingParse = append(protocol.AppendParseHead(nil, "", len(failingText)), failingText...)
	failingText  = []byte("pg-kinetic refuses this statement\x00\x00\x00")
)

// errorFor gives the ErrorResponse that c gets instead of one of the server's with
// this body, which answers message n; nil: it gets the server's.
func (s *server) errorFor(c *client, n uint64, body, code []byte) []byte {
	w := s.w
	if s.swapAt == n {
		w.answer = protocol.AppendError(w.answer[:0], *s.swap)
		return w.answer
	}
	if mayBeStale(code) {
		if k := s.held.Outdated(n); k > 0 {
			w.stats.prepared[preparedStale].add(uint64(k))
		}
	}
	name, ok := c.catalog().NameOf(n)
	if !ok {
		return nil
	}
	if from := statements.NameIn(body); from != "" {
		w.answer = protocol.RenameInError(w.answer[:0], body, from, name)
		return w.answer
	}
	return nil
}
