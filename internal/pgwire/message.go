// Package pgwire is a raw client of the PostgreSQL protocol (version 3) for tests: it sends any bytes and reads messages
// as they come, with a deadline on everything. It shares no code with the product, so that a mistake there is not repeated
// here. Source of the formats: PostgreSQL documentation, "Frontend/Backend Protocol", section "Message Formats".
package pgwire

import "encoding/binary"

// Message is one message of the server: its type byte and what follows the length. The body belongs to the caller.
type Message struct {
	Type byte
	Body []byte
}

// message encodes a message: type byte (0: none, as at the start of a session), length, body.
func message(typ byte, body []byte) []byte {
	out := make([]byte, 0, 5+len(body))
	if typ != 0 {
		out = append(out, typ)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	return append(out, body...)
}

// Raw is a message of any type with any body.
func Raw(typ byte, body []byte) []byte { return message(typ, body) }

func appendString(dst []byte, s string) []byte { return append(append(dst, s...), 0) }

// Startup is a StartupMessage of protocol 3.minor with name, value, name, value…
func Startup(minor uint16, params ...string) []byte {
	body := binary.BigEndian.AppendUint32(nil, 3<<16|uint32(minor))
	for _, p := range params {
		body = appendString(body, p)
	}
	return message(0, append(body, 0))
}

// SSLRequest asks for TLS.
func SSLRequest() []byte { return message(0, binary.BigEndian.AppendUint32(nil, 80877103)) }

// GSSENCRequest asks for GSSAPI encryption.
func GSSENCRequest() []byte { return message(0, binary.BigEndian.AppendUint32(nil, 80877104)) }

// CancelRequest names the session to cancel.
func CancelRequest(pid uint32, key []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, 80877102)
	body = binary.BigEndian.AppendUint32(body, pid)
	return message(0, append(body, key...))
}

// Query is a simple query.
func Query(sql string) []byte { return message('Q', appendString(nil, sql)) }

// Parse prepares sql under a name ("" = unnamed) with the given parameter types.
func Parse(name, sql string, types ...uint32) []byte {
	body := appendString(appendString(nil, name), sql)
	body = binary.BigEndian.AppendUint16(body, uint16(len(types)))
	for _, t := range types {
		body = binary.BigEndian.AppendUint32(body, t)
	}
	return message('P', body)
}

// Bind makes a portal with text parameters (nil = NULL) and text results.
func Bind(portal, statement string, params ...[]byte) []byte {
	body := appendString(appendString(nil, portal), statement)
	body = binary.BigEndian.AppendUint16(body, 0)
	body = binary.BigEndian.AppendUint16(body, uint16(len(params)))
	for _, p := range params {
		if p == nil {
			body = binary.BigEndian.AppendUint32(body, 0xffffffff)
			continue
		}
		body = binary.BigEndian.AppendUint32(body, uint32(len(p)))
		body = append(body, p...)
	}
	return message('B', binary.BigEndian.AppendUint16(body, 0))
}

// Describe asks for the columns of a statement ('S') or portal ('P').
func Describe(kind byte, name string) []byte { return message('D', appendString([]byte{kind}, name)) }

// Execute runs a portal for at most rows rows (0 = all).
func Execute(portal string, rows uint32) []byte {
	return message('E', binary.BigEndian.AppendUint32(appendString(nil, portal), rows))
}

// Close closes a statement ('S') or portal ('P').
func Close(kind byte, name string) []byte { return message('C', appendString([]byte{kind}, name)) }

// Sync ends a group.
func Sync() []byte { return message('S', nil) }

// Flush asks for what has been answered.
func Flush() []byte { return message('H', nil) }

// CopyData is a piece of COPY input.
func CopyData(data []byte) []byte { return message('d', data) }

// CopyDone ends COPY input.
func CopyDone() []byte { return message('c', nil) }

// CopyFail ends COPY input by an error.
func CopyFail(reason string) []byte { return message('f', appendString(nil, reason)) }

// FunctionCall calls a function by its OID with text arguments.
func FunctionCall(oid uint32, args ...[]byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, oid)
	body = binary.BigEndian.AppendUint16(body, 0)
	body = binary.BigEndian.AppendUint16(body, uint16(len(args)))
	for _, a := range args {
		body = binary.BigEndian.AppendUint32(body, uint32(len(a)))
		body = append(body, a...)
	}
	return message('F', binary.BigEndian.AppendUint16(body, 0))
}

// Terminate says good-bye.
func Terminate() []byte { return message('X', nil) }
