// Package backend holds what pg-kinetic knows of one PostgreSQL connection and
// of one PostgreSQL host: the login as a state machine, the parameters the
// server reported, and the memory of failures. Bytes in, bytes out: no socket,
// no clock, no goroutine.
package backend

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// State of a login. Owner: the event loop of the connection, except between
// Step Compute and the call of Computed, when one helper goroutine may call
// Compute (and the loop calls nothing).
//
//	start ─Start→ requested ─R→ answered ────────────R Ok→ settling ─Z→ done
//	                  │  └─R Ok (trust)──────────────────────↑
//	                  └─R SASL→ saslFirst ─R→ deriving ─Computed→ saslFinal ─R→ verified ─R Ok↑
//
// Invariants: at most one proof of identity is sent; once SASL has begun,
// AuthenticationOk counts only after the server's signature was verified;
// every error leads to failed, which accepts nothing.
type loginState uint8

const (
	loginStart loginState = iota
	loginRequested
	loginAnswered
	loginSASLFirst
	loginDeriving
	loginSASLFinal
	loginVerified
	loginSettling
	loginDone
	loginFailed
)

// Authentication codes, from "Message Formats" in PostgreSQL's documentation.
const (
	authOk           = 0
	authKerberosV5   = 2
	authCleartext    = 3
	authMD5          = 5
	authGSS          = 7
	authGSSContinue  = 8
	authSSPI         = 9
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

const passwordRemedy = "set password, password_env or password_file of the database's entry"

// LoginConfig is what a login needs to know. It is read only; one value may
// serve all logins of a pool. No string may contain a NUL byte.
type LoginConfig struct {
	User, Database string
	Password       string
	HasPassword    bool
	// Params are sent in the StartupMessage after user and database, in order.
	Params []protocol.Param
	// Minor is the protocol minor version to ask for: 0 or 2.
	Minor uint16
	// Keys remembers derived SCRAM keys between the logins of one pool; nil
	// derives anew each time.
	Keys *KeyCache
}

// Step says what a login needs next.
type Step uint8

const (
	// More: pass on further messages.
	More Step = iota
	// Compute: call Login.Compute on a helper goroutine, then Login.Computed on
	// the loop. Until then leave the server's bytes unread.
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
	sasl       *exchange
}

// NewLogin returns a login that has not begun.
func NewLogin(cfg LoginConfig) *Login {
	return &Login{cfg: cfg, minor: cfg.Minor, params: &Params{}}
}

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
		l.state = loginFailed
		return dst, More, err
	}
	return out, step, nil
}

func (l *Login) receive(typ byte, body, dst []byte) ([]byte, Step, error) {
	switch l.state {
	case loginStart, loginDeriving, loginDone, loginFailed:
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
		return dst, More, newRefused(body)
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

// authenticate takes an Authentication message.
func (l *Login) authenticate(body, dst []byte) ([]byte, Step, error) {
	if len(body) < 4 {
		return dst, More, violation("malformed Authentication message")
	}
	code, data := binary.BigEndian.Uint32(body), body[4:]
	switch code {
	case authOk:
		if l.state != loginRequested && l.state != loginAnswered && l.state != loginVerified {
			return dst, More, violation("AuthenticationOk before the server proved itself")
		}
		l.state = loginSettling
		return dst, More, nil
	case authSASLContinue:
		if l.state != loginSASLFirst {
			return dst, More, violation("unexpected AuthenticationSASLContinue")
		}
		return l.saslContinue(data, dst)
	case authSASLFinal:
		if l.state != loginSASLFinal {
			return dst, More, violation("unexpected AuthenticationSASLFinal")
		}
		if err := l.sasl.verify(string(data)); err != nil {
			return dst, More, err
		}
		l.state = loginVerified
		return dst, More, nil
	}
	if l.state != loginRequested {
		return dst, More, violation("the server asks a second time for a proof of identity")
	}
	return l.prove(code, data, dst)
}

// prove answers the server's choice of method.
func (l *Login) prove(code uint32, data, dst []byte) ([]byte, Step, error) {
	if code != authCleartext && code != authMD5 && code != authSASL {
		return dst, More, l.unsupported(methodName(code))
	}
	if !l.cfg.HasPassword {
		return dst, More, &UnableError{
			Message: fmt.Sprintf("PostgreSQL asks for a password of user %q for database %q, and none is configured", l.cfg.User, l.cfg.Database),
			Hint:    passwordRemedy,
		}
	}
	switch code {
	case authCleartext:
		l.state = loginAnswered
		return protocol.AppendPassword(dst, l.cfg.Password), More, nil
	case authMD5:
		if len(data) != 4 {
			return dst, More, violation("md5 salt of %d bytes", len(data))
		}
		l.state = loginAnswered
		return protocol.AppendPassword(dst, md5Proof(l.cfg.User, l.cfg.Password, data)), More, nil
	}
	return l.saslFirst(data, dst)
}

// saslFirst chooses among the offered mechanisms. SCRAM-SHA-256-PLUS binds to
// TLS, which this login does not run over, and is passed over.
func (l *Login) saslFirst(offered, dst []byte) ([]byte, Step, error) {
	names := bytes.Split(bytes.TrimRight(offered, "\x00"), []byte{0})
	found := false
	for _, name := range names {
		found = found || string(name) == scramSHA256
	}
	if !found {
		return dst, More, l.unsupported("SASL " + clean(bytes.Join(names, []byte(", "))))
	}
	first, x, err := newExchange(l.cfg.Keys, "", l.cfg.Password, nil)
	if err != nil {
		return dst, More, violation("SCRAM: %v", err)
	}
	out, err := (&pgproto3.SASLInitialResponse{AuthMechanism: scramSHA256, Data: []byte(first)}).Encode(dst)
	if err != nil {
		return dst, More, violation("SCRAM: %v", err)
	}
	l.sasl = x
	l.state = loginSASLFirst
	return out, More, nil
}

// saslContinue takes the server-first message. Keys that are known answer at
// once, else a helper derives them.
func (l *Login) saslContinue(data, dst []byte) ([]byte, Step, error) {
	known, err := l.sasl.challenge(string(data))
	if err != nil {
		return dst, More, err
	}
	l.state = loginDeriving
	if !known {
		return dst, Compute, nil
	}
	l.sasl.derive()
	return l.computed(dst)
}

// Compute derives the SCRAM keys: milliseconds of CPU, seconds at the bound.
// It may run on any goroutine, after Receive returned Step Compute and before
// Computed is called.
func (l *Login) Compute() { l.sasl.derive() }

// Computed appends the proof derived by Compute to dst. Errors as Receive.
func (l *Login) Computed(dst []byte) (out []byte, step Step, err error) {
	if l.state != loginDeriving {
		l.state = loginFailed
		return dst, More, violation("nothing was to be computed")
	}
	out, step, err = l.computed(dst)
	if err != nil {
		l.state = loginFailed
		return dst, More, err
	}
	return out, step, nil
}

func (l *Login) computed(dst []byte) ([]byte, Step, error) {
	final, err := l.sasl.proof()
	if err != nil {
		return dst, More, err
	}
	out, err := (&pgproto3.SASLResponse{Data: []byte(final)}).Encode(dst)
	if err != nil {
		return dst, More, violation("SCRAM: %v", err)
	}
	l.state = loginSASLFinal
	return out, More, nil
}

func (l *Login) unsupported(method string) error {
	return &UnableError{
		Message: fmt.Sprintf("PostgreSQL asks for %s authentication of user %q for database %q, which pg-kinetic does not support", method, l.cfg.User, l.cfg.Database),
		Hint:    "use scram-sha-256, md5, password or trust for this pooler in pg_hba.conf",
	}
}

func methodName(code uint32) string {
	switch code {
	case authKerberosV5:
		return "Kerberos V5"
	case authGSS, authGSSContinue:
		return "GSSAPI"
	case authSSPI:
		return "SSPI"
	}
	return fmt.Sprintf("unknown (code %d)", code)
}

// md5Proof is "md5" md5(md5(password user) salt), as "md5" in PostgreSQL's
// chapter on password authentication; hashes in hexadecimal.
func md5Proof(user, password string, salt []byte) string {
	inner := md5.Sum([]byte(password + user))
	outer := md5.Sum(append([]byte(hex.EncodeToString(inner[:])), salt...))
	return "md5" + hex.EncodeToString(outer[:])
}

func violation(format string, args ...any) error {
	return &ViolationError{What: fmt.Sprintf(format, args...)}
}
