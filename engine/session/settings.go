package session

// What one client SETs: it belongs to the client and holds on every backend that
// serves it. doc.go has the calls and their moments.
//
// State. Statements sent that matter and are not settled (sent). What those that
// were executed have changed (log): up to committed nothing can take it back
// any more; behind lies what the present transaction, a block or the implicit
// one of a group, has changed; marks are its savepoints. doubt and stray tell
// what the log does not.
//
// Owner: the client's loop.
//
// Invariants:
//   - committed <= len(log); marks lie in log[committed:], oldest first, their
//     positions never fall. A savepoint that was set before anything was changed
//     is not kept: rolling back to a name that is not found takes all of the
//     transaction back, releasing one forgets all marks.
//   - text holds the names and values of sent, log and marks, and nothing else; it is
//     emptied when they are.
//   - sent, log and marks have about maxLog entries at most, text about maxText
//     bytes. Who goes beyond is in doubt.
//   - doubt: which settings hold is not known until the server has been asked, when
//     all is answered. The log goes on meanwhile, for Restore. ask gathers what is
//     not in it any more and must be asked for by name: names with a dot.
//   - A client whose settings are at rest (the last Resolve said Resolved) has
//     empty queues and no doubt.
//
// What PostgreSQL does (utils/misc/guc.c, access/transam/xact.c):
//
//   - Settings follow transactions: COMMIT keeps them, ROLLBACK and an error take
//     them back, ROLLBACK TO those since the savepoint. A group of the extended
//     protocol, or a Query of several statements, is one implicit transaction, which
//     COMMIT and ROLLBACK in it end, and which BEGIN turns into a block as a whole.
//   - SET LOCAL, SET TRANSACTION and the parameters transaction_* end with the
//     transaction.
//   - DISCARD ALL commits at once, whatever comes behind it in its group.
//   - RESET ALL leaves role and session_authorization alone, DISCARD ALL does not.
//     Whoever sets or resets session_authorization does so with role (to none).

import (
	"bytes"
	"slices"

	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// Bounds of what is kept of one client between two ReadyForQuery that say idle.
const (
	maxLog  = 512
	maxText = 64 << 10
	maxAsk  = 256
)

// Settings is described at the top of this file. The zero value is a client that
// has changed nothing; so is nil.
type Settings struct {
	sent      []operation // from head on
	head      int
	log       []effect
	committed int
	marks     []mark
	text      []byte

	stepAt uint64 // the message whose statements are counted
	steps  int32  // those that are complete

	status byte // of the last ReadyForQuery
	doubt  bool // the server must be asked
	stray  bool // something may have been set that the client does not get back
	failed bool // an error since the last ReadyForQuery
	escape bool // something was executed that can commit what an error then does not take back
	reset  bool // Restore may have something to do
	resets bool // one of sent is a reset
	ask    []string
	answer readBack
}

// part is a part of Settings.text.
type part struct{ start, end int32 }

// operation is one that was sent.
type operation struct {
	number    uint64
	statement int32
	effect
}

// effect is one of the log, or, while it is sent, any operation.
type effect struct {
	kind        sqllex.OpKind
	name, value part
	// opaque: the value is not known. restored: no operation of the client, but
	// its startup value given back behind a reset. local: SET LOCAL, which matters
	// to Restore only.
	opaque, restored, local bool
}

// mark is a savepoint.
type mark struct {
	name part
	at   int // length of the log
}

// Live says whether something is followed, so that the operations of
// transactions matter as well.
func (s *Settings) Live() bool {
	return s != nil && (s.head < len(s.sent) || len(s.log) > 0 || s.doubt || s.stray)
}

// Changes are the flags of the texts that must be told to Sent even while
// nothing is followed.
const Changes = sqllex.SetSession | sqllex.SetReported | sqllex.Discard | sqllex.Do | sqllex.Execute

// WhileLive are the flags of further texts, those that must be told while Live.
const WhileLive = sqllex.OpTransaction | sqllex.SetLocal

// Sent tells of the operations of a message that was sent: its text's, or for
// an Execute those of the statement. number is the tracker's. The text is not
// kept.
func (s *Settings) Sent(number uint64, ops []sqllex.Op, text []byte) {
	if s == nil {
		return
	}
	if s.head == len(s.sent) {
		s.sent, s.head = s.sent[:0], 0
		s.stepAt, s.steps = number, 0
	} else if s.head > len(s.sent)/2 && s.head > 64 {
		s.sent = s.sent[:copy(s.sent, s.sent[s.head:])]
		s.head = 0
	}
	for i := range ops {
		if op := &ops[i]; follows(op.Kind) && (!op.Local || s.reset || s.resets) {
			s.push(number, op, text)
		}
	}
}

// Unfollowed is Sent for a text whose operations are not known, one too large to
// be kept: it may change anything.
func (s *Settings) Unfollowed(number uint64) {
	s.Sent(number, []sqllex.Op{{Kind: sqllex.OpUnknown}}, nil)
}

// follows says whether operations of a kind concern settings or transactions.
func follows(k sqllex.OpKind) bool {
	switch k {
	case sqllex.OpUnknown, sqllex.OpBegin, sqllex.OpCommit, sqllex.OpRollback, sqllex.OpPrepareTransaction,
		sqllex.OpSavepoint, sqllex.OpRelease, sqllex.OpRollbackTo, sqllex.OpSet, sqllex.OpReset,
		sqllex.OpResetAll, sqllex.OpDiscardAll, sqllex.OpExecute, sqllex.OpDo:
		return true
	}
	return false
}

func (s *Settings) push(number uint64, op *sqllex.Op, text []byte) {
	if len(s.sent)-s.head+len(s.log) >= maxLog || len(s.text) > maxText {
		s.overflow()
	}
	c := effect{kind: op.Kind}
	switch op.Kind {
	case sqllex.OpSet, sqllex.OpReset, sqllex.OpSavepoint, sqllex.OpRelease, sqllex.OpRollbackTo:
		if c = s.keep(op, text); c.kind == sqllex.OpUnknown {
			break
		}
		if c.kind <= sqllex.OpReset && c.kind >= sqllex.OpSet && unlasting(s.of(c.name)) {
			return
		}
	}
	s.sent = append(s.sent, operation{number: number, statement: op.Statement, effect: c})
	s.resets = s.resets || c.resets()
}

// resets says whether it takes a parameter back to what it was at the login.
func (c *effect) resets() bool {
	return !c.local && c.kind == sqllex.OpReset || c.kind == sqllex.OpResetAll || c.kind == sqllex.OpDiscardAll
}

// Waits says whether what the client, whose Profile at login was first, sends
// behind the next Query or Sync has to wait for Restore or Resolve: a RESET is
// under way.
func (s *Settings) Waits(first *Profile) bool { return s != nil && s.resets && len(first.items) > 0 }

// keep copies name and value of op.
func (s *Settings) keep(op *sqllex.Op, text []byte) effect {
	c := effect{kind: op.Kind, local: op.Local}
	var ok bool
	start := len(s.text)
	if s.text, ok = op.AppendName(s.text, text); !ok || len(s.text)-start > maxParameter {
		s.text = s.text[:start]
		return effect{kind: sqllex.OpUnknown}
	}
	middle := len(s.text)
	c.name = part{int32(start), int32(middle)}
	if op.Kind != sqllex.OpSet || op.Local {
		return c
	}
	if s.text, ok = op.AppendValue(s.text, text, false); ok && bytes.IndexByte(op.Value.Of(text), '\\') >= 0 {
		// Which of two values it is depends on standard_conforming_strings.
		end := len(s.text)
		s.text, ok = op.AppendValue(s.text, text, true)
		ok = ok && bytes.Equal(s.text[middle:end], s.text[end:])
		s.text = s.text[:end]
	}
	if c.opaque = !ok; c.opaque {
		s.text = s.text[:middle]
	}
	c.value = part{int32(middle), int32(len(s.text))}
	return c
}

// maxParameter bounds a parameter's name: two identifiers, rarely more.
const maxParameter = 4 * MaxName

func (s *Settings) of(p part) []byte { return s.text[p.start:p.end] }

// unlasting names the parameters that each transaction sets anew, and the seed
// of random(), which is no value that lasts.
func unlasting(name []byte) bool {
	switch string(name) {
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed":
		return true
	}
	return false
}

// overflow gives up what has been followed so far.
func (s *Settings) overflow() {
	s.askForAll(s.log)
	for i := s.head; i < len(s.sent); i++ {
		s.askFor(s.of(s.sent[i].name))
	}
	s.forget()
	s.doubt = true
}

func (s *Settings) askForAll(log []effect) {
	for i := range log {
		s.askFor(s.of(log[i].name))
	}
}

func (s *Settings) forget() {
	s.sent, s.head, s.log, s.committed, s.marks = s.sent[:0], 0, s.log[:0], 0, s.marks[:0]
	s.text = s.text[:0]
	s.reset, s.resets = false, false
}

// askFor adds a name that AppendReadBack must ask for, which the server's list
// of settings does not show.
func (s *Settings) askFor(name []byte) {
	if bytes.IndexByte(name, '.') > 0 && !slices.Contains(s.ask, string(name)) && len(s.ask) <= maxAsk {
		s.ask = append(s.ask, string(name))
	}
}

// Step tells that a statement of the message of this number has been executed:
// its CommandComplete with the tag has come, or PortalSuspended (nil).
func (s *Settings) Step(number uint64, tag []byte) {
	if s == nil || s.head == len(s.sent) {
		return
	}
	if number != s.stepAt {
		s.stepAt, s.steps = number, 0
	}
	statement := s.steps
	s.steps++
	for s.head < len(s.sent) && s.sent[s.head].number == number && s.sent[s.head].statement <= statement {
		s.execute(s.pop(), tag)
	}
}

func (s *Settings) pop() effect {
	c := s.sent[s.head].effect
	s.head++
	return c
}

// Outcomes is what protocol.Tracker says of what an answer has settled.
type Outcomes interface {
	Done() uint64
	Outcome(number uint64) protocol.Outcome
}

// Settle takes account of the messages that the last answer of the server has
// settled: of those executed nothing should be left, the others have not been.
func (s *Settings) Settle(o Outcomes) {
	if s == nil || s.head == len(s.sent) {
		return
	}
	for done := o.Done(); s.head < len(s.sent) && s.sent[s.head].number <= done; {
		executed := o.Outcome(s.sent[s.head].number) == protocol.Executed
		if c := s.pop(); executed {
			s.execute(c, nil)
		}
	}
}

// Error tells that an ErrorResponse has come: it takes back the transaction at
// hand, or leaves its block failed.
func (s *Settings) Error() {
	if s != nil {
		s.failed = true
	}
}

// Ready tells that a ReadyForQuery with this status has come.
func (s *Settings) Ready(status byte) {
	if s == nil {
		return
	}
	if status == protocol.StatusIdle {
		switch {
		case !s.failed:
			s.commit()
		default:
			s.doubt = s.doubt || s.escape && len(s.log) > s.committed
			s.rollback(s.committed)
			s.marks = s.marks[:0]
		}
		s.escape = false
	}
	s.status, s.failed = status, false
	s.resets = s.resets && slices.ContainsFunc(s.sent[s.head:], func(o operation) bool { return o.resets() })
}

// execute takes account of an operation that was executed.
func (s *Settings) execute(c effect, tag []byte) {
	switch c.kind {
	case sqllex.OpUnknown:
		s.stray, s.doubt = true, true
	case sqllex.OpDo, sqllex.OpExecute:
		s.stray, s.escape = true, true
	case sqllex.OpCommit, sqllex.OpPrepareTransaction, sqllex.OpRollback:
		s.end(c.kind, string(tag) == "ROLLBACK")
	case sqllex.OpSavepoint:
		s.savepoint(c.name)
	case sqllex.OpRelease, sqllex.OpRollbackTo:
		s.leave(c)
	case sqllex.OpSet, sqllex.OpReset, sqllex.OpResetAll, sqllex.OpDiscardAll:
		s.change(c)
		if c.kind == sqllex.OpDiscardAll {
			s.commit()
		}
	}
}

func (s *Settings) change(c effect) {
	s.log = append(s.log, c)
	s.reset = s.reset || c.resets()
	if !c.local && string(s.of(c.name)) == "session_authorization" {
		role := effect{kind: c.kind, name: s.put("role")}
		if c.kind == sqllex.OpSet {
			role.value = s.put("E'none'")
		}
		s.log = append(s.log, role)
	}
}

func (s *Settings) put(text string) part {
	start := len(s.text)
	s.text = append(s.text, text...)
	return part{int32(start), int32(len(s.text))}
}

// end is the end of a transaction, told by the tag to have been rolled back or
// not. PREPARE TRANSACTION outside a block says ROLLBACK, and commits what its
// implicit transaction had before.
func (s *Settings) end(kind sqllex.OpKind, rolledBack bool) {
	if kind == sqllex.OpPrepareTransaction && rolledBack && s.status != protocol.StatusFailed && len(s.log) > s.committed {
		s.doubt = true
	}
	if kind == sqllex.OpRollback || rolledBack {
		s.rollback(s.committed)
	}
	s.commit()
}

func (s *Settings) commit() {
	s.committed = len(s.log)
	s.marks = s.marks[:0]
}

func (s *Settings) rollback(to int) {
	if s.doubt {
		s.askForAll(s.log[to:])
	}
	s.log = s.log[:to]
}

func (s *Settings) savepoint(name part) {
	if len(s.log) == s.committed && len(s.marks) == 0 {
		return
	}
	if len(s.marks) >= maxLog {
		s.doubt = true
		return
	}
	s.marks = append(s.marks, mark{name: name, at: len(s.log)})
}

// leave is RELEASE and ROLLBACK TO.
func (s *Settings) leave(c effect) {
	i := len(s.marks) - 1
	for i >= 0 && !bytes.Equal(s.of(s.marks[i].name), s.of(c.name)) {
		i--
	}
	if c.kind == sqllex.OpRelease {
		s.marks = s.marks[:max(i, 0)]
		return
	}
	at := s.committed
	if i >= 0 {
		at = s.marks[i].at
	}
	s.rollback(at)
	s.marks = s.marks[:i+1]
	s.reset = true // a Restore may have been taken back
}
