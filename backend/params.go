package backend

import (
	"bytes"

	"pgkinetic/protocol"
)

// Params are the parameters one backend reports (ParameterStatus), in the
// order of their first report. The zero value is an empty record. Owner: the
// loop that owns the backend.
//
// Each parameter has two values: *value* is what the server reported last,
// *base* what it had when the backend last carried no setting of a client, that
// is, after the login and after each confirmed batch (package session): what
// RESET brings back. gen changes whenever a value changes, so that "nothing was
// reported since" is one comparison.
//
// Invariants: names are unique without regard to ASCII case; at most maxParams
// parameters and maxParamBytes bytes of names and values. Buffers are reused:
// a report of a value seen before allocates nothing.
type Params struct {
	entries []param
	bytes   int
	gen     uint32
}

type param struct {
	name        string
	value, base []byte
	settable    bool
}

// Set records a ParameterStatus and says whether it changed a value. What
// exceeds the bounds is not recorded. name and value are copied.
func (p *Params) Set(name, value []byte) (changed bool) {
	changed, _ = p.put(name, value)
	return changed
}

func (p *Params) put(name, value []byte) (changed, kept bool) {
	for i := range p.entries {
		e := &p.entries[i]
		if !foldEqual(e.name, name) {
			continue
		}
		if bytes.Equal(e.value, value) {
			return false, true
		}
		if p.bytes-len(e.value)+len(value) > maxParamBytes {
			return false, false
		}
		p.bytes += len(value) - len(e.value)
		e.value = append(e.value[:0], value...)
		p.gen++
		return true, true
	}
	if len(p.entries) == maxParams || p.bytes+len(name)+len(value) > maxParamBytes {
		return false, false
	}
	e := param{name: internName(name), value: bytes.Clone(value), base: bytes.Clone(value)}
	e.settable = Settable(e.name)
	p.entries = append(p.entries, e)
	p.bytes += len(name) + len(value)
	p.gen++
	return true, true
}

// Len returns how many parameters are recorded.
func (p *Params) Len() int { return len(p.entries) }

// At returns the i-th parameter. The slices are valid until the next Set or
// Rebase.
func (p *Params) At(i int) (name string, value, base []byte) {
	e := &p.entries[i]
	return e.name, e.value, e.base
}

// SettableAt is Settable of the i-th parameter's name.
func (p *Params) SettableAt(i int) bool { return p.entries[i].settable }

// Rebase makes the i-th parameter's value its base.
func (p *Params) Rebase(i int) {
	e := &p.entries[i]
	e.base = append(e.base[:0], e.value...)
}

// rebaseAll makes every value its base: the login is complete.
func (p *Params) rebaseAll() {
	for i := range p.entries {
		p.Rebase(i)
	}
}

// Gen returns a number that changes whenever a value changes.
func (p *Params) Gen() uint32 { return p.gen }

// Get returns the value of a parameter, looked up without regard to case. The
// slice is valid until the next Set.
func (p *Params) Get(name string) (value []byte, ok bool) {
	for i := range p.entries {
		if e := &p.entries[i]; len(e.name) == len(name) && fold(e.name, name) {
			return e.value, true
		}
	}
	return nil, false
}

// Each calls f with every parameter and its value, in order. The slice is only
// valid during the call.
func (p *Params) Each(f func(name string, value []byte)) {
	for i := range p.entries {
		f(p.entries[i].name, p.entries[i].value)
	}
}

// AppendAll appends one ParameterStatus per parameter.
func (p *Params) AppendAll(dst []byte) []byte {
	for i := range p.entries {
		dst = protocol.AppendParameterStatus(dst, p.entries[i].name, string(p.entries[i].value))
	}
	return dst
}

// The parameters that PostgreSQL 12 to 18 report, so that their names are not
// allocated per backend. Settable: a client may set it at startup or by SET.
// The others are the server's own facts.
var reported = [...]struct {
	name     string
	settable bool
}{
	{"application_name", true},
	{"client_encoding", true},
	{"DateStyle", true},
	{"default_transaction_read_only", true},
	{"in_hot_standby", false},
	{"integer_datetimes", false},
	{"IntervalStyle", true},
	{"is_superuser", false},
	{"scram_iterations", true},
	{"search_path", true},
	{"server_encoding", false},
	{"server_version", false},
	{"session_authorization", false},
	{"standard_conforming_strings", true},
	{"TimeZone", true},
}

// Settable says whether a reported parameter is a setting of the session (true)
// or a fact of the server and its login (false). Unknown names, such as those
// of extensions, are settable.
func Settable(name string) bool {
	for i := range reported {
		if r := &reported[i]; len(r.name) == len(name) && fold(r.name, name) {
			return r.settable
		}
	}
	return true
}

func internName(name []byte) string {
	for i := range reported {
		if reported[i].name == string(name) {
			return reported[i].name
		}
	}
	return string(name)
}

func foldEqual(a string, b []byte) bool {
	return len(a) == len(b) && fold(a, b)
}

// fold compares two names of equal length as PostgreSQL compares names of
// parameters: A to Z are a to z.
func fold[T string | []byte](a string, b T) bool {
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
