package reactor

import (
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// State: Socket is one descriptor and its registration. Owner: the loop it is
// registered with; between Detach and Attach whoever holds it.
//
// Invariants:
//   - open: the descriptor is ours; loop's table has this socket under it
//   - ready is the place on the loop's ready list plus one, 0 when not on it;
//     only an open socket is on it
//   - a socket is registered once, edge-triggered. TCP: read, write and RDHUP
//     for good. Unix: read and RDHUP, write only while output is pending,
//     because there every byte that the peer consumes is a write edge.

// Events says what may have happened to a socket. Readable and Writable are
// hints: an event can be out of date, the read or write decides. Hangup is true.
type Events uint8

const (
	// Readable: a read may give bytes or the end of the stream.
	Readable Events = 1 << iota
	// Writable: a write may take bytes, or a connect has ended (see
	// Socket.Error).
	Writable
	// Hangup: the peer has shut down its side, reset, or the connect failed
	// (RDHUP, HUP, ERR). It is reported whether or not the socket is being read;
	// bytes received before it can still be read.
	Hangup
)

const hangupEvents = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// Handler is what a socket calls.
type Handler interface {
	// OnReady is called on the loop. It may close, detach or write any socket of
	// the loop. Events are edges: who stops reading before a short read must read
	// again by itself (Loop.Later), nothing reports the same bytes twice.
	OnReady(s *Socket, ev Events)
}

// Sender is the handler of a socket that uses Put.
type Sender interface {
	Handler
	// OnUnsent gives back what the kernel did not take of the bytes that Put had
	// accepted: the socket is full (err nil; Writable will be reported, Unix:
	// after WantWrite) or has failed. rest is valid until it returns. It comes
	// between two events or from inside any write of the loop, and before anything
	// else is written to s: it must not write or close any socket; Loop.Later
	// gives it an event of its own.
	OnUnsent(s *Socket, rest []byte, err error)
}

type socketFlags uint8

const (
	flagOpen socketFlags = 1 << iota
	flagUnix
	flagWantWrite
	flagListener // not a client or server: not counted
)

// Socket is one non-blocking descriptor of a loop, embedded in its owner's
// struct. The zero value is no socket. It must not be copied while open.
type Socket struct {
	handler Handler
	loop    *Loop
	fd      int32
	ready   int32
	flags   socketFlags
	staged  uint8 // its entry in the loop's outbox plus one, 0 without

	generation int32   // of its registration, see poller
	secure     *secure // nil: what is written and read goes as it is
}

// Add registers the non-blocking descriptor fd as s and takes ownership of it;
// on error the caller still owns fd. What is already readable is reported. Loop
// only.
func (l *Loop) Add(s *Socket, fd int, unixDomain bool, h Handler) error {
	if s.flags&flagOpen != 0 {
		panic("BUG: reactor: Add of an open socket")
	}
	*s = Socket{handler: h, fd: int32(fd)}
	if unixDomain {
		s.flags = flagUnix
	}
	return l.Attach(s)
}

// Attach registers with l a socket that was detached from another loop (or from
// this one). What is already readable or writable is reported as an event. On
// error the socket stays detached. Loop only.
func (l *Loop) Attach(s *Socket) error {
	if s.flags&flagOpen != 0 {
		panic("BUG: reactor: Attach of an open socket")
	}
	fd := int(s.fd)
	if l.stopping.Load() {
		return fmt.Errorf("loop %d: %w", l.ID, os.ErrClosed)
	}
	l.lastGen++
	s.generation = l.lastGen
	if err := l.poller.add(fd, s.generation, s.flags&flagUnix == 0 || s.flags&flagWantWrite != 0); err != nil {
		return fmt.Errorf("loop %d: %w", l.ID, err)
	}
	l.growTable(fd)
	l.table[fd] = s
	if s.flags&flagListener == 0 {
		l.sockets.Add(1)
	}
	s.loop = l
	s.flags |= flagOpen
	if s.secure != nil && s.secure.more {
		l.Later(s)
	}
	return nil
}

func (l *Loop) growTable(fd int) {
	if fd < len(l.table) {
		return
	}
	size := len(l.table)
	for size <= fd {
		size *= 2
	}
	l.table = append(l.table, make([]*Socket, size-len(l.table))...)
}

func (l *Loop) dispatch(s *Socket, raw uint32) {
	var ev Events
	if raw&readableEvents != 0 {
		ev = Readable
	}
	if raw&writableEvents != 0 {
		ev |= Writable
	}
	if raw&hangupEvents != 0 {
		ev |= Hangup
	}
	if ev != 0 {
		s.notify(ev)
	}
}

// notify gives the owner an event.
func (s *Socket) notify(ev Events) {
	if s.secure != nil {
		if ev = s.secure.filter(ev); ev == 0 {
			return
		}
	}
	s.handler.OnReady(s, ev)
}

// leave takes s out of the loop: table, ready list, outbox. Events of the
// current batch that are still to come find an empty slot.
func (s *Socket) leave() {
	l := s.loop
	l.outbox.disown(s)
	s.flags &^= flagOpen
	l.table[s.fd] = nil
	if s.flags&flagListener == 0 {
		l.sockets.Add(-1)
	}
	if s.ready != 0 {
		l.ready[s.ready-1] = nil
		s.ready = 0
	}
}

// Close takes the socket out of the loop at once and closes its descriptor after
// the current batch of events. Closing a socket that is not open does nothing.
// Loop only.
func (s *Socket) Close() {
	if s.flags&flagOpen == 0 {
		return
	}
	if s.secure != nil {
		s.secure.close()
		s.secure = nil
	}
	s.leave()
	s.loop.closing = append(s.loop.closing, s.fd)
}

// CloseReset is Close with a reset instead of an orderly end: what was not sent
// is dropped and a TCP peer sees ECONNRESET. Loop only.
func (s *Socket) CloseReset() {
	if s.flags&flagOpen == 0 {
		return
	}
	linger := unix.Linger{Onoff: 1}
	_ = unix.SetsockoptLinger(int(s.fd), unix.SOL_SOCKET, unix.SO_LINGER, &linger)
	s.Close()
}

func (l *Loop) closeQueued() {
	for _, fd := range l.closing {
		closeRaw(fd)
	}
	l.closing = l.closing[:0]
}

// Detach takes the socket out of its loop without closing it and returns the
// descriptor, which s still names: l.Attach(s) on another loop registers it
// there. Until then it belongs to the caller. Not during a TLS handshake. Loop
// only.
func (s *Socket) Detach() (fd int) {
	if s.flags&flagOpen == 0 || s.secure != nil && s.secure.handshake != nil {
		panic("BUG: reactor: Detach of a socket that is not open, or during its handshake")
	}
	s.Flush()
	s.leave()
	s.loop.poller.remove(int(s.fd))
	s.loop = nil
	return int(s.fd)
}

// Abandon closes a detached socket that no loop will take.
func (s *Socket) Abandon() {
	if s.flags&flagOpen == 0 && s.loop == nil {
		if s.secure != nil {
			s.secure.pending.forget()
		}
		CloseFD(int(s.fd))
	}
}

// WantWrite says whether output is pending. A Unix socket reports Writable only
// while it is on, and switching it on reports it if there is room already; for
// TCP it does nothing. Loop only.
func (s *Socket) WantWrite(on bool) {
	if x := s.secure; x != nil {
		x.wantWrite = on
		on = on || x.pending.Len() > 0
	}
	s.awaitWrite(on)
}

// awaitWrite is WantWrite without a look at what the TLS layer holds.
func (s *Socket) awaitWrite(on bool) {
	if s.flags&(flagUnix|flagOpen) != flagUnix|flagOpen || on == (s.flags&flagWantWrite != 0) {
		return
	}
	s.flags ^= flagWantWrite
	if err := s.loop.poller.modify(int(s.fd), s.generation, on); err != nil {
		s.loop.fail(err)
	}
}

// Read reads once into p. n > 0: bytes; io.EOF: the peer has ended its side;
// unix.EAGAIN: nothing there; else the socket's error. A short read means that
// the socket is drained.
func (s *Socket) Read(p []byte) (n int, err error) {
	if s.flags&flagOpen == 0 {
		return 0, unix.EBADF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if s.secure != nil {
		return s.secure.read(p)
	}
	n, err = rawRead(int(s.fd), p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write writes once. n < len(p) with a nil error is a partial write: the socket
// is full and Writable will be reported (Unix: after WantWrite). unix.EAGAIN:
// full, nothing written.
func (s *Socket) Write(p []byte) (n int, err error) {
	if s.flags&flagOpen == 0 {
		return 0, unix.EBADF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if s.secure != nil {
		return s.secure.writev([][]byte{p})
	}
	if !s.Flush() {
		return 0, unix.EAGAIN
	}
	return rawSend(int(s.fd), p)
}

// Writev writes the pieces of iov, of which it takes the first VectorsMax, in
// one call; the result is as with Write. It keeps no reference to them.
func (s *Socket) Writev(iov [][]byte) (n int, err error) {
	if s.flags&flagOpen == 0 {
		return 0, unix.EBADF
	}
	if s.secure != nil {
		return s.secure.writev(iov[:min(len(iov), VectorsMax)])
	}
	if !s.Flush() {
		return 0, unix.EAGAIN
	}
	v := &s.loop.vectors
	for _, p := range iov {
		if !v.add(p) {
			break
		}
	}
	return v.send(int(s.fd))
}

// Put writes the pieces, at most VectorsMax. Up to PutMax bytes it copies and
// sends at the end of the round, when the handler, a Sender, is told what the
// kernel does not take: they count as written here. More than that is Writev. In
// each case n < the total means that the socket is full. The owner must hold no
// other bytes that go to s before these.
func (s *Socket) Put(pieces [][]byte) (n int, err error) {
	if s.flags&flagOpen == 0 {
		return 0, unix.EBADF
	}
	for _, p := range pieces {
		n += len(p)
	}
	if n > PutMax {
		return s.Writev(pieces)
	}
	if s.secure != nil {
		return s.secure.put(pieces, n)
	}
	if b := s.loop.outbox; !b.stage(s, pieces, n) {
		if !s.Flush() {
			return 0, unix.EAGAIN
		}
		s.loop.outbox.flush()
		b.stage(s, pieces, n)
	}
	return n, nil
}

// Flush sends what Put has accepted for s, and reports whether the kernel took
// all of it. If not, OnUnsent has been called. Loop only.
func (s *Socket) Flush() bool {
	if s.staged == 0 {
		return true
	}
	return s.loop.outbox.flushOne(s)
}

// ShutdownWrite ends our side of the stream (FIN): the peer reads what was
// written and then the end. Closing a TCP socket with unread input would reset
// instead, and could destroy a last message on its way.
func (s *Socket) ShutdownWrite() error {
	if s.flags&flagOpen == 0 {
		return unix.EBADF
	}
	s.Flush()
	if s.secure != nil {
		return s.secure.shutdownWrite()
	}
	return s.shutdownWrite()
}

// Alive reports whether the socket is registered with a loop.
func (s *Socket) Alive() bool { return s.flags&flagOpen != 0 }

// FD returns the descriptor, or -1 when the socket is not registered.
func (s *Socket) FD() int {
	if s.flags&flagOpen == 0 {
		return -1
	}
	return int(s.fd)
}

// Loop returns the loop of a registered socket.
func (s *Socket) Loop() *Loop { return s.loop }

// Error takes and returns the socket's pending error (SO_ERROR): after a
// Writable or Hangup of a connecting socket, how the connect ended. It is nil
// also while a connect is still under way; the first write decides then.
func (s *Socket) Error() error {
	if s.flags&flagOpen == 0 {
		return unix.EBADF
	}
	code, err := unix.GetsockoptInt(int(s.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return os.NewSyscallError("getsockopt", err)
	case code != 0:
		return unix.Errno(code)
	}
	return nil
}

// HungUp asks the kernel whether the peer has closed its side or reset the
// connection, which the event that reports it may tell only later. A system call:
// not for the hot path.
func (s *Socket) HungUp() bool {
	fd := unix.PollFd{Fd: s.fd, Events: unix.POLLRDHUP}
	var now unix.Timespec
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n > 0
}
