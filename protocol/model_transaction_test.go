package protocol

// transaction is what the model knows of transactions. Outside a block, all that
// was written since the last commit is one implicit transaction, which COMMIT
// and the end of a group, of a Query and of a FunctionCall commit and which
// ROLLBACK undoes with a warning; BEGIN takes it into the block.
type transaction struct {
	status    byte
	written   []int // by the open transaction: the ids of the messages that did it
	committed []int
	violated  bool // a deferred constraint will fail the commit
}

// write is what a statement of the client's message id does. Messages of ours
// write nothing.
func (t *transaction) write(id int, violates bool) {
	if id <= 0 || t.status == StatusFailed {
		return
	}
	t.written = append(t.written, id)
	t.violated = t.violated || violates
}

func (t *transaction) undo() { t.written, t.violated = nil, false }

// abort is what an error does.
func (t *transaction) abort() {
	t.undo()
	if t.status == StatusBlock {
		t.status = StatusFailed
	}
}

func (t *transaction) begin() {
	if t.status == StatusIdle {
		t.status = StatusBlock
	}
}

// commit ends the block or the implicit transaction; false if a constraint fails.
func (t *transaction) commit() bool {
	ok := !t.violated
	if ok {
		t.committed = append(t.committed, t.written...)
	}
	t.undo()
	t.status = StatusIdle
	return ok
}

// rollback reports whether there was no block, of which PostgreSQL warns.
func (t *transaction) rollback() (warns bool) {
	warns = t.status == StatusIdle
	t.undo()
	t.status = StatusIdle
	return warns
}

// finish ends a group, Query or FunctionCall: what is in no block is committed,
// and ReadyForQuery follows.
func (m *model) finish(id int) {
	if m.status == StatusIdle && !m.commit() {
		m.fail(id, "23505")
	}
	m.ready(id)
}

// leave: the client's connection ends, and with it the open transaction.
func (t *transaction) leave() { t.undo() }
