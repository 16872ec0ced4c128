package console

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"pgkinetic/admin/view"
)

// The few SELECTs by which drivers and pools try a connection or ask whom they have
// reached: constants and functions without arguments worth the name.

// datum is a value of a SELECT.
type datum struct {
	kind view.Kind // Text, Integer or Bool
	text string    // in PostgreSQL's text format
	null bool
}

// tuple is the row of a SELECT.
type tuple []datum

func (t tuple) value(dst []byte, i int, inBinary bool) ([]byte, bool) {
	d := t[i]
	switch {
	case d.null:
		return dst, false
	case inBinary && d.kind == view.Bool:
		return append(dst, map[string]byte{"t": 1, "f": 0}[d.text]), true
	case inBinary && d.kind == view.Integer:
		n, _ := strconv.ParseInt(d.text, 10, 64) // it was one when it was read
		return binary.BigEndian.AppendUint64(dst, uint64(n)), true
	}
	return append(dst, d.text...), true
}

func oneRow(values ...datum) iter.Seq[row] { return slices.Values([]row{tuple(values)}) }

// functions are those that a SELECT may call; with parentheses or, where SQL has it
// so, without.
var functions = map[string]func(*session) datum{
	"version":                func(s *session) datum { return datum{text: "PostgreSQL " + find(s.parameters, "server_version").value} },
	"current_database":       func(s *session) datum { return datum{text: s.Database} },
	"current_catalog":        func(s *session) datum { return datum{text: s.Database} },
	"current_schema":         func(*session) datum { return datum{text: "public"} },
	"current_user":           func(s *session) datum { return datum{text: s.User} },
	"current_role":           func(s *session) datum { return datum{text: s.User} },
	"session_user":           func(s *session) datum { return datum{text: s.User} },
	"user":                   func(s *session) datum { return datum{text: s.User} },
	"pg_backend_pid":         func(s *session) datum { return datum{kind: view.Integer, text: strconv.FormatUint(uint64(s.PID), 10)} },
	"pg_is_in_recovery":      func(*session) datum { return datum{kind: view.Bool, text: "f"} },
	"pg_advisory_unlock_all": func(*session) datum { return datum{} },
}

// columnsMax bounds a SELECT: one of constants takes many times its text in memory.
const columnsMax = 100

// parseSelect reads what follows SELECT.
func parseSelect(p *parser) (*statement, error) {
	var fields []field
	var values []func(*session) datum
	for {
		f, value, err := p.selected()
		if err != nil {
			return nil, err
		}
		if len(fields) == columnsMax {
			return nil, &problem{code: codeTooMany, message: fmt.Sprintf("the console gives at most %d columns", columnsMax)}
		}
		fields, values = append(fields, f), append(values, value)
		if !p.accept(",") {
			break
		}
	}
	if p.more() {
		return nil, noQueries()
	}
	return &statement{fields: fields, run: func(s *session, _ *command) (result, error) {
		t := make(tuple, len(values))
		for i, value := range values {
			t[i] = value(s)
		}
		return result{tag: "SELECT 1", rows: slices.Values([]row{t})}, nil
	}}, nil
}

// selected reads one column of a SELECT, with its name.
func (p *parser) selected() (field, func(*session) datum, error) {
	f, value, err := p.expression()
	if err != nil {
		return f, nil, err
	}
	t := p.peek()
	if p.accept("AS") || t.kind == tokenQuoted || t.kind == tokenWord && !t.is("FROM") && !t.is("WHERE") {
		if f.name, err = p.nameOf("a name"); err != nil {
			return f, nil, err
		}
	}
	return f, value, nil
}

func (p *parser) expression() (field, func(*session) datum, error) {
	t := p.next()
	constant := func(d datum) (field, func(*session) datum, error) {
		return field{"?column?", d.kind}, func(*session) datum { return d }, nil
	}
	if t.kind == tokenString {
		return constant(datum{text: t.text})
	}
	if t.kind != tokenWord {
		return field{}, nil, noQueries()
	}
	if n, err := strconv.ParseInt(t.text, 10, 64); err == nil {
		return constant(datum{kind: view.Integer, text: strconv.FormatInt(n, 10)})
	}
	name := strings.ToLower(t.text)
	switch name {
	case "null":
		return constant(datum{null: true})
	case "true", "false":
		f, value, err := constant(datum{kind: view.Bool, text: name[:1]})
		f.name = "bool"
		return f, value, err
	case "current_setting", "pg_catalog.current_setting":
		return p.currentSetting()
	}
	function, ok := functions[strings.TrimPrefix(name, "pg_catalog.")]
	if !ok {
		return field{}, nil, noQueries()
	}
	if p.accept("(") {
		if err := p.expect(")"); err != nil {
			return field{}, nil, err
		}
	}
	name = strings.TrimPrefix(name, "pg_catalog.")
	return field{name, function(p.s).kind}, function, nil
}

// currentSetting reads the arguments of current_setting.
func (p *parser) currentSetting() (field, func(*session) datum, error) {
	if err := p.expect("("); err != nil {
		return field{}, nil, err
	}
	name, err := p.nameOf("a parameter")
	if err != nil {
		return field{}, nil, err
	}
	missingOK := p.accept(",") && p.acceptAny("true")
	if err := p.expect(")"); err != nil {
		return field{}, nil, err
	}
	of := find(p.s.parameters, name)
	if of == nil && !missingOK {
		_, err := p.parameterNamed(name)
		return field{}, nil, err
	}
	return field{"current_setting", view.Text}, func(*session) datum {
		if of == nil {
			return datum{null: true}
		}
		return datum{text: of.value}
	}, nil
}

func noQueries() *problem {
	return &problem{
		code: codeUnsupported, message: "the console runs its own commands, not queries",
		detail: fmt.Sprintf("Beside them it answers SELECT of constants and of %s.", strings.Join(functionNames(), ", ")), hint: hintHelp,
	}
}

func functionNames() []string {
	names := []string{"current_setting"}
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
