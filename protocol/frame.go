package protocol

import (
	"encoding/binary"
	"errors"
)

// Errors of the framer. They are compared with ==, never wrapped.
var (
	// ErrShort: more bytes are needed before anything can be said.
	ErrShort = errors.New("protocol: more bytes needed")
	// ErrLength: the length field is one that PostgreSQL would not accept. The
	// connection cannot be kept, since the next frame's start is unknown.
	ErrLength = errors.New("protocol: invalid message length")
	// ErrType: the type byte is none that this side may send.
	ErrType = errors.New("protocol: invalid message type")
)

// bounds are the smallest and largest legal length of a type. max 0 means that
// the type does not exist in that direction.
type bounds struct{ min, max uint32 }

var (
	frontendBounds = frontendTable()
	backendBounds  = backendTable()
)

// frontendTable follows SocketBackend in PostgreSQL's postgres.c. Flush is
// bounded more tightly, to the one length that is correct: PostgreSQL answers a
// Flush with a body by an error, and since a Flush owes no answer, that error
// could not be told from one of the messages around it.
func frontendTable() (t [256]bounds) {
	for _, typ := range []byte{FrontendQuery, FrontendParse, FrontendBind, FrontendFunctionCall, FrontendCopyData} {
		t[typ] = bounds{4, MaxMessage}
	}
	for _, typ := range []byte{
		FrontendDescribe, FrontendExecute, FrontendClose, FrontendSync,
		FrontendTerminate, FrontendCopyDone, FrontendCopyFail,
	} {
		t[typ] = bounds{4, MaxSmallMessage}
	}
	t[FrontendFlush] = bounds{4, 4}
	return t
}

// backendTable bounds what a server may send after and during its login. Types
// with a fixed body have a fixed length: a wrong one means that the stream is
// not where we think it is.
func backendTable() (t [256]bounds) {
	for _, typ := range []byte{
		BackendAuthentication, BackendParameterDescription, BackendRowDescription, BackendDataRow,
		BackendCommandComplete, BackendErrorResponse, BackendNoticeResponse, BackendNotificationResponse,
		BackendParameterStatus, BackendCopyInResponse, BackendCopyOutResponse, BackendCopyBothResponse,
		BackendCopyData, BackendFunctionCallResponse, BackendNegotiateProtocolVersion,
	} {
		t[typ] = bounds{4, MaxBackendMessage}
	}
	for _, typ := range []byte{
		BackendParseComplete, BackendBindComplete, BackendCloseComplete, BackendNoData,
		BackendEmptyQuery, BackendPortalSuspended, BackendCopyDone,
	} {
		t[typ] = bounds{4, 4}
	}
	t[BackendReadyForQuery] = bounds{5, 5}
	t[BackendKeyData] = bounds{8 + MinCancelKey, 8 + MaxCancelKey}
	return t
}

// PeekFrame reads the header of the message at the start of p. size is the
// whole message in bytes, the type byte included; p need not hold all of it.
// Errors: ErrShort below five bytes, ErrLength for a length below 4 or above
// what any PostgreSQL message can have.
func PeekFrame(p []byte) (typ byte, size int, err error) {
	if len(p) < HeaderLen {
		return 0, 0, ErrShort
	}
	n := binary.BigEndian.Uint32(p[1:])
	if n < 4 || n > MaxBackendMessage {
		return p[0], 0, ErrLength
	}
	return p[0], int(n) + 1, nil
}

// PeekFrontend is PeekFrame for what a client sends after its login: the type
// must be one of them (else ErrType) and the length one that PostgreSQL accepts
// for it. Both are told as soon as they are certain: a wrong type needs one byte.
func PeekFrontend(p []byte) (typ byte, size int, err error) { return peek(p, &frontendBounds) }

// PeekBackend is PeekFrame for what a server sends, its login included.
func PeekBackend(p []byte) (typ byte, size int, err error) { return peek(p, &backendBounds) }

func peek(p []byte, table *[256]bounds) (typ byte, size int, err error) {
	if len(p) == 0 {
		return 0, 0, ErrShort
	}
	b := table[p[0]]
	if b.max == 0 {
		return p[0], 0, ErrType
	}
	if len(p) < HeaderLen {
		return p[0], 0, ErrShort
	}
	n := binary.BigEndian.Uint32(p[1:])
	if n < b.min || n > b.max {
		return p[0], 0, ErrLength
	}
	return p[0], int(n) + 1, nil
}
