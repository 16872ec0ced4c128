package statements

import (
	"strings"

	"pgkinetic/protocol"
)

// session is PostgreSQL's handling of prepared statements, written down from its
// behaviour (postgres_test.go compares it with a server) and in nothing related
// to Catalog and Held.
type session struct {
	named   map[string]string
	unnamed *string
	portal  *string // the unnamed portal's text
	stale   bool    // the portal is of a block that has failed
	status  byte
	skip    bool
	ran     bool // something was executed since the transaction began
	// strict: in a failed block Describe fails whatever the text, and so does a
	// Parse of a name in use. PostgreSQL describes there what returns no rows, and
	// has better errors for some Parses; here either takes a copy on the server,
	// which it then no longer accepts.
	strict bool
	// halfway: a DISCARD ALL that is cancelled has dropped the statements.
	halfway bool
}

// cancelledDiscard is a DISCARD ALL that is cancelled.
const cancelledDiscard = "discard all -- cancelled"

// message is one of the protocol's, to a session. A Describe is of a statement,
// as is a Close; portals are unnamed.
type message struct{ typ, name, text string }

// answer is one message of a session: its type, and what matters of it.
type answer struct {
	typ  byte
	text string
}

func (a answer) String() string { return strings.TrimRight(string(a.typ)+" "+a.text, " ") }

func newSession() *session {
	return &session{named: map[string]string{}, status: protocol.StatusIdle}
}

func key(name string) string { return name[:min(len(name), 63)] }

// column is the name of the column of "select … as c17", empty for a text that
// returns no rows.
func column(text string) string {
	if _, c, ok := strings.Cut(text, " as "); ok {
		return c
	}
	return ""
}

func leavesBlock(text string) bool { return text == "rollback" }

func (s *session) fail(code string) []answer {
	if s.status == protocol.StatusBlock {
		s.status = protocol.StatusFailed
	}
	s.stale = true
	return []answer{{'E', code}}
}

// run takes one message and returns its answers.
func (s *session) run(m message) []answer {
	if m.typ == "S" {
		s.skip = false
		return s.ready()
	}
	if s.skip {
		return nil
	}
	if m.typ == "Q" {
		return s.query(m.text)
	}
	out := s.extended(m)
	if last := out[len(out)-1]; last.typ == 'E' {
		s.skip = true
		if s.status == protocol.StatusIdle {
			s.end()
		}
	}
	return out
}

func (s *session) ready() []answer {
	if s.status == protocol.StatusIdle {
		s.end()
	}
	return []answer{{'Z', string(s.status)}}
}

// end is the end of a transaction.
func (s *session) end() { s.portal, s.ran, s.stale = nil, false, false }

func (s *session) extended(m message) []answer {
	switch m.typ {
	case "P":
		return s.parse(m)
	case "B":
		text := s.find(m.name)
		switch {
		case text == nil:
			return s.fail(protocol.CodeInvalidSQLStatementName)
		case s.status == protocol.StatusFailed && !leavesBlock(*text):
			return s.fail("25P02")
		}
		s.portal, s.stale = text, false
		return []answer{{'2', ""}}
	case "E":
		switch {
		case s.portal == nil:
			return s.fail("34000")
		case s.status == protocol.StatusFailed && (s.stale || !leavesBlock(*s.portal)):
			return s.fail("25P02")
		}
		return s.execute(*s.portal, s.ran)
	case "D":
		text := s.find(m.name)
		switch {
		case text == nil:
			return s.fail(protocol.CodeInvalidSQLStatementName)
		case column(*text) == "" && !(s.strict && s.status == protocol.StatusFailed):
			return []answer{{'t', ""}, {'n', ""}}
		case s.status == protocol.StatusFailed:
			return s.fail("25P02")
		}
		return []answer{{'t', ""}, {'T', column(*text)}}
	case "C":
		if m.name == "" {
			s.unnamed = nil
		} else {
			delete(s.named, key(m.name))
		}
		return []answer{{'3', ""}}
	}
	panic(m.typ)
}

func (s *session) find(name string) *string {
	if name == "" {
		return s.unnamed
	}
	if text, ok := s.named[key(name)]; ok {
		return &text
	}
	return nil
}

func (s *session) parse(m message) []answer {
	if m.name == "" {
		s.unnamed = nil
	}
	switch {
	case s.strict && s.status == protocol.StatusFailed && m.name != "" && s.find(m.name) != nil:
		return s.fail("25P02")
	case strings.HasPrefix(m.text, "selec "):
		return s.fail("42601")
	case s.status == protocol.StatusFailed && !leavesBlock(m.text):
		return s.fail("25P02")
	case m.name == "":
		s.unnamed = &m.text
	case s.find(m.name) != nil:
		return s.fail("42P05")
	default:
		s.named[key(m.name)] = m.text
	}
	return []answer{{'1', ""}}
}

// execute runs one statement; inside says whether something of its transaction
// ran before it.
func (s *session) execute(text string, inside bool) []answer {
	tag := strings.ToUpper(text)
	switch name, isDeallocate := strings.CutPrefix(text, "deallocate "); {
	case text == "deallocate all":
		clear(s.named)
		s.ran = true
	case isDeallocate:
		name = strings.Trim(name, `"`)
		if s.find(name) == nil {
			return s.fail(protocol.CodeInvalidSQLStatementName)
		}
		delete(s.named, key(name))
		tag = "DEALLOCATE"
		s.ran = true
	case text == "discard all", text == cancelledDiscard:
		if s.status != protocol.StatusIdle || inside {
			return s.fail("25001")
		}
		if text == cancelledDiscard {
			if s.halfway {
				clear(s.named)
			}
			return s.fail(protocol.CodeQueryCanceled)
		}
		clear(s.named)
		s.end()
	case text == "begin":
		s.status = protocol.StatusBlock
	case text == "rollback":
		s.status = protocol.StatusIdle
		s.end()
	case strings.HasPrefix(text, "select 1/0"):
		return s.fail("22012")
	default:
		s.ran = true
		return []answer{{'D', column(text)}, {'C', "SELECT 1"}}
	}
	return []answer{{'C', tag}}
}

// query is a simple Query of statements that "; " parts.
func (s *session) query(text string) []answer {
	s.unnamed, s.portal = nil, nil
	var out []answer
	texts := strings.Split(text, "; ")
	for _, text := range texts {
		if strings.HasPrefix(text, "selec ") {
			return append(s.fail("42601"), s.ready()...)
		}
	}
	for _, text := range texts {
		if s.status == protocol.StatusFailed && !leavesBlock(text) {
			return append(append(out, s.fail("25P02")...), s.ready()...)
		}
		if c := column(text); c != "" && !strings.Contains(text, "1/0") {
			out = append(out, answer{'T', c})
		}
		out = append(out, s.execute(text, s.ran || len(texts) > 1)...)
		if out[len(out)-1].typ == 'E' {
			break
		}
	}
	if s.status == protocol.StatusIdle {
		s.end()
	}
	return append(out, s.ready()...)
}
