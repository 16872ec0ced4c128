package sqllex

import "bytes"

// Tokens of a whole text, as the operations (ops.go) need them: with their place.

type tokenKind uint8

const (
	tokenEnd     tokenKind = iota // of the text
	tokenWord                     // a keyword or an identifier that is not quoted
	tokenQuoted                   // "identifier"
	tokenUnicode                  // U&"identifier", with its UESCAPE
	tokenString                   // a string constant, whatever its form
	tokenNumber
	tokenMark // any other byte: c
)

type token struct {
	kind tokenKind
	c    byte // of a mark, else 0
	Span
}

// A lexer yields the tokens of sql from at on. Comments and white space are
// passed over; a string that goes on behind a newline is one token.
type lexer struct {
	sql     []byte
	at      int
	escapes bool // a backslash escapes in plain strings
}

func (l *lexer) next() token {
	l.skipSpace()
	i := l.at
	if i >= len(l.sql) {
		return token{kind: tokenEnd, Span: span(i, i)}
	}
	switch c := l.sql[i]; charClass[c] {
	case charLetter:
		return l.word(i)
	case charDigit:
		return l.number(i)
	case charQuote:
		return l.str(i, i, l.escapes)
	case charDouble:
		return token{kind: tokenQuoted, Span: l.quotedEnd(i, i)}
	case charDollar:
		return l.dollar(i)
	default:
		if c == '.' && i+1 < len(l.sql) && charClass[l.sql[i+1]] == charDigit {
			return l.number(i)
		}
		l.at = i + 1
		return token{kind: tokenMark, c: c, Span: span(i, i+1)}
	}
}

// peek is next without going on.
func (l *lexer) peek() token {
	at := l.at
	t := l.next()
	l.at = at
	return t
}

func span(start, end int) Span { return Span{Start: int32(start), End: int32(end)} }

// skipSpace goes to the next token and says whether a newline was passed.
func (l *lexer) skipSpace() (newline bool) {
	for l.at < len(l.sql) {
		rest := l.sql[l.at:]
		switch {
		case charClass[rest[0]] == charNewline:
			newline = true
			l.at++
		case charClass[rest[0]] == charSpace:
			l.at++
		case len(rest) > 1 && rest[0] == '-' && rest[1] == '-':
			for l.at < len(l.sql) && charClass[l.sql[l.at]] != charNewline {
				l.at++
			}
		case len(rest) > 1 && rest[0] == '/' && rest[1] == '*':
			l.skipComment()
		default:
			return newline
		}
	}
	return newline
}

// skipComment passes over a comment that nests.
func (l *lexer) skipComment() {
	depth := 0
	for l.at+1 < len(l.sql) {
		switch a, b := l.sql[l.at], l.sql[l.at+1]; {
		case a == '/' && b == '*':
			depth++
			l.at += 2
		case a == '*' && b == '/':
			depth--
			l.at += 2
			if depth == 0 {
				return
			}
		default:
			l.at++
		}
	}
	l.at = len(l.sql)
}

func (l *lexer) word(i int) token {
	j := i + 1
	for j < len(l.sql) && identifierPart[l.sql[j]] {
		j++
	}
	if j-i == 1 && j < len(l.sql) {
		switch c := l.sql[i] | 0x20; {
		case c == 'e' && l.sql[j] == '\'':
			return l.str(i, j, true)
		case c == 'u' && l.sql[j] == '&' && j+1 < len(l.sql) && l.sql[j+1] == '\'':
			return l.str(i, j+1, false)
		case c == 'u' && l.sql[j] == '&' && j+1 < len(l.sql) && l.sql[j+1] == '"':
			return l.unicode(i, j+1)
		}
	}
	l.at = j
	return token{kind: tokenWord, Span: span(i, j)}
}

func (l *lexer) number(i int) token {
	j := i + 1
	for j < len(l.sql) && charClass[l.sql[j]] == charDigit || j < len(l.sql) && l.sql[j] == '.' {
		j++
	}
	l.at = j
	return token{kind: tokenNumber, Span: span(i, j)}
}

// str reads a string that begins at start, its quote at open.
func (l *lexer) str(start, open int, escapes bool) token {
	l.at = open
	for {
		l.at = stringEnd(l.sql, l.at+1, escapes)
		end := l.at
		if newline := l.skipSpace(); !newline || l.at >= len(l.sql) || l.sql[l.at] != '\'' {
			l.at = end
			return token{kind: tokenString, Span: span(start, end)}
		}
	}
}

// stringEnd is the index behind the quote that ends the string whose contents
// begin at i.
func stringEnd(sql []byte, i int, escapes bool) int {
	for ; i < len(sql); i++ {
		switch c := sql[i]; {
		case c == '\\' && escapes:
			i++
		case c == '\'' && i+1 < len(sql) && sql[i+1] == '\'':
			i++
		case c == '\'':
			return i + 1
		}
	}
	return len(sql)
}

// quotedEnd reads a quoted identifier that begins at start, its quote at open.
func (l *lexer) quotedEnd(start, open int) Span {
	i := open + 1
	for ; i < len(l.sql); i++ {
		if l.sql[i] != '"' {
			continue
		}
		if i+1 == len(l.sql) || l.sql[i+1] != '"' {
			break
		}
		i++
	}
	l.at = min(i+1, len(l.sql))
	return span(start, l.at)
}

// unicode reads an identifier with Unicode escapes that begins at start, its quote
// at open, and the UESCAPE that may follow.
func (l *lexer) unicode(start, open int) token {
	t := token{kind: tokenUnicode, Span: l.quotedEnd(start, open)}
	if l.take("uescape") && l.peek().kind == tokenString {
		t.End = l.next().End
	} else {
		l.at = int(t.End)
	}
	return t
}

// dollar reads a parameter, a dollar-quoted string, or a dollar alone.
func (l *lexer) dollar(i int) token {
	j := i + 1
	if j < len(l.sql) && (l.sql[j] == '$' || charClass[l.sql[j]] == charLetter) {
		for j < len(l.sql) && l.sql[j] != '$' && identifierPart[l.sql[j]] {
			j++
		}
		if j < len(l.sql) && l.sql[j] == '$' {
			tag := l.sql[i : j+1]
			end := bytes.Index(l.sql[j+1:], tag)
			l.at = len(l.sql)
			if end >= 0 {
				l.at = j + 1 + end + len(tag)
			}
			return token{kind: tokenString, Span: span(i, l.at)}
		}
	}
	l.at = i + 1
	return token{kind: tokenMark, c: '$', Span: span(i, i+1)}
}

// is says whether t is the keyword k, which is in lower case.
func (l *lexer) is(t token, k string) bool {
	if t.kind != tokenWord || int(t.End-t.Start) != len(k) {
		return false
	}
	for i, c := range l.sql[t.Start:t.End] {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != k[i] {
			return false
		}
	}
	return true
}

// take passes over the next token if it is the keyword k.
func (l *lexer) take(k string) bool {
	at := l.at
	if l.is(l.next(), k) {
		return true
	}
	l.at = at
	return false
}
