package console

import (
	"fmt"
	"slices"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// The parameters of a session that drivers set, ask for or want to be told. They
// are kept, reported and shown as PostgreSQL would, and change nothing else: the
// console has no use for them.

// parameter is what is known of one of them.
type parameter struct {
	name     string // as PostgreSQL writes it
	value    string // now
	start    string // since the session's start: RESET leads back to it
	reported bool   // by ParameterStatus
	fixed    bool   // it cannot be set to anything else
}

// serverVersion is what drivers are told. They decide by it what they may send, so
// it is one of PostgreSQL's; an old one, since psql warns of servers newer than it.
const serverVersion = "14.0"

// parametersOf are those of a session, in the order in which they are reported,
// with the values that it asked for at its start. What it asked for and the console
// does not know, or cannot do, is passed over: no login fails by a driver's habit.
func parametersOf(s *Session) []parameter {
	onOff := map[bool]string{true: "on", false: "off"}
	all := []parameter{
		{name: "server_version", value: serverVersion + " (pg-kinetic " + s.Version + ")", reported: true, fixed: true},
		{name: "server_encoding", value: "UTF8", reported: true, fixed: true},
		{name: "client_encoding", value: "UTF8", reported: true, fixed: true},
		{name: "integer_datetimes", value: "on", reported: true, fixed: true},
		{name: "standard_conforming_strings", value: "on", reported: true, fixed: true},
		{name: "is_superuser", value: onOff[s.Admin], reported: true, fixed: true},
		{name: "session_authorization", value: s.User, reported: true, fixed: true},
		{name: "role", value: "none", fixed: true},
		{name: "in_hot_standby", value: "off", reported: true, fixed: true},
		{name: "default_transaction_read_only", value: "off", reported: true},
		{name: "application_name", reported: true},
		{name: "DateStyle", value: "ISO, MDY", reported: true},
		{name: "IntervalStyle", value: "postgres", reported: true},
		{name: "TimeZone", value: "UTC", reported: true},
		{name: "bytea_output", value: "hex"},
		{name: "client_min_messages", value: "notice"},
		{name: "default_transaction_deferrable", value: "off"},
		{name: "default_transaction_isolation", value: "read committed"},
		{name: "extra_float_digits", value: "1"},
		{name: "idle_in_transaction_session_timeout", value: "0"},
		{name: "idle_session_timeout", value: "0"},
		{name: "jit", value: "off"},
		{name: "lc_messages", value: "C"},
		{name: "lc_monetary", value: "C"},
		{name: "lc_numeric", value: "C"},
		{name: "lc_time", value: "C"},
		{name: "lock_timeout", value: "0"},
		{name: "plan_cache_mode", value: "auto"},
		{name: "row_security", value: "on"},
		{name: "search_path", value: "\"$user\", public"},
		{name: "statement_timeout", value: "0"},
		{name: "synchronous_commit", value: "on"},
		{name: "transaction_deferrable", value: "off"},
		{name: "transaction_isolation", value: "read committed"},
		{name: "transaction_read_only", value: "off"},
	}
	for _, given := range s.Params {
		if p := find(all, given.Name); p != nil && !p.fixed && len(given.Value) <= nameMax {
			p.value = given.Value
		}
	}
	for i := range all {
		all[i].start = all[i].value
	}
	return all
}

// find is the parameter of that name, whatever its case; nil for none.
func find(all []parameter, name string) *parameter {
	i := slices.IndexFunc(all, func(p parameter) bool { return strings.EqualFold(p.name, name) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// report sends a parameter's value if it is one of those that are reported.
func (s *session) report(p *parameter) {
	if p.reported {
		s.out = protocol.AppendParameterStatus(s.out, p.name, p.value)
	}
}

// set changes a parameter. A fixed one takes the value that it has, however it is
// written, since many drivers make sure of it.
func (s *session) set(p *parameter, value string) error {
	if p.fixed && !same(p.value, value) {
		return &problem{
			code:    codeInvalidValue,
			message: fmt.Sprintf("%s is %q in the console and cannot be changed", p.name, p.value),
		}
	}
	if !p.fixed && p.value != value {
		p.value = value
		s.report(p)
	}
	return nil
}

// same tells whether a value means the one that a fixed parameter has.
func same(fixed, value string) bool {
	value = strings.Trim(strings.ToLower(value), "'")
	switch fixed = strings.ToLower(fixed); fixed {
	case "utf8":
		return value == fixed || value == "utf-8" || value == "unicode"
	case "on":
		return value == fixed || value == "true" || value == "yes" || value == "1"
	}
	return value == fixed
}

// parameterNamed is the parameter of that name.
func (p *parser) parameterNamed(name string) (*parameter, error) {
	if found := find(p.s.parameters, name); found != nil {
		return found, nil
	}
	known := make([]string, 0, len(p.s.parameters))
	for _, k := range p.s.parameters {
		known = append(known, k.name)
	}
	for _, o := range configs.Options() {
		if o.Section == "capacity" || o.Section == "admission" {
			known = append(known, o.Path())
		}
	}
	problem := unknown("parameter", name, known)
	problem.code, problem.hint = codeUnknownParameter, "Limits of the pooler are set by their section and name: SET capacity.max_route_in_flight = 8."
	return nil, problem
}

// setParameter reads what follows SET where it is no limit of the pooler.
func (p *parser) setParameter() (*statement, error) {
	if !p.acceptAny("SESSION", "LOCAL") && p.accept("TRANSACTION") || p.accept("CHARACTERISTICS") {
		return p.ignored("SET")
	}
	for word, name := range map[string]string{"NAMES": "client_encoding", "AUTHORIZATION": "session_authorization", "ROLE": "role"} {
		if p.accept(word) {
			p.acceptAny("=", "TO") // role is a parameter's name, too
			return p.setTo(name)
		}
	}
	if p.accept("TIME") {
		if err := p.expect("ZONE"); err != nil {
			return nil, err
		}
		return p.setTo("TimeZone")
	}
	name, err := p.nameOf("a parameter")
	if err != nil {
		return nil, err
	}
	if !p.acceptAny("=", "TO") {
		return nil, unexpected(p.peek())
	}
	return p.setTo(name)
}

// setTo reads the values of a parameter.
func (p *parser) setTo(name string) (*statement, error) {
	of, err := p.parameterNamed(name)
	if err != nil {
		return nil, err
	}
	reset := p.peek().is("DEFAULT")
	var values []string
	for {
		value, err := p.nameOf("a value")
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if !p.accept(",") {
			break
		}
	}
	return &statement{run: func(s *session, _ *command) (result, error) {
		value := strings.Join(values, ", ")
		if reset {
			value = of.start
		}
		if len(value) > nameMax {
			return result{}, &problem{code: codeTooMany, message: fmt.Sprintf("the console keeps values of up to %d bytes", nameMax)}
		}
		if err := s.set(of, value); err != nil {
			return result{}, err
		}
		return done("SET")
	}}, nil
}

// parseReset reads what follows RESET.
func parseReset(p *parser) (*statement, error) {
	if p.accept("ALL") {
		return &statement{run: func(s *session, _ *command) (result, error) { s.resetAll(); return done("RESET") }}, nil
	}
	name, err := p.parameterName()
	if err != nil {
		return nil, err
	}
	of, err := p.parameterNamed(name)
	if err != nil {
		return nil, err
	}
	return &statement{run: func(s *session, _ *command) (result, error) {
		if err := s.set(of, of.start); err != nil {
			return result{}, err
		}
		return done("RESET")
	}}, nil
}

func (s *session) resetAll() {
	for i := range s.parameters {
		if p := &s.parameters[i]; p.value != p.start {
			p.value = p.start
			s.report(p)
		}
	}
}

// parameterName reads a parameter's name, or the words that stand for one.
func (p *parser) parameterName() (string, error) {
	for _, long := range []struct {
		words []string
		name  string
	}{
		{[]string{"TIME", "ZONE"}, "TimeZone"},
		{[]string{"TRANSACTION", "ISOLATION", "LEVEL"}, "transaction_isolation"},
		{[]string{"SESSION", "AUTHORIZATION"}, "session_authorization"},
	} {
		if p.accept(long.words[0]) {
			for _, w := range long.words[1:] {
				if err := p.expect(w); err != nil {
					return "", err
				}
			}
			return long.name, nil
		}
	}
	return p.nameOf("a parameter")
}

// showParameter makes the statement that shows a parameter's value.
func showParameter(of *parameter) *statement {
	fields := []field{{of.name, view.Text}}
	return &statement{fields: fields, run: func(*session, *command) (result, error) {
		return result{tag: "SHOW", rows: oneRow(datum{text: of.value})}, nil
	}}
}
