package engine

// The class of a request: a cheap lexical look that groups requests for
// admission and never decides what is safe.

import (
	"pgkinetic/admission/routing"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// lookahead bounds how many messages behind a BEGIN are looked at.
const lookahead = 16

// classOf gives the class of the request that begins with a message of which
// inspect has found l. w.ahead is what follows that message in the buffer.
func (c *client) classOf(typ byte, l *look) routing.Class {
	switch {
	case !c.w.eng.settings.Load().table.UsesClass():
		return routing.ClassDefault
	case c.up.pool.mode == modeSession:
		return routing.ClassSession
	case typ != protocol.FrontendQuery && typ != protocol.FrontendParse:
		return routing.ClassDefault
	case l.class == sqllex.ClassTransaction && l.flags&sqllex.Begin != 0:
		return routing.Class(classBehind(c.w.ahead))
	}
	return routing.Class(l.class)
}

// classBehind gives the class of a transaction whose BEGIN stands before p: that
// of its first further statement there, transaction when there is none.
func classBehind(p []byte) sqllex.Class {
	for range lookahead {
		typ, size, err := protocol.PeekFrontend(p)
		if err != nil || size > len(p) {
			break
		}
		sql, ok := statementOf(typ, p[protocol.HeaderLen:size])
		if ok {
			if class := sqllex.Scan(sql).Class; class != sqllex.ClassTransaction {
				return class
			}
		}
		p = p[size:]
	}
	return sqllex.ClassTransaction
}

// statementOf gives the SQL text in a message's body, if it has one.
func statementOf(typ byte, body []byte) (sql []byte, ok bool) {
	switch typ {
	case protocol.FrontendQuery:
		return body[:max(len(body)-1, 0)], true
	case protocol.FrontendParse:
		_, sql, ok = protocol.ParseMessage(body)
		return sql, ok
	}
	return nil, false
}
