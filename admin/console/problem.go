package console

import (
	"errors"
	"fmt"
	"strings"

	"pgkinetic/protocol"
)

// SQLSTATEs of the console's own errors (PostgreSQL documentation, "PostgreSQL
// Error Codes").
const (
	codeSuccess          = "00000"
	codeProtocol         = "08P01"
	codeUnsupported      = "0A000"
	codeEncoding         = "22021"
	codeInvalidValue     = "22023"
	codeActiveBlock      = "25001"
	codeNoBlock          = "25P01"
	codeFailedBlock      = "25P02"
	codeNoStatement      = "26000"
	codeNoCursor         = "34000"
	codeDoubleStatement  = "42P05"
	codeDoubleCursor     = "42P03"
	codeForbidden        = "42501"
	codeSyntax           = "42601"
	codeUnknownParameter = "42704"
	codeTooMany          = "54000"
	codeNotInThatState   = "55000"
	codeCanceled         = "57014"
	codeShutdown         = "57P01"
	codeConfigFile       = "F0000"
)

const hintHelp = "SHOW HELP lists the commands."

// problem is an error as the client is told it. It is one of the client's: the
// session goes on.
type problem struct {
	code, message, detail, hint string
	cause                       error // of the pooler; nil: none
}

func (p *problem) Error() string { return p.message }
func (p *problem) Unwrap() error { return p.cause }

func (p *problem) fields(severity string) protocol.ErrorFields {
	return protocol.ErrorFields{Severity: severity, Code: p.code, Message: p.message, Detail: p.detail, Hint: p.hint}
}

func syntaxError(format string, args ...any) *problem {
	return &problem{code: codeSyntax, message: fmt.Sprintf(format, args...), hint: hintHelp}
}

// unexpected is the error for a token that does not belong where it is.
func unexpected(t token) *problem {
	if t.kind == tokenEnd {
		return syntaxError("syntax error at end of input")
	}
	return syntaxError("syntax error at or near %q", shortened(t.text))
}

// shortened keeps a text of the client's from filling an answer.
func shortened(s string) string {
	const longest = 200
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// problemOf is err as the client is told it. Errors of the pooler may tell their
// SQLSTATE by a method of that name; the others get the code. Further lines become
// the detail.
func problemOf(err error, code string) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if s, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		code = s.SQLState()
	}
	message, detail, _ := strings.Cut(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\n")
	return &problem{code: code, message: message, detail: detail, cause: err}
}
