package pgwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// names of the server's messages by type byte.
var names = map[byte]string{
	'1': "ParseComplete", '2': "BindComplete", '3': "CloseComplete", 'A': "NotificationResponse", 'c': "CopyDone",
	'C': "CommandComplete", 'd': "CopyData", 'D': "DataRow", 'E': "ErrorResponse", 'G': "CopyInResponse",
	'H': "CopyOutResponse", 'I': "EmptyQueryResponse", 'K': "BackendKeyData", 'n': "NoData", 'N': "NoticeResponse",
	'R': "Authentication", 's': "PortalSuspended", 'S': "ParameterStatus", 't': "ParameterDescription",
	'T': "RowDescription", 'v': "NegotiateProtocolVersion", 'V': "FunctionCallResponse", 'W': "CopyBothResponse",
	'Z': "ReadyForQuery",
}

// Error is an ErrorResponse or NoticeResponse: its fields by their letter.
type Error struct {
	Fields map[byte]string
}

// ErrorOf decodes the body of an ErrorResponse or NoticeResponse.
func ErrorOf(m Message) *Error {
	e := &Error{Fields: map[byte]string{}}
	for body := m.Body; len(body) > 1; {
		letter := body[0]
		value, rest, _ := bytes.Cut(body[1:], []byte{0})
		e.Fields[letter] = string(value)
		body = rest
	}
	return e
}

// Code is the SQLSTATE.
func (e *Error) Code() string { return e.Fields['C'] }

// Error gives severity, SQLSTATE, message, and detail and hint where there are.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: %s", e.Fields['V'], e.Fields['C'], e.Fields['M'])
	for _, letter := range []byte("DH") {
		if v := e.Fields[letter]; v != "" {
			text += " | " + v
		}
	}
	return text
}

// Values are the columns of a DataRow as text; NULL is "".
func Values(m Message) []string {
	var out []string
	for _, v := range columns(m.Body) {
		out = append(out, string(v))
	}
	return out
}

// columns splits a DataRow; a NULL is nil.
func columns(body []byte) [][]byte {
	if len(body) < 2 {
		return nil
	}
	var out [][]byte
	for rest := body[2:]; len(rest) >= 4; {
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 {
			out = append(out, nil)
			continue
		}
		n = min(n, int32(len(rest)))
		out = append(out, rest[:n:n])
		rest = rest[n:]
	}
	return out
}

// String is the message as one line: its name and what it says. Long bodies are given by length and hash. What differs
// between two sessions by nature (process numbers, cancel keys) is left out.
func (m Message) String() string {
	name, ok := names[m.Type]
	if !ok {
		name = fmt.Sprintf("Unknown(%q)", m.Type)
	}
	if text := m.text(); text != "" {
		return name + " " + text
	}
	return name
}

func (m Message) text() string {
	switch m.Type {
	case 'Z', 'C':
		return string(bytes.TrimRight(m.Body, "\x00"))
	case 'S':
		return string(bytes.TrimRight(bytes.Replace(m.Body, []byte{0}, []byte("="), 1), "\x00"))
	case 'E', 'N':
		return fieldsText(ErrorOf(m))
	case 'D':
		return rowText(m.Body)
	case 'K':
		return ""
	case 'A':
		return strconv.Quote(string(m.Body[min(4, len(m.Body)):]))
	case 'T':
		return descriptionText(m.Body)
	}
	return short(m.Body)
}

// fieldsText leaves out where in the server's source the error arose; all else is compared.
func fieldsText(e *Error) string {
	var parts []string
	for _, letter := range []byte("VCMDHPpqWstcdn") {
		if v, ok := e.Fields[letter]; ok {
			parts = append(parts, short([]byte(v)))
		}
	}
	return strings.Join(parts, " ")
}

func rowText(body []byte) string {
	var parts []string
	for _, v := range columns(body) {
		if v == nil {
			parts = append(parts, "NULL")
			continue
		}
		parts = append(parts, short(v))
	}
	return strings.Join(parts, " ")
}

// descriptionText gives column names and type OIDs. Table OIDs differ between two runs that make the table.
func descriptionText(body []byte) string {
	var parts []string
	for rest := body[min(2, len(body)):]; len(rest) > 0; {
		name, tail, _ := bytes.Cut(rest, []byte{0})
		if len(tail) < 18 {
			return short(body)
		}
		parts = append(parts, fmt.Sprintf("%s:%d", name, binary.BigEndian.Uint32(tail[6:])))
		rest = tail[18:]
	}
	return strings.Join(parts, " ")
}

func short(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	if len(p) > 200 {
		h := fnv.New64a()
		_, _ = h.Write(p)
		return fmt.Sprintf("<%d bytes, %016x>", len(p), h.Sum64())
	}
	return strconv.Quote(string(p))
}

// Transcript is one line per message.
func Transcript(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.String())
		b.WriteByte('\n')
	}
	return b.String()
}
