package reactor

import (
	"crypto/tls"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// State: secure is the TLS layer of one socket: between the owner's calls, which
// stay as they are, and the socket's bytes. Owner: the socket's loop, or whoever
// holds the detached socket; while the handshake lasts, conn is its goroutine's
// (secure_handshake.go).
//
// Invariants:
//   - records leave in the order in which they were sealed: what the outbox has of
//     this socket, then pending; never both, since whatever is left over goes to
//     pending, and Put takes nothing while there is any
//   - while pending holds bytes, nothing of the owner's is sealed; so it holds at
//     most one write of recordBytes with what TLS adds, and the alerts and answers
//     to KeyUpdate, for the sake of which nothing is read above pendingMax
//   - pending not empty: the socket waits to be writable, whatever the owner wishes
//   - the loop never waits in crypto/tls: when no bytes are there, wire.Read gives
//     EAGAIN, which is Temporary and so is not kept by tls.Conn; wire.Write takes
//     everything, since a failed write would be kept
//
// Why it is built so, with figures: docs/design/0010-tls-on-a-loop.md.

const (
	// recordBytes is the most that one TLS record carries.
	recordBytes = 16 << 10
	// sealedBytes is what the records of recordBytes bytes may take when small
	// records are sent first: 14 of them, with at most 90 bytes of TLS each.
	sealedBytes = recordBytes + 14*90
	// pendingMax is what a peer can make us owe by messages that TLS answers.
	pendingMax = sealedBytes + recordBytes
	// takenMax bounds the bytes that one Read takes from the kernel, since many
	// small records are much work for few bytes.
	takenMax = 96 << 10
)

type secure struct {
	sock      *Socket
	conn      *tls.Conn
	handshake *handshake // while it lasts
	rest      []byte     // read during the handshake and not taken by it
	pending   Chain      // ciphertext that the kernel has not taken

	failed   error // how the handshake has failed: nothing is decrypted any more
	readErr  error // the end of what can be read
	writeErr error // of the socket

	taken     int  // by the present Read
	drained   bool // in the present Read: the kernel has no more
	more      bool // there may be bytes, or an end, that no event tells of
	held      bool // nothing is read because of pendingMax
	wantWrite bool // the owner's
	shutdown  bool // our side ends when pending is gone
}

// records is a loop's working memory for TLS, used within one call.
type records struct {
	plain  []byte // small pieces, gathered for one record
	sealed []byte // what crypto/tls has written
}

func newRecords() *records {
	return &records{plain: make([]byte, recordBytes), sealed: make([]byte, 0, sealedBytes)}
}

// IsSecure reports whether a handshake has succeeded on the socket.
func (s *Socket) IsSecure() bool {
	return s.secure != nil && s.secure.handshake == nil && s.secure.failed == nil
}

// ConnectionState tells what the handshake has agreed on: version, ALPN protocol,
// the peer's certificates. ok is false on a socket that is not secure. What it
// refers to is never changed. It takes a lock: not for the hot path. Loop only.
func (s *Socket) ConnectionState() (state tls.ConnectionState, ok bool) {
	if !s.IsSecure() {
		return state, false
	}
	return s.secure.conn.ConnectionState(), true
}

// read is Socket.Read: it decrypts until p is full or the kernel has no more.
func (x *secure) read(p []byte) (n int, err error) {
	switch {
	case x.handshake != nil:
		return 0, unix.EAGAIN
	case x.failed != nil:
		return 0, x.drop()
	case x.readErr != nil:
		return 0, x.readErr
	}
	x.drained, x.taken = false, 0
	for n < len(p) && err == nil {
		if x.held = x.pending.Len() > pendingMax; x.held {
			err = unix.EAGAIN
			break
		}
		var got int
		got, err = x.decrypt(p[n:])
		n += got
	}
	if err != nil && err != unix.EAGAIN {
		x.readErr = err
	}
	x.more = n == len(p) || !x.drained && !x.held || x.readErr != nil && n > 0
	if x.more && n < len(p) {
		x.sock.loop.Later(x.sock)
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// decrypt gives bytes of one record, and sends what TLS answers meanwhile: alerts,
// new keys.
func (x *secure) decrypt(p []byte) (n int, err error) {
	r := x.sock.loop.records
	r.sealed = r.sealed[:0]
	if n, err = x.conn.Read(p); len(r.sealed) > 0 {
		_ = x.transmit(r.sealed) // a failure is kept for the owner's next write
	}
	return n, err
}

// receive gives crypto/tls what has come.
func (x *secure) receive(p []byte) (n int, err error) {
	if n = copy(p, x.rest); n > 0 {
		if x.rest = x.rest[n:]; len(x.rest) == 0 {
			x.rest = nil
		}
		return n, nil
	}
	if x.drained || x.taken >= takenMax {
		return 0, unix.EAGAIN
	}
	n, err = rawRead(int(x.sock.fd), p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	x.taken += n
	x.drained = n < len(p)
	return n, err
}

// drop reads after a failed handshake, so that unread bytes do not turn our alert
// into a reset; nobody sees them.
func (x *secure) drop() error {
	l := x.sock.loop
	buf := l.records.plain
	n, err := rawRead(int(x.sock.fd), buf)
	switch {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case n == len(buf):
		l.Later(x.sock)
	}
	return unix.EAGAIN
}

// mayWrite tells why the owner's bytes are not taken now.
func (x *secure) mayWrite() error {
	switch {
	case x.failed != nil:
		return x.failed
	case x.writeErr != nil:
		return x.writeErr
	case x.shutdown:
		return unix.EPIPE
	case x.handshake != nil || x.pending.Len() > 0:
		return unix.EAGAIN
	}
	return nil
}

// put is Socket.Put of at most PutMax bytes: one record in the outbox.
func (x *secure) put(pieces [][]byte, total int) (n int, err error) {
	if err := x.mayWrite(); err != nil || total == 0 {
		return 0, err
	}
	c := cursor{pieces: pieces}
	sealed, err := x.seal(c.next(x.sock.loop.records.plain))
	if err != nil {
		return 0, err
	}
	s := x.sock
	b := s.loop.outbox
	if whole := [1][]byte{sealed}; !b.stage(s, whole[:], len(sealed)) {
		if !s.Flush() {
			x.hold(sealed)
			return total, nil
		}
		s.loop.outbox.flush()
		b.stage(s, whole[:], len(sealed))
	}
	return total, nil
}

// writev is Socket.Writev: it seals and sends a record at a time until the kernel
// takes no more.
func (x *secure) writev(pieces [][]byte) (n int, err error) {
	if !x.sock.Flush() {
		return 0, unix.EAGAIN
	}
	if err := x.mayWrite(); err != nil {
		return 0, err
	}
	c := cursor{pieces: pieces}
	for x.pending.Len() == 0 {
		p := c.next(x.sock.loop.records.plain)
		if len(p) == 0 {
			break
		}
		sealed, err := x.seal(p)
		if err != nil {
			return n, err
		}
		if err := x.transmit(sealed); err != nil {
			return n, err
		}
		n += len(p)
	}
	return n, nil
}

// writeChain is Chain.WriteTo.
func (x *secure) writeChain(c *Chain) (n int, err error) {
	var pieces [VectorsMax][]byte
	for c.length > 0 {
		count := 0
		for k := c.head; k != nil && count < VectorsMax; k = k.next {
			pieces[count] = k.held()
			count++
		}
		sent, err := x.writev(pieces[:count])
		c.Discard(x.sock.loop, sent)
		n += sent
		if err == unix.EAGAIN {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// seal makes records of p, which is at most recordBytes long. They are valid until
// the next call.
func (x *secure) seal(p []byte) (sealed []byte, err error) {
	r := x.sock.loop.records
	r.sealed = r.sealed[:0]
	_, err = x.conn.Write(p)
	return r.sealed, err
}

// transmit sends records behind what is to leave before them, and keeps what the
// kernel does not take.
func (x *secure) transmit(sealed []byte) error {
	s := x.sock
	if s.Flush() && x.pending.Len() == 0 && x.writeErr == nil && len(sealed) > 0 {
		n, err := rawSend(int(s.fd), sealed)
		if err != nil && err != unix.EAGAIN {
			x.writeErr = err
		}
		sealed = sealed[n:]
	}
	x.hold(sealed)
	return x.writeErr
}

// hold keeps what the kernel has not taken until the socket is writable.
func (x *secure) hold(sealed []byte) {
	if len(sealed) == 0 || x.writeErr != nil {
		return
	}
	x.pending.Append(x.sock.loop, sealed)
	x.sock.awaitWrite(true)
}

// unsent takes what the kernel did not take of the outbox's bytes.
func (x *secure) unsent(rest []byte, err error) {
	if err != nil {
		x.writeErr = err
		x.sock.handler.(Sender).OnUnsent(x.sock, nil, err)
		return
	}
	x.hold(rest)
}

// filter does what an event means to the TLS layer and returns what it means to
// the owner: Writable when pending is gone.
func (x *secure) filter(ev Events) Events {
	if ev&Writable != 0 && x.pending.Len() > 0 && !x.flushPending() {
		ev &^= Writable
	}
	if x.handshake != nil {
		return x.handshake.onEvent(ev)
	}
	if x.held && x.pending.Len() <= pendingMax {
		ev |= Readable
	}
	return ev
}

// flushPending reports whether pending is gone.
func (x *secure) flushPending() bool {
	s := x.sock
	if _, err := x.pending.drain(s); err != nil {
		x.writeErr = err
		x.pending.Release(s.loop)
	}
	if x.pending.Len() > 0 {
		return false
	}
	s.awaitWrite(x.wantWrite)
	if x.shutdown {
		_ = s.shutdownWrite() // the read side tells of a lost connection
	}
	return true
}

// shutdownWrite is Socket.ShutdownWrite: close_notify, and the end of our side
// behind it.
func (x *secure) shutdownWrite() error {
	r := x.sock.loop.records
	r.sealed = r.sealed[:0]
	if x.handshake == nil && x.failed == nil {
		_ = x.conn.CloseWrite() // writes once
	}
	_ = x.transmit(r.sealed)
	x.shutdown = true
	if x.pending.Len() > 0 {
		return nil
	}
	return x.sock.shutdownWrite()
}

// close gives up what the layer holds.
func (x *secure) close() {
	x.pending.Release(x.sock.loop)
	if x.handshake != nil {
		x.handshake.abandon()
	}
}

// cursor walks over the pieces of a write, a record at a time.
type cursor struct {
	pieces [][]byte
	at     int // in pieces[0]
}

// next gives the next bytes, at most recordBytes and none at the end: where they
// lie if they lie together, else gathered in buf.
func (c *cursor) next(buf []byte) []byte {
	c.skipEmpty()
	if len(c.pieces) == 0 {
		return nil
	}
	first := c.pieces[0][c.at:]
	if len(c.pieces) == 1 || len(first) >= recordBytes {
		first = first[:min(len(first), recordBytes)]
		c.at += len(first)
		return first
	}
	n := 0
	for n < recordBytes && len(c.pieces) > 0 {
		k := copy(buf[n:recordBytes], c.pieces[0][c.at:])
		c.at += k
		n += k
		c.skipEmpty()
	}
	return buf[:n]
}

func (c *cursor) skipEmpty() {
	for len(c.pieces) > 0 && c.at == len(c.pieces[0]) {
		c.pieces, c.at = c.pieces[1:], 0
	}
}

// shutdownWrite is the system call.
func (s *Socket) shutdownWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(int(s.fd), unix.SHUT_WR))
}
