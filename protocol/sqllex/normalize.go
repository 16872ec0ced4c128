package sqllex

// AppendNormalized appends what is to be told of a statement's text where others
// may read it: no constants, each of which is a ?, several in a list one "?, …";
// no comments, since they carry data as well; one space where there was white
// space. sql may end anywhere, within a constant too. escapes: a backslash escapes
// in plain strings (standard_conforming_strings is off). At most most bytes are
// appended; a text that was longer ends in "…".
func AppendNormalized(dst, sql []byte, escapes bool, most int) []byte {
	l := lexer{sql: sql, escapes: escapes}
	start, end := len(dst), 0
	constants := 0 // at the end of dst: 1, or more and written as a list
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		constant := t.kind == tokenString || t.kind == tokenNumber
		if constant {
			l.passAdjacent(t)
			t.End = int32(l.at)
		}
		if constants > 0 && t.kind == tokenMark && t.c == ',' {
			if next := l.peek(); next.kind == tokenString || next.kind == tokenNumber {
				t = l.next()
				l.passAdjacent(t)
				if constants++; constants == 2 {
					dst = append(dst, ", …"...)
				}
				end = l.at
				continue
			}
		}
		constants = 0
		if t.c == '$' && l.at < len(sql) && charClass[sql[l.at]] == charDigit {
			t.End = l.next().End // a parameter
		}
		if len(dst) > start && int(t.Start) > end {
			dst = append(dst, ' ')
		}
		if constant {
			constants = 1
			dst = append(dst, '?')
		} else {
			dst = append(dst, t.Of(sql)...)
		}
		if end = int(t.End); len(dst)-start > most {
			return appendCut(dst[:start], dst[start:], most)
		}
	}
	return dst
}

// passAdjacent passes over what is a part of the number t though it is no digit:
// an exponent, the digits of another base, or whatever follows it without a space.
// A $ there begins a constant or goes on with a name, as the number may be read; no
// valid statement has it, and all the rest is passed over.
func (l *lexer) passAdjacent(t token) {
	for t.kind == tokenNumber && l.at < len(l.sql) && (identifierPart[l.sql[l.at]] || l.sql[l.at] == '.') {
		if l.sql[l.at] == '$' {
			l.at = len(l.sql)
			return
		}
		l.at++
	}
}

// ellipsis marks that something follows.
const ellipsis = "…"

// appendCut appends as much of text as fits with an ellipsis into most bytes, cut
// between characters.
func appendCut(dst, text []byte, most int) []byte {
	n := max(most-len(ellipsis), 0)
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return append(append(dst, text[:n]...), ellipsis...)
}
