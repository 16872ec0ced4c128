package statements

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"regexp"
	"unsafe"

	"pgkinetic/protocol/sqllex"
)

// Statement is one text with its parameter types, as a Parse message says them.
// Immutable; equal ones from one Store share one pointer while anybody holds it,
// so comparing statements is comparing pointers. Any goroutine may read it.
type Statement struct {
	body        []byte // Parse without its name: text, NUL, int16 n, n × int32
	text        int    // length of the text
	hash        uint64 // of body
	environment Environment
	lexed       sqllex.Result
	ops         []sqllex.Op
	dependent   bool // parsing it looks at the environment
	own         bool
}

// Unkept stands for an unnamed statement whose text is not kept: it exists on the
// server that parsed it, and nowhere else.
var Unkept = &Statement{own: true}

// Kept tells whether the text is there to be parsed on another server.
func (s *Statement) Kept() bool { return s != Unkept }

// Own tells that a Statement belongs to the one Parse that it was made for: what it
// describes depends on the session at that moment (columns of the cursor that FETCH
// names, of the statement that EXECUTE names). An equal body gives another Statement,
// and no other Environment does.
func (s *Statement) Own() bool { return s.own }

// Body returns the Parse message's body behind the name: the text, its NUL, and
// the parameter types. It is not to be changed; it lives as long as the Statement.
func (s *Statement) Body() []byte { return s.body }

// Text returns the SQL text without its NUL, under the rules of Body.
func (s *Statement) Text() []byte { return s.body[:s.text:s.text] }

// Lexed returns what the lexer said of the text.
func (s *Statement) Lexed() sqllex.Result { return s.lexed }

// Flags returns the lexer's flags.
func (s *Statement) Flags() sqllex.Flags { return s.lexed.Flags }

// Ops returns the operations of the text on the session, if its flags show any.
// Their spans are those of Text. They are not to be changed.
func (s *Statement) Ops() []sqllex.Op { return s.ops }

// MayCopy tells whether the text may be COPY FROM STDIN.
func (s *Statement) MayCopy() bool { return s.lexed.Flags&sqllex.CopyFromStdin != 0 }

// Size is what the Statement counts for wherever bytes are bounded.
func (s *Statement) Size() int {
	return len(s.body) + int(unsafe.Sizeof(*s)) + cap(s.ops)*int(unsafe.Sizeof(sqllex.Op{}))
}

func newStatement(body []byte, text int, hash uint64) *Statement {
	st := &Statement{body: bytes.Clone(body), text: text, hash: hash}
	st.lexed = sqllex.Scan(st.Text())
	st.dependent = dependsOnEnvironment(st.Text())
	st.own = st.lexed.Flags&sqllex.Execute != 0 || fetches.Match(st.Text())
	if st.lexed.Flags&(sqllex.OpTransaction|sqllex.OpSession) != 0 {
		st.ops = sqllex.AppendOps(nil, st.Text())
	}
	return st
}

// fetches matches a text that is FETCH, whatever comments are before it.
var fetches = regexp.MustCompile(`(?is)^(\s|;|--[^\r\n]*[\r\n]|/\*.*?\*/)*fetch\b`)

// is tells whether the Statement has this body in this environment.
func (s *Statement) is(env Environment, body []byte) bool {
	return bytes.Equal(s.body, body) && s.under(env)
}

// under tells whether the Statement means in this environment what it says here.
func (s *Statement) under(env Environment) bool {
	return s.own || s.environment.names == env.names && (!s.dependent || s.environment.text == env.text)
}

// wellFormed returns the length of the text in a Parse's body behind the name;
// ok is false for what PostgreSQL answers with 08P01.
func wellFormed(body []byte) (text int, ok bool) {
	text = bytes.IndexByte(body, 0)
	if text < 0 || len(body)-text < 3 {
		return 0, false
	}
	types := body[text+1:]
	return text, len(types) == 2+4*int(binary.BigEndian.Uint16(types))
}

// EnvironmentSettings are the parameters that decide what a text means once it
// is parsed: its encoding, where its strings end, and what its literals are
// (PostgreSQL makes a constant of '1/2/2026'::date when it parses).
var EnvironmentSettings = [...]string{
	"array_nulls", "backslash_quote", "client_encoding", "datestyle", "intervalstyle", "lc_monetary",
	"standard_conforming_strings", "timezone", "transform_null_equals", "xmloption",
}

// NameSettings are the parameters that decide what the names in a text mean.
// PostgreSQL looks names up anew when the path has changed, but the types of the
// parameters, and those of the columns, stay what they were at first: a copy made
// in one schema fails in another whose tables differ. The path may hold "$user",
// so the role counts.
var NameSettings = [...]string{"role", "search_path", "session_authorization"}

// Environment is the values of EnvironmentSettings and NameSettings that a client
// asked for. The zero value is that of a client which asked for none.
//
// It is part of a Statement's identity, the former where the text depends on them,
// so that a copy on a server is used only by clients in whose settings it means the
// same.
type Environment struct {
	text  string
	names string
	// of text and of names, 0 of none
	hash, namesHash uint64
}

var seed = maphash.MakeSeed()

// NewEnvironment asks for each of EnvironmentSettings, whose names are in lower
// case; value says false for a parameter that the client did not set. It
// allocates: call it when the settings change, not for each statement.
func NewEnvironment(value func(name string) (string, bool)) Environment {
	text, names := settingsOf(EnvironmentSettings[:], value), settingsOf(NameSettings[:], value)
	return Environment{}.with(text, names)
}

// Alone returns the environment of a client whose names mean what they mean to
// nobody else, as long as unique stays the same: that of one with temporary tables.
func (e Environment) Alone(unique string) Environment { return e.with(e.text, unique) }

func (Environment) with(text, names string) (e Environment) {
	e.text, e.names = text, names
	if text != "" {
		e.hash = maphash.String(seed, text) | 1
	}
	if names != "" {
		e.namesHash = maphash.String(seed, names) | 1
	}
	return e
}

func (e *Environment) mixed() uint64 { return e.hash ^ e.namesHash }

func settingsOf(settings []string, value func(name string) (string, bool)) string {
	var b []byte
	for _, name := range settings {
		if v, ok := value(name); ok {
			b = append(append(append(append(b, name...), 0), v...), 0)
		}
	}
	return string(b)
}

// dependsOnEnvironment decides in the safe direction: without a literal, a
// character beyond ASCII or NULL the settings above do not matter.
func dependsOnEnvironment(sql []byte) bool {
	for i, c := range sql {
		switch {
		case c == '\'' || c >= 0x80:
			return true
		case c == '$' && (i+1 == len(sql) || sql[i+1] < '0' || sql[i+1] > '9'):
			return true
		case c|0x20 == 'n' && i+4 <= len(sql) && sql[i+1]|0x20 == 'u' && sql[i+2]|0x20 == 'l' && sql[i+3]|0x20 == 'l':
			return true
		}
	}
	return false
}
