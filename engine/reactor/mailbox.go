package reactor

import "sync/atomic"

// State: mailbox.head is a stack of posted messages, newest first. Any goroutine
// pushes with a CAS; the owning loop takes the whole stack with one swap and
// turns it round into inbox, which only the loop touches.
//
// Invariants:
//   - a message is in at most one mailbox, at most once (queued)
//   - whoever pushes wakes a loop that has announced its sleep; the loop looks at
//     the stack once more after the announcement (both are atomics in one order),
//     so a message is never slept over
//   - inbox is oldest first, and everything in it is older than the stack: one
//     sender's messages arrive in the order in which they were posted
//
// The mailbox has no capacity of its own: a message is part of its sender's
// struct, so it is bounded by the number of senders. What is bounded here is
// the work: messagesPerTurn.

const messagesPerTurn = 256

// The kinds that Loop does not hand to OnMessage: a socket of the acceptor for its
// OnAccept, the acceptor's own turn, and the loop's turn of a TLS handshake.
const (
	kindAccepted  = 255
	kindAcceptor  = 254
	kindHandshake = 253
)

// Message is one intrusive cross-loop message, embedded in the struct that the
// sender owns: posting allocates nothing. From Post until OnMessage is called
// with it, it belongs to the mailbox and must not be touched; inside OnMessage
// it belongs to the receiving loop and may be posted again.
type Message struct {
	next   *Message
	queued atomic.Uint32

	Kind uint8  // the sender's; 253 to 255 are reserved
	Arg  uint64 // the sender's: a generation, a ticket, …
	Ref  any    // the sender's: usually a pointer to the struct around
}

// Queued reports whether the message lies in a mailbox. Only the party that may
// post it can rely on a false.
func (m *Message) Queued() bool { return m.queued.Load() != 0 }

type mailbox struct {
	_    [64]byte // senders write head: keep it off the loop's own lines
	head atomic.Pointer[Message]
	_    [56]byte

	inbox *Message
}

// push adds m; false, and nothing is done, if m is already queued.
func (b *mailbox) push(m *Message) bool {
	if m.queued.Swap(1) != 0 {
		return false
	}
	for {
		old := b.head.Load()
		m.next = old
		if b.head.CompareAndSwap(old, m) {
			return true
		}
	}
}

// waiting tells whether there is a message. Loop only.
func (b *mailbox) waiting() bool { return b.inbox != nil || b.head.Load() != nil }

// pop returns the oldest message or nil. Loop only.
func (b *mailbox) pop() *Message {
	if b.inbox == nil {
		b.refill()
	}
	m := b.inbox
	if m == nil {
		return nil
	}
	b.inbox, m.next = m.next, nil
	m.queued.Store(0)
	return m
}

func (b *mailbox) refill() {
	if b.head.Load() == nil {
		return
	}
	for m := b.head.Swap(nil); m != nil; {
		next := m.next
		m.next = b.inbox
		b.inbox = m
		m = next
	}
}

// Post sends m to the loop, from any goroutine: no allocation, no lock, first
// in first out per sender. The loop calls LoopOptions.OnMessage with it. To post
// a message that is still queued is a bug and panics. A loop that has stopped
// never handles it.
func (l *Loop) Post(m *Message) {
	if !l.tryPost(m) {
		panic("BUG: reactor: message posted while it was queued")
	}
}

func (l *Loop) tryPost(m *Message) (ok bool) {
	if !l.mail.push(m) {
		return false
	}
	if l.sleeping.Load() && l.sleeping.CompareAndSwap(true, false) {
		l.Wake()
	}
	return true
}
