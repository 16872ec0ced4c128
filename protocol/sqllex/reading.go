package sqllex

import "bytes"

// A reading is the lexer: it cuts the text into words, quoted identifiers and
// other tokens and gives them to the statement (statement.go).
//
// Invariant: nothing of the text is needed again once it was fed. What a cut
// would tear apart is carried over: the word or quoted identifier so far, the
// tag of a dollar-quoted string, whether an odd number of backslashes has just
// been read, the depth of nested comments.

type state uint8

const (
	stateNormal state = iota
	stateWord
	stateUnicode    // after U&
	stateDash       // after -, which may begin a comment
	stateSlash      // after /, which may begin a comment
	stateLine       // in a comment up to the end of the line
	stateBlock      // in a comment that nests
	stateBlockDash  // in it, after *
	stateBlockSlash // in it, after /
	stateString     // in a string in single quotes
	stateStringEnd  // after a quote in it: the end, or half a doubled one
	stateQuoted     // in a quoted identifier
	stateQuotedEnd  // after a quote in it
	stateDollar     // after $
	stateTag        // in what may be the tag of a dollar-quoted string
	stateBody       // in a dollar-quoted string
	stateLost       // a tag was too long to be kept
)

// continued tells how close a string is to being the continuation of an escape
// string, which PostgreSQL allows across white space that holds a newline.
type continued uint8

const (
	continuedNo continued = iota
	continuedLine
	continuedYes
)

const (
	maxWord = 32 // bytes of a word that are kept; no keyword is as long
	maxTag  = 64 // bytes of a dollar quote's tag
)

type reading struct {
	statement

	state     state
	escapes   bool      // a backslash escapes in plain strings
	inEscape  bool      // it does in the string at hand
	backslash bool      // an odd number of them has just been read in it
	unicode   bool      // the quoted identifier at hand began with U&
	continued continued // since the end of an escape string
	matched   int8      // bytes of the tag matched in the body; -1: none, not even $
	wordLen   uint8
	tagLen    uint8
	depth     uint32 // of nested comments
	word      [maxWord]byte
	tag       [maxTag]byte
}

// feed reads p. With off it also looks for the place where the reading with
// standard_conforming_strings off parts: it then sets *off to the state of that
// reading and returns the index at which it goes on, else -1.
func (r *reading) feed(p []byte, off *reading) int {
	fork := -1
	for i := 0; i < len(p); {
		switch r.state {
		case stateNormal:
			i = r.normal(p, i)
		case stateWord:
			i = r.restOfWord(p, i)
		case stateString:
			var escaped bool
			i, escaped = r.inString(p, i)
			if escaped && off != nil {
				*off = *r
				off.state, off.escapes, off.inEscape = stateString, true, true
				fork, off = i, nil
			}
		case stateQuoted:
			i = r.inQuoted(p, i)
		case stateTag:
			i = r.inTag(p, i)
		case stateBody:
			i = r.inBody(p, i)
		case stateLine:
			i = r.inLine(p, i)
		case stateBlock, stateBlockDash, stateBlockSlash:
			i = r.inBlock(p, i)
		case stateLost:
			return fork
		default:
			i = r.decide(p, i)
		}
	}
	return fork
}

// end finishes what the end of the text finishes.
func (r *reading) end() Result {
	switch r.state {
	case stateWord, stateTag:
		r.keyword(r.carried())
	case stateUnicode, stateDash, stateSlash, stateDollar:
		r.other(0)
	case stateQuotedEnd:
		r.quoted(r.word[:r.wordLen], r.unicode)
	case stateLost:
		r.flags = AllFlags
	}
	r.finish()
	return Result{Flags: r.flags, Class: r.class, Statements: r.statements}
}

// carried is the word that was cut, or what looked like a tag.
func (r *reading) carried() []byte {
	if r.state == stateTag {
		return r.tag[:r.tagLen]
	}
	return r.word[:r.wordLen]
}

// normal reads tokens until one of them needs a state of its own.
func (r *reading) normal(p []byte, i int) int {
	for i < len(p) {
		c := p[i]
		switch charClass[c] {
		case charSpace:
			i++
			continue
		case charNewline:
			i++
			if r.continued == continuedLine {
				r.continued = continuedYes
			}
			continue
		case charLetter:
			j := i + 1
			for j < len(p) && identifierPart[p[j]] {
				j++
			}
			if j == len(p) {
				r.wordLen = uint8(copy(r.word[:], p[i:]))
				r.state = stateWord
				return j
			}
			skip := r.skip
			if j-i != len("for") {
				skip |= forOnly[r.head]
			}
			if skip>>(c&31)&1 != 0 && r.prev == prevNone && j-i > 1 {
				r.pending, r.continued = 0, continuedNo
				i = j
				continue
			}
			if i = r.endWord(p[i:j], p[j], j); r.state != stateNormal {
				return i
			}
			continue
		case charDigit:
			for i++; i < len(p) && charClass[p[i]] == charDigit; i++ {
			}
			r.other(0)
		case charOther:
			i++
			if r.prev != prevNone {
				r.other(0)
			}
			r.pending, r.started = 0, true
		case charMark:
			r.other(c)
			i++
		case charDash:
			r.state = stateDash // a comment may lie within a continued string
			return i + 1
		case charQuote:
			r.beginString(r.escapes || r.continued == continuedYes)
			return i + 1
		default:
			r.state, r.wordLen, r.tagLen, r.unicode = opened[charClass[c]], 0, 0, false
			r.continued = continuedNo
			return i + 1
		}
		r.continued = continuedNo
	}
	return i
}

// endWord takes a word and the byte behind it, which is at index j, and returns
// the index to go on at.
func (r *reading) endWord(w []byte, next byte, j int) int {
	r.continued = continuedNo
	if len(w) == 1 {
		switch {
		case next == '\'' && w[0]|0x20 == 'e':
			r.beginString(true)
			return j + 1
		case next == '&' && w[0]|0x20 == 'u':
			r.state = stateUnicode
			return j + 1
		}
	}
	r.state = stateNormal
	r.keyword(w)
	return j
}

// restOfWord goes on with a word that was cut.
func (r *reading) restOfWord(p []byte, i int) int {
	j := i
	for j < len(p) && identifierPart[p[j]] {
		j++
	}
	r.wordLen += uint8(copy(r.word[r.wordLen:], p[i:j]))
	if j == len(p) {
		return j
	}
	return r.endWord(r.word[:r.wordLen], p[j], j)
}

// beginString enters a string: a token that says nothing.
func (r *reading) beginString(escape bool) {
	r.other(0)
	r.state, r.inEscape, r.backslash, r.continued = stateString, escape, false, continuedNo
}

// inString reads up to the quote that may end the string. escaped is true when
// it does, but would not if backslashes escaped: i is the index behind it.
func (r *reading) inString(p []byte, i int) (next int, escaped bool) {
	for i < len(p) {
		n := bytes.IndexByte(p[i:], '\'')
		j := i + n
		if n < 0 {
			j = len(p)
		}
		// An odd run of backslashes in front of the quote escapes it.
		run := j
		for run > i && p[run-1] == '\\' {
			run--
		}
		odd := (j-run)&1 == 1
		if run == i {
			odd = odd != r.backslash
		}
		if n < 0 {
			r.backslash = odd
			return j, false
		}
		i, r.backslash = j+1, false
		if !odd || !r.inEscape {
			r.state = stateStringEnd
			return i, odd
		}
	}
	return i, false
}

// inQuoted reads up to the quote that may end a quoted identifier.
func (r *reading) inQuoted(p []byte, i int) int {
	j := bytes.IndexByte(p[i:], '"')
	if j < 0 {
		r.wordLen += uint8(copy(r.word[r.wordLen:], p[i:]))
		return len(p)
	}
	r.wordLen += uint8(copy(r.word[r.wordLen:], p[i:i+j]))
	r.state = stateQuotedEnd
	return i + j + 1
}

// inTag reads what may be the tag of a dollar-quoted string.
func (r *reading) inTag(p []byte, i int) int {
	c := p[i]
	switch {
	case c == '$':
		r.other(0)
		r.state, r.matched = stateBody, -1
		return i + 1
	case !identifierPart[c]:
		r.state = stateNormal // $ and a word, which is an error to PostgreSQL
		r.keyword(r.tag[:r.tagLen])
		return i
	case r.tagLen == maxTag:
		r.state = stateLost
		return len(p)
	}
	r.tag[r.tagLen] = c
	r.tagLen++
	return i + 1
}

// inBody looks for the tag that ends a dollar-quoted string.
func (r *reading) inBody(p []byte, i int) int {
	if r.matched < 0 {
		j := bytes.IndexByte(p[i:], '$')
		if j < 0 {
			return len(p)
		}
		r.matched = 0
		return i + j + 1
	}
	switch c := p[i]; {
	case c == '$' && r.matched == int8(r.tagLen):
		r.state = stateNormal
	case c == '$':
		r.matched = 0
	case r.matched < int8(r.tagLen) && c == r.tag[r.matched]:
		r.matched++
	default:
		r.matched = -1
	}
	return i + 1
}

func (r *reading) inLine(p []byte, i int) int {
	for ; i < len(p); i++ {
		if charClass[p[i]] == charNewline {
			r.state = stateNormal
			return i
		}
	}
	return i
}

// inBlock reads a comment; it nests, as in the SQL standard.
func (r *reading) inBlock(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '/' && r.state == stateBlockDash:
			r.state = stateBlock
			if r.depth--; r.depth == 0 {
				r.state = stateNormal
				return i + 1
			}
		case c == '*' && r.state == stateBlockSlash:
			r.state = stateBlock
			r.depth++
		case c == '*':
			r.state = stateBlockDash
		case c == '/':
			r.state = stateBlockSlash
		default:
			r.state = stateBlock
		}
	}
	return i
}

// decide handles the states that the next byte settles.
func (r *reading) decide(p []byte, i int) int {
	c := p[i]
	was := r.state
	r.state = stateNormal
	switch {
	case was == stateDash && c == '-':
		r.state = stateLine
		return i + 1
	case was == stateSlash && c == '*':
		r.state, r.depth = stateBlock, 1
		return i + 1
	case was == stateDash || was == stateSlash:
		r.continued = continuedNo
		r.other(0)
	case was == stateUnicode && c == '\'':
		r.beginString(false)
		return i + 1
	case was == stateUnicode && c == '"':
		r.state, r.wordLen, r.unicode = stateQuoted, 0, true
		return i + 1
	case was == stateUnicode:
		r.other(0)
	case was == stateStringEnd && c == '\'':
		r.state = stateString
		return i + 1
	case was == stateStringEnd:
		if r.inEscape {
			r.continued = continuedLine
		}
	case was == stateQuotedEnd && c == '"':
		r.wordLen += uint8(copy(r.word[r.wordLen:], p[i:i+1]))
		r.state = stateQuoted
		return i + 1
	case was == stateQuotedEnd:
		r.quoted(r.word[:r.wordLen], r.unicode)
	case was == stateDollar && (c == '$' || charClass[c] == charLetter):
		r.state = stateTag
	default: // $ and a digit: a parameter
		r.other(0)
	}
	return i
}
