package pgmock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"pgkinetic/internal/pgwire"
)

// Exchange is one message of a client and all that PostgreSQL says because of it before it reads the next one.
type Exchange struct {
	Sent   []byte // with its header
	Answer []byte // any number of messages
	// Unread: PostgreSQL throws the message away, or a pooler may deal with it by itself.
	Unread bool
}

// Recording is what a client sends in one session and what PostgreSQL answers.
type Recording []Exchange

// Answers is everything that the client gets.
func (r Recording) Answers() (all []byte) {
	for _, x := range r {
		all = append(all, x.Answer...)
	}
	return all
}

// mark finds the messages that are thrown away.
func (r Recording) mark() {
	s := state{status: 'I'}
	needed := false // the next Sync: the server has been sent something
	for i := range r {
		x := &r[i]
		switch typ := x.Sent[0]; typ {
		case 'H', 'X':
			x.Unread = true // all that it does is when the answers before it come
		case 'S':
			x.Unread = s.copying || !needed && bytes.Equal(x.Answer, Ready('I'))
		case 'd', 'c', 'f':
			x.Unread = !s.copying
		default:
			x.Unread = s.skip
		}
		s.sent(x.Sent[0])
		s.answered(x.Answer)
		needed = s.open && (needed || !x.byPooler())
	}
}

// state is where a session stands, as far as it decides how the next message is read.
type state struct {
	status   byte // what ReadyForQuery would say
	open     bool // messages of the extended protocol since the last ReadyForQuery
	skip     bool // everything up to Sync is thrown away
	copying  bool // copy data is read
	extended bool // by an Execute
}

// sent takes account of a message that the session reads.
func (s *state) sent(typ byte) {
	switch typ {
	case 'P', 'B', 'D', 'E', 'C':
		s.open = true
		s.extended = true
	case 'Q', 'F':
		s.extended = false
	}
}

// answered takes account of what the session says.
func (s *state) answered(answer []byte) {
	for len(answer) > 0 {
		n := 1 + int(binary.BigEndian.Uint32(answer[1:]))
		body := answer[5:n]
		switch answer[0] {
		case 'G':
			s.copying = true
		case 'C':
			s.copying = false
			switch string(body) {
			case "BEGIN\x00":
				s.status = 'T'
			case "COMMIT\x00", "ROLLBACK\x00":
				s.status = 'I'
			}
		case 'E':
			s.copying, s.skip = false, true
			if s.status == 'T' {
				s.status = 'E'
			}
		case 'Z':
			s.open, s.skip, s.copying, s.status = false, false, false, body[0]
		}
		answer = answer[n:]
	}
}

// ParseRecordings reads what Format has written: the answers to dialogues, by their names. sent gives what the client sends
// in a dialogue, message by message.
func ParseRecordings(text string, sent func(name string) [][]byte) (map[string]Recording, error) {
	all := map[string]Recording{}
	var name string
	var messages [][]byte
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		r := all[name]
		switch {
		case strings.HasPrefix(line, "== "):
			name = line[3:]
			messages = sent(name)
			all[name] = nil
		case strings.HasPrefix(line, "> ") && len(r) < len(messages) && line[2] == messages[len(r)][0]:
			all[name] = append(r, Exchange{Sent: messages[len(r)]})
		case strings.HasPrefix(line, "< ") && len(r) > 0:
			body, err := strconv.Unquote(line[4:])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			x := &r[len(r)-1]
			x.Answer = append(x.Answer, pgwire.Raw(line[2], []byte(body))...)
		case i > 0: // the first line names the server
			return nil, fmt.Errorf("line %d: %q does not fit the dialogue %q", i+1, line, name)
		}
	}
	for name, r := range all {
		if n := len(sent(name)); len(r) != n {
			return nil, fmt.Errorf("%s: %d messages are recorded of %d", name, len(r), n)
		}
		r.mark()
	}
	return all, nil
}

// Format is the text of a recording: "> type" for each message of the client, "< type body" for each of the server.
func (r Recording) Format(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n", name)
	for _, x := range r {
		fmt.Fprintf(&b, "> %c\n", x.Sent[0])
		for p := x.Answer; len(p) > 0; {
			n := 1 + int(binary.BigEndian.Uint32(p[1:]))
			fmt.Fprintf(&b, "< %c %s\n", p[0], strconv.Quote(string(p[5:n])))
			p = p[n:]
		}
	}
	return b.String()
}
