package engine

// Whether what a client pins its server for is still there: asked of PostgreSQL when
// something has happened that may have ended it (an unlock, a DROP, a CLOSE, the end of
// a transaction, an error), once the client's request has been answered.

import (
	"encoding/binary"

	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// pinsAsked are the pins whose causes PostgreSQL can tell, a column each.
var pinsAsked = [...]pinSet{pinTempTable, pinAdvisoryLock, pinHoldCursor, pinSQLPrepare | pinLargeParse}

const pinsChecked = pinTempTable | pinAdvisoryLock | pinHoldCursor | pinSQLPrepare | pinLargeParse

var pinsQuery = protocol.AppendQuery(nil, "WITH t(n) AS (SELECT pg_catalog.pg_my_temp_schema()) SELECT "+
	"EXISTS (SELECT FROM pg_catalog.pg_class,t WHERE relnamespace OPERATOR(pg_catalog.=) n) OR "+
	"EXISTS (SELECT FROM pg_catalog.pg_type,t WHERE typnamespace OPERATOR(pg_catalog.=) n) OR "+
	"EXISTS (SELECT FROM pg_catalog.pg_proc,t WHERE pronamespace OPERATOR(pg_catalog.=) n),"+
	"EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()),"+
	"EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable),"+
	"EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE NOT pg_catalog.starts_with(name,'"+statements.Prefix()+"'))")

// endsPins are the flags of texts after which a pin may have ended.
const endsPins = sqllex.AdvisoryUnlock | sqllex.Deallocate | sqllex.Discard | sqllex.CloseCursor | sqllex.End

// mayEndPins notes that a text was executed after which a pin of c may have ended.
func (c *client) mayEndPins(flags sqllex.Flags, class sqllex.Class) {
	if c.pins&pinsChecked != 0 && (flags&endsPins != 0 || class == sqllex.ClassMaintenance) {
		c.recheck = true
	}
}

// checkReset asks, with reset_check, what the client has left that nothing shows.
// true: the server is busy with that.
func (s *server) checkReset(c *client) bool {
	if !s.unseen || c.pins != 0 {
		return false
	}
	s.unseen = false
	s.applied.Stray()
	s.left |= leftListen
	s.ask(pinsQuery, askLeft)
	s.flush()
	return true
}

// askPins asks which of c's pins have a cause. false: there is nothing to ask, or a
// Query of ours would take away an unnamed statement for which c stays.
func (s *server) askPins(c *client) bool {
	if !c.recheck || c.pins&pinsChecked == 0 || c.unkept() {
		return false
	}
	c.recheck = false
	s.ask(pinsQuery, askPins)
	s.flush()
	return true
}

// pinsAnswered takes the answer.
func (c *client) pinsAnswered(typ byte, body []byte) {
	if typ != protocol.BackendDataRow || len(body) < 2 {
		return
	}
	rest := body[2:]
	for i := range pinsAsked {
		if len(rest) < 5 || binary.BigEndian.Uint32(rest) != 1 {
			return
		}
		switch {
		case c.srv.question == askLeft && rest[4] == 't':
			c.srv.left |= leftovers(pinsAsked[i])
		case c.srv.question == askPins && rest[4] == 'f':
			c.pinEnded(pinsAsked[i])
		}
		rest = rest[5:]
	}
}

func (c *client) pinEnded(p pinSet) {
	c.unpin(p)
	if p&pinSQLPrepare != 0 && c.prep != nil {
		c.prep.raw.names = nil
	}
}
