package engine

// What the LISTEN and UNLISTEN statements of one client come to: PostgreSQL
// carries them out when their transaction commits, and a rollback takes them
// back (PostgreSQL documentation, LISTEN, and the subtransactions of SAVEPOINT).
//
// State: a listenLog belongs to one client, on its loop. It is told of what
// PostgreSQL has *executed*, in that order: of a statement when its
// CommandComplete has come, of an error when its ErrorResponse has, of every
// ReadyForQuery. A statement that was sent and then skipped is not told.
//
// Invariants:
//   - committed holds what no rollback can take back, pending what the present
//     transaction (a block, or the implicit one of a group) would commit
//   - marks lie in pending, oldest first, their positions never fall; a savepoint
//     that was set while pending was empty is not kept: rolling back to a name
//     that is not found empties pending, releasing one forgets all marks
//   - pending and committed hold at most listenOpsMax each, marks as many; where
//     a text asks for more, one listenTooMany stands for what was left out
//
// A client that does not listen costs nothing: all slices stay nil.

type listenKind uint8

const (
	listenName    listenKind = iota // LISTEN name
	unlistenName                    // UNLISTEN name
	unlistenEvery                   // UNLISTEN *, and what includes it: DISCARD ALL
	listenTooMany                   // more than can be kept
)

// listenOp is one operation. name is a channel's name as PostgreSQL would store
// it: folded, without quotes, at most 63 bytes in the client's encoding.
type listenOp struct {
	kind listenKind
	name string
}

// listenOpsMax bounds the operations of one transaction that are kept, after
// those that a later one of the same name outdates have been dropped.
const listenOpsMax = 4096

// listenMark is a savepoint.
type listenMark struct {
	name string
	at   int // how many operations lie before it
}

type listenLog struct {
	committed, pending []listenOp
	marks              []listenMark
	block              bool // a transaction block is open
	failed             bool // an error was seen, and no rollback to a savepoint since
}

// execute notes a LISTEN, UNLISTEN or DISCARD ALL that went well.
func (l *listenLog) execute(op listenOp) { l.pending = appendOp(l.pending, op, l.floor()) }

// floor is the first operation that no mark lies behind.
func (l *listenLog) floor() int {
	if n := len(l.marks); n > 0 {
		return l.marks[n-1].at
	}
	return 0
}

// appendOp appends op. Only what lies behind floor may be outdated by it.
func appendOp(ops []listenOp, op listenOp, floor int) []listenOp {
	if op.kind == unlistenEvery {
		return append(ops[:floor], op)
	}
	if len(ops) < listenOpsMax {
		return append(ops, op)
	}
	ops = append(ops[:floor], latest(ops[floor:])...)
	if len(ops) < listenOpsMax {
		return append(ops, op)
	}
	ops[len(ops)-1] = listenOp{kind: listenTooMany}
	return ops
}

// latest gives the last operation of each name, in their order.
func latest(ops []listenOp) []listenOp {
	last := make(map[listenOp]int, len(ops))
	key := func(op listenOp) listenOp {
		if op.kind == unlistenName {
			op.kind = listenName
		}
		return op
	}
	for i, op := range ops {
		last[key(op)] = i
	}
	kept := make([]listenOp, 0, len(last))
	for i, op := range ops {
		if last[key(op)] == i {
			kept = append(kept, op)
		}
	}
	return kept
}

// begin: BEGIN or START TRANSACTION went well. What the group has executed before
// becomes a part of the block.
func (l *listenLog) begin() { l.block = true }

// commit: COMMIT or END was executed, in a block or not; in a failed one it rolls
// back, and its tag is ROLLBACK. chain: AND CHAIN opens the next block.
func (l *listenLog) commit(chain bool) {
	if !l.failed {
		for _, op := range l.pending {
			l.committed = appendOp(l.committed, op, 0)
		}
	}
	l.end(chain)
}

// rollback: ROLLBACK or ABORT was executed, not ROLLBACK TO.
func (l *listenLog) rollback(chain bool) { l.end(chain) }

func (l *listenLog) end(chain bool) {
	l.pending, l.marks = nil, nil
	l.block, l.failed = chain, false
}

// savepoint: SAVEPOINT name went well.
func (l *listenLog) savepoint(name string) {
	switch {
	case len(l.pending) == 0:
	case len(l.marks) >= listenOpsMax:
		l.execute(listenOp{kind: listenTooMany})
	default:
		l.marks = append(l.marks, listenMark{name, len(l.pending)})
	}
}

// find gives the index of the newest mark of a name, -1 for none.
func (l *listenLog) find(name string) int {
	for i := len(l.marks) - 1; i >= 0; i-- {
		if l.marks[i].name == name {
			return i
		}
	}
	return -1
}

// release: RELEASE name went well; it ends the savepoints behind it, too.
func (l *listenLog) release(name string) { l.marks = l.marks[:max(l.find(name), 0)] }

// rollbackTo: ROLLBACK TO name went well. The savepoint stays.
func (l *listenLog) rollbackTo(name string) {
	l.failed = false
	i := l.find(name)
	if i < 0 {
		l.pending, l.marks = nil, nil
		return
	}
	l.pending, l.marks = l.pending[:l.marks[i].at], l.marks[:i+1]
}

// fail: an ErrorResponse that answers the client. Outside a block it ends the
// implicit transaction.
func (l *listenLog) fail() {
	if !l.block {
		l.rollback(false)
		return
	}
	l.failed = true
}

// ready takes the status of a ReadyForQuery, of each of them. It ends an implicit
// transaction, and tells what the log cannot know by itself (a block that was
// opened or ended unseen).
func (l *listenLog) ready(status byte) {
	if status == 'I' {
		l.commit(false)
		return
	}
	l.block, l.failed = true, status == 'E'
}

// take gives what has been committed since it was last called, in order. The
// caller hands it to client.listen when no block is open and nothing is owed.
func (l *listenLog) take() []listenOp {
	ops := l.committed
	l.committed = nil
	return ops
}
