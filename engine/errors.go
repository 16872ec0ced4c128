package engine

// Texts of the errors that clients see (the table in docs/errors.md).

import (
	"fmt"

	"pgkinetic/engine/session"
	"pgkinetic/protocol"
)

// codeOutOfMemory: PostgreSQL's out_of_memory.
const codeOutOfMemory = "53200"

var (
	errShutdown = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeAdminShutdown,
		Message: "terminating connection due to administrator command",
	}
	errTooManyClients = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeTooManyConnections,
		Message: "sorry, too many clients already",
	}
	errNoUser = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeInvalidAuthorization,
		Message: "no PostgreSQL user name specified in startup packet",
	}
	errStuffed = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeProtocolViolation,
		Message: "received unencrypted data after SSL or GSS encryption request",
	}
	errNeedsTLS = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeInvalidAuthorization,
		Message: "connections without TLS are not let in", Hint: "Connect with sslmode=require or stricter.",
	}
	errLoginsBusy = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeTooManyConnections,
		Message: "too many logins are being checked",
	}
	errLongUser = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeInvalidAuthorization,
		Message: fmt.Sprintf("user name in startup packet is longer than %d bytes", session.MaxName),
	}
	errLongDatabase = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeInvalidCatalogName,
		Message: fmt.Sprintf("database name in startup packet is longer than %d bytes", session.MaxName),
	}
	errReplication = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeFeatureNotSupported,
		Message: "replication connections are not supported through pg-kinetic",
		Hint:    "Connect to PostgreSQL directly.",
	}
	errStatementModeBlock = &protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeFeatureNotSupported,
		Message: "transaction blocks are not allowed in statement pooling mode",
		Hint:    "Set pool_mode: transaction for this database or user.",
	}
	errStatementModeState = &protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeFeatureNotSupported,
		Message: "session state is not allowed in statement pooling mode",
		Hint:    "Set pool_mode: transaction for this database or user.",
	}
	errLoginTimeout = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeConnectionFailure,
		Message: "login_timeout_ms exceeded before the login was complete",
	}
	errTransactionTimeout = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeTransactionTimeout,
		Message: "terminating connection due to transaction_timeout_ms",
	}
	errIdleTransaction = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeIdleInTransactionTimeout,
		Message: "terminating connection due to idle_transaction_timeout_ms",
	}
	errIdleClient = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeIdleSessionTimeout,
		Message: "terminating connection due to idle_client_timeout_ms",
	}
	errIdlePin = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeIdleSessionTimeout,
		Message: "terminating connection due to idle_pin_timeout_ms",
	}
	errClientWrite = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeConnectionFailure,
		Message: "terminating connection: the client does not read (client_write_timeout_ms)",
	}
	errClientStall = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeConnectionFailure,
		Message: "terminating connection: the client holds a backend and does not go on (client_stall_timeout_ms)",
	}
	errQueryTimeout = &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeQueryCanceled,
		Message: "terminating connection: query_timeout_ms exceeded and the cancel had no effect",
	}
	errBufferMemory = &protocol.ErrorFields{
		Severity: "FATAL", Code: codeOutOfMemory,
		Message: "terminating connection: max_buffer_memory exceeded and this client has the most unread output",
	}
	errBackendGone = protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeConnectionFailure,
		Message: "server closed the connection unexpectedly",
	}
	errBackendVanished = protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeConnectionFailure,
		Message: "connection to PostgreSQL lost: its host does not answer any more",
	}
)

func violationError(typ byte, err error) *protocol.ErrorFields {
	m := "invalid message"
	if err != nil {
		m = err.Error()
	}
	if typ != 0 {
		m += fmt.Sprintf(" (message type %q)", typ)
	}
	return &protocol.ErrorFields{Severity: "FATAL", Code: protocol.CodeProtocolViolation, Message: m}
}

func loginError(code, message string) *protocol.ErrorFields {
	return &protocol.ErrorFields{Severity: "FATAL", Code: code, Message: message}
}
