package reactor

import (
	"golang.org/x/sys/unix"
)

// State: outbox holds the small writes of one round: what Put accepted and the
// kernel has not been given yet. Owner: the loop.
//
// Invariants:
//   - a socket has at most one entry, entries[staged-1], and no entry is empty
//     unless Flush has sent it; an entry whose socket has left (sock nil) still
//     leaves, and nobody asks how that went
//   - an entry's bytes are arena[from:from+size], in the order of the Puts
//   - the outbox is empty whenever the loop looks for events, and before it closes
//     a descriptor of which it holds bytes
//   - who has bytes here has none in a chain: Unsent is told before anything else
//     is written to the socket
//
// Why writes wait for the end of their round, with figures:
// docs/design/0008-writes-of-a-round.md.

const (
	// PutMax is the size up to which Put keeps a write until the end of the round.
	PutMax = 4 << 10

	outboxEntries = 64
	outboxBytes   = 64 << 10
	// outboxTime is how long a write waits at most for the other events of its
	// round, in nanoseconds.
	outboxTime = 500_000
)

type outbox struct {
	ring     *ring // nil: each write is a system call of its own
	since    int64 // when the first entry came
	n        int
	used     int
	flushing bool
	entries  [outboxEntries]entry
	arena    [outboxBytes]byte
}

// entry is one write.
type entry struct {
	sock       *Socket
	fd         int32
	from, size int32
	result     int32 // bytes taken, or a negative errno
}

func (b *outbox) bytes(e *entry) []byte { return b.arena[e.from : e.from+e.size] }

// stage copies pieces of the given total behind what s has here, and reports
// whether there was room.
func (b *outbox) stage(s *Socket, pieces [][]byte, total int) bool {
	e := b.entry(s, total)
	if e == nil {
		return false
	}
	for _, p := range pieces {
		b.used += copy(b.arena[b.used:], p)
	}
	e.size += int32(total)
	return true
}

// entry gives s's entry, a new one if there is none, such that total more bytes
// may follow at used; nil if there is no room for that.
func (b *outbox) entry(s *Socket, total int) *entry {
	if s.staged == 0 {
		if b.n == outboxEntries || b.used+total > outboxBytes {
			return nil
		}
		if b.n == 0 {
			b.since = s.loop.now
		}
		e := &b.entries[b.n]
		*e = entry{sock: s, fd: s.fd, from: int32(b.used)}
		b.n++
		s.staged = uint8(b.n)
		return e
	}
	e := &b.entries[s.staged-1]
	if int(e.from+e.size) == b.used {
		total -= int(e.size) // it is the last one and can grow where it is
	}
	if b.used+total+int(e.size) > outboxBytes {
		return nil
	}
	if int(e.from+e.size) != b.used {
		n := copy(b.arena[b.used:], b.bytes(e))
		e.from = int32(b.used)
		b.used += n
	}
	return e
}

// flush gives the kernel everything, in as few calls as there are ways.
func (b *outbox) flush() {
	if b.n == 0 {
		return
	}
	if b.flushing {
		panic("BUG: reactor: a write from OnUnsent")
	}
	b.flushing = true
	entries := b.entries[:b.n]
	done := 0
	if b.ring != nil && len(entries) > 1 {
		done = b.ring.send(b, entries)
	}
	for i := done; i < len(entries); i++ {
		b.sendEntry(&entries[i])
	}
	for i := range entries {
		b.settle(&entries[i])
	}
	b.n, b.used, b.flushing = 0, 0, false
}

// flushOne gives the kernel what s has here, and reports whether it took all.
func (b *outbox) flushOne(s *Socket) bool {
	e := &b.entries[s.staged-1]
	b.sendEntry(e)
	taken := b.settle(e)
	e.size = 0
	return taken
}

func (b *outbox) sendEntry(e *entry) {
	if e.size == 0 {
		e.result = 0
		return
	}
	n, err := rawSend(int(e.fd), b.bytes(e))
	if errno, ok := err.(unix.Errno); ok {
		n = -int(errno)
	}
	e.result = int32(n)
}

// settle tells the socket what was not taken, and reports whether all was.
func (b *outbox) settle(e *entry) bool {
	s := e.sock
	e.sock = nil
	if s == nil {
		return true
	}
	s.staged = 0
	if e.result == e.size {
		return true
	}
	var err error
	taken := max(e.result, 0)
	if e.result < 0 && e.result != -int32(unix.EAGAIN) {
		err = unix.Errno(-e.result)
	}
	if rest := b.bytes(e)[taken:]; s.secure != nil {
		s.secure.unsent(rest, err)
	} else {
		s.handler.(Sender).OnUnsent(s, rest, err)
	}
	return false
}

// disown lets the bytes of a socket that leaves go without it.
func (b *outbox) disown(s *Socket) {
	if s.staged != 0 {
		b.entries[s.staged-1].sock = nil
		s.staged = 0
	}
}
