package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgwire"
)

// session is one client of a load: a socket over which the load's query goes again and again.
//
// Owner: the load. Invariant: a request is under way exactly while due is not 0.
type session struct {
	fd      int
	due     int64  // when the request under way should have been sent, ns since the load's clock began
	partial []byte // the front of a message that has not come whole
	failure []byte // body of the ErrorResponse of the request under way, empty without one
}

// loginTimeout bounds the silence of a pooler during a login, in seconds.
const loginTimeout = 20

// openSession logs in on a port of 127.0.0.1 as postgres under an application_name. The socket is used without Go's
// poller, whose share of the CPU would be a good part of what is measured.
func openSession(port int, application string) (*session, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &session{fd: fd}
	if err := s.login(port, application); err != nil {
		s.close()
		return nil, fmt.Errorf("login of %q: %w", application, err)
	}
	return s, nil
}

func (s *session) login(port int, application string) error {
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: loginTimeout}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := unix.Connect(s.fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := s.send(pgwire.Startup(0, "user", "postgres", "database", "postgres", "application_name", application)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for end := time.Now().Add(loginTimeout * time.Second); time.Now().Before(end); {
		ready, err := s.receive(buf)
		switch {
		case err != nil:
			return err
		case len(s.failure) > 0:
			return s.err()
		case ready:
			return unix.SetNonblock(s.fd, true)
		}
	}
	return errors.New("no answer")
}

// refusal is the field of an ErrorResponse that a refused request is known by: SQLSTATE 53300, the default.
var refusal = []byte("\x00C53300\x00")

func (s *session) refused() bool { return bytes.Contains(s.failure, refusal) }

func (s *session) err() error { return pgwire.ErrorOf(pgwire.Message{Type: 'E', Body: s.failure}) }

func (s *session) close() { _ = unix.Close(s.fd) }

// send writes a message that is far smaller than a socket's buffer.
func (s *session) send(m []byte) error {
	n, err := rawIO(unix.SYS_WRITE, s.fd, m)
	if err == nil && n < len(m) {
		err = errors.New("the socket takes no more")
	}
	return err
}

// rawIO is read or write without telling Go's scheduler, see epollWait. p is not empty.
func rawIO(call uintptr, fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// receive reads once, through buf, and tells whether ReadyForQuery has come.
func (s *session) receive(buf []byte) (ready bool, err error) {
	n, err := rawIO(unix.SYS_READ, s.fd, buf)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, errors.New("the pooler closed a session")
	}
	data := buf[:n]
	if len(s.partial) > 0 {
		s.partial = append(s.partial, data...)
		data = s.partial
	}
	for len(data) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(data[1:]))
		if len(data) < size {
			break
		}
		switch data[0] {
		case 'E':
			s.failure = append(s.failure[:0], data[5:size]...)
		case 'Z':
			ready = true
		}
		data = data[size:]
	}
	s.partial = append(s.partial[:0], data...)
	return ready, nil
}
