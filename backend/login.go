// Package backend holds what pg-kinetic knows of one PostgreSQL connection and
// of one PostgreSQL host: the login as a state machine, the parameters the
// server reported, and the memory of failures. Bytes in, bytes out: no socket,
// no clock, no goroutine.
package backend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"pgkinetic/protocol"
)

// State of a login. Owner: the event loop of the connection, except between
// Step Compute and the call of Computed, when one helper goroutine may call
// Compute (and the loop calls nothing).
//
//	start ─Start→ requested ─R Ok (trust)→ settling ─Z→ done
//	                  ├─R→ proving ─Computed→ answered ─R Ok→ settling
//	                  └─R SASL→ saslFirst ─R→ proving ─Computed→ saslFinal ─R→ verified ─R Ok→ settling
//
// Invariants: at most one proof of identity is sent; once SASL has begun,
// AuthenticationOk counts only after the server's signature was verified;
// every error leads to failed, which accepts nothing. proving is passed through
// at once where the proof takes no helper (see Credentials.blocks).
type loginState uint8

const (
	loginStart loginState = iota
	loginRequested
	loginSASLFirst
	loginProving
	loginAnswered
	loginSASLFinal
	loginVerified
	loginSettling
	loginDone
	loginFailed
)

// LoginConfig is what a login needs to know. It is read only; one value may
// serve all logins of a pool. No string may contain a NUL byte.
type LoginConfig struct {
	User, Database string
	// Credentials are those of User; nil: none, for servers that ask for none.
	Credentials *Credentials
	// Params are sent in the StartupMessage after user and database, in order.
	Params []protocol.Param
	// Minor is the protocol minor version to ask for: 0 or 2.
	Minor uint16
}

// Step says what a login needs next.
type Step uint8

const (
	// More: pass on further messages.
	More Step = iota
	// Compute: call Login.Compute on a helper goroutine, which may also read a
	// file there, then Login.Computed on the loop. Until then leave the server's
	// bytes unread.
	Compute
	// Done: ReadyForQuery(I) has been seen.
	Done
)

// Login is pg-kinetic's login to PostgreSQL. See loginState for its owner.
type Login struct {
	cfg        LoginConfig
	state      loginState
	negotiated bool
	minor      uint16
	pid        uint32
	key        []byte
	params     *Params
	endPoint   []byte
	proof      proof
}

// NewLogin returns a login that has not begun.
func NewLogin(cfg LoginConfig) *Login {
	return &Login{cfg: cfg, minor: cfg.Minor, params: &Params{}}
}

// Format prints nothing of the login, whatever the verb: it holds secrets.
func (l *Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "Login{***}") }

// BindTo makes the login bind itself to the TLS connection it runs over, where
// the server can: endPoint is the tls-server-end-point (RFC 5929) of the server's
// certificate. It is called before Start, on TLS only; an endPoint that cannot
// be computed is nil, and nothing is bound.
func (l *Login) BindTo(endPoint []byte) { l.endPoint = endPoint }

// Params returns the parameters reported so far. After Done they belong to the
// caller: the login does not touch them again.
func (l *Login) Params() *Params { return l.params }

// PID returns the backend's process id, 0 when the server told none.
func (l *Login) PID() uint32 { return l.pid }

// Key returns the backend's cancel key (4 to 256 bytes), nil when the server
// told none: then it cannot be cancelled.
func (l *Login) Key() []byte { return l.key }

// Minor returns the protocol minor version in force.
func (l *Login) Minor() uint16 { return l.minor }

// Start appends the StartupMessage to dst.
func (l *Login) Start(dst []byte) []byte {
	params := make([]protocol.Param, 0, len(l.cfg.Params)+2)
	params = append(
		params,
		protocol.Param{Name: "user", Value: l.cfg.User},
		protocol.Param{Name: "database", Value: l.cfg.Database},
	)
	params = append(params, l.cfg.Params...)
	l.state = loginRequested
	return protocol.AppendStartup(dst, 3, l.cfg.Minor, params)
}

// Receive takes the next message of the server and appends the answer, if any,
// to dst. body is only read during the call. An error is a Fault and ends the
// login: nothing was appended, close the connection.
func (l *Login) Receive(typ byte, body, dst []byte) (out []byte, step Step, err error) {
	out, step, err = l.receive(typ, body, dst)
	if err != nil {
		return dst, More, l.failed(err)
	}
	return out, step, nil
}

// failed ends the login. What a client has taught us and the server refuses is
// of no use to the next one.
func (l *Login) failed(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Fields.Code == protocol.CodeInvalidPassword {
		l.cfg.Credentials.forget(l.proof.used)
	}
	l.state = loginFailed
	return err
}

func (l *Login) receive(typ byte, body, dst []byte) ([]byte, Step, error) {
	switch l.state {
	case loginStart, loginProving, loginDone, loginFailed:
		return dst, More, violation("message %q at a time when none is read", typ)
	case loginRequested, loginAnswered, loginSASLFirst, loginSASLFinal, loginVerified, loginSettling:
	}
	limit := LoginLimit(typ)
	if limit < 0 {
		return dst, More, violation("unexpected message %q", typ)
	}
	if len(body) > limit {
		return dst, More, violation("message %q of %d bytes", typ, len(body))
	}
	switch typ {
	case protocol.BackendErrorResponse:
		refused := newRefused(body)
		refused.Authenticated = l.state == loginSettling
		return dst, More, refused
	case protocol.BackendNoticeResponse:
		return dst, More, nil
	case protocol.BackendNegotiateProtocolVersion:
		return dst, More, l.negotiate(body)
	case protocol.BackendAuthentication:
		return l.authenticate(body, dst)
	}
	if l.state != loginSettling {
		return dst, More, violation("message %q before AuthenticationOk", typ)
	}
	step, err := l.settle(typ, body)
	return dst, step, err
}

// settle takes what follows AuthenticationOk.
func (l *Login) settle(typ byte, body []byte) (Step, error) {
	switch typ {
	case protocol.BackendParameterStatus:
		name, value, ok := protocol.DecodeParameterStatus(body)
		if !ok || len(name) == 0 {
			return More, violation("malformed ParameterStatus")
		}
		if _, kept := l.params.put(name, value); !kept {
			return More, violation("more than %d parameters or %d bytes of them reported", maxParams, maxParamBytes)
		}
		return More, nil
	case protocol.BackendKeyData:
		if n := len(body) - 4; n < minKeyLen || n > maxKeyLen {
			return More, violation("BackendKeyData of %d bytes", len(body))
		}
		l.pid = binary.BigEndian.Uint32(body)
		l.key = bytes.Clone(body[4:])
		return More, nil
	default: // ReadyForQuery: LoginLimit lets nothing else pass
		if len(body) != 1 || body[0] != 'I' {
			return More, violation("ReadyForQuery %q after a login", body)
		}
		l.params.rebaseAll()
		l.state = loginDone
		return Done, nil
	}
}

// negotiate takes NegotiateProtocolVersion: once, before authentication, and
// never to a newer version than asked for. The unsupported options it lists
// cannot be ours: we send none.
func (l *Login) negotiate(body []byte) error {
	if l.state != loginRequested || l.negotiated {
		return violation("unexpected NegotiateProtocolVersion")
	}
	if len(body) < 8 {
		return violation("malformed NegotiateProtocolVersion")
	}
	// The documentation says "minor version"; servers send the whole version.
	version := binary.BigEndian.Uint32(body)
	major, minor := version>>16, version&0xffff
	if (major != 0 && major != 3) || minor > uint32(l.cfg.Minor) {
		return violation("the server wants protocol %d.%d", major, minor)
	}
	l.negotiated, l.minor = true, uint16(minor)
	return nil
}

func violation(format string, args ...any) error {
	return &ViolationError{What: fmt.Sprintf(format, args...)}
}
