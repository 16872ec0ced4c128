package backend

import (
	"errors"
	"io"
	"net"
	"strings"

	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// Encryption decides whether a connection to PostgreSQL is encrypted, attempt by
// attempt, as libpq's sslmode does. It speaks SSLRequest; the handshake, and what
// is verified in it, is the caller's.
//
// Owner: whoever connects. Invariants: what came in clear is never taken for what
// came encrypted; there are at most two attempts, and the second is the other way.
type Encryption struct {
	mode    configs.TLSMode
	ask     bool // this attempt begins with SSLRequest
	secured bool // and the server has agreed
	again   bool // this is the second attempt
}

// NewEncryption is for one connect over the network of configs.Host: as with
// libpq, nothing is encrypted on a Unix socket, whatever the mode.
func NewEncryption(mode configs.TLSMode, network string) *Encryption {
	if network == "unix" {
		mode = configs.TLSDisable
	}
	return &Encryption{mode: mode, ask: mode != configs.TLSDisable && mode != configs.TLSAllow}
}

// Start appends the SSLRequest to dst, if this attempt begins with one; ask says
// so. Then Answer takes what the server sends, else the login begins in clear.
func (e *Encryption) Start(dst []byte) (out []byte, ask bool) {
	if !e.ask {
		return dst, false
	}
	return protocol.AppendSSLRequest(dst), true
}

// Reply is what the server's answer to SSLRequest leads to.
type Reply uint8

const (
	// Unanswered: nothing has come.
	Unanswered Reply = iota
	// Handshake: begin the TLS handshake as the client. No byte of the server's
	// has come behind its answer.
	Handshake
	// InClear: go on with the login, unencrypted, on the same connection.
	InClear
)

// Answer takes all that the server has sent since the SSLRequest. An error is a
// Fault and ends the attempt (see Again).
func (e *Encryption) Answer(p []byte) (Reply, error) {
	switch {
	case len(p) == 0:
		return Unanswered, nil
	case p[0] == 'E':
		// Its text is not repeated: nobody knows yet who has written it.
		return Unanswered, &HandshakeError{errNoAnswer}
	case p[0] != 'S' && p[0] != 'N':
		return Unanswered, Unframed(p)
	case len(p) > 1:
		return Unanswered, violation("bytes behind the answer to the request for TLS")
	case p[0] == 'S':
		e.secured = true
		return Handshake, nil
	case e.mode == configs.TLSAllow || e.mode == configs.TLSPrefer:
		return InClear, nil
	}
	return Unanswered, &UnableError{
		Message: "PostgreSQL has no TLS, and tls.server_mode is " + string(e.mode),
		Hint:    "set ssl = on and a certificate in postgresql.conf, or choose another server_mode",
	}
}

// Again says, of an attempt that cause has ended, whether the other way is to be
// tried on a new connection: for it Start is called anew.
//
// libpq turns to the other way after whatever refusal comes before
// AuthenticationOk. Here the refusal must be one of identity (SQLSTATE 28xxx, as
// pg_hba.conf gives it): a server that is full or starting is asked again anyway.
func (e *Encryption) Again(cause error) bool {
	var handshake *HandshakeError
	var refused *RefusedError
	turn := false
	switch {
	case e.again:
	case errors.As(cause, &handshake):
		turn = e.mode == configs.TLSPrefer
	case errors.As(cause, &refused):
		turn = !refused.Authenticated && strings.HasPrefix(refused.Fields.Code, "28") &&
			(e.mode == configs.TLSPrefer && e.secured || e.mode == configs.TLSAllow)
	}
	if turn {
		e.ask, e.secured, e.again = !e.ask, false, true
	}
	return turn
}

// HandshakeError: TLS with PostgreSQL did not come about. A time-out is none.
type HandshakeError struct{ Err error }

// errNoAnswer: what a postmaster says that cannot fork, for example.
var errNoAnswer = errors.New("the server answers the request for it with an error")

func (e *HandshakeError) Error() string { return "TLS with PostgreSQL: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Class is HostFault where the connection broke, as it does when a server stops.
// A certificate that is not good, or ours that is not taken, stays so: its
// requests get the cause at once.
func (e *HandshakeError) Class() Class {
	var op *net.OpError
	var network net.Error
	switch {
	case errors.As(e.Err, &op) && (op.Op == "remote error" || op.Op == "local error"): // crypto/tls's words for an alert
		return LoginFault
	case errors.As(e.Err, &network), errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF), errors.Is(e.Err, errNoAnswer):
		return HostFault
	}
	return LoginFault
}

// Answer is 08006 (connection_failure).
func (e *HandshakeError) Answer() protocol.ErrorFields {
	return protocol.ErrorFields{Code: protocol.CodeConnectionFailure, Message: e.Error()}
}
