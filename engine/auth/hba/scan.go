package hba

import (
	"sort"
	"strings"

	"pgkinetic/configs"
)

// word is one value of a line, without its quotes.
type word struct {
	text string
	// quoted: it begins with a quote, and so is no keyword, no @file and no +group.
	quoted bool
	place  configs.Place
}

// is tells whether the word is the keyword.
func (w word) is(keyword string) bool { return !w.quoted && w.text == keyword }

// field is what stands between blanks: one word, or a list of them by commas.
type field []word

// logical is a line as the file's author meant it: one line of the file, or
// several of which all but the last end with a backslash.
type logical struct {
	file string
	text string
	// starts are the offsets at which the lines of the file begin in text; the
	// first has the number line.
	starts []int
	line   int
}

// cutLine takes the first logical line, which begins on line number, off the
// text of a file.
func cutLine(file, text string, number int) (l logical, rest string) {
	var joined strings.Builder
	l = logical{file: file, line: number}
	for more := true; more; {
		var part string
		part, rest, _ = strings.Cut(text, "\n")
		part = strings.TrimRight(part, "\r")
		part, more = strings.CutSuffix(part, `\`)
		more = more && rest != ""
		l.starts = append(l.starts, joined.Len())
		joined.WriteString(part)
		text = rest
	}
	l.text = joined.String()
	return l, rest
}

// start is where the line begins, also where its first line in the file is but a
// backslash: PostgreSQL counts so.
func (l *logical) start() configs.Place {
	return configs.Place{Source: configs.SourceFile, Name: l.file, Line: l.line, Col: 1}
}

// place is where the byte at an offset of the line stands in its file.
func (l *logical) place(offset int) configs.Place {
	i := sort.SearchInts(l.starts, offset+1) - 1
	return configs.Place{Source: configs.SourceFile, Name: l.file, Line: l.line + i, Col: offset - l.starts[i] + 1}
}

// scanner takes the words off one line, by PostgreSQL's rules: blanks and commas
// part them, quotes protect both and "#", a doubled quote within quotes is one,
// and "#" ends the line wherever it stands.
type scanner struct {
	logical
	at int
}

// scanned is a word and what is to be known of its end.
type scanned struct {
	word
	comma bool // ended by a comma: the field goes on, be it behind blanks
	open  bool // its quotes are not closed
}

// next returns the next word of the line; ok is false at its end.
func (s *scanner) next() (w scanned, ok bool) {
	for s.at < len(s.text) && (blank(s.text[s.at]) || s.text[s.at] == ',') {
		s.at++
	}
	w.place = s.place(s.at)
	var text []byte
	begun, closed := false, -1
scan:
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"' && w.open:
			w.open, closed = false, s.at
		case c == '"':
			if begun && closed == s.at-1 {
				text = append(text, '"') // the quotes were doubled, not closed
			}
			w.quoted = w.quoted || len(text) == 0
			w.open, begun = true, true
		case w.open:
			text = append(text, c)
		case c == '#':
			s.at = len(s.text)
			break scan
		case c == ',':
			w.comma = true
			break scan
		case blank(c):
			break scan
		default:
			text = append(text, c)
		}
	}
	w.text = string(text)
	return w, begun || len(text) > 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
