package console

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// The extended protocol: prepared statements and portals.

// Drivers keep some hundred prepared statements on a connection (pgx 512).
const (
	statementsMax = 1024
	textsMax      = 1 << 20 // bytes of the texts of all of them
	portalsMax    = 64
	nameMax       = 1024 // bytes of a statement's or a portal's name, and of a parameter's value
	// resultsMax of the portals may have rows that have not been taken: those of a long
	// view are some megabytes.
	resultsMax = 4
)

// statements are the prepared ones by name.
type statements struct {
	byName map[string]*prepared
	texts  int // bytes
}

// prepared is one of them.
type prepared struct {
	statement *statement // nil: the empty one
	text      int        // bytes
}

func (s *statements) add(name string, p *prepared) error {
	if _, there := s.byName[name]; there && name != "" {
		return &problem{code: codeDoubleStatement, message: fmt.Sprintf("prepared statement %q already exists", name)}
	}
	s.close(name)
	if len(s.byName) == statementsMax || s.texts+p.text > textsMax {
		return &problem{
			code:    codeTooMany,
			message: "too many prepared statements in this console session",
			detail:  fmt.Sprintf("It keeps at most %d, with texts of at most %d bytes together.", statementsMax, textsMax),
		}
	}
	if s.byName == nil {
		s.byName = map[string]*prepared{}
	}
	s.byName[name] = p
	s.texts += p.text
	return nil
}

// close forgets one; ok tells whether it was there.
func (s *statements) close(name string) (ok bool) {
	p, ok := s.byName[name]
	if ok {
		s.texts -= p.text
		delete(s.byName, name)
	}
	return ok
}

func (s *statements) clear() { *s = statements{} }

func noStatement(name string) *problem {
	return &problem{code: codeNoStatement, message: fmt.Sprintf("prepared statement %q does not exist", shortened(name))}
}

func noPortal(name string) *problem {
	return &problem{code: codeNoCursor, message: fmt.Sprintf("portal %q does not exist", shortened(name))}
}

// extended answers one message of the extended protocol.
func (s *session) extended(m pgproto3.FrontendMessage) error {
	switch m := m.(type) {
	case *pgproto3.Parse:
		return s.prepare(m)
	case *pgproto3.Bind:
		return s.bind(m)
	case *pgproto3.Describe:
		return s.describe(m)
	case *pgproto3.Execute:
		return s.run(m)
	case *pgproto3.Close:
		if m.ObjectType == protocol.TargetStatement {
			s.statements.close(m.Name)
		} else {
			s.closePortal(m.Name)
		}
		s.send(&pgproto3.CloseComplete{})
	}
	return nil
}

func (s *session) prepare(m *pgproto3.Parse) error {
	if err := checkName(m.Name); err != nil {
		return err
	}
	all, err := s.parse(m.Query)
	switch {
	case err != nil:
		return err
	case len(all) > 1:
		return syntaxError("cannot insert multiple commands into a prepared statement")
	case len(m.ParameterOIDs) > 0:
		return noParameters()
	}
	p := &prepared{text: len(m.Query)}
	if len(all) == 1 {
		p.statement = all[0]
	}
	if err := s.allowed(p.statement); err != nil {
		return err
	}
	if err := s.statements.add(m.Name, p); err != nil {
		return err
	}
	s.send(&pgproto3.ParseComplete{})
	return nil
}

// checkName keeps what a session remembers small.
func checkName(name string) error {
	if len(name) > nameMax {
		return &problem{code: codeTooMany, message: fmt.Sprintf("the console takes names of up to %d bytes", nameMax)}
	}
	return nil
}

func noParameters() *problem {
	return &problem{code: codeUnsupported, message: "commands of the console take no parameters", hint: "Write values into the text of the command."}
}

func (s *session) bind(m *pgproto3.Bind) error {
	p, ok := s.statements.byName[m.PreparedStatement]
	switch {
	case !ok:
		return noStatement(m.PreparedStatement)
	case len(m.Parameters) > 0:
		return noParameters()
	}
	if err := s.allowed(p.statement); err != nil {
		return err
	}
	if err := checkFormats(m.ResultFormatCodes, p.statement); err != nil {
		return err
	}
	if err := checkName(m.DestinationPortal); err != nil {
		return err
	}
	if _, there := s.portals[m.DestinationPortal]; there && m.DestinationPortal != "" {
		return &problem{code: codeDoubleCursor, message: fmt.Sprintf("portal %q already exists", m.DestinationPortal)}
	}
	s.closePortal(m.DestinationPortal)
	if len(s.portals) == portalsMax {
		return &problem{code: codeTooMany, message: "too many portals in this console session", detail: fmt.Sprintf("It keeps at most %d.", portalsMax)}
	}
	s.portals[m.DestinationPortal] = &portal{statement: p.statement, formats: m.ResultFormatCodes}
	s.send(&pgproto3.BindComplete{})
	return nil
}

// checkFormats tells whether the format codes are ones, and as many as there may be.
func checkFormats(codes []int16, st *statement) error {
	for _, c := range codes {
		if c != pgproto3.TextFormat && c != pgproto3.BinaryFormat {
			return &problem{code: codeInvalidValue, message: fmt.Sprintf("invalid format code: %d", c)}
		}
	}
	if st != nil && st.fields != nil && len(codes) > 1 && len(codes) != len(st.fields) {
		return &problem{
			code:    codeProtocol,
			message: fmt.Sprintf("bind message has %d result formats but query has %d columns", len(codes), len(st.fields)),
		}
	}
	return nil
}

func (s *session) describe(m *pgproto3.Describe) error {
	var st *statement
	var f formats
	if m.ObjectType == protocol.TargetStatement {
		p, ok := s.statements.byName[m.Name]
		if !ok {
			return noStatement(m.Name)
		}
		st = p.statement
		s.send(&pgproto3.ParameterDescription{})
	} else {
		p, ok := s.portals[m.Name]
		if !ok {
			return noPortal(m.Name)
		}
		st, f = p.statement, p.formats
	}
	if st == nil || st.fields == nil {
		s.send(&pgproto3.NoData{})
	} else {
		s.send(rowDescription(st.fields, f))
	}
	return nil
}

func (s *session) run(m *pgproto3.Execute) error {
	p, ok := s.portals[m.Portal]
	if !ok {
		return noPortal(m.Portal)
	}
	if p.statement == nil {
		s.out = protocol.AppendEmptyQuery(s.out)
		return nil
	}
	return s.execute(p, m.MaxRows)
}

func (s *session) closePortal(name string) {
	if p, ok := s.portals[name]; ok {
		p.close()
		delete(s.portals, name)
	}
}

func (s *session) closePortals() {
	for name := range s.portals {
		s.closePortal(name)
	}
}
