package pgmock

import (
	"encoding/binary"

	"pgkinetic/internal/pgwire"
)

// AuthenticationOk ends the authentication.
func AuthenticationOk() []byte { return pgwire.Raw('R', make([]byte, 4)) }

// Parameters are the ParameterStatus messages that PostgreSQL sends at every login.
func Parameters() (all []byte) {
	for _, p := range [][2]string{
		{"application_name", ""},
		{"client_encoding", "UTF8"},
		{"DateStyle", "ISO, MDY"},
		{"integer_datetimes", "on"},
		{"IntervalStyle", "postgres"},
		{"is_superuser", "on"},
		{"server_encoding", "UTF8"},
		{"server_version", "15.0"},
		{"session_authorization", "postgres"},
		{"standard_conforming_strings", "on"},
		{"TimeZone", "UTC"},
	} {
		all = append(all, ParameterStatus(p[0], p[1])...)
	}
	return all
}

// ParameterStatus reports one parameter.
func ParameterStatus(name, value string) []byte {
	return pgwire.Raw('S', []byte(name+"\x00"+value+"\x00"))
}

// KeyData is BackendKeyData with a four-byte key.
func KeyData(pid, key uint32) []byte {
	return pgwire.Raw('K', binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, pid), key))
}

// Ready is ReadyForQuery.
func Ready(status byte) []byte { return pgwire.Raw('Z', []byte{status}) }

// Error is an ErrorResponse.
func Error(severity, code, message string) []byte {
	return pgwire.Raw('E', []byte("S"+severity+"\x00V"+severity+"\x00C"+code+"\x00M"+message+"\x00\x00"))
}

// Row is a RowDescription of one text column, and a DataRow with it.
func Row(text string) []byte {
	d := append([]byte{0, 1}, "c\x00"...)
	d = append(d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0)
	return append(pgwire.Raw('T', d), DataRow(text)...)
}

// DataRow is a row of one column.
func DataRow(text string) []byte {
	return pgwire.Raw('D', append(binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(len(text))), text...))
}

// Complete is CommandComplete.
func Complete(tag string) []byte { return pgwire.Raw('C', []byte(tag+"\x00")) }

// Answer is the whole answer to a Query that gives one row.
func Answer(text string) []byte {
	return append(append(Row(text), Complete("SELECT 1")...), Ready('I')...)
}
