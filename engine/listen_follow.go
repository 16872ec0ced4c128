package engine

// Which LISTENs and UNLISTENs of a client have been executed: from the texts that
// were sent, and from what has come of them, to the listenLog.
//
// State: listenFollow belongs to one client, on its loop; it is nil until the
// client sends LISTEN, UNLISTEN or DISCARD ALL, and again when all of it is
// carried out. Invariant: sent holds, in order, what was sent and is not settled,
// at most listenOpsMax of it; beyond, one listenTooMany stands for the rest.

import (
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

type listenFollow struct {
	log    listenLog
	sent   []listenSent
	stepAt uint64 // the message whose statements are counted
	steps  int32  // those that are complete
}

// listenSent is an operation that was sent.
type listenSent struct {
	number    uint64
	statement int32
	kind      sqllex.OpKind
	chain     bool
	name      string
}

// listenFlags are those of texts that begin to be followed.
const listenFlags = sqllex.Listen | sqllex.Discard

// send tells of a text's operations, sent in message n.
func (f *listenFollow) send(w *worker, n uint64, ops []sqllex.Op, sql []byte) {
	if len(f.sent) == 0 {
		f.stepAt, f.steps = n, 0
	}
	for i := range ops {
		op := &ops[i]
		switch op.Kind {
		case sqllex.OpBegin, sqllex.OpCommit, sqllex.OpRollback, sqllex.OpPrepareTransaction, sqllex.OpSavepoint,
			sqllex.OpRelease, sqllex.OpRollbackTo, sqllex.OpListen, sqllex.OpUnlisten, sqllex.OpUnlistenAll,
			sqllex.OpDiscardAll:
			if len(f.sent) < listenOpsMax {
				f.sent = append(f.sent, listenSent{n, op.Statement, op.Kind, op.Chain, string(w.nameOf(op, sql))})
			} else {
				f.sent[len(f.sent)-1] = listenSent{number: n, statement: op.Statement, kind: sqllex.OpUnknown}
			}
		}
	}
}

// step: a statement of message n is complete; tag is its CommandComplete's.
func (f *listenFollow) step(n uint64, tag []byte) {
	if f.stepAt != n {
		f.stepAt, f.steps = n, 0
	}
	f.steps++
	for len(f.sent) > 0 && f.sent[0].number == n && f.sent[0].statement < f.steps {
		f.execute(f.pop(), tag)
	}
}

func (f *listenFollow) pop() listenSent {
	op := f.sent[0]
	f.sent[0] = listenSent{}
	f.sent = f.sent[1:]
	return op
}

// settle drops what the last answer has settled without executing it, and executes
// the rest of it.
func (f *listenFollow) settle(t *protocol.Tracker) {
	for len(f.sent) > 0 && f.sent[0].number <= t.Done() {
		if op := f.pop(); t.Outcome(op.number) == protocol.Executed {
			f.execute(op, nil)
		}
	}
}

func (f *listenFollow) execute(op listenSent, tag []byte) {
	l := &f.log
	switch op.kind {
	case sqllex.OpListen:
		l.execute(listenOp{listenName, op.name})
	case sqllex.OpUnlisten:
		l.execute(listenOp{unlistenName, op.name})
	case sqllex.OpUnlistenAll, sqllex.OpDiscardAll:
		l.execute(listenOp{kind: unlistenEvery})
	case sqllex.OpBegin:
		l.begin()
	case sqllex.OpCommit, sqllex.OpPrepareTransaction:
		if string(tag) == "ROLLBACK" {
			l.rollback(op.chain)
			return
		}
		l.commit(op.chain)
	case sqllex.OpRollback:
		l.rollback(op.chain)
	case sqllex.OpSavepoint:
		l.savepoint(op.name)
	case sqllex.OpRelease:
		l.release(op.name)
	case sqllex.OpRollbackTo:
		l.rollbackTo(op.name)
	default:
		l.execute(listenOp{kind: listenTooMany})
	}
}

// listensReady: a ReadyForQuery with this status has come for c; last: it is the
// last one that is owed. hold: it must be kept back, since a LISTEN of c does not
// hold yet.
func (c *client) listensReady(status byte, last bool) (hold bool) {
	f := c.follow
	if f == nil {
		return false
	}
	f.log.ready(status)
	if status != protocol.StatusIdle || !last {
		return false
	}
	c.follow = nil
	ops := f.log.take()
	if len(ops) == 0 {
		return false
	}
	hold, fault := c.listen(ops)
	if fault != nil && !hold {
		c.told(fault)
		c.w.instead = protocol.AppendReadyForQuery(protocol.AppendError(c.w.answer[:0], *fault), status)
		c.w.answer = c.w.instead
		return true
	}
	return hold
}
