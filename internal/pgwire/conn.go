package pgwire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// DefaultTimeout bounds every read and write of a Conn.
const DefaultTimeout = 20 * time.Second

// Conn is one connection; one goroutine at a time.
type Conn struct {
	Net     net.Conn
	Timeout time.Duration // of each Send and Read
	PID     uint32        // from BackendKeyData
	Key     []byte        // from BackendKeyData

	r *bufio.Reader
}

// Open connects ("tcp", "127.0.0.1:5432" or "unix", "/dir/.s.PGSQL.5432").
func Open(network, address string) (*Conn, error) {
	c, err := net.DialTimeout(network, address, DefaultTimeout)
	if err != nil {
		return nil, err
	}
	return Over(c), nil
}

// Over makes a Conn of a connection that there is.
func Over(c net.Conn) *Conn { return &Conn{Net: c, Timeout: DefaultTimeout, r: bufio.NewReader(c)} }

// Dial is Open for a test: it fails the test on an error and closes when the test ends.
func Dial(t testing.TB, network, address string) *Conn {
	t.Helper()
	c, err := Open(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Login is Dial and a login with protocol 3.0 up to ReadyForQuery.
func Login(t testing.TB, network, address string, params ...string) *Conn {
	t.Helper()
	c := Dial(t, network, address)
	if _, err := c.Login(0, params...); err != nil {
		t.Fatal(err)
	}
	return c
}

// Close closes the socket without Terminate.
func (c *Conn) Close() { _ = c.Net.Close() }

// Reset closes the socket so that the peer sees a reset (TCP only).
func (c *Conn) Reset() {
	if tcp, ok := c.Net.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// Send writes the messages in one write.
func (c *Conn) Send(messages ...[]byte) error {
	if err := c.Net.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := c.Net.Write(slices.Concat(messages...))
	return err
}

// Read reads one message. io.EOF: the server closed the connection between two messages.
func (c *Conn) Read() (Message, error) {
	if err := c.Net.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return Message{}, err
	}
	var header [5]byte
	if _, err := io.ReadFull(c.r, header[:]); err != nil {
		return Message{}, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < 4 || length > 1<<30 {
		return Message{}, fmt.Errorf("message %q of length %d", header[0], length)
	}
	m := Message{Type: header[0], Body: make([]byte, length-4)}
	if _, err := io.ReadFull(c.r, m.Body); err != nil {
		return Message{}, fmt.Errorf("in message %q: %w", header[0], err)
	}
	if m.Type == 'K' && len(m.Body) >= 8 {
		c.PID, c.Key = binary.BigEndian.Uint32(m.Body), m.Body[4:]
	}
	return m, nil
}

// ReadByte reads a byte that is no message: the answer to SSLRequest and GSSENCRequest.
func (c *Conn) ReadByte() (byte, error) {
	if err := c.Net.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return 0, err
	}
	return c.r.ReadByte()
}

// ReadUntil reads up to and including the n-th message of the type; with an error it returns what came before.
func (c *Conn) ReadUntil(typ byte, n int) ([]Message, error) {
	var all []Message
	for n > 0 {
		m, err := c.Read()
		if err != nil {
			return all, err
		}
		all = append(all, m)
		if m.Type == typ {
			n--
		}
	}
	return all, nil
}

// ReadAll reads to the end of the connection; a reset is an end as well.
func (c *Conn) ReadAll() ([]Message, error) {
	var all []Message
	for {
		m, err := c.Read()
		var timeout net.Error
		switch {
		case err == nil:
			all = append(all, m)
		case errors.As(err, &timeout) && timeout.Timeout():
			return all, err
		default:
			return all, nil
		}
	}
}

// Silent tells whether nothing arrives for a while.
func (c *Conn) Silent(d time.Duration) bool {
	if c.r.Buffered() > 0 || c.Net.SetReadDeadline(time.Now().Add(d)) != nil {
		return false
	}
	_, err := c.r.Peek(1)
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Login starts a session with protocol 3.minor (name, value, …) and reads up to ReadyForQuery. A refusal is an *Error.
func (c *Conn) Login(minor uint16, params ...string) ([]Message, error) {
	if err := c.Send(Startup(minor, params...)); err != nil {
		return nil, err
	}
	var all []Message
	for {
		m, err := c.Read()
		if err != nil {
			return all, fmt.Errorf("login: %w (after %s)", err, Transcript(all))
		}
		all = append(all, m)
		switch m.Type {
		case 'E':
			return all, ErrorOf(m)
		case 'Z':
			return all, nil
		}
	}
}

// Exec sends a simple query and reads up to ReadyForQuery: the rows of all its statements as text (NULL is ""), and the
// first ErrorResponse as an *Error.
func (c *Conn) Exec(sql string) ([][]string, error) {
	if err := c.Send(Query(sql)); err != nil {
		return nil, err
	}
	all, err := c.ReadUntil('Z', 1)
	var rows [][]string
	var failed error
	for _, m := range all {
		switch m.Type {
		case 'D':
			rows = append(rows, Values(m))
		case 'E':
			if failed == nil {
				failed = ErrorOf(m)
			}
		}
	}
	if failed != nil {
		return rows, failed
	}
	return rows, err
}

// Cancel sends a CancelRequest on a connection of its own and waits for its end.
func Cancel(network, address string, pid uint32, key []byte) error {
	c, err := Open(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Send(CancelRequest(pid, key)); err != nil {
		return err
	}
	_, err = c.ReadAll()
	return err
}
