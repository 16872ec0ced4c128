package auth

import (
	"fmt"

	"pgkinetic/protocol"
)

// Refusal is the end of a login.
type Refusal struct {
	// Fields are what the client is told, FATAL; texts and codes are PostgreSQL's.
	Fields protocol.ErrorFields
	// Cause is for the log only: it may tell that a user has no secret. Empty where
	// Fields say all. No secret is in it.
	Cause string
	// Wrong: a proof of identity was wrong, which is what a Throttle counts.
	Wrong bool
}

func refuse(code, message, detail string) *Refusal {
	return &Refusal{Fields: protocol.ErrorFields{
		Severity: protocol.SeverityFatal, Code: code, Message: message, Detail: detail,
	}}
}

func violation(message, detail string) *Refusal {
	return refuse(protocol.CodeProtocolViolation, message, detail)
}

// malformed is PostgreSQL's answer to a SCRAM message that it cannot read.
func malformed(detail string) *Refusal { return violation("malformed SCRAM message", detail) }

// failed is the answer to a proof that does not hold.
func failed(m Method, user, cause string) *Refusal {
	code, text := protocol.CodeInvalidAuthorization, ""
	switch m {
	case Password, MD5, SCRAM:
		code, text = protocol.CodeInvalidPassword, "password authentication failed for user %s"
	case Trust:
		text = `"trust" authentication failed for user %s`
	case Cert:
		text = "certificate authentication failed for user %s"
	case Reject:
		text = "authentication failed for user %s: host rejected"
	}
	r := refuse(code, fmt.Sprintf(text, `"`+user+`"`), "")
	r.Cause, r.Wrong = cause, true
	return r
}
