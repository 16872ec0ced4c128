package sqllex

import "unicode/utf8"

// The texts of operations: names as PostgreSQL folds them, values as it would
// take them again.

// MaxIdentifier is NAMEDATALEN - 1: longer identifiers are cut to so many bytes.
const MaxIdentifier = 63

// AppendName appends the operation's name: sql is the text that AppendOps was
// given. An identifier that is not quoted is folded to lower case (A to Z; a
// database in a single-byte encoding may fold more), quotes and Unicode escapes
// are undone, and what is too long is cut as PostgreSQL cuts it, at a character
// of UTF-8. The name of a parameter (OpSet, OpReset) is in lower case however it
// is written, since they are compared so, and its parts are joined by dots. ok is
// false when the name cannot be told: there is none, or its escapes are wrong. It allocates for nothing but dst.
func (o *Op) AppendName(dst, sql []byte) (out []byte, ok bool) {
	start := len(dst)
	parameter := o.Kind == OpSet || o.Kind == OpReset
	switch {
	case o.known != "":
		return append(dst, o.known...), true
	case o.Name.Empty():
		return dst, false
	case o.form == formCall:
		dst, ok = appendString(dst, o.Name.Of(sql), false)
	default:
		dst, ok = appendIdentifiers(dst, o.Name.Of(sql))
	}
	if !ok {
		return dst[:start], false
	}
	if parameter {
		lower(dst[start:])
	}
	return dst, true
}

// NameIs says whether the operation's name is name.
func (o *Op) NameIs(sql []byte, name string) bool {
	var buf [4 * MaxIdentifier]byte
	n, ok := o.AppendName(buf[:0], sql)
	return ok && string(n) == name
}

// appendIdentifiers appends identifiers that are joined by dots.
func appendIdentifiers(dst, sql []byte) (out []byte, ok bool) {
	l := lexer{sql: sql}
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		start, w := len(dst), t.Of(sql)
		switch t.kind {
		case tokenWord:
			dst = append(dst, w...)
			lower(dst[start:])
		case tokenQuoted:
			if len(w) < 3 || w[len(w)-1] != '"' {
				return dst, false
			}
			dst = appendDoubled(dst, w[1:len(w)-1], '"')
		case tokenUnicode:
			text, escape, known := unicodeParts(w)
			if !known {
				return dst, false
			}
			if dst, ok = appendUnicode(dst, text, '"', escape); !ok {
				return dst, false
			}
		default:
			if t.c != '.' {
				return dst, false
			}
			dst = append(dst, '.')
			continue
		}
		dst = clip(dst, start)
	}
	return dst, true
}

// clip cuts the identifier dst[start:] as PostgreSQL does.
func clip(dst []byte, start int) []byte {
	if len(dst)-start <= MaxIdentifier {
		return dst
	}
	end := start + MaxIdentifier
	for end > start && !utf8.RuneStart(dst[end]) {
		end--
	}
	return dst[:end]
}

func lower(p []byte) {
	for i, c := range p {
		if c >= 'A' && c <= 'Z' {
			p[i] = c | 0x20
		}
	}
}

// appendDoubled appends text in which quotes are doubled.
func appendDoubled(dst, text []byte, quote byte) []byte {
	for i := 0; i < len(text); i++ {
		dst = append(dst, text[i])
		if text[i] == quote {
			i++
		}
	}
	return dst
}

// unicodeParts parts a whole tokenUnicode: what is between the quotes, and the
// escape character.
func unicodeParts(w []byte) (text []byte, escape byte, ok bool) {
	l := lexer{sql: w}
	quoted := l.quotedEnd(0, len(`U&`))
	if quoted.End < int32(len(`U&"x"`)) || w[quoted.End-1] != '"' {
		return nil, 0, false
	}
	text = w[len(`U&"`) : quoted.End-1]
	if !l.take("uescape") {
		return text, '\\', true
	}
	var buf [4]byte
	c, ok := appendString(buf[:0], l.next().Of(w), false)
	return text, buf[0], ok && len(c) == 1 && isEscape(c[0])
}

// isEscape says whether PostgreSQL takes c behind UESCAPE.
func isEscape(c byte) bool {
	return c < 0x80 && hexDigit(c) < 0 && c != '+' && c != '\'' && c != '"' &&
		charClass[c] != charSpace && charClass[c] != charNewline
}

// appendUnicode is appendDoubled for text with Unicode escapes, which are with the
// usual escape character \0041, \+000041 and \\.
func appendUnicode(dst, text []byte, quote, escape byte) (out []byte, ok bool) {
	high := rune(0) // of a surrogate pair
	for i := 0; i < len(text); {
		c := text[i]
		if c != escape || i+1 < len(text) && text[i+1] == escape {
			if high != 0 {
				return dst, false
			}
			dst = append(dst, c)
			if i++; c == quote || c == escape {
				i++
			}
			continue
		}
		digits := 4
		if i++; i < len(text) && text[i] == '+' {
			i, digits = i+1, 6
		}
		r, ok := hexRune(text[i:], digits)
		if !ok {
			return dst, false
		}
		i += digits
		if dst, high, ok = appendRune(dst, high, r); !ok {
			return dst, false
		}
	}
	return dst, high == 0
}

// appendRune appends r, or keeps it where it is the first half of a surrogate
// pair.
func appendRune(dst []byte, high, r rune) (out []byte, next rune, ok bool) {
	isHigh, isLow := r >= 0xd800 && r < 0xdc00, r >= 0xdc00 && r < 0xe000
	switch {
	case r == 0 || r > utf8.MaxRune || (high != 0) != isLow:
		return dst, 0, false
	case isHigh:
		return dst, r, true
	case isLow:
		r = 0x10000 + (high-0xd800)<<10 + (r - 0xdc00)
	}
	return utf8.AppendRune(dst, r), 0, true
}

// hexRune reads n hexadecimal digits.
func hexRune(p []byte, n int) (r rune, ok bool) {
	if len(p) < n {
		return 0, false
	}
	for _, c := range p[:n] {
		d := hexDigit(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}
