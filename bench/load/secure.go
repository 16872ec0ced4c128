package load

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgwire"
)

// secure is the TLS layer of a conn: crypto/tls over its socket.
//
// crypto/tls waits within a handshake, and a loop must not. So the handshake is a coroutine, which the loop resumes when the
// socket is ready: it runs on the loop's thread, with its rank, and its time is the loop's. Afterwards nothing waits: a socket
// without bytes gives EAGAIN, which is temporary, and so tls.Conn does not keep it.
//
// Owner: the loop. Invariants: yield is not nil exactly while the handshake lasts, which is while the conn's phase is shaking;
// a handshake ends on the thread on which it began, as Go demands of coroutines of such threads: loop.onThread sees to it.
type secure struct {
	loop  *loop
	conn  *conn
	tls   *tls.Conn
	next  func() (struct{}, bool) // runs the handshake until it waits; false: it has ended, with err
	stop  func()
	yield func(struct{}) bool
	err   error
}

// required is TLS as libpq's sslmode=require takes it: any certificate will do. The key exchange is the one that libpq has with
// OpenSSL before 3.5, so that all servers do the same work.
var required = &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}

var sslRequest = pgwire.SSLRequest()

func (l *loop) newSecure(c *conn) *secure {
	s := &secure{loop: l, conn: c}
	s.tls = tls.Client(s, required)
	s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		s.err = s.tls.Handshake()
		s.yield = nil
	})
	return s
}

// encrypt reads the answer to the SSLRequest.
func (l *loop) encrypt(c *conn, h handler) error {
	var answer [1]byte
	n, err := rawIO(unix.SYS_READ, c.fd, answer[:])
	switch {
	case err != nil && transient(err):
		return nil
	case err == nil && n == 0:
		err = errClosed
	case err == nil && answer[0] != 'S':
		err = fmt.Errorf("the server answers %q to an SSLRequest", answer[0])
	}
	if err != nil {
		return l.drop(c, err, h)
	}
	c.phase, c.secure = shaking, l.newSecure(c)
	return l.shake(c, h)
}

// shake goes on with the handshake, and with the login behind it.
func (l *loop) shake(c *conn, h handler) error {
	if _, more := c.secure.next(); more {
		return nil
	}
	if err := c.secure.err; err != nil {
		return l.drop(c, err, h)
	}
	c.phase = login
	l.send(c, c.end.startup)
	return l.drain(c, h) // of what has been read already, no event will tell
}

// drain reads until nothing is there.
func (l *loop) drain(c *conn, h handler) error {
	for {
		n, err := l.receive(c, l.buf[:], h)
		if n == 0 || err != nil || c.phase == gone {
			return err
		}
	}
}

// onThread runs a part of a run of this loop, see there. Handshakes that are under way at its end are given up.
func (l *loop) onThread(rank Rank, f func() error) (time.Duration, error) {
	return onThread(rank, func() error {
		err := f()
		for _, c := range l.conns {
			if c != nil && c.phase == shaking {
				l.remove(c)
			}
		}
		return err
	})
}

// transient tells of an error that goes away when the socket is ready.
func transient(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// The rest is the socket as crypto/tls sees it.

func (s *secure) Read(p []byte) (int, error) {
	for {
		n, err := rawIO(unix.SYS_READ, s.conn.fd, p)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil || s.yield == nil || !transient(err):
			return n, err
		case !s.yield(struct{}{}):
			return 0, net.ErrClosed
		}
	}
}

// Write takes everything, since tls.Conn would keep an error; one of the socket shows when it is read.
func (s *secure) Write(p []byte) (int, error) {
	c := s.conn
	done := 0
	if len(c.out) == 0 {
		done = write(c.fd, p)
	}
	if done < len(p) {
		c.out = slices.Concat(c.out, p[done:])
		s.loop.watch(c)
	}
	return len(p), nil
}

func (s *secure) Close() error                     { return nil }
func (s *secure) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *secure) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *secure) SetDeadline(time.Time) error      { return nil }
func (s *secure) SetReadDeadline(time.Time) error  { return nil }
func (s *secure) SetWriteDeadline(time.Time) error { return nil }
