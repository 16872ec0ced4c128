package statements

import (
	"bytes"
	"hash/maphash"
	"unsafe"

	"pgkinetic/protocol"
)

// Catalog is the prepared statements of one client, as PostgreSQL would have
// them in a session of the client's own.
//
// State. For each name the statement that it has for certain (committed) and
// the one that it will have if everything that was sent goes well (latest); the
// operations that were sent and are not yet answered, in order.
//
// Owner. The client's loop. It is told of the operations when they are sent (or
// take their place among the answers, where they are answered here), under the
// numbers of the tracker of the server that serves the client; numbers start at
// 1 and do not fall. While a client changes servers nothing is in flight.
//
// Invariants.
//
//  1. Operations settle in the order of their numbers: Settle takes them from
//     the front.
//  2. An operation decides what its name means whatever was before it: Parse
//     gives it a statement, Close, Clear and Query take it away. So latest needs
//     no history, and if the last operation in flight is removed by an error,
//     committed is what the name means.
//  3. A name that has no statement and nothing in flight has no entry.
//  4. bytes counts each committed statement and each one in flight, for each
//     name. Of unnamed statements in flight that a later one replaces, at most
//     maxReplaced bytes are kept: beyond, the older is forgotten, which shows
//     only as a 26000 after an error between the two.
//
// What PostgreSQL does (source: tcop/postgres.c, commands/prepare.c), and tests
// compare with a server:
//
//   - Prepared statements know no transactions: nothing takes back what was done.
//   - A Parse of a name in use is an error, 42P05, and changes nothing.
//   - A Parse of the unnamed statement drops the old one before it looks at the
//     text, so one that fails leaves none. One that is skipped leaves the old one.
//   - A simple Query drops the unnamed statement, even if it fails.
//   - DEALLOCATE ALL and DISCARD ALL do not drop the unnamed statement.
//   - Names are bytes, of which the first 63 count.
type Catalog struct {
	names     map[uint64]*name // by hash, chained; nil while there are none
	committed *name            // list of the named that have a statement
	unnamed   name
	replaceAt uint64 // position of the newest unnamed Parse in flight
	replaced  int    // bytes of the unnamed statements in flight
	ops       fifo[operation]
	clearAt   uint64 // number of the newest Clear in flight
	clears    int    // Clears in flight
	bytes     int
	count     int // named entries that have a statement
	peak      int // most entries of names since it was made
	spare     *name
	spares    int
	uses      fifo[use] // in flight, and answered ones before those
}

const (
	maxName      = 63 // NAMEDATALEN - 1: PostgreSQL compares no more
	maxReplaced  = 1 << 20
	maxSpares    = 8
	maxKeptNames = 64 // entries of the largest table that is kept when it is empty
)

type name struct {
	key        [maxName]byte
	length     uint8
	hash       uint64
	chain      *name // the next of the same hash; of the spare ones, the next
	prev, next *name // in Catalog.committed
	committed  *Statement
	latest     *Statement // while inFlight > 0
	latestAt   uint64
	inFlight   int32
	used       bool // since its last Parse, or its copies are the client's own
}

func (n *name) text() []byte { return n.key[:n.length] }

const nameSize = int(unsafe.Sizeof(name{})) + 48 // with its share of the table

type operationKind uint8

const (
	opParse operationKind = iota
	opClose
	opQuery
	opClear
)

type operation struct {
	number    uint64
	name      *name // nil for opClear and the opClose of an unknown name
	statement *Statement
	kind      operationKind
}

// Found is what a name means to a message sent now. Statement is nil when the
// name means nothing. Since is the number of the operation in flight that this
// rests on, 0 if it is certain. A message that is sent in the same group as that
// operation may rely on it, since its failure takes the message away, too. If
// Since is below the group's first number, the message is to wait.
type Found struct {
	Statement *Statement
	Since     uint64
	name      *name // valid until something is told to the Catalog
}

// Lookup returns what a name (empty: the unnamed statement) means to a message
// that is sent behind everything so far. A nil Catalog has no names.
func (c *Catalog) Lookup(text []byte) Found {
	if c == nil {
		return Found{}
	}
	if len(text) == 0 {
		return c.unnamed.found()
	}
	var f Found
	if n := c.find(text); n != nil {
		f = n.found()
	}
	if c.clears > 0 && c.clearAt >= f.Since {
		return Found{Since: c.clearAt}
	}
	return f
}

func (n *name) found() Found {
	if n.inFlight > 0 {
		return Found{Statement: n.latest, Since: n.latestAt, name: n}
	}
	return Found{Statement: n.committed, name: n}
}

// Parse tells that a Parse was sent which gives a name a statement. The caller
// has seen by Lookup that a name other than the unnamed means nothing: a Parse
// of a name in use only draws an error, and is not told. The name's bytes are
// not kept.
func (c *Catalog) Parse(number uint64, text []byte, s *Statement) {
	n := &c.unnamed
	if len(text) > 0 {
		n = c.entry(text)
	} else {
		c.forgetReplaced(s)
	}
	n.used = s.Own()
	c.bytes += s.Size()
	at := c.push(operation{number: number, kind: opParse, name: n, statement: s})
	if n == &c.unnamed {
		c.replaceAt = at
		c.replaced += s.Size()
	}
}

// forgetReplaced keeps invariant 4 before s is sent as the unnamed statement.
func (c *Catalog) forgetReplaced(s *Statement) {
	if c.unnamed.inFlight == 0 || c.replaceAt < c.ops.head || c.replaced+s.Size() <= maxReplaced {
		return
	}
	if op := c.ops.at(c.replaceAt); op.statement != nil {
		c.release(op)
	}
}

// release takes an operation's statement out of the sums.
func (c *Catalog) release(op *operation) {
	if op.statement == nil {
		return
	}
	c.bytes -= op.statement.Size()
	if op.name == &c.unnamed {
		c.replaced -= op.statement.Size()
	}
	op.statement = nil
}

// Close tells that a name is taken away by a Close, or by DEALLOCATE name. An
// unknown name is no error to a Close; that DEALLOCATE draws one is the caller's
// matter. A nil Catalog has nothing to take away.
func (c *Catalog) Close(number uint64, text []byte) {
	if c == nil {
		return
	}
	n := &c.unnamed
	if len(text) > 0 {
		n = c.find(text)
	}
	c.push(operation{number: number, kind: opClose, name: n})
}

// Query tells that a simple Query was sent: it drops the unnamed statement.
func (c *Catalog) Query(number uint64) {
	if c != nil && (c.unnamed.committed != nil || c.unnamed.inFlight > 0) {
		c.push(operation{number: number, kind: opQuery, name: &c.unnamed})
	}
}

// Clear tells that DEALLOCATE ALL or DISCARD ALL was sent: in an Execute, or in
// a simple Query, whose number it then is.
func (c *Catalog) Clear(number uint64) {
	if c == nil {
		return
	}
	c.clears++
	c.clearAt = number
	c.ops.push(operation{number: number, kind: opClear})
}

func (c *Catalog) push(op operation) uint64 {
	if op.name != nil {
		op.name.inFlight++
		op.name.latest, op.name.latestAt = op.statement, op.number
	}
	return c.ops.push(op)
}

// Outcomes is what the tracker of the server that serves the client says behind
// each answer: everything up to Done is settled, and what became of it
// (protocol.Tracker).
type Outcomes interface {
	Done() uint64
	Outcome(number uint64) protocol.Outcome
}

// Settle takes account of what an answer has settled. Call it behind each
// Receive of the tracker, and behind a Local that was answered at once.
func (c *Catalog) Settle(o Outcomes) {
	if c == nil || c.ops.len() == 0 {
		return
	}
	for done := o.Done(); c.ops.len() > 0 && c.ops.front().number <= done; {
		c.settle(o.Outcome(c.ops.front().number))
	}
}

// Step tells that within the message of this number, a simple Query of several
// statements, one that was told by Close or Clear has been executed: its
// CommandComplete has come.
func (c *Catalog) Step(number uint64) {
	if c == nil {
		return
	}
	for c.ops.len() > 0 && c.ops.front().number <= number {
		if c.settle(protocol.Executed) != opQuery {
			return
		}
	}
}

// Lost tells that the server connection has ended: what it has not answered is
// taken as not executed.
func (c *Catalog) Lost() {
	if c == nil {
		return
	}
	for c.InFlight() {
		c.settle(protocol.Removed)
	}
	for c.uses.len() > 0 {
		c.uses.pop()
	}
}

// settle ends the oldest operation.
func (c *Catalog) settle(o protocol.Outcome) operationKind {
	op := c.ops.pop()
	if op.kind == opClear {
		c.clears--
		if o == protocol.Executed {
			for c.committed != nil {
				n := c.committed
				c.commit(n, nil)
				c.leave(n)
			}
		}
		return op.kind
	}
	s, n := op.statement, op.name
	if n == nil {
		return op.kind
	}
	c.release(&op)
	n.inFlight--
	if n.inFlight == 0 {
		n.latest = nil
	}
	switch {
	case o == protocol.Executed:
		c.commit(n, s)
	case o == protocol.Failed && (op.kind == opQuery || op.kind == opParse && n == &c.unnamed):
		c.commit(n, nil)
	}
	c.leave(n)
	return op.kind
}

// commit makes s, or nothing, the certain meaning of a name.
func (c *Catalog) commit(n *name, s *Statement) {
	old := n.committed
	n.committed = s
	if old != nil {
		c.bytes -= old.Size()
	}
	if s != nil {
		c.bytes += s.Size()
	}
	if n == &c.unnamed || (old == nil) == (s == nil) {
		return
	}
	if s != nil {
		c.count++
		n.next = c.committed
		if n.next != nil {
			n.next.prev = n
		}
		c.committed = n
		return
	}
	c.count--
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		c.committed = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

// Len returns how many named statements the client has for certain.
func (c *Catalog) Len() int {
	if c == nil {
		return 0
	}
	return c.count
}

// Bytes returns what the client's statements count for, those in flight
// included.
func (c *Catalog) Bytes() int {
	if c == nil {
		return 0
	}
	return c.bytes
}

// Fits tells whether one more named statement keeps the client within a bound of
// bytes. If not, the Parse is answered with ERROR 54000.
func (c *Catalog) Fits(s *Statement, limit int) bool {
	return c.Bytes()+s.Size()+nameSize <= limit
}

// InFlight tells whether an operation is not settled yet.
func (c *Catalog) InFlight() bool { return c != nil && c.ops.len() > 0 }

func significant(text []byte) []byte { return text[:min(len(text), maxName)] }

func (c *Catalog) find(text []byte) *name {
	if c.names == nil {
		return nil
	}
	text = significant(text)
	n := c.names[maphash.Bytes(seed, text)]
	for n != nil && !bytes.Equal(n.text(), text) {
		n = n.chain
	}
	return n
}

// entry finds a name or makes an entry for it.
func (c *Catalog) entry(text []byte) *name {
	if n := c.find(text); n != nil {
		return n
	}
	if c.names == nil {
		c.names = make(map[uint64]*name)
	}
	n := c.spare
	if n == nil {
		n = new(name)
	} else {
		c.spare, c.spares = n.chain, c.spares-1
	}
	text = significant(text)
	n.length = uint8(copy(n.key[:], text))
	n.hash = maphash.Bytes(seed, text)
	n.chain = c.names[n.hash]
	c.names[n.hash] = n
	c.peak = max(c.peak, len(c.names))
	c.bytes += nameSize
	return n
}

// leave removes a name that means nothing any more.
func (c *Catalog) leave(n *name) {
	if n == &c.unnamed || n.committed != nil || n.inFlight > 0 {
		return
	}
	if first := c.names[n.hash]; first != n {
		for first.chain != n {
			first = first.chain
		}
		first.chain = n.chain
	} else if n.chain != nil {
		c.names[n.hash] = n.chain
	} else {
		delete(c.names, n.hash)
	}
	c.bytes -= nameSize
	if len(c.names) == 0 && c.peak > maxKeptNames {
		// A map keeps the memory of the most that it ever held.
		c.names, c.peak = nil, 0
	}
	*n = name{}
	if c.spares < maxSpares {
		n.chain, c.spare = c.spare, n
		c.spares++
	}
}
