package engine

// Slow queries in the log: log.slow_query_ms. A query cycle (a Query, or the
// messages up to a Sync) that PostgreSQL took that long to answer has a line, with
// the text of its first statement but not its constants.
//
// Owner: the server's worker. A server's recent has what was sent and is not
// answered yet, by the tracker's numbers, in order; it is nil until such a limit is
// set. Where a cycle's statements are more than recentMost, the later ones are not
// told.

import (
	"pgkinetic/configs"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

const (
	recentMost   = 8
	slowTextRead = 2048 // bytes of a text that are looked at
	slowTextTold = 512  // bytes of it that are told
	// slowLinesPerSecond bounds the lines of one loop; what is left out is counted.
	slowLinesPerSecond = 20
)

// recentStatement is a text on its way: of a statement that is kept, or a copy.
type recentStatement struct {
	number  uint64
	stmt    *statements.Statement
	copied  []byte // keeps its memory
	escapes bool   // standard_conforming_strings was off when it was sent: only so is it known what is a constant
}

type recentStatements struct {
	all [recentMost]recentStatement
	n   int
}

// slowLog is a worker's.
type slowLog struct {
	after      int64 // ns: log.slow_query_ms; 0: off
	second     int64 // in which the lines are counted
	lines      int
	suppressed int
	text       []byte
}

func (g *slowLog) set(cfg *configs.Config) { g.after = int64(cfg.Log.SlowQueryMs) * ms }

// remember notes the text of a message that was just sent.
func (c *client) remember(typ byte, m []byte, l *look) {
	body := m[protocol.HeaderLen:]
	switch typ {
	case protocol.FrontendQuery:
		if next := c.srv.nextRecent(); next != nil {
			next.keep(body)
		}
	case protocol.FrontendParse:
		if l.stmt != nil {
			c.srv.rememberBound(l.stmt)
		} else if i := indexNUL(body); i >= 0 {
			if next := c.srv.nextRecent(); next != nil {
				next.keep(body[i+1:])
			}
		}
	}
}

// rememberBound notes the statement of a message that was just sent.
func (s *server) rememberBound(st *statements.Statement) {
	if next := s.nextRecent(); next != nil {
		next.stmt = st
	}
}

// nextRecent gives room for one more, nil if there is none.
func (s *server) nextRecent() *recentStatement {
	if s.recent == nil {
		s.recent = &recentStatements{}
	}
	r := s.recent
	if r.n == recentMost {
		return nil
	}
	next := &r.all[r.n]
	r.n++
	next.number, next.stmt, next.copied = s.tracker.Sent(), nil, next.copied[:0]
	scs, _ := s.params.Get("standard_conforming_strings")
	next.escapes = string(scs) == "off"
	return next
}

// cycleTook is told of a cycle that the client's ReadyForQuery has ended.
func (s *server) cycleTook(ns int64) {
	w := s.w
	if w.slow.after > 0 && ns >= w.slow.after {
		w.stats.slowQueries.inc()
		if w.slow.admit(w.now()) {
			s.logSlow(ns)
		}
	}
	if s.recent != nil {
		s.recent.drop(s.tracker.Done())
	}
}

// admit tells whether there is room for one more line.
func (g *slowLog) admit(now int64) bool {
	if second := now / (1000 * ms); second != g.second {
		g.second, g.lines = second, 0
	}
	if g.lines++; g.lines > slowLinesPerSecond {
		g.suppressed++
		return false
	}
	return true
}

func (s *server) logSlow(ns int64) {
	w, c := s.w, s.client
	text, escapes, more := s.recent.of(s.tracker.Done())
	w.slow.text = sqllex.AppendNormalized(w.slow.text[:0], text, escapes, slowTextTold)
	application, _ := c.prof.Get("application_name")
	w.log.Warn("slow query", "ms", float64(ns/1000)/1000, "client", c.id, "database", c.up.tenant.Database, "user", c.up.tenant.User,
		"application", application, "route", c.route.label, "pid", s.pid, "statement", string(w.slow.text), "further_statements", more,
		"suppressed", w.slow.suppressed)
	w.slow.suppressed = 0
}

// of gives the text of the first message up to number done that has one, whether a
// backslash escapes in it, and how many of other statements follow it.
func (r *recentStatements) of(done uint64) (text []byte, escapes bool, more int) {
	if r == nil {
		return nil, false, 0
	}
	var last *statements.Statement
	for i := range r.n {
		k := &r.all[i]
		if k.number > done {
			break
		}
		switch {
		case text == nil:
			text, escapes = k.text(), k.escapes
		case k.stmt != last:
			more++
		}
		last = k.stmt
	}
	return text, escapes, more
}

// keep copies the beginning of a text that a NUL ends, if its end is here.
func (k *recentStatement) keep(p []byte) {
	p = p[:min(len(p), slowTextRead)]
	if end := indexNUL(p); end >= 0 {
		p = p[:end]
	}
	k.copied = append(k.copied, p...)
}

func (k *recentStatement) text() []byte {
	if k.stmt != nil {
		return k.stmt.Text()[:min(len(k.stmt.Text()), slowTextRead)]
	}
	return k.copied
}

// clear forgets all, which may be those of another client.
func (r *recentStatements) clear() {
	if r != nil {
		r.n = 0
	}
}

// drop forgets what was sent up to number done.
func (r *recentStatements) drop(done uint64) {
	left := 0
	for i := range r.n {
		if k := &r.all[i]; k.number > done {
			r.all[left], r.all[i] = *k, r.all[left]
			left++
		}
	}
	r.n = left
}
