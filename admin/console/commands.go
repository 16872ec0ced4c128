package console

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
)

// commandOf is one command of the console.
type commandOf struct {
	word  string
	usage string // for SHOW HELP and the documentation; one line each
	about string
	stats bool // statistics users may use it
	parse func(*parser) (*statement, error)
}

// commands are all of them, in the order of SHOW HELP. What drivers send beside is
// in dialogue.
var commands []commandOf

func init() { // a variable's initial value could not refer to itself, as unknown words do
	commands = []commandOf{
		{"SHOW", "SHOW view", "a view, see below", true, parseShow},
		{"PAUSE", "PAUSE [db]\nPAUSE ROUTE name", "Nothing more is begun, in the process, in a database or on a route; returns when nothing is in flight there. " +
			"Clients wait, at most for `capacity.pause_timeout_ms`.", false, parsePause},
		{"RESUME", "RESUME [db]\nRESUME ROUTE name", "Ends PAUSE, KILL and SUSPEND.", false, parseResume},
		{
			"RECONNECT", "RECONNECT [db]", "Servers are closed, and opened anew where they are needed, as soon as they are released.", false,
			database("RECONNECT", false, (*session).reconnect),
		},
		{
			"WAIT_CLOSE", "WAIT_CLOSE [db]", "Returns when the servers that RECONNECT or a reload has condemned are closed.", false,
			waiting(database("WAIT_CLOSE", false, (*session).waitClose)),
		},
		{"KILL", "KILL db", "Pauses a database and closes its clients and servers at once.", false, database("KILL", true, (*session).kill)},
		{"KILL_CLIENT", "KILL_CLIENT id", "Closes the client with this `id` of SHOW CLIENTS.", false, parseKillClient},
		{
			"DISCONNECT", "DISCONNECT db", "Closes the clients that a database has now, each when its transaction has ended, so that they connect anew.", false,
			database("DISCONNECT", true, (*session).disconnect),
		},
		{"DISABLE", "DISABLE db", "New logins to a database are refused.", false, database("DISABLE", true, (*session).disable)},
		{"ENABLE", "ENABLE db", "Ends DISABLE.", false, database("ENABLE", true, (*session).enable)},
		{
			"SUSPEND", "SUSPEND", "Stops reading from clients; returns when everything buffered has been passed on.", false,
			waiting(plain("SUSPEND", (*session).suspend)),
		},
		{
			"RELOAD", "RELOAD", "Reads the settings again. Notices tell what does not hold until a restart. An error: nothing has changed.", false,
			plain("RELOAD", (*session).reload),
		},
		{"SHUTDOWN", "SHUTDOWN\nSHUTDOWN WAIT_FOR_CLIENTS\nSHUTDOWN WAIT_FOR_SERVERS", "Ends the process: at once; when clients have reached a transaction boundary and been " +
			"told to go, at most after `drain.timeout_ms`; when servers are released.", false, parseShutdown},
		{"SET", "SET section.setting = value\nSET ROUTE name setting = value", "Changes a limit, or a setting of a route, until the next reload.", false, parseSet},
		{
			"EXPLAIN", "EXPLAIN ADMISSION database=… user=… [application_name=…] [client_addr=…] [query='…']",
			"What a request would meet now: its route and rule, the limits and where they come from, whether it would be admitted, wait or be refused.", true, parseExplain,
		},
	}
}

// unknown is the error for a name that is none of the known ones.
func unknown(what, name string, known []string) *problem {
	p := syntaxError("unknown %s %q", what, shortened(name))
	if near := configs.Nearest(name, known); near != "" {
		p.message += fmt.Sprintf("; nearest: %s", near)
	}
	return p
}

// forbidden is the error for a statistics user's command.
func forbidden(command string) *problem {
	return &problem{
		code: codeForbidden, message: "permission denied: " + command + " is for users of admin.users",
		detail: "Users of admin.stats_users may use SHOW, except SHOW FDS, and EXPLAIN.",
	}
}

// act makes the statement of a command of users of admin.users without rows.
func act(tag string, run func(*session, *command) error) *statement {
	return &statement{admin: true, run: func(s *session, c *command) (result, error) {
		if all, _ := s.rights(); !all {
			return result{}, forbidden(tag)
		}
		if err := run(s, c); err != nil {
			return result{}, problemOf(err, codeNotInThatState)
		}
		return done(tag)
	}}
}

type parse func(*parser) (*statement, error)

// plain reads a command without arguments.
func plain(word string, run func(*session, *command) error) parse {
	return func(*parser) (*statement, error) { return act(word, run), nil }
}

// waiting marks the statement as one that may take long.
func waiting(read parse) parse {
	return func(p *parser) (*statement, error) {
		st, err := read(p)
		if err == nil {
			st.waits = true
		}
		return st, err
	}
}

// database reads a command with the name of a database, which may be left out
// unless it is needed.
func database(word string, needed bool, run func(*session, *command, string) error) parse {
	return func(p *parser) (*statement, error) {
		name := ""
		if needed || p.more() {
			var err error
			if name, err = p.nameOf("a database"); err != nil {
				return nil, err
			}
		}
		return act(word, func(s *session, c *command) error { return run(s, c, name) }), nil
	}
}

func (s *session) reconnect(_ *command, db string) error  { return s.Control.Reconnect(db) }
func (s *session) waitClose(c *command, db string) error  { return s.Control.WaitClose(c.ctx, db) }
func (s *session) kill(_ *command, db string) error       { return s.Control.Kill(db) }
func (s *session) disconnect(_ *command, db string) error { return s.Control.Disconnect(db) }
func (s *session) disable(_ *command, db string) error    { return s.Control.Disable(db) }
func (s *session) enable(_ *command, db string) error     { return s.Control.Enable(db) }
func (s *session) suspend(c *command) error               { return s.Control.Suspend(c.ctx) }

func (s *session) reload(*command) error {
	notices, err := s.Control.Reload()
	for _, n := range notices {
		s.notice(&problem{code: codeSuccess, message: n})
	}
	if err != nil {
		return problemOf(err, codeConfigFile)
	}
	return nil
}

// scope reads what PAUSE and RESUME are about.
func (p *parser) scope() (view.Scope, error) {
	if !p.more() {
		return view.Scope{}, nil
	}
	if p.accept("ROUTE") {
		name, err := p.nameOf("a route")
		return view.Scope{Route: name}, err
	}
	name, err := p.name()
	return view.Scope{Database: name}, err
}

func parsePause(p *parser) (*statement, error) {
	scope, err := p.scope()
	st := act("PAUSE", func(s *session, c *command) error { return s.Control.Pause(c.ctx, scope) })
	st.waits = true
	return st, err
}

func parseResume(p *parser) (*statement, error) {
	scope, err := p.scope()
	return act("RESUME", func(s *session, _ *command) error { return s.Control.Resume(scope) }), err
}

func parseKillClient(p *parser) (*statement, error) {
	name, err := p.nameOf("a client's id")
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return nil, &problem{
			code: codeInvalidValue, message: fmt.Sprintf("%q is no client's id", shortened(name)),
			hint: "SHOW CLIENTS has them in the column id.",
		}
	}
	return act("KILL_CLIENT", func(s *session, _ *command) error { return s.Control.KillClient(id) }), nil
}

func parseShutdown(p *parser) (*statement, error) {
	mode := view.ShutdownNow
	switch {
	case !p.more():
	case p.accept("WAIT_FOR_CLIENTS"):
		mode = view.ShutdownWaitForClients
	case p.accept("WAIT_FOR_SERVERS"):
		mode = view.ShutdownWaitForServers
	default:
		return nil, unknown("mode of SHUTDOWN", p.peek().text, []string{"WAIT_FOR_CLIENTS", "WAIT_FOR_SERVERS"})
	}
	return act("SHUTDOWN", func(s *session, _ *command) error { return s.Control.Shutdown(mode) }), nil
}

// parseSet reads SET of a limit, of a route, or of one of the parameters that
// drivers set in every session: a limit's name has a section.
func parseSet(p *parser) (*statement, error) {
	if t := p.tokens[min(p.at+1, len(p.tokens)-1)]; p.peek().is("ROUTE") && !t.is("=") && !t.is("TO") {
		p.next()
		return p.setRoute()
	}
	if t := p.peek(); t.kind == tokenWord && strings.Contains(t.text, ".") {
		p.next()
		name := strings.ToLower(t.text)
		value, err := p.assigned()
		return act("SET", func(s *session, _ *command) error {
			return withCode(s.Control.SetLimit(name, value), codeInvalidValue)
		}), err
	}
	return p.setParameter()
}

func (p *parser) setRoute() (*statement, error) {
	route, err := p.nameOf("a route")
	if err != nil {
		return nil, err
	}
	setting, err := p.nameOf("a setting")
	if err != nil {
		return nil, err
	}
	value, err := p.assigned()
	return act("SET", func(s *session, _ *command) error {
		return withCode(s.Control.SetRoute(route, strings.ToLower(setting), value), codeInvalidValue)
	}), err
}

// assigned reads = or TO, and one value.
func (p *parser) assigned() (string, error) {
	if !p.acceptAny("=", "TO") {
		return "", unexpected(p.peek())
	}
	return p.nameOf("a value")
}

func withCode(err error, code string) error {
	if err == nil {
		return nil
	}
	return problemOf(err, code)
}

// parseExplain reads EXPLAIN ADMISSION key=value …
func parseExplain(p *parser) (*statement, error) {
	if !p.accept("ADMISSION") {
		return nil, &problem{code: codeUnsupported, message: "the console explains admission only", hint: "EXPLAIN ADMISSION database=… user=…"}
	}
	keys := []string{"database", "user", "application_name", "client_addr", "query"}
	given := map[string]string{}
	for p.more() {
		if len(given) > 0 {
			p.accept(",")
		}
		key, err := p.name()
		if err != nil {
			return nil, err
		}
		key = strings.ToLower(key)
		if !slices.Contains(keys, key) {
			return nil, unknown("part of a request", key, keys)
		}
		if _, twice := given[key]; twice {
			return nil, syntaxError("%s is given twice", key)
		}
		if err := p.expect("="); err != nil {
			return nil, err
		}
		if given[key], err = p.nameOf("a value for " + key); err != nil {
			return nil, err
		}
	}
	for _, key := range keys[:2] {
		if given[key] == "" {
			return nil, syntaxError("EXPLAIN ADMISSION needs %s=…", key)
		}
	}
	request := view.Request{
		Database: given["database"], User: given["user"], ApplicationName: given["application_name"],
		ClientAddr: given["client_addr"], Query: given["query"],
	}
	return explain(request), nil
}

func explain(r view.Request) *statement {
	columns := view.Columns(view.Explained{})
	return &statement{fields: fieldsOf(columns), run: func(s *session, _ *command) (result, error) {
		rows, err := s.Control.Explain(r)
		if err != nil {
			return result{}, problemOf(err, codeInvalidValue)
		}
		return result{tag: "EXPLAIN", rows: viewRows(columns, slices.Values(rows))}, nil
	}}
}

// command is the running of a statement: ctx ends when the client cancels it or is
// gone.
type command struct{ ctx context.Context }
