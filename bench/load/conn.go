package load

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgwire"
)

// phase is how far a conn has come; it only goes forward, or to gone.
type phase byte

const (
	gone       phase = iota // no socket
	connecting              // connect has been called
	asking                  // the SSLRequest has been sent
	shaking                 // the TLS handshake is under way
	login                   // the StartupMessage has been sent
	session                 // the first ReadyForQuery has come
)

// conn is one client.
//
// Owner: the loop that opened it. Invariants: fd is a socket exactly while phase is not gone; after each step the kernel
// watches it for what interest says, which is what watch makes of phase, paused, out and input.
type conn struct {
	fd       int
	slot     int32 // in the loop's table
	phase    phase
	interest uint32 // events
	end      *endpoint
	auth     Authenticator // of the login under way
	secure   *secure       // nil: in clear

	scan    scanner
	out     []byte // what the socket has not taken; never written to, since it may be a part of a message that many send
	failure []byte // body of the ErrorResponse of the login or request under way, empty without one

	class    int   // of a Group
	due      int64 // when the login or request under way should have begun, ns on the clock of the run
	asked    int   // requests or answers since the login, where they are counted
	input    int64 // bytes of COPY data that are still to be sent
	received int64 // bytes
	rows     int64 // DataRow and CopyData messages
	paused   bool  // is not read from when something comes
}

// handler is told what the clients of a run meet. An error ends the run.
type handler interface {
	// ready: ReadyForQuery has come, for the login if it is the first one; failure tells whether there was an error.
	ready(*conn) error
	// copyIn: the server waits for CopyData.
	copyIn(*conn) error
	// moreInput: the socket takes more, and input says that there is more.
	moreInput(*conn) error
	// lost: the socket is closed, without our will.
	lost(*conn, error) error
}

var errClosed = errors.New("the server closed the connection")

// send writes messages, and what the socket does not take of them later: nobody may change them. An error shows when the loop
// reads next, behind what the server has said before it closed the connection.
func (l *loop) send(c *conn, m []byte) {
	if c.secure != nil {
		_, _ = c.secure.tls.Write(m)
		return
	}
	if len(c.out) > 0 {
		c.out = slices.Concat(c.out, m)
		return
	}
	if c.out = m[write(c.fd, m):]; len(c.out) > 0 {
		l.watch(c)
	}
}

// flush writes more of what has been waiting, and then of the input.
func (l *loop) flush(c *conn, h handler) error {
	c.out = c.out[write(c.fd, c.out):]
	if len(c.out) == 0 && c.input > 0 {
		return h.moreInput(c)
	}
	l.watch(c)
	return nil
}

// receive reads once, and tells h what has come. It gives the number of bytes, which is 0 when none are there.
func (l *loop) receive(c *conn, buf []byte, h handler) (int, error) {
	n, err := c.read(buf)
	switch {
	case transient(err):
		return 0, nil
	case n == 0 && (err == nil || err == io.EOF):
		return 0, l.drop(c, errClosed, h)
	case err != nil:
		return 0, l.drop(c, err, h)
	}
	c.received += int64(n)
	for data := buf[:n]; len(data) > 0 && c.phase != gone; {
		var typ byte
		var body []byte
		if typ, body, data, err = c.scan.next(data); err != nil {
			return n, l.drop(c, err, h)
		}
		if err := l.took(c, typ, body, h); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *conn) read(buf []byte) (int, error) {
	if c.secure != nil {
		return c.secure.tls.Read(buf)
	}
	return rawIO(unix.SYS_READ, c.fd, buf)
}

func (l *loop) took(c *conn, typ byte, body []byte, h handler) error {
	switch typ {
	case 'D', 'd':
		c.rows++
	case 'E':
		c.failure = append(c.failure[:0], body...)
	case 'G':
		return h.copyIn(c)
	case 'R':
		if err := l.authenticate(c, body); err != nil {
			return l.drop(c, err, h)
		}
	case 'Z':
		c.phase, c.auth = session, nil
		err := h.ready(c)
		c.failure = c.failure[:0]
		return err
	}
	return nil
}

func (l *loop) authenticate(c *conn, body []byte) error {
	if len(body) < 4 {
		return errors.New("an Authentication message without code")
	}
	if binary.BigEndian.Uint32(body) == 0 {
		return nil
	}
	if c.auth == nil {
		if c.end.authenticate == nil {
			return errors.New("the server asks for authentication, and the load has none")
		}
		c.auth = c.end.authenticate()
	}
	answer, err := c.auth.Answer(body)
	if err == nil {
		l.send(c, answer)
	}
	return err
}

// drop closes a conn that cannot go on, and tells h. What the server said before is the reason, if it said anything.
func (l *loop) drop(c *conn, err error, h handler) error {
	if len(c.failure) > 0 {
		err = errorOf(c.failure)
	}
	l.remove(c)
	return h.lost(c, err)
}

// leave says good-bye and closes.
func (l *loop) leave(c *conn) {
	l.send(c, terminate)
	l.remove(c)
}

// leaveAll says good-bye for everyone who has logged in, and closes.
func (l *loop) leaveAll() {
	for _, c := range l.conns {
		switch {
		case c == nil:
		case c.phase == session:
			l.leave(c)
		default:
			l.remove(c)
		}
	}
}

var terminate = pgwire.Terminate()

// write gives how many bytes need not be written again: all of them when the connection has failed.
func write(fd int, m []byte) int {
	if len(m) == 0 {
		return 0
	}
	n, err := rawIO(unix.SYS_WRITE, fd, m)
	switch {
	case err == nil:
		return n
	case transient(err):
		return 0
	}
	return len(m)
}

// rawIO is read or write without telling Go's scheduler, see epollWait. p is not empty.
func rawIO(call uintptr, fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
