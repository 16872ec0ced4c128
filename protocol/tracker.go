package protocol

// The tracker of the answers that one backend owes.
//
// State. A queue of entries, one for each message that is to be answered, oldest
// first: those sent to the backend, and the client's that are answered here in
// their place among the others (local). How far the answer to the oldest one has
// come (phase); whether the backend reads copy data (gate); and what the
// messages since the last synchronisation point were (group, skip). How many
// entries there have been (sent): their running numbers.
//
// Owner. One Tracker belongs to one backend and to the loop that owns it. It
// makes no call out, reads no clock and does not allocate in steady state.
//
// Invariants.
//
//  1. Every message is answered in the order in which it was sent, or is
//     removed by an error before it. A message from the backend therefore
//     always belongs to the head of the queue; one that the head cannot have
//     (grammar) means that the count is lost, and the backend is to be closed.
//  2. Sync, Query and FunctionCall entries end with ReadyForQuery and with
//     nothing else; no other entry ends with it.
//  3. An error at the head that is Parse, Bind, Describe, Execute or Close
//     removes everything up to the next Sync, Query and FunctionCall included.
//     If no Sync was sent, skip is set: the backend throws away what comes
//     until Sync, so nothing is sent but that.
//  4. An error at the head that is Sync, Query or FunctionCall removes nothing:
//     the ReadyForQuery of that entry follows.
//  5. While gate is not gateOpen, the newest entry that a client caused is a
//     marked Execute or Query, and nothing was sent behind it but copy data and
//     its end, what Recover added, or one message that fails the COPY. So it is
//     always known who reads a message: the COPY or the main loop.
//  6. Whatever is unanswered will be answered without further input once it has
//     been pushed (loose counts the newest entries that were not), unless the
//     backend waits for copy data. A queue that is full has been pushed.
//  7. The head is not local. A local entry is complete as soon as everything
//     before it is, and leaves the queue with it; where nothing is before it, it
//     never enters.
//  8. The entries of the queue have consecutive numbers, the newest one sent.
//     Every number below that of the head is settled. What failed or was removed
//     before failed is of no interest any more: no answer settles both.
//
// docs/answers-owed.md has the tables; the tests fail when one of their edges
// is not visited.

import "errors"

// MaxOwed is the number of answers that a backend may owe before Offer says
// Full.
//
// Full cannot deadlock: the message that fills the queue is Sync, Query or
// FunctionCall, or Offer answers it with ForwardFlush. Either way everything in
// the queue has been pushed, so the backend answers its head without reading
// another byte, and that answer makes room. The exception would be a COPY that
// waits for data; but behind one nothing is sent, so the queue is not full, and
// copy data is never answered with Full.
const MaxOwed = 4096

// maxHeldSyncs bounds the Syncs that are held inside one COPY. Further ones are
// taken as read by the COPY, as they are in PostgreSQL unless it has failed.
const maxHeldSyncs = MaxOwed / 2

// Errors of Receive. After one of them the count is lost: the backend is to be
// closed, and nothing that it sends may be passed on.
var (
	ErrUnexpected   = errors.New("protocol: the server sent a message that nothing it was sent can have caused")
	ErrStatus       = errors.New("protocol: the server sent ReadyForQuery with an unknown status")
	ErrCopyBoth     = errors.New("protocol: the server entered COPY BOTH, which belongs to replication")
	ErrCopyUnmarked = errors.New("protocol: the server asked for COPY data in answer to a statement that was not expected to be COPY FROM STDIN")
	ErrCopyDoubt    = errors.New("protocol: the COPY failed while it was undecided who reads the messages behind it")
)

// Verdict is what is to be done with a client's message.
type Verdict uint8

const (
	// Forward: send it on.
	Forward Verdict = iota
	// ForwardFlush: send it on and append a Flush of ours, without telling the
	// tracker: its answer, or the one that makes room in the queue, would
	// otherwise sit in the server's buffer while the client's next message waits.
	ForwardFlush
	// Hold: do not send; offer the same message again after an Answer with
	// Resume, or once Resume reports true.
	Hold
	// Drop: do not send. The tracker has taken account of it.
	Drop
	// Full: MaxOwed answers are owed. Do as for Hold.
	Full
	// AnswerNow (of Local only): do not send; answer it here, at once.
	AnswerNow
	// AnswerLater (of Local only): do not send; it is complete when Answer.Local
	// counts it, unless an error removes it.
	AnswerLater
)

// Answer is what a message from the backend means.
type Answer struct {
	// Swallow: it belongs to an injected message or to a client that has left;
	// it is not for the client.
	Swallow bool
	// Ready: it is the ReadyForQuery that ends an entry; Status is its status.
	Ready  bool
	Status byte
	// Resume: a message answered with Hold or Full may be offered again.
	Resume bool
	// InjectedError: an injected message has failed, or an error of another
	// message has made the backend skip it.
	InjectedError bool
	// Syncs is the number of Sync messages that are to be sent now, before
	// anything else: a COPY has failed that did not read them. The tracker has
	// counted them.
	Syncs int
	// Local is the number of local entries, those answered with AnswerLater, that
	// have become complete: the caller emits their answers, oldest first, behind
	// the last byte of this message. What belongs to a client that has left does
	// not count.
	Local int
}

// gate tells who reads what is sent next.
type gate uint8

const (
	gateOpen   gate = iota // the main loop
	gateMarked             // not known yet: the newest entry may be COPY FROM STDIN
	gateCopyIn             // the COPY: CopyInResponse has been received
	gateEnded              // the end of the data, or what fails the COPY, was sent
)

// group tells what a client sent since the last synchronisation point.
type group uint8

const (
	groupClosed group = iota // nothing
	// groupLocal: local messages only. The client owes a Sync, of which the
	// backend knows nothing.
	groupLocal
	groupOpen // messages of the extended protocol
	// groupTail: such messages and, behind them, a Query or FunctionCall. It
	// closes the group, unless an error before it makes the backend skip it.
	groupTail
)

// Tracker is the state described at the top of this file. Call Reset before the
// first use: it stands for a backend that has just sent the ReadyForQuery of its
// login.
type Tracker struct {
	queue ring
	ready int    // entries that end with ReadyForQuery
	sent  uint64 // entries counted so far
	loose int    // newest entries whose answers may sit in the server's buffer, the local ones between them included
	held  int    // Syncs held inside the COPY since the last copy data was sent

	failed  uint64 // the last settled entry that has failed, 0 before the first
	removed uint64 // the last entry that its error has removed, or failed

	phase  phase // of the head's answer
	gate   gate
	group  group
	status byte // of the last ReadyForQuery

	skip      bool // the backend discards everything up to Sync
	doomed    bool // an error has come that only the end of the session can follow
	foreign   bool // a message that fails the COPY was sent behind it
	recovered bool // Recover has sent CopyFail behind the marked entry
	waiting   bool // a message was answered with Hold or Full
	flushed   bool // the client's last message was Flush
	orphan    bool // the client has left; cleared by the next one's first message
}

// Reset forgets everything: a fresh backend that has said ReadyForQuery(I).
func (t *Tracker) Reset() {
	q := t.queue
	q.clear()
	*t = Tracker{queue: q, status: StatusIdle}
}

// Idle reports whether nothing is owed, the last ReadyForQuery said idle, and
// the client has sent nothing that a Sync has not covered. Only then may the backend serve
// another client, as far as the protocol goes.
func (t *Tracker) Idle() bool {
	return t.queue.n == 0 && t.status == StatusIdle && t.group == groupClosed && !t.skip && !t.doomed
}

// Status is that of the last ReadyForQuery.
func (t *Tracker) Status() byte { return t.status }

// Owed is the number of entries that are not fully answered, local ones
// included.
func (t *Tracker) Owed() int { return t.queue.n }

// Busy reports whether the backend will send something without further input: a
// query runs or will run. It is false when only the client's next bytes can
// bring progress: copy data, or a Sync or Flush behind messages whose answers
// the server keeps in its buffer.
func (t *Tracker) Busy() bool { return t.queue.n > t.loose && t.gate != gateCopyIn }

// ClientOwes reports whether the client has to send: the Sync that ends a group,
// or the rest of the copy data. While Busy is true as well, that may sit behind
// a message that is held.
func (t *Tracker) ClientOwes() bool {
	return t.group == groupOpen || t.group == groupLocal || t.gate == gateCopyIn
}

// InCopyIn reports whether the backend waits for copy data.
func (t *Tracker) InCopyIn() bool { return t.gate == gateCopyIn }

// FlushAnswered reports whether everything up to the client's last Flush has
// been answered and nothing was sent since: the client may think as long as
// inside a transaction block.
func (t *Tracker) FlushAnswered() bool { return t.flushed && t.queue.n == 0 }

// AtBoundary reports whether the client's stream is between groups: its next
// message could begin a new request. It is false while a COPY, or what may be
// one, is unanswered: the next message may be part of it, and Offer has to see
// it, so that an Answer says when it may be offered again.
func (t *Tracker) AtBoundary() bool { return t.group == groupClosed && t.gate == gateOpen }

// SyncOwed reports whether the client would have to send Sync before it is heard
// again, if the head of the queue failed now: for a backend that is lost. Copy
// data does not count; a client sends its rest, and it is ignored.
func (t *Tracker) SyncOwed() bool {
	if t.held > 0 {
		return false
	}
	return t.group == groupOpen || t.group == groupLocal || (t.group == groupTail && t.queue.head().kind.extended())
}

// Doomed reports whether an ErrorResponse has come after which the backend can
// only close the connection, as a FATAL one at idle. It is never Idle again.
func (t *Tracker) Doomed() bool { return t.doomed }

// Resume reports whether a message answered with Hold or Full may be offered.
func (t *Tracker) Resume() bool {
	return t.gate != gateMarked && t.gate != gateEnded && t.queue.n < MaxOwed
}

// ReadyOwed is the number of ReadyForQuery that the client would still get for
// what it has sent if the head of the queue failed now, in PostgreSQL's way:
// what is removed by the error does not count, a Sync held in a COPY that has
// not read it does. An answer that is not for the client does not count.
func (t *Tracker) ReadyOwed() int {
	count := t.held
	removed := t.queue.n > 0 && !t.queue.head().kind.ready()
	for i := range t.queue.n {
		e := t.queue.at(i)
		if removed && e.kind != kindSync {
			continue
		}
		removed = false
		if e.kind.ready() && e.flags&flagSwallow == 0 {
			count++
		}
	}
	return count
}

// Orphan tells that the client has left: every answer that is owed now is
// Swallow.
func (t *Tracker) Orphan() {
	for i := range t.queue.n {
		t.queue.at(i).flags |= flagOrphan
	}
	t.held = 0
	t.orphan = true
	t.waiting = false
	t.flushed = false
}

// Recover appends to dst the messages that bring the backend back to
// ReadyForQuery and counts them: CopyFail where a COPY reads or may yet read,
// and, where a group has no Sync, a Query ROLLBACK and the Sync. The Sync alone
// would commit what PostgreSQL undoes when a client leaves inside a group;
// ROLLBACK undoes it outside a block as well, with a warning. An error of the
// group, known or still on its way, does so by itself; then the backend discards
// the Query, and what reads the Sync is not in doubt either way. Behind a Query
// or FunctionCall of the client nothing is undone, since that has committed the
// group. A block that stays open (Status) is the caller's to roll back.
//
// It appends nothing when the backend gets there by itself. The caller is
// between two messages of the client, and the message that is held, if any, will
// not be offered again.
func (t *Tracker) Recover(dst []byte) []byte {
	if t.gate != gateOpen && !t.recovered {
		// CopyFail is sent on suspicion: one that finds no COPY is ignored.
		dst = AppendCopyFail(dst, "the client has left or was closed")
		t.gate = gateEnded
		t.recovered = true
	}
	t.held = 0
	t.waiting = false
	t.flushed = false
	if t.group == groupLocal {
		t.group = groupClosed // the backend was sent nothing of it
	}
	if t.group == groupOpen && !t.skip {
		dst = AppendQuery(dst, "ROLLBACK")
		t.send(kindQuery, flagInjected)
	}
	if t.group != groupClosed {
		dst = AppendSync(dst)
		t.send(kindSync, flagInjected)
	}
	return dst
}
