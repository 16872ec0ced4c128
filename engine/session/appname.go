package session

import (
	"strings"
	"unicode/utf8"
)

// MaxName is NAMEDATALEN - 1: PostgreSQL cuts names, application_name among
// them, to this many bytes.
const MaxName = 63

const hexDigits = "0123456789abcdef"

// ApplicationName returns what PostgreSQL of the given major version makes of
// an application_name: cut to 63 bytes (not inside a UTF-8 character), every
// byte outside printable ASCII replaced by "?" up to version 15, by \xNN from
// 16 on. The result of the replacement is cut to 63 bytes again, because it is
// sent as a value of its own; there PostgreSQL 16 would keep more.
func ApplicationName(value string, serverMajor int) string {
	value = clip(value)
	ascii := true
	for i := range len(value) {
		ascii = ascii && ' ' <= value[i] && value[i] < 0x7f
	}
	if ascii {
		return value
	}
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		switch {
		case ' ' <= c && c < 0x7f:
			b.WriteByte(c)
		case serverMajor >= 16:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		default:
			b.WriteByte('?')
		}
	}
	return clip(b.String())
}

func clip(s string) string {
	if len(s) <= MaxName {
		return s
	}
	cut := MaxName
	if utf8.ValidString(s) {
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
	}
	return s[:cut]
}
