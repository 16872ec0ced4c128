// Package dial opens connections to PostgreSQL for goroutines that may block:
// the way to the host, TLS, the login. The login is that of the pools' backends
// (backend.Login), so that what PostgreSQL lets in, what is verified of it, and
// the cause when it does not let us in, are the same; nothing is taken from the
// environment of the process.
package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// MessageMax is the largest message that a Conn receives, in bytes with its
// header; each Conn has a buffer of that size.
const MessageMax = 64 << 10

// closing is what the farewell may take.
const closing = time.Second

// Config says where and as whom. It is read only; one value may serve many Opens.
type Config struct {
	Host configs.Host
	// Connect opens the transport; nil dials Host as it is written.
	Connect func(context.Context) (net.Conn, error)
	// Mode is libpq's sslmode; TLS is for handshakes, nil only with TLSDisable.
	Mode configs.TLSMode
	TLS  *tls.Config
	// EndPoint gives the tls-server-end-point of a server's certificate, nil for
	// one that has none; a nil function binds no login to TLS.
	EndPoint func(*x509.Certificate) []byte
	Login    backend.LoginConfig
	// Compute runs the CPU work of a login within the process's bound; nil runs it
	// as it comes.
	Compute func(ctx context.Context, work func()) error
	// Next is tried, with the same Login, when the host of this one cannot be used (a
	// HostFault); nil: none is. The time of ctx is shared out evenly among those left.
	Next *Config
}

// Conn is a connection that has been logged in. One goroutine uses it at a time.
type Conn struct {
	net  net.Conn
	in   *bufio.Reader
	size int // of the message that Receive gave last, which is still in in
	pid  uint32

	params *backend.Params
}

// Open connects and logs in. Its errors are those of package backend (Faults),
// or say why the host was not reached; ctx bounds all of it.
func Open(ctx context.Context, cfg *Config) (*Conn, error) {
	c, err := openInTime(ctx, cfg)
	if err == nil || cfg.Next == nil || backend.ClassOf(err) != backend.HostFault || ctx.Err() != nil {
		return c, err
	}
	next := *cfg.Next
	next.Login = cfg.Login
	return Open(ctx, &next)
}

// openInTime is Open of the first host alone, in its part of ctx's time.
func openInTime(ctx context.Context, cfg *Config) (*Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && cfg.Next != nil {
		left := 1
		for c := cfg.Next; c != nil; c = c.Next {
			left++
		}
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer stop()
	}
	encryption := backend.NewEncryption(cfg.Mode, cfg.Host.Network)
	for {
		c, err := open(ctx, cfg, encryption)
		if err == nil {
			return c, nil
		}
		if !encryption.Again(err) {
			return nil, cfg.Explain(ctx, err)
		}
	}
}

func open(ctx context.Context, cfg *Config, e *backend.Encryption) (*Conn, error) {
	connect := cfg.Connect
	if connect == nil {
		connect = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, cfg.Host.Network, cfg.Host.Address)
		}
	}
	transport, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{net: transport}
	release := c.Bound(ctx)
	defer release()
	endPoint, err := c.encrypt(ctx, cfg, e)
	if err == nil {
		c.in = bufio.NewReaderSize(c.net, MessageMax)
		err = c.logIn(ctx, cfg, endPoint)
	}
	if err != nil {
		_ = c.net.Close()
		return nil, err
	}
	return c, nil
}

// Explain words what ended an Open, or the first statements behind it, before
// PostgreSQL or the rules of its protocol said why. A Fault is given back as it is.
func (cfg *Config) Explain(ctx context.Context, err error) error {
	var fault backend.Fault
	switch {
	case errors.As(err, &fault):
		return err
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		err = errTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errClosed
	}
	return fmt.Errorf("cannot connect to PostgreSQL at %s: %w", cfg.Host, err)
}

var (
	errTimeout = errors.New("no answer in time")
	errClosed  = errors.New("server closed the connection during the login")
)

// encrypt asks for TLS where the mode says so, and gives what the login is to be
// bound to.
func (c *Conn) encrypt(ctx context.Context, cfg *Config, e *backend.Encryption) (endPoint []byte, err error) {
	request, ask := e.Start(nil)
	if !ask {
		return nil, nil
	}
	if _, err := c.net.Write(request); err != nil {
		return nil, err
	}
	// No more than one byte may be there: with a second one asked for, what somebody
	// has put behind it shows. What comes later is for the handshake to judge.
	var answer [2]byte
	n, err := io.ReadAtLeast(c.net, answer[:], 1)
	if err != nil {
		return nil, err
	}
	reply, err := e.Answer(answer[:n])
	if err != nil || reply != backend.Handshake {
		return nil, err
	}
	secure := tls.Client(c.net, cfg.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &backend.HandshakeError{Err: err}
	}
	c.net = secure
	if peers := secure.ConnectionState().PeerCertificates; cfg.EndPoint != nil && len(peers) > 0 {
		endPoint = cfg.EndPoint(peers[0])
	}
	return endPoint, nil
}

func (c *Conn) logIn(ctx context.Context, cfg *Config, endPoint []byte) error {
	machine := backend.NewLogin(cfg.Login)
	machine.BindTo(endPoint)
	if err := c.Send(machine.Start(nil)); err != nil {
		return err
	}
	for {
		typ, body, err := c.Receive()
		if err != nil {
			return err
		}
		out, step, err := machine.Receive(typ, body, nil)
		if err == nil && step == backend.Compute {
			if err = cfg.compute(ctx, machine.Compute); err == nil {
				out, step, err = machine.Computed(nil)
			}
		}
		if err != nil {
			return err
		}
		if err := c.Send(out); err != nil {
			return err
		}
		if step == backend.Done {
			c.pid, c.params = machine.PID(), machine.Params()
			return nil
		}
	}
}

func (cfg *Config) compute(ctx context.Context, work func()) error {
	if cfg.Compute == nil {
		work()
		return nil
	}
	return cfg.Compute(ctx, work)
}

// PID is the backend's process id, 0 when the server told none.
func (c *Conn) PID() uint32 { return c.pid }

// Params is what the server has reported of itself at the login.
func (c *Conn) Params() *backend.Params { return c.params }

// Peer is the address at the other end.
func (c *Conn) Peer() string { return c.net.RemoteAddr().String() }

// Bound makes ctx bound all that is sent and received until release is called.
// When it has ended before that, the connection is of no more use.
func (c *Conn) Bound(ctx context.Context) (release func()) {
	transport := c.net
	deadline, _ := ctx.Deadline() // without one it is the zero time: no deadline
	_ = transport.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = transport.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = transport.SetDeadline(time.Time{})
		}
	}
}

// SetReadDeadline sets until when Receive waits. A Receive that ends so, with
// os.ErrDeadlineExceeded, has lost nothing: the next one goes on. It is no part of
// the use that is one goroutine's: it may interrupt a Receive.
func (c *Conn) SetReadDeadline(at time.Time) { _ = c.net.SetReadDeadline(at) }

// Send writes all of p.
func (c *Conn) Send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := c.net.Write(p)
	return err
}

// Receive gives the next message; body stays valid until the next call. What is
// no message of the protocol, or is larger than MessageMax, is a Fault.
func (c *Conn) Receive() (typ byte, body []byte, err error) {
	_, _ = c.in.Discard(c.size) // of what Peek has shown
	c.size = 0
	head, err := c.in.Peek(protocol.HeaderLen)
	if err != nil {
		return 0, nil, err
	}
	typ, size, err := protocol.PeekBackend(head)
	if err != nil || size > MessageMax {
		return 0, nil, backend.Unframed(head)
	}
	m, err := c.in.Peek(size)
	if err != nil {
		return 0, nil, err
	}
	c.size = size
	return typ, m[protocol.HeaderLen:], nil
}

// Close ends the connection, with a Terminate where that may still be read.
func (c *Conn) Close() {
	_ = c.net.SetDeadline(time.Now().Add(closing))
	_, _ = c.net.Write(protocol.AppendTerminate(nil)) // best effort on the way out
	_ = c.net.Close()
}
