package session

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"pgkinetic/protocol"
)

// Asking a backend which settings of the session's own it has: where texts and
// reports do not tell what a client's statements have come to.

// maxReadBack bounds the bytes of names and values that are taken from an
// answer.
const maxReadBack = 64 << 10

// Names and values come in hexadecimal and the database's encoding: what the
// client has made client_encoding does not matter. role and
// session_authorization are not among pg_settings.
const readBackSQL = `SELECT pg_catalog.encode(pg_catalog.convert_to(n,pg_catalog.getdatabaseencoding()),'hex'),` +
	`pg_catalog.encode(pg_catalog.convert_to(v,pg_catalog.getdatabaseencoding()),'hex') FROM (` +
	`SELECT name,pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session' ` +
	`UNION ALL SELECT 'role',pg_catalog.current_setting('role') ` +
	`UNION ALL SELECT 'session_authorization',pg_catalog.current_setting('session_authorization')`

// AppendReadBack appends the Query that Resolve asks for. Its answers are not for
// the client.
func (s *Settings) AppendReadBack(dst []byte) []byte {
	sql := []byte(readBackSQL)
	for _, name := range s.ask {
		sql = append(sql, " UNION ALL SELECT "...)
		sql = appendLiteral(sql, name)
		sql = append(sql, ",pg_catalog.current_setting("...)
		sql = appendLiteral(sql, name)
		sql = append(sql, ",true)"...)
	}
	return protocol.AppendQuery(dst, string(append(sql, ") AS s(n,v)"...)))
}

// readBack is what has come of its answer.
type readBack struct {
	items    []item
	bytes    int
	complete bool
	failed   bool
}

// Answer takes a message that answers AppendReadBack.
func (s *Settings) Answer(typ byte, body []byte) {
	b := &s.answer
	switch typ {
	case protocol.BackendDataRow:
		name, value, ok := readBackRow(body)
		if b.bytes += len(name) + len(value); !ok || b.bytes > maxReadBack {
			b.failed = true
			return
		}
		b.items = append(b.items, item{name: lowerName(name), value: value})
	case protocol.BackendErrorResponse:
		b.failed = true
	case protocol.BackendReadyForQuery:
		b.complete = true
	}
}

// readBackRow decodes a row of two columns.
func readBackRow(body []byte) (name, value string, ok bool) {
	if len(body) < 2 || binary.BigEndian.Uint16(body) != 2 {
		return "", "", false
	}
	var text [2]string
	rest := body[2:]
	for i := range text {
		if len(rest) < 4 {
			return "", "", false
		}
		n := int64(int32(binary.BigEndian.Uint32(rest)))
		if rest = rest[4:]; n == -1 {
			continue // a parameter that there is not
		}
		if n < 0 || n > int64(len(rest)) {
			return "", "", false
		}
		decoded, err := hex.DecodeString(string(rest[:n]))
		if err != nil {
			return "", "", false
		}
		text[i], rest = string(decoded), rest[n:]
	}
	return text[0], text[1], true
}

// settings returns the client's Profile: what the backend has of its own, and
// what the client had at its login of the rest. a is told what it carries.
func (b *readBack) settings(first *Profile, a *Applied, reported Reported) *Profile {
	var has draft
	for _, it := range b.items {
		switch it.name {
		case "role":
			if it.value == "none" {
				continue
			}
		case "session_authorization":
			if _, base, known := valueOf(reported, it.name); known && string(base) == it.value {
				continue
			}
		}
		if strings.IndexByte(it.name, '.') > 0 && it.value == "" || unlasting([]byte(it.name)) {
			continue // the former is what a RESET leaves of it
		}
		has.put(it)
	}
	carried := intern(append(draft(nil), has...))
	for i := range first.items {
		if it := &first.items[i]; carried.find(it.name) == nil {
			has = append(has, *it)
		}
	}
	a.carry(carried, reported, func(string) bool { return true })
	return intern(has)
}
