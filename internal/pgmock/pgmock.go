// Package pgmock is a scripted PostgreSQL server for tests: where the real one cannot be made to misbehave, a script says
// what each connection expects and sends, where it stops answering, and how it ends.
//
// A Server belongs to one test and is closed with it. Each accepted connection plays the script in a goroutine of its own;
// a script that has ended closes its connection. Source of the formats: PostgreSQL documentation, "Frontend/Backend
// Protocol", section "Message Formats".
package pgmock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// Step is one thing that a connection does. An error ends the script: io.EOF quietly, another one fails the test.
type Step func(*Conn) error

// Server accepts connections and plays a script on each.
type Server struct {
	t         testing.TB
	address   string
	script    atomic.Pointer[[]Step]
	opened    atomic.Int64
	logins    atomic.Int64
	inLogin   atomic.Int64
	maxLogin  atomic.Int64
	cancels   atomic.Int64
	written   atomic.Int64
	cancelled chan struct{}

	mu       sync.Mutex
	listener net.Listener // nil while it is down
	conns    map[net.Conn]bool
	done     chan struct{}
	all      sync.WaitGroup
}

// Start starts a server that plays steps on every connection (after answering its cancel requests itself, by closing).
func Start(t testing.TB, steps ...Step) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", steps...)
}

// StartAt is Start at an address.
func StartAt(t testing.TB, address string, steps ...Step) *Server {
	t.Helper()
	s := &Server{t: t, address: address, conns: map[net.Conn]bool{}, done: make(chan struct{}), cancelled: make(chan struct{}, 1024)}
	s.Script(steps...)
	s.Up()
	t.Cleanup(s.close)
	return s
}

// Down refuses connections and resets those that exist; Up accepts again, at the same address.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	for c := range s.conns {
		_ = c.Close()
	}
}

// Up accepts connections (after Down).
func (s *Server) Up() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.listener, s.address = l, l.Addr().String()
	s.mu.Unlock()
	s.all.Go(func() { s.accept(l) })
}

// Script replaces the script for connections accepted from now on.
func (s *Server) Script(steps ...Step) { s.script.Store(&steps) }

// Addr is host:port.
func (s *Server) Addr() string { return s.address }

// Opened counts accepted connections, cancel requests included.
func (s *Server) Opened() int { return int(s.opened.Load()) }

// Logins counts connections that Login has let in.
func (s *Server) Logins() int { return int(s.logins.Load()) }

// MostLogins is the highest number of connections that were between their startup packet and the end of Login at a time.
func (s *Server) MostLogins() int { return int(s.maxLogin.Load()) }

// Cancels counts CancelRequest packets.
func (s *Server) Cancels() int { return int(s.cancels.Load()) }

// Written is the number of bytes that all connections have sent.
func (s *Server) Written() int64 { return s.written.Load() }

// Cancelled receives once per CancelRequest.
func (s *Server) Cancelled() <-chan struct{} { return s.cancelled }

func (s *Server) close() {
	close(s.done)
	s.Down()
	s.all.Wait()
}

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		steps := *s.script.Load()
		s.mu.Lock()
		s.conns[nc] = true
		if s.listener != l {
			_ = nc.Close()
		}
		s.mu.Unlock()
		s.opened.Add(1) // who has seen it may change the script, or call Down
		s.all.Go(func() { s.play(nc, steps) })
	}
}

func (s *Server) play(nc net.Conn, steps []Step) {
	defer func() {
		_ = nc.Close()
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	}()
	c := &Conn{Server: s, Net: nc, r: bufio.NewReader(nc)}
	for _, step := range steps {
		if err := step(c); err != nil {
			s.judge(err)
			return
		}
	}
}

// judge fails the test for an error that is the script's and not the end of a connection.
func (s *Server) judge(err error) {
	var wrong *scriptError
	if errors.As(err, &wrong) {
		s.t.Error(err)
	}
}

type scriptError struct{ text string }

func (e *scriptError) Error() string { return "pgmock: " + e.text }

// Conn is one connection that a script plays.
type Conn struct {
	*Server
	Net    net.Conn
	Params map[string]string // of the startup packet
	r      *bufio.Reader
}

// Read reads one message of the client.
func (c *Conn) Read() (pgwire.Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return pgwire.Message{}, err
	}
	m := pgwire.Message{Type: head[0], Body: make([]byte, binary.BigEndian.Uint32(head[1:])-4)}
	_, err := io.ReadFull(c.r, m.Body)
	return m, err
}

// Startup reads the startup packet. A CancelRequest is counted and ends the script.
func Startup() Step {
	return func(c *Conn) error {
		var head [4]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(c.r, body); err != nil {
			return err
		}
		switch code := binary.BigEndian.Uint32(body); {
		case code == cancelCode:
			c.cancels.Add(1)
			c.cancelled <- struct{}{}
			return io.EOF
		case code>>16 != 3:
			return &scriptError{fmt.Sprintf("startup packet of code %d", code)}
		}
		c.Params = map[string]string{}
		for rest := body[4:]; len(rest) > 1; {
			var name, value string
			name, rest = cut(rest)
			value, rest = cut(rest)
			c.Params[name] = value
		}
		return nil
	}
}

const cancelCode = 80877102

func cut(p []byte) (string, []byte) {
	for i, b := range p {
		if b == 0 {
			return string(p[:i]), p[i+1:]
		}
	}
	return string(p), nil
}

// Login is Startup and a successful login without password.
func Login() Step { return SlowLogin(0) }

// SlowLogin is Login that takes d.
func SlowLogin(d time.Duration) Step {
	return func(c *Conn) error {
		if err := Startup()(c); err != nil {
			return err
		}
		n := c.inLogin.Add(1)
		for old := c.maxLogin.Load(); n > old && !c.maxLogin.CompareAndSwap(old, n); {
			old = c.maxLogin.Load()
		}
		err := Delay(d)(c)
		c.inLogin.Add(-1) // before the answer: the client begins its next login as soon as it has it
		if err != nil {
			return err
		}
		id := c.logins.Add(1)
		return Send(AuthenticationOk(), Parameters(), KeyData(uint32(id), 7), Ready('I'))(c)
	}
}

// Delay does nothing for d.
func Delay(d time.Duration) Step {
	return func(c *Conn) error {
		if d == 0 {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-c.done:
			return io.EOF
		}
	}
}

// Expect reads one message, which must be of type typ.
func Expect(typ byte) Step {
	return func(c *Conn) error {
		m, err := c.Read()
		if err == nil && m.Type != typ {
			return &scriptError{fmt.Sprintf("got message %q, expected %q", m.Type, typ)}
		}
		return err
	}
}

// Send writes the messages in one write.
func Send(messages ...[]byte) Step {
	return func(c *Conn) error {
		var all []byte
		for _, m := range messages {
			all = append(all, m...)
		}
		n, err := c.Net.Write(all)
		c.written.Add(int64(n))
		return err
	}
}

// Hang never answers again; it ends with the connection or the test.
func Hang() Step {
	return func(c *Conn) error {
		_, err := io.Copy(io.Discard, c.r)
		if err == nil {
			err = io.EOF
		}
		return err
	}
}

// Wait goes on when ch is closed or receives.
func Wait(ch <-chan struct{}) Step {
	return func(c *Conn) error {
		select {
		case <-ch:
			return nil
		case <-c.done:
			return io.EOF
		}
	}
}

// Reset ends the connection with a reset.
func Reset() Step {
	return func(c *Conn) error {
		if tcp, ok := c.Net.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return io.EOF
	}
}

// Serve answers every Query with one row that holds text (BEGIN, COMMIT, ROLLBACK and the rest keep the transaction
// status as PostgreSQL does), every Sync with ReadyForQuery, until Terminate.
func Serve(text string) Step {
	return func(c *Conn) error {
		status := byte('I')
		for {
			m, err := c.Read()
			if err != nil {
				return err
			}
			switch m.Type {
			case 'Q':
				switch strings.ToLower(strings.TrimRight(string(m.Body), "\x00")) {
				case "begin":
					status = 'T'
				case "commit", "rollback":
					status = 'I'
				}
				err = Send(Row(text), Complete("SELECT 1"), Ready(status))(c)
			case 'S':
				err = Send(Ready(status))(c)
			case 'X':
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// ReadHeader reads the header of a message and gives the length of its body.
func (c *Conn) ReadHeader() (int64, error) {
	var head [5]byte
	_, err := io.ReadFull(c.r, head[:])
	return int64(binary.BigEndian.Uint32(head[1:])) - 4, err
}

// Discard reads n bytes and drops them.
func (c *Conn) Discard(n int64) (int64, error) { return io.CopyN(io.Discard, c.r, n) }
