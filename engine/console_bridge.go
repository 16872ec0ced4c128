package engine

// A bridge joins a console client's socket, which belongs to a loop and never
// blocks, to the goroutine of its session, which may. It is an io.ReadWriter for
// the goroutine and a pair of bounded buffers for the loop.
//
// Owner: both sides, under mu. in and out are at most bridgeBuffer bytes: at the
// bound the loop does not read the socket any more, and the goroutine waits in
// Write.
//
// Invariants:
//   - nothing is lost: bytes that the loop has offered are read in their order, and
//     bytes written are taken in theirs, unless the client is gone (cut)
//   - the goroutine asks for a turn of the loop whenever it has made room in a full
//     in, added to out, or ended; once, until the loop has begun the turn
//   - nobody waits any more once the bridge is cut, or the session is to leave: then
//     nothing more is read, and written is what there is room for

import (
	"io"
	"net"
	"sync"
)

const bridgeBuffer = 64 << 10

type bridge struct {
	post func() // brings the loop to a turn; not again before the turn has begun

	mu      sync.Mutex
	changed sync.Cond // for the goroutine
	in, out []byte
	posted  bool
	waits   bool // the loop holds bytes back until there is room in in
	ended   bool // by the goroutine: nothing will be written any more
	wasCut  bool // by the loop: the client is gone
	leaves  bool // the session is to end: there are but its last words
	peak    int  // the most bytes that in or out ever held
}

func newBridge(post func()) *bridge {
	b := &bridge{post: post}
	b.changed.L = &b.mu
	return b
}

// wake asks for a turn of the loop. mu is held.
func (b *bridge) wake() {
	if !b.posted {
		b.posted = true
		b.post()
	}
}

// turn begins the loop's turn.
func (b *bridge) turn() {
	b.mu.Lock()
	b.posted = false
	b.mu.Unlock()
}

// offer gives the session a copy of as much of p as there is room for, and tells how
// much that is; if it is not all, the loop is woken when there is room again. The
// loop's.
func (b *bridge) offer(p []byte) (taken int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken = min(len(p), bridgeBuffer-len(b.in))
	b.waits = taken < len(p)
	if taken > 0 {
		b.in = append(b.in, p[:taken]...)
		b.peak = max(b.peak, len(b.in))
		b.changed.Signal()
	}
	return taken
}

// take moves what the session has written to the end of dst; over: there will be no
// more. The loop's.
func (b *bridge) take(dst []byte) (written []byte, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, b.out...)
	b.out = b.out[:0]
	b.changed.Signal()
	return dst, b.ended
}

// cut tells the session that its client is gone. The loop's.
func (b *bridge) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wasCut = true
	b.in, b.out = nil, nil
	b.changed.Signal()
}

// leave tells the session that this is the end. Any goroutine.
func (b *bridge) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaves = true
	b.changed.Signal()
}

// Read waits for bytes of the client; io.EOF when it is gone, or the session is to
// leave. The session's.
func (b *bridge) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.in) == 0 && !b.wasCut && !b.leaves {
		b.changed.Wait()
	}
	if b.wasCut || b.leaves {
		return 0, io.EOF
	}
	n = copy(p, b.in)
	if b.in = append(b.in[:0], b.in[n:]...); len(b.in) == 0 {
		b.in = nil // an idle session holds no buffer
	}
	if b.waits {
		b.waits = false
		b.wake()
	}
	return n, nil
}

// Write waits until all of p has found room; net.ErrClosed when the client is gone, or
// the session is to leave and there is no room. The session's.
func (b *bridge) Write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n < len(p) {
		for len(b.out) >= bridgeBuffer && !b.wasCut && !b.leaves {
			b.changed.Wait()
		}
		if b.wasCut || len(b.out) >= bridgeBuffer {
			return n, net.ErrClosed
		}
		part := p[n:min(len(p), n+bridgeBuffer-len(b.out))]
		b.out = append(b.out, part...)
		b.peak = max(b.peak, len(b.out))
		n += len(part)
		b.wake()
	}
	return n, nil
}

// end tells the loop that the session is over. The session's.
func (b *bridge) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.wake()
}
