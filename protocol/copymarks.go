package protocol

import "hash/maphash"

// Which of a client's statements and portals may be COPY … FROM STDIN.
//
// State. For each name a mark, current as the client's messages say if each of
// them takes effect, and kept: set until it is certain that they did. An error
// makes PostgreSQL skip messages that were counted here, so a mark that a Parse,
// Bind or Close would take away stays until Settle, and for good after Failed.
//
// Owner. One CopyMarks belongs to one client and its loop. It is told of the
// messages that are sent to a backend, when they are.
//
// Invariants.
//
//  1. A name without an entry counts as marked, so forgetting a name that is
//     not marked is always safe, and no other is forgotten.
//  2. Names are kept as 61-bit hashes under a seed of this process. Where two
//     names share one, marks are joined, never taken away.
//  3. At most maxMarkedNames entries are kept. When they are used up, those that
//     are not marked are forgotten; when half of them are marked, every name
//     counts as marked from then on.
//
// The unnamed statement and portal are bits of their own: a client that uses
// nothing else keeps no table.

// maxMarkedNames bounds the statements and portals of one client that are
// remembered, in 16 KiB of table. An Execute of a forgotten one is treated as
// COPY FROM STDIN until it proves otherwise, which costs a Flush.
const maxMarkedNames = 1024

// mark is a set of the bits below; zero stands for an unknown name.
type mark uint8

const (
	markKnown  mark = 1 << iota // the name was seen
	markCopy                    // it is COPY FROM STDIN, as far as the messages say
	markKept                    // it was, and perhaps still is
	markBits   = 3
	markMask   = 1<<markBits - 1
	tableStart = 8 // slots of the first table
)

func (m mark) mayCopy() bool { return m&markKnown == 0 || m&(markCopy|markKept) != 0 }

// replaced is the mark after a message that gives the name a new meaning.
func (m mark) replaced(mayCopy bool) mark {
	if mayCopy {
		return markKnown | markCopy
	}
	if m.mayCopy() && m != 0 {
		return markKnown | markKept
	}
	return markKnown
}

// settled is the mark once it is known whether an error has come.
func (m mark) settled(failed bool) mark {
	if m&markKept != 0 && failed {
		m |= markCopy
	}
	return m &^ markKept
}

// CopyMarks is the state described at the top of this file. The zero value knows
// no name.
type CopyMarks struct {
	names     *markTable
	statement mark // the unnamed one
	portal    mark
	kept      bool // some mark has markKept
	failed    bool // an error has come since the last Settle
	full      bool // every name counts as marked
}

var markSeed = maphash.MakeSeed()

// Parse tells that the client sent Parse for a statement that may be COPY FROM
// STDIN, or is not.
func (m *CopyMarks) Parse(name []byte, mayCopy bool) {
	if len(name) == 0 {
		m.statement = m.note(m.statement.replaced(mayCopy))
		return
	}
	m.join(TargetStatement, name, mayCopy)
}

// Bind tells that the client made a portal from a statement.
func (m *CopyMarks) Bind(portal, stmt []byte) {
	m.Portal(portal, m.get(TargetStatement, stmt).mayCopy())
}

// Portal is Bind where it is known otherwise whether the statement may be COPY FROM
// STDIN.
func (m *CopyMarks) Portal(portal []byte, mayCopy bool) {
	if len(portal) == 0 {
		m.portal = m.note(m.portal.replaced(mayCopy))
		return
	}
	m.join(TargetPortal, portal, mayCopy)
}

// Execute reports whether a portal may be COPY FROM STDIN. It is true for one
// that is not known.
func (m *CopyMarks) Execute(portal []byte) bool {
	return m.get(TargetPortal, portal).mayCopy()
}

// Close tells that the client closed a statement or portal.
func (m *CopyMarks) Close(target byte, name []byte) {
	switch {
	case len(name) > 0:
		if m.names == nil {
			return
		}
		if slot := m.names.find(nameHash(target, name)); slot != nil {
			*slot = *slot&^markMask | uint64(m.note(mark(*slot&markMask).replaced(false)))
		}
	case target == TargetPortal:
		m.portal = m.note(m.portal.replaced(false))
	default:
		m.statement = m.note(m.statement.replaced(false))
	}
}

// Failed tells that the backend has answered one of the client's messages by an
// error: others may not have taken effect.
func (m *CopyMarks) Failed() { m.failed = true }

// Settle tells that the backend has said ReadyForQuery and that everything it
// was sent for the client is answered. Marks that were kept in case a message
// would not take effect are let go, or, after Failed, become current again.
// Without Settle, marks are only true more often.
func (m *CopyMarks) Settle() {
	if m.kept {
		m.statement = m.statement.settled(m.failed)
		m.portal = m.portal.settled(m.failed)
		if m.names != nil {
			m.names.settle(m.failed)
		}
	}
	m.kept, m.failed = false, false
}

// Clear forgets all names (DISCARD ALL, another backend).
func (m *CopyMarks) Clear() { *m = CopyMarks{} }

func (m *CopyMarks) note(k mark) mark {
	m.kept = m.kept || k&markKept != 0
	return k
}

func (m *CopyMarks) get(target byte, name []byte) mark {
	switch {
	case len(name) == 0 && target == TargetPortal:
		return m.portal
	case len(name) == 0:
		return m.statement
	case m.names == nil:
		return 0
	}
	if slot := m.names.find(nameHash(target, name)); slot != nil {
		return mark(*slot & markMask)
	}
	return 0
}

// join gives a name a meaning. PostgreSQL refuses one that is in use, so the
// old meaning may live on and is joined to the new one.
func (m *CopyMarks) join(target byte, name []byte, mayCopy bool) {
	k := markKnown
	if mayCopy {
		k |= markCopy
	}
	if m.full {
		return
	}
	h := nameHash(target, name)
	if m.names == nil {
		m.names = newMarkTable(tableStart)
	}
	if slot := m.names.find(h); slot != nil {
		*slot |= uint64(k)
		return
	}
	if m.names.used == maxMarkedNames {
		m.names = m.names.rebuilt(len(m.names.slots), mark.mayCopy)
		if m.names.used > maxMarkedNames/2 {
			m.full, m.names = true, nil
			return
		}
	}
	if 2*(m.names.used+1) > len(m.names.slots) {
		m.names = m.names.rebuilt(2*len(m.names.slots), func(mark) bool { return true })
	}
	m.names.insert(h | uint64(k))
}

// nameHash is a hash of a name, its low bits free for the mark. Portals and
// statements are two spaces of names.
func nameHash(target byte, name []byte) uint64 {
	h := maphash.Bytes(markSeed, name)
	if target == TargetPortal {
		h ^= 0x9e3779b97f4a7c15
	}
	return h &^ markMask
}

// markTable is an open-addressing table with linear probing, at most half full.
// A slot is a hash and its mark; a free slot is zero, since a known mark is not. Names
// are not removed one by one.
type markTable struct {
	slots []uint64
	used  int
}

func newMarkTable(n int) *markTable { return &markTable{slots: make([]uint64, n)} }

func (t *markTable) find(h uint64) *uint64 {
	mask := uint64(len(t.slots) - 1)
	for i := h >> markBits & mask; ; i = (i + 1) & mask {
		slot := &t.slots[i]
		if *slot == 0 {
			return nil
		}
		if *slot&^markMask == h {
			return slot
		}
	}
}

func (t *markTable) insert(entry uint64) {
	mask := uint64(len(t.slots) - 1)
	i := entry >> markBits & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = entry
	t.used++
}

// rebuilt is a table of n slots with those entries whose marks are wanted.
func (t *markTable) rebuilt(n int, want func(mark) bool) *markTable {
	other := newMarkTable(n)
	for _, s := range t.slots {
		if s != 0 && want(mark(s&markMask)) {
			other.insert(s)
		}
	}
	return other
}

func (t *markTable) settle(failed bool) {
	for i, s := range t.slots {
		if s != 0 {
			t.slots[i] = s&^markMask | uint64(mark(s&markMask).settled(failed))
		}
	}
}
