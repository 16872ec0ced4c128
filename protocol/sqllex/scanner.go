package sqllex

import "bytes"

// Scanner reads one text that arrives in pieces, cut anywhere, in constant
// memory and without allocating. Reset, Feed as often as needed, End.
//
// Its state is a reading (see reading.go) of the text with
// standard_conforming_strings on. At the first plain string in which a quote
// follows a backslash, the reading with that setting off parts from it: a second
// one is kept from there on, and the result has the flags of both.
//
// A Scanner belongs to one loop; it keeps no part of what it was fed. The zero
// value is ready for use.
type Scanner struct {
	on     reading
	off    reading
	forked bool
}

// Reset makes the Scanner ready for another text.
func (s *Scanner) Reset() { *s = Scanner{} }

// Feed reads the next piece of the text. A zero byte counts as white space, so
// the terminator of a message's string may be fed or not.
func (s *Scanner) Feed(p []byte) {
	if s.forked {
		s.on.feed(p, nil)
		s.off.feed(p, nil)
		return
	}
	if at := s.on.feed(p, &s.off); at >= 0 {
		s.forked = true
		s.off.feed(p[at:], nil)
	}
}

// Class is the class that the text has if it ends here: what its part so far
// shows of it. The text goes on all the same. A word or token that is cut off
// counts as it stands.
func (s *Scanner) Class() Class {
	r := s.on
	return r.end().Class
}

// End tells that the text is complete and returns what it holds. Reset is needed
// before the next text.
func (s *Scanner) End() Result {
	r := s.on.end()
	if s.forked {
		other := s.off.end()
		r.Flags |= other.Flags
		r.Statements = max(r.Statements, other.Statements)
	}
	return r
}

// Scan reads a whole text.
func Scan(sql []byte) Result {
	if bytes.IndexByte(sql, '\\') >= 0 {
		var s Scanner
		s.Feed(sql)
		return s.End()
	}
	var r reading // without a backslash there is one reading only
	r.feed(sql, nil)
	return r.end()
}
