package protocol

// Messages of the client that are answered here, messages of ours on whose
// success one of the client's depends, and the numbers by which a caller follows
// what becomes of each.

// MayAnswer reports whether a Parse, Describe or Close of the client, by its
// type, may be answered here, with the answer of its success, in its place among
// the others. It says yes only where PostgreSQL would certainly give that answer
// as well, if the message itself is right: not in a failed transaction block, nor
// where a ReadyForQuery is still to tell whether the block has failed, where
// PostgreSQL answers Parse and Describe by 25P02. An error is never made here:
// the server has to abort its transaction. It says no, too, where Offer would not
// answer Forward.
func (t *Tracker) MayAnswer(typ byte) bool {
	switch {
	case t.gate != gateOpen || t.skip || t.queue.n >= MaxOwed-1:
		return false // a local entry never fills the queue, so it needs no Flush
	case typ == FrontendClose:
		return true
	case typ != FrontendParse && typ != FrontendDescribe:
		return false
	}
	return t.status != StatusFailed && t.ready == 0
}

// Local is Offer for a message that is to be answered here. The verdict is
// AnswerNow if nothing is owed before it, else AnswerLater. Where MayAnswer says
// no, Local is Offer: with Forward or ForwardFlush the message is to be sent.
//
// A local message is removed by an error before it, and counts for the client's
// group, as any other.
func (t *Tracker) Local(typ byte) Verdict {
	if !t.MayAnswer(typ) {
		return t.Offer(typ, false)
	}
	t.orphan = false
	t.flushed = false
	if t.group == groupClosed {
		t.group = groupLocal
	} else if t.group == groupTail {
		t.group = groupOpen
	}
	t.sent++
	if t.queue.n == 0 {
		return AnswerNow
	}
	t.queue.push(entry{kind: kindOf[typ], flags: flagLocal})
	t.loose++
	return AnswerLater
}

// Prepare counts a Parse of ours that goes before the client's next message, a
// Bind or a Describe of a statement that the backend does not have. Its
// ParseComplete is Swallow. Its error is not: it is the answer to the client's
// message, which it removes. The verdict is Offer's:
//
//   - Forward, ForwardFlush: send the Parse, then offer the client's message. If
//     that is held, the Parse was sent nevertheless, once: it is not prepared
//     again. While MayInject is true, it is not held.
//   - Hold, Full: send nothing; the client's message is held.
//   - Drop: send nothing; the client's message will be dropped.
func (t *Tracker) Prepare() Verdict {
	v := t.Offer(FrontendParse, false)
	if v == Forward || v == ForwardFlush {
		t.queue.newest().flags |= flagPrepared
	}
	return v
}

// Sent is the number of the entry that was counted last; the first one after
// Reset has number 1. A message has one if Offer, Prepare or Inject has said
// Forward or ForwardFlush, except Flush and copy data, and if Local has not said
// Hold, Full or Drop. The messages that Recover appends and those of
// Answer.Syncs have one each.
func (t *Tracker) Sent() uint64 { return t.sent }

// Done is the number up to which all entries are settled: answered, failed or
// removed. The next one is that of the head, to which what the backend sends
// next belongs.
func (t *Tracker) Done() uint64 { return t.sent - uint64(t.queue.n) }

// Outcome is what has become of an entry.
type Outcome uint8

const (
	// Executed: the backend has said that it is done; a local entry is complete.
	Executed Outcome = iota
	// Failed: the backend has begun to execute it, and its answer was an error.
	// Of a Query with several statements, those whose CommandComplete has come
	// were executed.
	Failed
	// Removed: an error before it has made the backend skip it.
	Removed
)

// Outcome tells what has become of the entry of a number that the last answer
// has settled: it is above what Done was before that answer, and not above what
// it is now. For older entries it may have forgotten an error.
//
// So a caller keeps what it has to do in a queue, each with the number of its
// message, and behind every Receive takes those up to Done from the front.
func (t *Tracker) Outcome(number uint64) Outcome {
	switch {
	case number < t.failed || number > t.removed:
		return Executed
	case number == t.failed:
		return Failed
	}
	return Removed
}
