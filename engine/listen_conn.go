package engine

// A listener's connection: framing, login, statements. The login is that of the
// pool's backends (backend.Login, with the pool's user, password and remembered
// keys), so that what PostgreSQL lets in, and the cause when it does not, are the
// same; nothing is taken from the environment of the process.
//
// Owner: the listener's goroutine. Deadlines alone may be set by others, who hold
// listeners.mu.

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"time"

	"pgkinetic/backend"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// listenerMessageMax is the largest message that is understood. A payload has
	// less than 8000 bytes, four times as many in another encoding at the most.
	listenerMessageMax = 64 << 10
	// listenerName is the application_name of listeners.
	listenerName = "pg-kinetic listener"
	// listenerWrite is what PostgreSQL has to take a statement.
	listenerWrite = 10 * time.Second
	// listenerLogins bounds the logins of listeners to one host at a time.
	listenerLogins = 4
)

// listenerSettings: a listener is idle by nature, and its statements are ours. Not
// every version knows all of these parameters.
const listenerSettings = "select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings where name in " +
	"('idle_session_timeout', 'statement_timeout', 'lock_timeout', 'transaction_timeout')"

// listenerConn is a connection that has been logged in.
type listenerConn struct {
	l    *listener
	net  net.Conn
	in   *bufio.Reader
	out  []byte
	size int // of the message that message gave last, which is still in in
	pid  uint32
}

// errEnded: the process stops.
var errEnded = errors.New("shutting down")

// open connects and logs in until end. The caller closes the connection.
func (l *listener) open(end int64) (*listenerConn, error) {
	h := l.key.pool.host
	if cause, held := l.key.pool.logins.Held(reactor.Now()); held {
		return nil, cause
	}
	ctx, stop := context.WithTimeout(l.set.ctx, time.Duration(end-reactor.Now()))
	defer stop()
	select {
	case h.listening <- struct{}{}:
		defer func() { <-h.listening }()
	case <-ctx.Done():
		return nil, connectError(h, errConnectTimeout)
	}
	conn, err := h.connect(ctx)
	if err != nil {
		return nil, connectError(h, err)
	}
	c := &listenerConn{l: l, net: conn, in: bufio.NewReaderSize(conn, listenerMessageMax)}
	if err := c.logIn(ctx, end); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// connect dials the host's address, which is looked up if it is a name.
func (h *host) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: time.Duration(backendSockets.KeepaliveMs) * time.Millisecond,
	}}
	if h.fixed {
		return d.DialContext(ctx, h.target.Network, h.target.Address)
	}
	r := h.address.Load()
	if r == nil || reactor.Now()-r.at >= dnsTTL {
		addrs, err := lookupHost(ctx, h.target.Address)
		if err != nil {
			return nil, err
		}
		r = h.learn(addrs, reactor.Now())
	}
	address := r.address()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		r.failed(address)
	}
	return conn, err
}

// setDeadline bounds reads and writes, unless the process stops: then it is past.
func (c *listenerConn) setDeadline(at time.Time) {
	ls := c.l.set
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.ended {
		at = past
	}
	_ = c.net.SetDeadline(at)
}

// close ends the connection, with a Terminate where that may still be read.
func (c *listenerConn) close() {
	_ = c.net.SetDeadline(time.Now().Add(listenerWrite / 10))
	_, _ = c.net.Write(terminateMessage) // best effort on the way out
	_ = c.net.Close()
}

// message gives the next message, which stays valid until the next call: its type,
// and all of it with the header. A time-out leaves what has come where it is.
func (c *listenerConn) message() (typ byte, m []byte, err error) {
	_, _ = c.in.Discard(c.size) // of what Peek has shown
	c.size = 0
	head, err := c.in.Peek(protocol.HeaderLen)
	if err != nil {
		return 0, nil, err
	}
	typ, size, err := protocol.PeekBackend(head)
	if err == nil && size > listenerMessageMax {
		err = protocol.ErrLength
	}
	if err != nil {
		return 0, nil, backend.Unframed(head)
	}
	if m, err = c.in.Peek(size); err != nil {
		return 0, nil, err
	}
	c.size = size
	return typ, m, nil
}

// logIn takes the connection through the login and its settings.
func (c *listenerConn) logIn(ctx context.Context, end int64) error {
	l := c.l
	l.set.mu.Lock()
	l.conn = c.net // so that close reaches it
	l.set.mu.Unlock()
	c.setDeadline(time.Now().Add(time.Duration(end - reactor.Now())))
	machine := backend.NewLogin(l.key.loginConfig())
	if _, err := c.net.Write(machine.Start(nil)); err != nil {
		return connectError(l.key.pool.host, err)
	}
	for {
		typ, m, err := c.message()
		if err != nil {
			return c.loginError(err)
		}
		out, step, err := machine.Receive(typ, m[protocol.HeaderLen:], nil)
		if err == nil && step == backend.Compute {
			out, step, err = c.compute(ctx, machine)
		}
		if err != nil {
			return err
		}
		if _, err := c.net.Write(out); err != nil {
			return connectError(l.key.pool.host, err)
		}
		if step == backend.Done {
			c.pid = machine.PID()
			break
		}
	}
	if refusal, err := c.query(listenerSettings, func([]byte) {}); err != nil {
		return c.loginError(err)
	} else if refusal != nil {
		return &backend.RefusedError{Fields: *refusal}
	}
	return nil
}

// compute derives the keys within the bound of computing goroutines.
func (c *listenerConn) compute(ctx context.Context, machine *backend.Login) ([]byte, backend.Step, error) {
	helpers := c.l.set.eng.helpers
	if err := helpers.Acquire(ctx); err != nil {
		return nil, backend.More, connectError(c.l.key.pool.host, errHelpersBusy)
	}
	machine.Compute()
	helpers.Release()
	return machine.Computed(nil)
}

// loginError words what ended a login before PostgreSQL said why.
func (c *listenerConn) loginError(err error) error {
	var f backend.Fault
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errConnectTimeout
	default:
		err = errClosedInLogin
	}
	return connectError(c.l.key.pool.host, err)
}

// loginConfig is the login of the pool's backends with what makes it a listener's.
func (k listenerKey) loginConfig() backend.LoginConfig {
	cfg := k.pool.loginConfig
	params := make([]protocol.Param, 0, len(cfg.Params)+2)
	for _, p := range cfg.Params {
		if p.Name != "application_name" && p.Name != "client_encoding" {
			params = append(params, p)
		}
	}
	params = append(params, protocol.Param{Name: "application_name", Value: listenerName})
	if k.encoding != "" {
		params = append(params, protocol.Param{Name: "client_encoding", Value: k.encoding})
	}
	cfg.Params = params
	return cfg
}

// query runs a simple query and reads up to its ReadyForQuery. refusal is
// PostgreSQL's error, if the session goes on behind it; err ends the connection.
// heard gets the notifications that come meanwhile.
func (c *listenerConn) query(sql string, heard func(m []byte)) (refusal *protocol.ErrorFields, err error) {
	c.out = protocol.AppendQuery(c.out[:0], sql)
	if _, err := c.net.Write(c.out); err != nil {
		return nil, err
	}
	for {
		typ, m, err := c.message()
		if err != nil {
			return nil, err
		}
		switch typ {
		case protocol.BackendNotificationResponse:
			heard(m)
		case protocol.BackendErrorResponse:
			e := protocol.DecodeError(m[protocol.HeaderLen:])
			if protocol.ErrorEndsSession(m[protocol.HeaderLen:]) {
				return nil, &backend.RefusedError{Fields: e}
			}
			refusal = &e
		case protocol.BackendReadyForQuery:
			return refusal, nil
		}
	}
}

// notified takes a NotificationResponse apart: the channel's name, a part of m.
func notified(m []byte) (name []byte, err error) {
	body := m[protocol.HeaderLen:]
	if len(body) < 4 {
		return nil, errMalformedNotification
	}
	for i, b := range body[4:] {
		if b == 0 {
			return body[4 : 4+i], nil
		}
	}
	return nil, errMalformedNotification
}

var errMalformedNotification = &backend.ViolationError{What: "malformed NotificationResponse"}
