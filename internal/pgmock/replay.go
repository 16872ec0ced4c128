package pgmock

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"pgkinetic/internal/pgwire"
)

// Replay is a PostgreSQL that answers one recorded client at a time with what was recorded, and by a small model what a
// pooler adds: settings, prepared statements under its own names (see texts), Flush, what ends a group or a COPY, ROLLBACK,
// DISCARD ALL and its parts; and nonces (see Nonce). A message that is neither fails the test, and so does a session that ends inside a message of at most
// SmallMessage bytes. As PostgreSQL does, it keeps the answers of the extended protocol back until Flush, ReadyForQuery or an error.
//
// State: the recording in play and how far it has come; it belongs to the mutex, since a session that is being closed and
// its successor may both be alive. What a session itself has come to belongs to its goroutine (replaySession).
type Replay struct {
	// Taken, if set, is called in the middle of a write that is cut and returns when what was written so far (Written) has
	// been read.
	Taken func() error

	mu     sync.Mutex
	rec    Recording
	at     int   // the next exchange
	client texts // what the recorded client has prepared before it
	given  texts // by the session that played last
	cut    int   // bytes until the cut, from Begin; -1: none to come
	sent   int   // bytes since Begin
	halves int
}

// SmallMessage is the size of a message, header included, that a client's vanishing must not leave half sent.
const SmallMessage = 16 << 10

// Begin puts a recording into play. What is sent from now on is cut in two behind cut bytes (0: not at all).
func (r *Replay) Begin(rec Recording, cut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec, r.at, r.cut, r.sent, r.client = rec, 0, cut, 0, texts{}
	if cut == 0 {
		r.cut = -1
	}
}

// Sent is the number of bytes sent since Begin.
func (r *Replay) Sent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

// Halves is the number of sessions that have ended inside a large message.
func (r *Replay) Halves() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halves
}

// Rest is the first message of the recording that has to come and has not come; nil: it was played to its end.
func (r *Replay) Rest() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.at; i < len(r.rec); i++ {
		if x := &r.rec[i]; !x.optional(r.given) {
			return x.Sent
		}
	}
	return nil
}

// play gives the answer to a message of the recording that has come to s. A Flush is none: the pooler sends its own at any
// place.
func (r *Replay) play(s *replaySession, message []byte) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if message[0] == 'H' {
		return nil, false
	}
	client := maps.Clone(r.client)
	for i := r.at; i < len(r.rec); i++ {
		x := &r.rec[i]
		answer, ok := s.fits(x, client, message)
		if !ok && !x.optional(s.given) {
			break
		}
		x.settle(client)
		if ok {
			r.at, r.client, r.given = i+1, client, s.given
			return answer, true
		}
	}
	return nil, false
}

// left ends the recording: its client has left. Before its first message such a sign is its predecessor's.
func (r *Replay) left() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at > 0 {
		r.at = len(r.rec)
	}
}

// over ends the recording: somebody else is served.
func (r *Replay) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = len(r.rec)
}

// half notes the end of a session inside a message of the given size.
func (r *Replay) half(size int) error {
	if size <= SmallMessage {
		return &scriptError{fmt.Sprintf("half a message of %d bytes", size)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.halves++
	return io.EOF
}

// split tells where the next n bytes are to be cut; n: nowhere.
func (r *Replay) split(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent += n
	k := r.cut
	switch {
	case k < 0:
		return n
	case k >= n:
		r.cut -= n
		return n
	}
	r.cut = -1
	return k
}

// Serve is a session, after its login.
func (r *Replay) Serve() Step {
	return func(c *Conn) error {
		s := &replaySession{r: r, c: c, state: state{status: 'I'}, reports: map[string]string{}, names: texts{}, given: texts{}}
		for {
			m, err := s.read()
			if err != nil {
				return err
			}
			if err := s.take(m); err != nil {
				return err
			}
		}
	}
}

// replaySession is one session with a pooler.
type replaySession struct {
	r *Replay
	c *Conn
	state
	pending []byte            // answers that are kept back
	reports map[string]string // parameters that differ from the login's report
	nonce   string            // of the unnamed statement
	names   texts             // its prepared statements; the Replay's mutex guards the two
	given   texts             // the same with those that were closed
}

// read reads a message and judges an end inside it.
func (s *replaySession) read() ([]byte, error) {
	message := make([]byte, 5)
	if n, err := io.ReadFull(s.c.r, message); err != nil {
		if n > 0 {
			return nil, s.r.half(n)
		}
		return nil, err
	}
	size := 1 + int(binary.BigEndian.Uint32(message[1:]))
	if size < 5 || size > 1<<30 {
		return nil, &scriptError{fmt.Sprintf("message %q of %d bytes", message[0], size)}
	}
	message = slices.Grow(message, size)[:size]
	if _, err := io.ReadFull(s.c.r, message[5:]); err != nil {
		return nil, s.r.half(size)
	}
	return message, nil
}

func (s *replaySession) take(message []byte) error {
	answer, known := s.r.play(s, message)
	if !known {
		var err error
		if answer, err = s.own(message); err != nil {
			return err
		}
	}
	if s.skip && message[0] != 'S' {
		answer = nil // known or not, it is thrown away
	}
	if !s.copying && !s.skip {
		s.sent(message[0])
		s.settle(message, answer)
	}
	s.answered(answer)
	s.note(answer)
	s.pending = append(s.pending, answer...)
	if s.skip || s.copying || !s.open || message[0] == 'H' {
		return s.flush()
	}
	return nil
}

// note keeps the reports of parameters.
func (s *replaySession) note(answer []byte) {
	for len(answer) > 0 {
		n := 1 + int(binary.BigEndian.Uint32(answer[1:]))
		if answer[0] == 'S' {
			name, value := cut(answer[5:n])
			s.reports[name] = strings.TrimRight(string(value), "\x00")
		}
		answer = answer[n:]
	}
}

func (s *replaySession) flush() error {
	p := s.pending
	s.pending = nil
	k := s.r.split(len(p))
	if err := Send(p[:k])(s.c); err != nil || k == len(p) {
		return err
	}
	if s.r.Taken != nil {
		if err := s.r.Taken(); err != nil {
			return &scriptError{err.Error()}
		}
	}
	return Send(p[k:])(s.c)
}

// own answers what the pooler itself sends.
func (s *replaySession) own(message []byte) ([]byte, error) {
	typ, body := message[0], message[5:]
	unexpected := &scriptError{fmt.Sprintf("message %q %q was not expected (%+v)", typ, body[:min(len(body), 100)], s.state)}
	switch {
	case typ == 'X':
		return nil, io.EOF
	case typ == 'H':
		return nil, nil
	case s.copying:
		return s.ownInCopy(typ, unexpected)
	case typ == 'S':
		return Ready(s.status), nil
	case typ == 'f':
		s.r.left()
		return nil, nil
	case s.skip && typ == 'Q' && string(body) == "ROLLBACK\x00":
		s.r.left()
		return nil, nil
	}
	if answer, ok := s.ownStatement(message); ok {
		return answer, nil
	}
	switch {
	case s.skip:
		return nil, unexpected
	case typ == 'Q':
		return s.query(strings.TrimRight(string(body), "\x00"), unexpected)
	}
	return s.nonceGroup(typ, body, unexpected)
}

func (s *replaySession) ownInCopy(typ byte, unexpected error) ([]byte, error) {
	switch typ {
	case 'S':
		return nil, nil
	case 'f':
		s.r.left()
		answer := Error("ERROR", "57014", "COPY from stdin failed")
		if !s.extended {
			status := s.status
			if status == 'T' {
				status = 'E'
			}
			answer = append(answer, Ready(status)...)
		}
		return answer, nil
	}
	return nil, unexpected
}

// Nonce is a Query whose answer is one row with the nonce; NonceGroup is a group whose answer is that.
func Nonce(nonce string) []byte { return pgwire.Query(nonceSQL + nonce + "'") }

// NonceGroup is Nonce in the extended protocol.
func NonceGroup(nonce string) []byte {
	return slices.Concat(pgwire.Parse("", nonceSQL+nonce+"'"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
}

const nonceSQL = "select 'nonce "

func nonceOf(sql string) (string, bool) {
	rest, found := strings.CutPrefix(sql, nonceSQL)
	return strings.TrimSuffix(rest, "'"), found
}

func (s *replaySession) nonceGroup(typ byte, body []byte, unexpected error) ([]byte, error) {
	switch typ {
	case 'P':
		name, rest := cut(body)
		sql, _ := cut(rest)
		if nonce, ok := nonceOf(sql); ok && name == "" {
			s.r.over()
			s.nonce = nonce
			return pgwire.Raw('1', nil), nil
		}
	case 'B':
		if s.nonce != "" {
			return pgwire.Raw('2', nil), nil
		}
	case 'E':
		if nonce := s.nonce; nonce != "" {
			s.nonce = ""
			return append(DataRow(nonce), Complete("SELECT 1")...), nil
		}
	}
	return nil, unexpected
}

func (s *replaySession) query(sql string, unexpected error) ([]byte, error) {
	if nonce, ok := nonceOf(sql); ok {
		s.r.over()
		return Answer(nonce), nil
	}
	switch sql {
	case "ROLLBACK":
		s.r.left()
		var answer []byte
		if s.status == 'I' {
			answer = pgwire.Raw('N', []byte("SWARNING\x00VWARNING\x00C25P01\x00Mthere is no transaction in progress\x00\x00"))
		}
		return append(append(answer, Complete("ROLLBACK")...), Ready('I')...), nil
	case "DISCARD ALL":
		if s.status != 'I' || s.open {
			return nil, unexpected
		}
		return append(append(s.resetAll(), Complete("DISCARD ALL")...), Ready('I')...), nil
	}
	if answer, ok := cleanUp(sql); ok && s.status == 'I' && !s.open {
		return answer, nil
	}
	return s.settings(sql, unexpected)
}

// cleanUp answers a Query that undoes what a client has left.
func cleanUp(sql string) (answer []byte, ok bool) {
	for sql != "" {
		statement, rest, _ := strings.Cut(sql, ";")
		switch statement {
		case "CLOSE ALL":
			answer = append(answer, Complete("CLOSE CURSOR ALL")...)
		case "UNLISTEN *":
			answer = append(answer, Complete("UNLISTEN")...)
		case "SELECT pg_catalog.pg_advisory_unlock_all()":
			answer = append(append(answer, Row("")...), Complete("SELECT 1")...)
		case "DISCARD TEMP", "DEALLOCATE ALL":
			answer = append(answer, Complete(statement)...)
		default:
			return nil, false
		}
		sql = rest
	}
	return append(answer, Ready('I')...), true
}

var settingPattern = regexp.MustCompile(`^(?:SET "(\w+)"=E'(\w*)'|RESET "(\w+)"|RESET (ALL));`)

// settings answers a batch of settings.
func (s *replaySession) settings(sql string, unexpected error) (answer []byte, err error) {
	for rest := sql; rest != ""; {
		m := settingPattern.FindStringSubmatch(rest)
		if m == nil || s.status != 'I' || s.open {
			return nil, unexpected
		}
		rest = rest[len(m[0]):]
		switch {
		case m[1] != "":
			answer = append(append(answer, ParameterStatus(m[1], m[2])...), Complete("SET")...)
		case m[4] != "":
			answer = append(append(answer, s.resetAll()...), Complete("RESET")...)
		default:
			answer = append(append(answer, s.reset(m[3])...), Complete("RESET")...)
		}
	}
	return append(answer, Ready('I')...), nil
}

func (s *replaySession) resetAll() (answer []byte) {
	var names []string
	for name := range s.reports {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		answer = append(answer, s.reset(name)...)
	}
	return answer
}

// reset gives a parameter the value of the login.
func (s *replaySession) reset(name string) []byte {
	now, reported := s.reports[name]
	for p := Parameters(); len(p) > 0; {
		n := 1 + int(binary.BigEndian.Uint32(p[1:]))
		if first, value := cut(p[5:n]); first == name && reported && now != strings.TrimRight(string(value), "\x00") {
			return p[:n]
		}
		p = p[n:]
	}
	return nil
}
