package engine

// A listener's connection: its login, which is that of the pool's backends, its
// statements, its notifications.
//
// Owner: the listener's goroutine. Its read deadline alone may be set by others
// (listener.wake), who hold listeners.mu.

import (
	"context"
	"encoding/binary"
	"time"

	"pgkinetic/backend"
	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// listenerName is the application_name of listeners.
	listenerName = "pg-kinetic listener"
	// listenerLogins bounds the logins of listeners to one host at a time.
	listenerLogins = 4
)

// listenerSettings: a listener is idle by nature, and its statements are ours. Not
// every version knows all of these parameters.
const listenerSettings = "select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings where name in " +
	"('idle_session_timeout', 'statement_timeout', 'lock_timeout', 'transaction_timeout')"

// open connects and logs in until end. The caller closes the connection.
func (l *listener) open(end int64) (*dial.Conn, error) {
	p, e := l.key.pool, l.set.eng
	l.basis = p.backing.Load()
	h := l.basis.host
	if cause, held := p.logins.Held(reactor.Now()); held {
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
	cfg := e.dialing(e.settings.Load().security, h, l.login())
	c, err := dial.Open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	refusal, err := query(ctx, c, listenerSettings, func([]byte) {})
	if err == nil && refusal != nil {
		err = &backend.RefusedError{Fields: *refusal}
	}
	if err != nil {
		c.Close()
		return nil, cfg.Explain(ctx, err)
	}
	return c, nil
}

// login is that of the pool's backends with what makes it a listener's.
func (l *listener) login() backend.LoginConfig {
	k, cfg := l.key, l.basis.login
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

// query runs a simple query and reads up to its ReadyForQuery, while ctx lasts.
// refusal is PostgreSQL's error, if the session goes on behind it; err ends the
// connection. heard gets the bodies of notifications that come meanwhile.
func query(ctx context.Context, c *dial.Conn, sql string, heard func(body []byte)) (refusal *protocol.ErrorFields, err error) {
	release := c.Bound(ctx)
	defer release()
	if err := c.Send(protocol.AppendQuery(nil, sql)); err != nil {
		return nil, err
	}
	for {
		typ, body, err := c.Receive()
		if err != nil {
			return nil, err
		}
		switch typ {
		case protocol.BackendNotificationResponse:
			heard(body)
		case protocol.BackendErrorResponse:
			e := protocol.DecodeError(body)
			if protocol.ErrorEndsSession(body) {
				return nil, &backend.RefusedError{Fields: e}
			}
			refusal = &e
		case protocol.BackendReadyForQuery:
			return refusal, ctx.Err() // when it has ended, so has the connection
		}
	}
}

// notification makes the message of a NotificationResponse's body, in memory of its
// own.
func notification(body []byte) []byte {
	m := make([]byte, 0, protocol.HeaderLen+len(body))
	m = append(m, protocol.BackendNotificationResponse)
	m = binary.BigEndian.AppendUint32(m, uint32(protocol.HeaderLen-1+len(body)))
	return append(m, body...)
}

// notified gives the channel's name in a NotificationResponse, a part of body.
func notified(body []byte) (name []byte, err error) {
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
