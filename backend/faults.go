package backend

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"pgkinetic/protocol"
)

// Class says whom a failed login concerns.
type Class uint8

const (
	// LoginFault concerns this pool only (wrong password, no such database, a
	// role at its connection limit): its requests get the cause at once.
	LoginFault Class = iota
	// HostFault concerns every pool of the host: it does not answer, is
	// starting or stopping, or has no room. Requests wait, connects are retried.
	HostFault
)

// String names the class as logs show it.
func (c Class) String() string {
	if c == HostFault {
		return "host"
	}
	return "login"
}

// Fault is what every error of this package is: it knows whom it concerns and
// what a client is told.
type Fault interface {
	error
	Class() Class
	// Answer gives the fields of the ErrorResponse for a client. Severity is
	// left empty: whether the session ends is not this package's matter.
	Answer() protocol.ErrorFields
}

// ClassOf returns the class of the Fault in err's chain. Anything else
// (connection refused, reset, time-out) is a HostFault.
func ClassOf(err error) Class {
	var f Fault
	if errors.As(err, &f) {
		return f.Class()
	}
	return HostFault
}

// AnswerOf returns the ErrorResponse fields for err, without Severity: those
// of the Fault in its chain, else 08006 (connection_failure) with err's text.
func AnswerOf(err error) protocol.ErrorFields {
	var f Fault
	if errors.As(err, &f) {
		return f.Answer()
	}
	return protocol.ErrorFields{Code: protocol.CodeConnectionFailure, Message: err.Error()}
}

// RefusedError is an ErrorResponse of PostgreSQL to our login.
type RefusedError struct {
	Fields protocol.ErrorFields
	// OwnLimit: the 53300 is the connection limit of the role or the database,
	// not of the server.
	OwnLimit bool
	// Authenticated: it came after AuthenticationOk.
	Authenticated bool
}

// newRefused decodes the body of an ErrorResponse.
func newRefused(body []byte) *RefusedError {
	e := &RefusedError{Fields: protocol.DecodeError(body)}
	if !sqlstate(e.Fields.Code) {
		e.Fields.Code = ""
	}
	// Texts are localised, names of C functions are not: these two check the
	// limits of ALTER ROLE and ALTER DATABASE ... CONNECTION LIMIT.
	switch string(errorField(body, 'R')) {
	case "InitializeSessionUserId", "CheckMyDatabase":
		e.OwnLimit = true
	}
	return e
}

func (e *RefusedError) Error() string {
	msg := e.Fields.Message
	if msg == "" {
		msg = "no reason given"
	}
	if e.Fields.Code == "" {
		return "PostgreSQL refused the login: " + msg
	}
	return "PostgreSQL refused the login: " + msg + " (SQLSTATE " + e.Fields.Code + ")"
}

// Class sorts by SQLSTATE; unknown codes concern the pool only, so that an odd
// server behind one pool does not stop the others.
func (e *RefusedError) Class() Class {
	code := e.Fields.Code
	switch code {
	case protocol.CodeAdminShutdown, protocol.CodeCrashShutdown, protocol.CodeCannotConnectNow, protocol.CodeQueryCanceled,
		"08000", "08001", "08003", protocol.CodeConnectionFailure:
		return HostFault
	}
	if strings.HasPrefix(code, "53") && !e.OwnLimit {
		return HostFault
	}
	return LoginFault
}

// Answer passes SQLSTATE and text on. 53300 is also what we refuse with, so
// that one names its origin. An error without SQLSTATE becomes 08006.
func (e *RefusedError) Answer() protocol.ErrorFields {
	f := e.Fields
	f.Severity = ""
	switch {
	case f.Code == "":
		return protocol.ErrorFields{Code: protocol.CodeConnectionFailure, Message: e.Error()}
	case f.Message == "":
		f.Message = e.Error()
	case f.Code == protocol.CodeTooManyConnections:
		f.Message = "PostgreSQL: " + f.Message
	}
	return f
}

// ViolationError: what answered does not speak PostgreSQL's protocol. The
// connection must be closed.
type ViolationError struct{ What string }

func (e *ViolationError) Error() string { return "login to PostgreSQL: " + e.What }

// Class is HostFault: whatever listens there is not a sane PostgreSQL.
func (e *ViolationError) Class() Class { return HostFault }

// Answer is 08P01 (protocol_violation).
func (e *ViolationError) Answer() protocol.ErrorFields {
	return protocol.ErrorFields{Code: protocol.CodeProtocolViolation, Message: e.Error()}
}

// UnableError: PostgreSQL asks for something that this pooler does not have
// or cannot do. Hint is the remedy.
type UnableError struct{ Message, Hint string }

func (e *UnableError) Error() string { return e.Message + " (" + e.Hint + ")" }

// Class is LoginFault: pg_hba.conf decides per database and user.
func (e *UnableError) Class() Class { return LoginFault }

// Answer is 28000 (invalid_authorization_specification).
func (e *UnableError) Answer() protocol.ErrorFields {
	return protocol.ErrorFields{Code: protocol.CodeInvalidAuthorization, Message: e.Message, Hint: e.Hint}
}

// errorField returns the value of one field of an ErrorResponse body, nil when
// absent. It points into body.
func errorField(body []byte, field byte) []byte {
	for len(body) > 1 && body[0] != 0 {
		end := bytes.IndexByte(body[1:], 0)
		if end < 0 {
			return nil
		}
		if body[0] == field {
			return body[1 : 1+end]
		}
		body = body[end+2:]
	}
	return nil
}

// Unframed explains bytes of a fresh server connection whose first header is
// not a message of the protocol: the plain text that a postmaster which cannot
// fork sends ('E', text, NUL), or whatever else is listening there. p is not
// kept.
func Unframed(p []byte) error {
	if len(p) > 1 && p[0] == 'E' && printable(p[1]) {
		text := p[1:min(len(p), 256)]
		if end := bytes.IndexByte(text, 0); end >= 0 {
			text = text[:end]
		}
		return &RefusedError{Fields: protocol.ErrorFields{
			Severity: "FATAL", Code: "53000", Message: clean(bytes.TrimSpace(text)),
		}}
	}
	return &ViolationError{What: fmt.Sprintf("the server's first bytes are not PostgreSQL's protocol: %q", clean(p[:min(len(p), 32)]))}
}

// sqlstate says whether code is five of 0-9 A-Z.
func sqlstate(code string) bool {
	for i := range len(code) {
		if c := code[i]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(code) == 5
}

func printable(c byte) bool { return c >= ' ' && c < 0x7f }

// clean makes a server's bytes fit for a log line or a message.
func clean(p []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(p), "?"))
}
