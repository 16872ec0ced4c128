package sqllex

// A statement is what has been understood of the statement at hand, and the sum
// of those before it.
//
// Its first word (head) decides which further words are looked at: skip has a
// bit for each first letter of the words that are passed over unread.
// prev tells what the token before was, where that matters; while it is set, the
// next word is always looked at.

type head uint8

const (
	headNone     head = iota // no word yet
	headOther                // nothing further matters but calls of functions
	headSelect               // SELECT, VALUES, TABLE: may be SELECT INTO
	headWith                 // the same, or a statement that writes
	headCopy                 // COPY
	headBegin                // BEGIN, START
	headEnd                  // COMMIT, END, ROLLBACK, ABORT
	headSet                  // SET
	headPrepare              // PREPARE
	headCreate               // CREATE, before the kind of object is known
	headFunction             // CREATE FUNCTION or PROCEDURE: may hold BEGIN ATOMIC
	headDeclare              // DECLARE
	headName                 // nothing follows that is run or names an object
	headExplain              // EXPLAIN, before the statement that it explains
)

type prev uint8

const (
	prevNone prev = iota
	prevHead
	prevFrom
	prevInto
	prevInsert // INSERT or MERGE, whose INTO is no SELECT INTO
	prevWith
	prevRead
	prevAnd
	prevNo
	prevBegin
	prevScope       // SET LOCAL, SET TRANSACTION or SET CONSTRAINTS, unless a dot follows
	prevTransaction // PREPARE TRANSACTION, unless something but a string follows
	prevFor         // of a locking clause, or not
	prevSession     // SET SESSION
	prevName        // SET of a reported parameter, before TO or =
	prevValue       // behind that, up to the end of the statement
)

type statement struct {
	flags      Flags
	pending    Flags // of the function whose name was just read, if it is called
	setting    Flags // what the SET at hand does, by all that was read of it
	skip       uint32
	statements int
	parens     int
	blocks     int // BEGIN ATOMIC and the CASEs within
	head       head
	prev       prev
	class      Class // of the text
	own        Class // of the statement
	classDone  bool  // class will not change
	started    bool  // a token of the statement was read
	ends       bool  // it ends the transaction block
	explained  bool  // EXPLAIN without ANALYZE: nothing is run
}

func letters(s string) (m uint32) {
	for i := range len(s) {
		m |= 1 << (s[i] & 31)
	}
	return m
}

const everyLetter = 1<<32 - 1

// wants are the first letters of the words that matter after a head; those of
// the functions and of pg_temp always do.
var wants = [...]uint32{
	headOther:    letters("ps"),
	headSelect:   letters("psimf"),
	headWith:     letters("psimfud"),
	headCopy:     letters("psf"),
	headBegin:    letters("psro"),
	headEnd:      letters("pstacn"),
	headSet:      letters("ps"),
	headPrepare:  letters("ps"),
	headCreate:   everyLetter,
	headFunction: letters("psbace"),
	headDeclare:  letters("pswhf"),
	headName:     0,
	headExplain:  everyLetter,
}

// forOnly are the letters that begin no word but FOR after a head: words of
// another length, FROM above all, need no look.
var forOnly = [...]uint32{
	headSelect:  letters("f"),
	headWith:    letters("f"),
	headDeclare: letters("f"),
	headExplain: 0,
}

// notable reports whether a word can be pg_temp or the name of a function that
// matters: the only words with p and s that are looked at after most heads.
func notable(w []byte) bool {
	return len(w) >= 7 && (w[2] == '_' || w[3] == '_')
}

// pgOrSet are the heads after which p and s stand for nothing else, unless prev
// is set.
var pgOrSet = [...]bool{
	headOther: true, headSelect: true, headWith: true, headCopy: true, headSet: true, headPrepare: true,
	headDeclare: true, headExplain: false,
}

const pAndS = 1<<('p'&31) | 1<<('s'&31)

// longestKeyword is pg_try_advisory_lock_shared.
const longestKeyword = 27

// keyword takes a word that is not quoted.
func (s *statement) keyword(w []byte) {
	if letter := w[0] & 31; s.prev == prevNone &&
		(s.skip>>letter&1 != 0 || (pgOrSet[s.head] && pAndS>>letter&1 != 0 && !notable(w))) {
		s.pending = 0
		return
	}
	var buf [longestKeyword]byte
	n := copy(buf[:], w)
	for i, c := range buf[:n] {
		if c >= 'A' && c <= 'Z' {
			buf[i] = c | 0x20
		}
	}
	k := buf[:n]
	if isPgTemp(k) {
		s.flags |= TempTable
	}
	if len(w) > longestKeyword {
		k = nil
	}
	if s.head == headNone {
		s.begin(k)
		return
	}
	s.pending = functionFlags(k)
	p := s.prev
	s.prev = prevNone
	s.further(k, p)
}

// quoted takes a quoted identifier, as far as it was kept. One with Unicode
// escapes may spell anything.
func (s *statement) quoted(w []byte, unicode bool) {
	s.other(0)
	if s.head == headNone {
		s.setHead(headOther, ClassDefault)
	}
	switch {
	case s.head == headName, s.head == headEnd:
	case unicode:
		s.flags |= TempTable
		s.pending = SetSession | Notify | AdvisoryLock | AdvisoryUnlock
	case isPgTemp(w):
		s.flags |= TempTable
	default:
		s.pending = functionFlags(w)
	}
}

// other takes any other token: c is its byte if it is ( ) ; or . and else 0.
func (s *statement) other(c byte) {
	switch c {
	case '(':
		s.flags |= s.pending
		s.parens++
	case ')':
		s.parens = max(s.parens-1, 0)
	case ';':
		if s.parens == 0 && s.blocks == 0 {
			s.finish()
			return
		}
	}
	next := prevNone
	switch s.prev {
	case prevHead:
		switch {
		case s.head == headSet:
			s.setting = SetSession // SET "name"
		case s.head == headPrepare && c == 0:
			s.flags |= Prepare // PREPARE "name"
		}
	case prevName:
		if next = prevValue; c == '.' {
			s.setting = SetSession // SET timezone.name: a parameter of that name
		}
	case prevValue:
		next = prevValue
	case prevScope:
		if c == '.' {
			s.setting = SetSession // SET local.name: a parameter of that name
		}
	case prevTransaction:
		if c == '(' {
			s.flags |= Prepare
		}
	}
	s.pending = 0
	s.prev = next
	s.started = true
}

// finish ends the statement.
func (s *statement) finish() {
	if s.started {
		s.statements++
		if s.ends {
			s.flags |= End
		}
		s.flags |= s.setting
		if !s.classDone {
			s.class = s.own
			s.classDone = s.head != headBegin || s.own == ClassRead
		}
	}
	*s = statement{
		flags: s.flags, statements: s.statements, class: s.class, classDone: s.classDone,
	}
}

func (s *statement) setHead(h head, c Class) {
	s.head, s.own, s.started = h, c, true
	s.skip = ^wants[h]
}

// isPgTemp recognises the schema of temporary objects, pg_temp or pg_temp_3.
func isPgTemp(k []byte) bool {
	return len(k) >= 7 && string(k[:7]) == "pg_temp" && (len(k) == 7 || k[7] == '_')
}

// functionFlags are the flags of a call of the function k.
func functionFlags(k []byte) Flags {
	if len(k) < 9 || (k[0] != 'p' && k[0] != 's') {
		return 0
	}
	switch string(k) {
	case "set_config":
		return SetSession
	case "pg_notify":
		return Notify
	case "pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared":
		return AdvisoryLock
	case "pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all":
		return AdvisoryUnlock
	}
	return 0
}
