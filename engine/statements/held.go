package statements

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"

	"pgkinetic/protocol"
)

// Held is the prepared statements that one server connection has: our copies of
// clients' statements under names of ours, and the unnamed one.
//
// State. Copies by statement, in order of use; the operations that were sent and
// are not yet answered; the names that are to be closed.
//
// Owner. The server's loop. It is told of operations when they are sent, under
// the numbers of the server's tracker, which start at 1 and do not fall, and of
// every answer, in order.
//
// Invariants.
//
//  1. A name is given once on a connection. So whatever becomes of a Parse or a
//     Close, a name never means two texts.
//  2. A copy is found from the moment its Parse was sent. If that fails or is
//     removed, it is forgotten, with it what was sent behind it in the group.
//  3. Evicted, stale and replaced copies are in closing until a Close was sent,
//     and again if an error removed that Close.
//  4. A copy is evicted only when everything that used it is answered.
//  5. While a Clear is in flight, copies older than it are hidden, not removed:
//     if it is refused they are there again. If it fails in the middle it is not
//     known what is left: they are forgotten, and leaked asks for a Clear of
//     ours before another client is served from here.
type Held struct {
	limit      int // copies
	limitBytes int
	copies     map[*Statement]*Copy // the newest of its statement
	order      Copy                 // ring: order.next is the one used last
	count      int
	bytes      int
	last       uint64 // the id given last
	ops        fifo[heldOperation]
	settled    uint64 // everything up to this number is answered
	closing    []*Copy
	hidden     uint64 // ids up to this one are hidden by a Clear in flight
	clearAt    uint64 // its number
	clears     int    // Clears in flight
	cleared    uint64 // ids up to this one are gone from the server
	leaked     bool
	unnamed    unnamedCopy
	failed     *Statement
	parsed     []*Statement
}

// Copy is a statement on a server, under a name of ours. It belongs to its Held.
type Copy struct {
	statement  *Statement
	id         uint64
	parseAt    uint64 // number of its Parse while that is in flight, else 0
	used       uint64 // number of the last message that needs it
	older      *Copy  // another copy of the same statement
	prev, next *Copy
	forgotten  bool
}

// Statement returns what it is a copy of.
func (c *Copy) Statement() *Statement { return c.statement }

// Since returns the number of its Parse while that is in flight, else 0.
func (c *Copy) Since() uint64 { return c.parseAt }

// unnamedCopy is the server's unnamed statement. Of those in flight only the
// newest is known: not knowing costs a Parse and is never wrong.
type unnamedCopy struct {
	certain  *Statement
	latest   *Statement
	latestAt uint64
	inFlight int
}

type heldKind uint8

const (
	heldParse heldKind = iota
	heldClose
	heldClear
	heldUnnamed
	heldQuery
)

type heldOperation struct {
	number uint64
	kind   heldKind
	copy   *Copy  // heldParse; heldClose: what is closed
	id     uint64 // heldClear: the last id before it
}

// prefix begins the name of every copy. The random part is this process's: a
// name that a client's SQL gives with PREPARE does not meet ours by accident.
// Clients' names in the protocol never reach a server.
var prefix = func() string {
	var b [4]byte
	rand.Read(b[:])
	return "pgk_" + hex.EncodeToString(b[:]) + "_"
}()

// Missing is the id of no copy: a message with its name draws the server's own
// error for a statement that does not exist.
const Missing = 0

// AppendName appends the name of a copy as the server knows it, without a NUL.
func AppendName(dst []byte, id uint64) []byte {
	return strconv.AppendUint(append(dst, prefix...), id, 10)
}

// AppendName appends the copy's name as the server knows it, without a NUL.
func (c *Copy) AppendName(dst []byte) []byte { return AppendName(dst, c.id) }

// NewHeld returns the state of a new server connection, which keeps at most so
// many copies, of at most so many bytes.
func NewHeld(limit, limitBytes int) *Held {
	h := &Held{limit: limit, limitBytes: limitBytes}
	h.order.prev, h.order.next = &h.order, &h.order
	return h
}

// SetLimits changes the bounds; NextClose then says what is too much.
func (h *Held) SetLimits(limit, limitBytes int) { h.limit, h.limitBytes = limit, limitBytes }

// Find returns the copy of a statement that a message sent now may use, or nil:
// then it is to be preceded by a Parse. since is the number of the operation in
// flight on which that rests (its Parse, or a Clear), 0 if it is certain; its
// meaning is that of Found.Since.
func (h *Held) Find(s *Statement) (c *Copy, since uint64) {
	if c = h.copies[s]; c != nil && c.id > h.hidden {
		return c, c.parseAt
	}
	if h.clears > 0 {
		return nil, h.clearAt
	}
	return nil, 0
}

// Use tells that a message that was sent under a number needs the copy.
func (h *Held) Use(c *Copy, number uint64) {
	c.used = number
	if !c.forgotten {
		h.unlink(c)
		h.link(c)
	}
}

// Parse tells that a Parse of a statement is being sent: under the name of the
// copy that it returns, and with this number.
func (h *Held) Parse(number uint64, s *Statement) *Copy {
	h.last++
	c := &Copy{statement: s, id: h.last, parseAt: number, used: number}
	if h.copies == nil {
		h.copies = make(map[*Statement]*Copy)
	}
	c.older = h.copies[s]
	h.copies[s] = c
	h.link(c)
	h.count++
	h.bytes += s.Size()
	h.ops.push(heldOperation{number: number, kind: heldParse, copy: c})
	return c
}

// NextClose returns the id of a copy that is to be closed on the server, if
// there is one: of those to be closed, or else, when there are too many, the one
// that was used least lately and that nothing in flight needs. It is found no
// more. When a Close of that name (AppendName) was sent, CloseSent tells so;
// until then NextClose returns the same.
func (h *Held) NextClose() (id uint64, ok bool) {
	if len(h.closing) == 0 {
		oldest := h.order.prev
		if (h.count <= h.limit && h.bytes <= h.limitBytes) || oldest == &h.order || oldest.used > h.settled {
			return 0, false
		}
		h.discard(oldest)
	}
	return h.closing[len(h.closing)-1].id, true
}

// CloseSent tells that what NextClose returned is being closed.
func (h *Held) CloseSent(number uint64) {
	last := len(h.closing) - 1
	h.ops.push(heldOperation{number: number, kind: heldClose, copy: h.closing[last]})
	h.closing[last] = nil
	h.closing = h.closing[:last]
}

// Deallocate tells that the copy is taken away by the message of a number:
// DEALLOCATE with the copy's name in place of the client's. The client's name is
// told to its Catalog by Close.
func (h *Held) Deallocate(number uint64, c *Copy) {
	if !c.forgotten {
		h.forget(c)
	}
	h.ops.push(heldOperation{number: number, kind: heldClose, copy: c})
}

// Stale drops a copy whose use has failed because of it (0A000, 26000), or may fail
// so: the next use of its statement is preceded by a Parse under another name.
func (h *Held) Stale(c *Copy) {
	if !c.forgotten {
		h.discard(c)
	}
}

// Drop drops the copies of a statement that nobody will use again.
func (h *Held) Drop(s *Statement) {
	for c := h.copies[s]; c != nil; c = h.copies[s] {
		h.discard(c)
	}
}

// Clear tells that DEALLOCATE ALL or DISCARD ALL was sent, by a client or by us.
func (h *Held) Clear(number uint64) {
	h.clears++
	h.clearAt, h.hidden = number, h.last
	h.ops.push(heldOperation{number: number, kind: heldClear, id: h.last})
}

// Leaked tells that the server may have copies that are not known here.
// DEALLOCATE ALL, told by Clear, mends it.
func (h *Held) Leaked() bool { return h.leaked }

// Failed returns the statement whose Parse has failed since it was asked last, or
// nil.
func (h *Held) Failed() *Statement {
	st := h.failed
	h.failed = nil
	return st
}

// maxParsed bounds what Parsed returns; it is asked behind each answer.
const maxParsed = 16

// Parsed returns the statements whose Parse has been executed since it was asked
// last. They are valid until the next answer; the caller clears them.
func (h *Held) Parsed() []*Statement {
	p := h.parsed
	h.parsed = h.parsed[:0]
	return p
}

// Unnamed returns the server's unnamed statement as a message sent now finds it;
// nil: none, or it is not known. since is as with Find.
func (h *Held) Unnamed() (s *Statement, since uint64) {
	if h.unnamed.inFlight > 0 {
		return h.unnamed.latest, h.unnamed.latestAt
	}
	return h.unnamed.certain, 0
}

// ParseUnnamed tells that a Parse of the unnamed statement was sent; s is nil if
// it is not known what it says.
func (h *Held) ParseUnnamed(number uint64, s *Statement) { h.replaceUnnamed(number, heldUnnamed, s) }

// CloseUnnamed tells that a Close of the unnamed statement was sent.
func (h *Held) CloseUnnamed(number uint64) { h.replaceUnnamed(number, heldUnnamed, nil) }

// Query tells that a simple Query was sent, by a client or by us: it drops the
// unnamed statement.
func (h *Held) Query(number uint64) {
	if h.unnamed.certain != nil || h.unnamed.inFlight > 0 {
		h.replaceUnnamed(number, heldQuery, nil)
	}
}

func (h *Held) replaceUnnamed(number uint64, kind heldKind, s *Statement) {
	h.unnamed.inFlight++
	h.unnamed.latest, h.unnamed.latestAt = s, number
	h.ops.push(heldOperation{number: number, kind: kind})
}

// Settle takes account of what an answer has settled; code is the SQLSTATE if the
// answer was an ErrorResponse. Call it behind each Receive of the tracker.
func (h *Held) Settle(o Outcomes, code []byte) {
	h.settled = o.Done()
	for h.ops.len() > 0 && h.ops.front().number <= h.settled {
		h.settle(o.Outcome(h.ops.front().number), code)
	}
}

// Step tells that a DEALLOCATE ALL or DISCARD ALL in the simple Query of this
// number has been executed: its CommandComplete has come.
func (h *Held) Step(number uint64) {
	for h.ops.len() > 0 && h.ops.front().number <= number {
		if h.settle(protocol.Executed, nil) == heldClear {
			return
		}
	}
}

// refused tells whether a DISCARD ALL has failed before it did anything: in a
// transaction block (active_sql_transaction, in_failed_sql_transaction).
func refused(code []byte) bool { return string(code) == "25001" || string(code) == "25P02" }

// settle ends the oldest operation.
func (h *Held) settle(o protocol.Outcome, code []byte) heldKind {
	op := h.ops.pop()
	switch op.kind {
	case heldParse:
		op.copy.parseAt = 0
		switch o {
		case protocol.Failed:
			h.failed = op.copy.statement
		case protocol.Executed:
			if len(h.parsed) < maxParsed && !op.copy.statement.own {
				h.parsed = append(h.parsed, op.copy.statement)
			}
		}
		if o != protocol.Executed && !op.copy.forgotten {
			h.forget(op.copy)
		}
	case heldClose:
		if o != protocol.Executed && op.copy.id > h.cleared {
			h.closing = append(h.closing, op.copy)
		}
	case heldClear:
		h.settleClear(op.id, o, code)
	case heldUnnamed, heldQuery:
		h.settleUnnamed(op, o)
	}
	return op.kind
}

func (h *Held) settleClear(upTo uint64, o protocol.Outcome, code []byte) {
	if h.clears--; h.clears == 0 {
		h.hidden = 0
	}
	if o == protocol.Removed || (o == protocol.Failed && refused(code)) {
		return
	}
	for c := h.order.next; c != &h.order; {
		next := c.next
		if c.id <= upTo {
			h.forget(c)
		}
		c = next
	}
	if o == protocol.Failed {
		h.leaked = true
		return
	}
	h.leaked, h.cleared = false, upTo
	h.closing = slices.DeleteFunc(h.closing, func(c *Copy) bool { return c.id <= upTo })
}

func (h *Held) settleUnnamed(op heldOperation, o protocol.Outcome) {
	u := &h.unnamed
	u.inFlight--
	last := u.inFlight == 0
	switch {
	case o == protocol.Removed:
	case o == protocol.Executed && last:
		u.certain = u.latest
	default:
		u.certain = nil
	}
	if last {
		u.latest = nil
	}
}

// discard forgets a copy that the server has, or will have, and which is
// therefore to be closed.
func (h *Held) discard(c *Copy) {
	h.forget(c)
	h.closing = append(h.closing, c)
}

// forget takes a copy out of the table.
func (h *Held) forget(c *Copy) {
	c.forgotten = true
	if newest := h.copies[c.statement]; newest != c {
		for newest.older != c {
			newest = newest.older
		}
		newest.older = c.older
	} else if c.older != nil {
		h.copies[c.statement] = c.older
	} else {
		delete(h.copies, c.statement)
	}
	h.unlink(c)
	c.older, c.prev, c.next = nil, nil, nil
	h.count--
	h.bytes -= c.statement.Size()
}

func (h *Held) link(c *Copy) {
	c.prev, c.next = &h.order, h.order.next
	c.prev.next, c.next.prev = c, c
}

func (h *Held) unlink(c *Copy) { c.prev.next, c.next.prev = c.next, c.prev }

// Len returns how many copies there are, Bytes what they count for.
func (h *Held) Len() int { return h.count }

// Bytes returns the sum of the sizes of the copies' statements.
func (h *Held) Bytes() int { return h.bytes }
