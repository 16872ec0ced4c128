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
// client has made client_encoding does not matter.
const readBackHead = `SELECT pg_catalog.encode(pg_catalog.convert_to(n,pg_catalog.getdatabaseencoding()),'hex'),` +
	`pg_catalog.encode(pg_catalog.convert_to(v,pg_catalog.getdatabaseencoding()),'hex') FROM (SELECT '',''`

// readBackAll is everything that was set: role and session_authorization are not
// among pg_settings, nor is what has a dot and belongs to no extension.
const readBackAll = ` UNION ALL SELECT name,pg_catalog.current_setting(name) FROM pg_catalog.pg_settings ` +
	`WHERE source OPERATOR(pg_catalog.=) 'session' ` +
	`UNION ALL SELECT 'role',pg_catalog.current_setting('role') ` +
	`UNION ALL SELECT 'session_authorization',pg_catalog.current_setting('session_authorization')`

// AppendReadBack appends the Query that Resolve asks for. Its answers are not for
// the client.
func (s *Settings) AppendReadBack(dst []byte) []byte {
	sql := []byte(readBackHead)
	if s.doubt {
		sql = append(sql, readBackAll...)
	}
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
		name, value, exists, ok := readBackRow(body)
		if b.bytes += len(name) + len(value); !ok || b.bytes > maxReadBack {
			b.failed = true
			return
		}
		if exists && name != "" {
			b.items = append(b.items, item{name: lowerName(name), value: value})
		}
	case protocol.BackendErrorResponse:
		b.failed = true
	case protocol.BackendReadyForQuery:
		b.complete = true
	}
}

// readBackRow decodes a row of two columns, of which the second may be NULL: a
// parameter that does not exist.
func readBackRow(body []byte) (name, value string, exists, ok bool) {
	if len(body) < 2 || binary.BigEndian.Uint16(body) != 2 {
		return "", "", false, false
	}
	var text [2]string
	rest := body[2:]
	for i := range text {
		if len(rest) < 4 {
			return "", "", false, false
		}
		n := int64(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[4:]
		if exists = n >= 0; !exists {
			continue
		}
		if n > int64(len(rest)) {
			return "", "", false, false
		}
		decoded, err := hex.DecodeString(string(rest[:n]))
		if err != nil {
			return "", "", false, false
		}
		text[i], rest = string(decoded), rest[n:]
	}
	return text[0], text[1], exists, true
}

// settingsRead returns the client's Profile, which was prof, in doubt: what the
// backend has of its own, and what the client had at its login, first, of the
// rest. a is told what it carries.
func (s *Settings) settingsRead(prof, first *Profile, a *Applied, reported Reported) *Profile {
	var has draft
	for _, it := range s.answer.items {
		switch it.name {
		case "role":
			if it.value == "none" && (first.find("role") == nil || s.isReset("role")) {
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
	for i := range prof.items {
		// Set to the base, which needs no SET on a backend.
		it := &prof.items[i]
		value, base, known := valueOf(reported, it.name)
		if known && string(value) == it.value && string(value) == string(base) && !s.touched(it.name) {
			has.put(*it)
		}
	}
	a.carry(carried, reported, func(string) bool { return true })
	return intern(has)
}
