package pgmock

import (
	"bytes"
	"encoding/binary"
	"maps"

	"pgkinetic/internal/pgwire"
)

// Prepared statements in a Replay: a pooler calls them by names of its own, closes them when it likes, and answers a Close,
// and a Parse of a text that the server has had, by itself. What counts is that a message finds on the server, under the name
// that it comes with, the text that the recorded client has at that place under its own.
//
// State: texts, for the recorded client and for each session. Source: PostgreSQL's tcop/postgres.c and commands/prepare.c.

// texts are the prepared statements of a session: their Parse messages behind the name.
type texts map[string]string

// settle takes account of a message that the session has read (not thrown away) and of its answer.
func (t texts) settle(message, answer []byte) {
	target, named := targetOf(message)
	switch message[0] {
	case 'Q':
		delete(t, "")
	case 'P':
		if named && target.name == "" {
			delete(t, "") // even if the new one fails
		}
		if named && answers(answer, '1', nil) {
			t[target.name] = string(target.behind)
		}
	case 'C':
		if named {
			delete(t, target.name)
		}
	}
	if answers(answer, 'C', []byte("DISCARD ALL\x00")) || answers(answer, 'C', []byte("DEALLOCATE ALL\x00")) {
		maps.DeleteFunc(t, func(name, _ string) bool { return name != "" })
	}
}

// same tells whether a name means the same here as another one there, nothing included.
func (t texts) same(name string, other texts, otherName string) bool {
	mine, have := t[name]
	its, has := other[otherName]
	return have == has && mine == its
}

// answers tells whether there is such a message in an answer.
func answers(answer []byte, typ byte, body []byte) bool {
	for len(answer) > 0 {
		n := 1 + int(binary.BigEndian.Uint32(answer[1:]))
		if answer[0] == typ && bytes.Equal(answer[5:n], body) {
			return true
		}
		answer = answer[n:]
	}
	return false
}

// target is the prepared statement that a message names, and the rest of its body.
type target struct {
	before []byte
	name   string
	behind []byte
}

func targetOf(message []byte) (t target, ok bool) {
	body := message[5:]
	at := 0
	switch message[0] {
	case 'P':
	case 'B':
		at = bytes.IndexByte(body, 0) + 1
	case 'D', 'C':
		if len(body) == 0 || body[0] != 'S' {
			return t, false
		}
		at = 1
	default:
		return t, false
	}
	end := bytes.IndexByte(body[at:], 0)
	if end < 0 {
		return t, false
	}
	return target{body[:at], string(body[at : at+end]), body[at+end+1:]}, true
}

// byPooler tells whether a pooler may answer the message by itself, if it is a Parse once the server has had its text.
func (x *Exchange) byPooler() bool {
	t, named := targetOf(x.Sent)
	switch {
	case !named || t.name == "":
		return false
	case x.Sent[0] == 'P':
		return answers(x.Answer, '1', nil)
	}
	return x.Sent[0] == 'C'
}

// optional tells whether the message need not come; given are the statements that the server has had.
func (x *Exchange) optional(given texts) bool {
	switch {
	case x.Unread:
		return true
	case !x.byPooler():
		return false
	case x.Sent[0] == 'C':
		return true
	}
	t, _ := targetOf(x.Sent)
	for _, text := range given {
		if text == string(t.behind) {
			return true
		}
	}
	return false
}

// settle takes account of the exchange among what the recorded client has.
func (x *Exchange) settle(client texts) {
	if !x.Unread {
		client.settle(x.Sent, x.Answer)
	}
}

// fits gives the answer to a message that is the recorded one, under whatever name. A session that skips to the next Sync
// does not look at what a name means.
func (s *replaySession) fits(x *Exchange, client texts, message []byte) (answer []byte, ok bool) {
	want, named := targetOf(x.Sent)
	got, alike := targetOf(message)
	switch {
	case !named || !alike:
		return x.Answer, bytes.Equal(x.Sent, message)
	case x.Sent[0] != message[0] || !bytes.Equal(want.before, got.before) || !bytes.Equal(want.behind, got.behind):
		return nil, false
	case (want.name == "") != (got.name == ""):
		return nil, false
	case s.skip, message[0] == 'P' && got.name == "", client.same(want.name, s.names, got.name):
		return renamed(x.Answer, want.name, got.name), true
	}
	return nil, false
}

// renamed is an answer whose errors call a statement by another name.
func renamed(answer []byte, from, to string) (all []byte) {
	if from == to {
		return answer
	}
	quoted := func(name string) []byte { return []byte(`prepared statement "` + name + `"`) }
	for len(answer) > 0 {
		n := 1 + int(binary.BigEndian.Uint32(answer[1:]))
		m := answer[:n]
		if m[0] == 'E' {
			m = pgwire.Raw('E', bytes.ReplaceAll(m[5:], quoted(from), quoted(to)))
		}
		all = append(all, m...)
		answer = answer[n:]
	}
	return all
}

// ownStatement answers a Parse that a pooler sends because the server lacks a statement of the recorded client, and a Close
// of a name that was given so, or of the unnamed statement.
func (s *replaySession) ownStatement(message []byte) (answer []byte, ok bool) {
	t, named := targetOf(message)
	_, exists := s.names[t.name]
	_, given := s.given[t.name]
	switch {
	case !named:
		return nil, false
	case message[0] == 'C' && (t.name == "" || given):
		answer = pgwire.Raw('3', nil)
	case message[0] == 'P' && (t.name == "" || !exists):
		if answer = s.r.parsed(t); answer == nil {
			return nil, false
		}
		if s.status == 'E' {
			answer = Error("ERROR", "25P02", "current transaction is aborted, commands ignored until end of transaction block")
		}
	default:
		return nil, false
	}
	return answer, true
}

// parsed is the answer to a Parse of a text that is recorded; nil: it is not, or was refused for its name only.
func (r *Replay) parsed(t target) (answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rec {
		x := &r.rec[i]
		recorded, named := targetOf(x.Sent)
		if !named || x.Unread || x.Sent[0] != 'P' || !bytes.Equal(recorded.behind, t.behind) || (recorded.name == "") != (t.name == "") {
			continue
		}
		if answers(x.Answer, '1', nil) {
			return pgwire.Raw('1', nil)
		}
		if !bytes.Contains(x.Answer, []byte("\x00C42P05\x00")) {
			answer = x.Answer
		}
	}
	return answer
}

// settle takes account of a message that was read and answered.
func (s *replaySession) settle(message, answer []byte) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.names.settle(message, answer)
	if message[0] == 'P' {
		s.given.settle(message, answer)
	}
}
