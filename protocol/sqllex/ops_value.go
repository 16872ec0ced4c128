package sqllex

// AppendValue appends the value of an OpSet as a list that can stand behind
// SET name TO whatever the encoding and standard_conforming_strings then are:
// words and strings as E'…', numbers as they are, parted by commas. PostgreSQL
// makes of it what it makes of the original. escapes: standard_conforming_strings
// was off when the text was run.
//
// ok is false where that cannot be told from the text alone: it is not ASCII,
// its escapes are wrong, it is an interval, or the value of an expression. Then
// the server must be asked what the value has come to.
func (o *Op) AppendValue(dst, sql []byte, escapes bool) (out []byte, ok bool) {
	if o.fixed != "" {
		return append(dst, o.fixed...), true
	}
	if o.Kind != OpSet || o.form != formPlain {
		return dst, false
	}
	start := len(dst)
	l := lexer{sql: o.Value.Of(sql), escapes: escapes}
	for {
		if dst, ok = l.appendElement(dst); !ok {
			return dst[:start], false
		}
		switch t := l.next(); {
		case t.kind == tokenEnd:
			return dst, true
		case t.c != ',':
			return dst[:start], false
		}
		dst = append(dst, ',')
	}
}

// appendElement appends one element of a list.
func (l *lexer) appendElement(dst []byte) (out []byte, ok bool) {
	t := l.next()
	w := t.Of(l.sql)
	if t.c == '+' || t.c == '-' {
		dst = append(dst, t.c)
		if t = l.next(); t.kind != tokenNumber {
			return dst, false
		}
		w = t.Of(l.sql)
	}
	switch t.kind {
	case tokenNumber:
		return l.appendNumber(dst, w)
	case tokenWord, tokenQuoted, tokenUnicode:
		dst = append(dst, 'E', '\'')
		from := len(dst)
		if dst, ok = appendIdentifiers(dst, w); !ok || l.peek().kind == tokenWord {
			return dst, false
		}
		return appendQuoted(dst, from)
	case tokenString:
		dst = append(dst, 'E', '\'')
		from := len(dst)
		if dst, ok = appendString(dst, w, l.escapes); !ok {
			return dst, false
		}
		return appendQuoted(dst, from)
	}
	return dst, false
}

// appendNumber appends a number that began with w: what is stuck to it, as in
// 1e5 and 0x1F, belongs to it.
func (l *lexer) appendNumber(dst, w []byte) (out []byte, ok bool) {
	dst = append(dst, w...)
	for l.at < len(l.sql) {
		c := l.sql[l.at]
		exponent := (c == '+' || c == '-') && dst[len(dst)-1]|0x20 == 'e'
		if c >= 0x80 || !identifierPart[c] && !exponent {
			break
		}
		dst = append(dst, c)
		l.at++
	}
	return dst, true
}

// appendQuoted makes dst[from:] the inside of an E'…' string and ends it.
func appendQuoted(dst []byte, from int) (out []byte, ok bool) {
	special := 0
	for _, c := range dst[from:] {
		switch {
		case c == 0 || c >= 0x80:
			return dst, false
		case c == '\'' || c == '\\':
			special++
		}
	}
	// From the end, each byte to where it comes to lie.
	n := len(dst)
	for range special {
		dst = append(dst, 0)
	}
	to := len(dst)
	for i := n - 1; i >= from && to > i; i-- {
		to--
		if dst[to] = dst[i]; dst[i] == '\'' || dst[i] == '\\' {
			to--
			dst[to] = dst[to+1]
		}
	}
	return append(dst, '\''), true
}

// appendString appends what a string constant stands for: w is its text, with
// the parts that go on behind a newline.
func appendString(dst, w []byte, escapes bool) (out []byte, ok bool) {
	switch w[0] {
	case '$':
		tag := 1
		for tag < len(w) && w[tag] != '$' {
			tag++
		}
		if len(w) < 2*(tag+1) {
			return dst, false
		}
		return append(dst, w[tag+1:len(w)-tag-1]...), true
	case 'U', 'u':
		return dst, false // the escape character may be said behind it
	case 'E', 'e':
		escapes = true
		w = w[1:]
	}
	l := lexer{sql: w}
	for l.at < len(w) {
		open := l.at + 1
		l.at = stringEnd(w, open, escapes)
		if l.at <= open || w[l.at-1] != '\'' {
			return dst, false
		}
		if dst, ok = appendPart(dst, w[open:l.at-1], escapes); !ok {
			return dst, false
		}
		l.skipSpace()
	}
	return dst, true
}

// appendPart appends one part of a string, the quotes taken off.
func appendPart(dst, text []byte, escapes bool) (out []byte, ok bool) {
	if !escapes {
		return appendDoubled(dst, text, '\''), true
	}
	for i := 0; i < len(text); {
		c := text[i]
		i++
		switch {
		case c == '\'':
			i++
		case c == '\\' && i < len(text):
			n := 0
			if c, n = escaped(text[i:]); n == 0 {
				return dst, false
			}
			i += n
		case c == '\\':
			return dst, false
		}
		dst = append(dst, c)
	}
	return dst, true
}

// escaped is the byte that an escape stands for, p is what is behind the
// backslash, and n how much of p belongs to it. n is 0 for what is beyond ASCII.
func escaped(p []byte) (c byte, n int) {
	switch c := p[0]; c {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u', 'U':
		return 0, 0
	case 'x':
		v, n := rune(0), 1
		for n < len(p) && n < 3 && hexDigit(p[n]) >= 0 {
			v = v<<4 | hexDigit(p[n])
			n++
		}
		if n == 1 {
			return 'x', 1
		}
		return byte(v), n
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v, n := 0, 0
		for n < len(p) && n < 3 && p[n] >= '0' && p[n] <= '7' {
			v = v<<3 | int(p[n]-'0')
			n++
		}
		return byte(v), n
	default:
		return c, 1
	}
}
