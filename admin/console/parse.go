package console

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxStatements is how many statements one simple query may hold.
const maxStatements = 1000

// statement is one statement that has been read and not run.
type statement struct {
	fields []field // of its rows; nil: it has none
	admin  bool    // for users of admin.users only; it is logged
	ends   bool    // it may run in a failed transaction block
	waits  bool    // it may take long: what is buffered is sent before
	text   string
	run    func(*session, *command) (result, error)
}

// parser reads the statements of one query. A method that reads a part leaves at
// behind it.
type parser struct {
	query  string
	tokens []token
	at     int
	s      *session // for names: what is near to a mistyped one
}

// parse reads a query: all of its statements, or an error before any of them runs.
// Empty statements are left out.
func (s *session) parse(query string) ([]*statement, error) {
	if !utf8.ValidString(query) {
		return nil, &problem{code: codeEncoding, message: "the query is not valid UTF-8, the only encoding of the console"}
	}
	tokens, err := lex(query)
	if err != nil {
		return nil, err
	}
	p := &parser{query: query, tokens: tokens, s: s}
	var all []*statement
	for p.peek().kind != tokenEnd {
		if p.accept(";") {
			continue
		}
		if len(all) == maxStatements {
			return nil, &problem{code: codeTooMany, message: "too many statements in one query", detail: fmt.Sprintf("The console takes at most %d.", maxStatements)}
		}
		from := p.peek().at
		st, err := p.statement()
		if err != nil {
			return nil, err
		}
		if t := p.peek(); t.kind != tokenEnd && !t.is(";") {
			return nil, unexpected(t)
		}
		st.text = strings.Trim(query[from:p.peek().at], space)
		all = append(all, st)
	}
	return all, nil
}

// statement reads one statement up to what should be its end.
func (p *parser) statement() (*statement, error) {
	t := p.next()
	if t.kind == tokenWord {
		word := strings.ToUpper(t.text)
		for _, c := range commands {
			if c.word == word {
				return c.parse(p)
			}
		}
		if read := dialogue[word]; read != nil {
			return read(p)
		}
	}
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.word
	}
	return nil, unknown("command", t.text, names)
}

func (p *parser) peek() token { return p.tokens[p.at] }

// next takes a token; the last one, tokenEnd, for ever.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// accept takes the next token if it is this word or mark.
func (p *parser) accept(word string) bool {
	if !p.peek().is(word) {
		return false
	}
	p.at++
	return true
}

// acceptAny is accept for several words.
func (p *parser) acceptAny(words ...string) bool {
	for _, w := range words {
		if p.accept(w) {
			return true
		}
	}
	return false
}

// expect is accept for what must be there.
func (p *parser) expect(word string) error {
	if !p.accept(word) {
		return unexpected(p.peek())
	}
	return nil
}

// more tells whether the statement goes on.
func (p *parser) more() bool {
	t := p.peek()
	return t.kind != tokenEnd && !t.is(";")
}

// name takes a name or a value: a word as it is written, or quoted in either way.
func (p *parser) name() (string, error) {
	t := p.peek()
	if t.kind == tokenEnd || t.kind == tokenMark {
		return "", unexpected(t)
	}
	p.at++
	return t.text, nil
}

// nameOf is name where a statement without one is told what it needs.
func (p *parser) nameOf(what string) (string, error) {
	if !p.more() {
		return "", syntaxError("%s is needed", what)
	}
	return p.name()
}
