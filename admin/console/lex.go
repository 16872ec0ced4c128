package console

import (
	"fmt"
	"strings"
)

// The lexer of the console. Words are wider than SQL's, so that settings, addresses
// and routes need no quotes: a word goes on to white space, a quote, a comment or
// one of ; , = ( ). Comments, which some drivers and tracing tools add, are white
// space.

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // as written
	tokenQuoted           // "identifier": never a keyword
	tokenString           // 'constant'
	tokenMark             // one of ; , = ( )
)

type token struct {
	kind tokenKind
	text string // without its quotes, what is doubled in them made single
	at   int    // where it begins in the query
	end  int
}

// is tells whether t is an unquoted word, whatever its case, or a mark.
func (t token) is(word string) bool {
	return (t.kind == tokenWord || t.kind == tokenMark) && strings.EqualFold(t.text, word)
}

const (
	space = " \t\n\r\f\v"
	marks = ";,=()"
	stops = space + marks + `'"`
)

// maxTokens bounds what a query of the largest size becomes in memory.
const maxTokens = 20_000

// lex cuts a query into tokens; the last one is of kind tokenEnd.
func lex(query string) ([]token, error) {
	var all []token
	for t := (token{}); ; {
		at, err := skipSpace(query, t.end)
		if err != nil {
			return nil, err
		}
		if at == len(query) {
			return append(all, token{kind: tokenEnd, at: at, end: at}), nil
		}
		if t, err = next(query, at); err != nil {
			return nil, err
		}
		if len(all) == maxTokens {
			return nil, &problem{code: codeTooMany, message: "the query is too long", detail: fmt.Sprintf("The console reads at most %d words.", maxTokens)}
		}
		all = append(all, t)
	}
}

// skipSpace gives where the next token begins. Comments between /* and */ nest, as
// PostgreSQL's do.
func skipSpace(query string, at int) (int, error) {
	for at < len(query) {
		rest := query[at:]
		switch {
		case strings.IndexByte(space, rest[0]) >= 0:
			at++
		case strings.HasPrefix(rest, "--"):
			line := strings.IndexByte(rest, '\n')
			if line < 0 {
				return len(query), nil
			}
			at += line
		case strings.HasPrefix(rest, "/*"):
			n := comment(rest)
			if n == 0 {
				return 0, syntaxError("unterminated /* comment")
			}
			at += n
		default:
			return at, nil
		}
	}
	return at, nil
}

// comment is how long the comment at the start of s is; 0 if it does not end.
func comment(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// next is the token at at, which is no white space.
func next(query string, at int) (token, error) {
	rest := query[at:]
	switch c := rest[0]; {
	case c == '"':
		text, n := quoted(rest, '"')
		if n == 0 {
			return token{}, syntaxError("unterminated quoted identifier")
		}
		if text == "" {
			return token{}, syntaxError("zero-length quoted identifier")
		}
		return token{tokenQuoted, text, at, at + n}, nil
	case c == '\'':
		text, n := quoted(rest, '\'')
		if n == 0 {
			return token{}, syntaxError("unterminated string constant")
		}
		return token{tokenString, text, at, at + n}, nil
	case strings.IndexByte(marks, c) >= 0:
		return token{tokenMark, rest[:1], at, at + 1}, nil
	}
	n := 0
	for n < len(rest) && strings.IndexByte(stops, rest[n]) < 0 &&
		(n == 0 || !strings.HasPrefix(rest[n:], "--") && !strings.HasPrefix(rest[n:], "/*")) {
		n++
	}
	return token{tokenWord, rest[:n], at, at + n}, nil
}

// quoted is the text between quotes at the start of s, and how much of s it takes;
// 0 if it does not end.
func quoted(s string, quote byte) (text string, n int) {
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			i++
			continue
		}
		q := string(quote)
		return strings.ReplaceAll(s[1:i], q+q, q), i + 1
	}
	return "", 0
}
