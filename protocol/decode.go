package protocol

import "encoding/binary"

// The decoders below take a message's body without its header, return parts of
// it and allocate nothing. They need only the beginning of the body: names come
// first. ok is false when the part that they need is not there or not whole.

// ParseMessage returns the statement name and the query text of a Parse whose
// text is whole.
func ParseMessage(body []byte) (name, sql []byte, ok bool) {
	name, rest, ok := cutString(body)
	if !ok {
		return nil, nil, false
	}
	sql, _, ok = cutString(rest)
	return name, sql, ok
}

// ParseHead returns the statement name of a Parse and how many bytes of the
// body it takes: the query text begins there, whole or not.
func ParseHead(body []byte) (name []byte, text int, ok bool) {
	name, _, ok = cutString(body)
	return name, len(name) + 1, ok
}

// ParseBody divides what follows the statement name in a Parse (from ParseHead's
// text on) into the query text and the parameter types, 4 bytes each. ok is
// false where PostgreSQL would call the message malformed.
func ParseBody(rest []byte) (sql, types []byte, ok bool) {
	sql, rest, ok = cutString(rest)
	if !ok || len(rest) < 2 {
		return nil, nil, false
	}
	types = rest[2:]
	return sql, types, len(types) == 4*int(binary.BigEndian.Uint16(rest))
}

// QueryText returns the text of a simple Query that is whole.
func QueryText(body []byte) (sql []byte, ok bool) {
	sql, _, ok = cutString(body)
	return sql, ok
}

// BindNames returns the portal and the statement of a Bind.
func BindNames(body []byte) (portal, stmt []byte, ok bool) {
	return ParseMessage(body)
}

// BindHead returns the portal and the statement of a Bind and how many bytes of
// the body they take: the formats and parameters begin there, whole or not.
func BindHead(body []byte) (portal, stmt []byte, rest int, ok bool) {
	portal, stmt, ok = BindNames(body)
	return portal, stmt, len(portal) + len(stmt) + 2, ok
}

// ExecutePortal returns the portal of an Execute.
func ExecutePortal(body []byte) (portal []byte, ok bool) {
	return QueryText(body)
}

// DescribeTarget returns what a Describe asks for: TargetStatement or
// TargetPortal, and its name. ok is false, too, where something follows the name:
// PostgreSQL calls such a message malformed.
func DescribeTarget(body []byte) (kind byte, name []byte, ok bool) {
	if len(body) == 0 {
		return 0, nil, false
	}
	name, rest, ok := cutString(body[1:])
	return body[0], name, ok && len(rest) == 0 && (body[0] == TargetStatement || body[0] == TargetPortal)
}

// CloseTarget returns what a Close closes.
func CloseTarget(body []byte) (kind byte, name []byte, ok bool) {
	return DescribeTarget(body)
}

// DecodeParameterStatus returns the name and value of a ParameterStatus.
func DecodeParameterStatus(body []byte) (name, value []byte, ok bool) {
	return ParseMessage(body)
}

// DecodeReady returns the transaction status of a ReadyForQuery.
func DecodeReady(body []byte) (status byte, ok bool) {
	if len(body) != 1 {
		return 0, false
	}
	switch body[0] {
	case StatusIdle, StatusBlock, StatusFailed:
		return body[0], true
	}
	return 0, false
}

// CommandTag returns the tag of a CommandComplete.
func CommandTag(body []byte) (tag []byte, ok bool) {
	return QueryText(body)
}
