package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// setter is a client whose SETs are adopted, on whichever backend serves it.
type setter struct {
	t           *testing.T
	login, prof *Profile
}

func newSetter(t *testing.T, startup ...string) *setter {
	p := Intern(params(startup...))
	return &setter{t: t, login: p, prof: p}
}

// request sends texts, one Query each, on p, as the engine does, and returns
// whether there was an error. batch tells whether the backend had to be given
// settings first.
func (c *setter) request(p *pooled, texts ...string) (batch, failed bool) {
	c.t.Helper()
	batch = p.become(c.prof)
	var (
		r    Request
		sent []byte
	)
	for _, sql := range texts {
		flags := sqllex.Scan([]byte(sql)).Flags
		p.applied.Note(&p.params, flags)
		r.Seen |= flags
		sent = append(sent, pgwire.Query(sql)...)
	}
	answers := p.query(sent, len(texts))
	for _, m := range answers {
		r.Failed = r.Failed || m.Type == protocol.BackendErrorResponse
	}
	if last := answers[len(answers)-1]; last.Body[0] != protocol.StatusIdle {
		c.t.Fatalf("%q leave the backend in %c", texts, last.Body[0])
	}
	if r.Matters() {
		var ok bool
		if c.prof, ok = c.prof.Adopt(c.login, &p.params, r); !ok {
			c.t.Fatalf("%q: not adopted", texts)
		}
	}
	if r.Seen&sqllex.Discard != 0 { // the engine then cleans the backend itself
		p.query(pgwire.Query("DISCARD ALL"), 1)
		p.applied.Cleared(&p.params)
	}
	return batch, r.Failed
}

// shows checks what the client sees on p, and that giving it its settings took
// a batch or not.
func (c *setter) shows(p *pooled, batch bool, name, want string) {
	c.t.Helper()
	if got := p.become(c.prof); got != batch {
		c.t.Errorf("a batch for %s: %t, want %t", name, got, batch)
	}
	if got := p.show(name); got != want {
		c.t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func (p *pooled) show(name string) string {
	p.t.Helper()
	for _, m := range p.query(pgwire.Query("SHOW "+name), 1) {
		if m.Type == protocol.BackendDataRow {
			return pgwire.Values(m)[0]
		}
	}
	p.t.Fatalf("SHOW %s returned no row", name)
	return ""
}

// A SET is there on the same backend without a batch, on another by one, and
// gone for everybody else.
func TestAdoptedSettingFollowsItsClient(t *testing.T) {
	s := pgtest.Shared(t)
	one, two := newPooled(t, s, "postgres"), newPooled(t, s, "postgres")
	a, b := newSetter(t, "application_name", "a"), newSetter(t, "timezone", "Asia/Tokyo")
	plain := newSetter(t)

	a.request(one, "SET application_name = 'worker'; SELECT 1")
	a.shows(one, false, "application_name", "worker")
	a.shows(two, true, "application_name", "worker")
	a.shows(two, false, "application_name", "worker")
	b.shows(one, true, "application_name", "")
	b.request(one, "SET SESSION TimeZone TO 'europe/berlin'")
	a.shows(one, true, "application_name", "worker")
	b.shows(two, true, "TimeZone", "Europe/Berlin")
	plain.shows(two, true, "TimeZone", one.zone(s))
	plain.shows(two, false, "application_name", "")
	// Equal settings are one Profile, however they came about.
	c := newSetter(t)
	c.request(two, "SET application_name TO worker")
	if c.prof != a.prof || c.prof != Intern(params("application_name", "worker")) {
		t.Errorf("profiles %+v and %+v", c.prof, a.prof)
	}
}

// zone is the default of TimeZone.
func (p *pooled) zone(s *pgtest.Server) string { return s.Value(p.t, "SHOW TimeZone") }

// What is taken back is not adopted.
func TestSettingTakenBackIsNotAdopted(t *testing.T) {
	s := pgtest.Shared(t)
	p := newPooled(t, s, "postgres")
	c := newSetter(t, "application_name", "a", "datestyle", "German, DMY")
	for _, texts := range [][]string{
		{"BEGIN; SET application_name = 'x'; ROLLBACK"},
		{"BEGIN", "SET application_name = 'x'", "SET timezone = 'GMT'", "ROLLBACK"},
		{"SET application_name = 'x'; SELECT 1/0"},
		{"BEGIN", "SET application_name = 'x'", "SELECT 1/0", "COMMIT"},
		{"SET timezone = 'Mars/Phobos'"},
		{"SET client_encoding = klingon"},
		{"BEGIN; SAVEPOINT s; SET datestyle = 'ISO'; ROLLBACK TO s; COMMIT"},
		{"BEGIN; SET LOCAL timezone = 'GMT'; SELECT 1; COMMIT"},
		{"BEGIN; SET application_name = 'x'; SET application_name = 'a'; COMMIT"},
	} {
		c.request(p, texts...)
		if c.prof != c.login {
			t.Errorf("%q: adopted %+v", texts, c.prof)
		}
		// What the client has no setting of is reset, to make sure.
		seen := sqllex.Scan([]byte(strings.Join(texts, ";"))).Flags
		again := seen & sqllex.SetReported &^ (sqllex.SetApplicationName | sqllex.SetDateStyle)
		c.shows(p, again != 0, "application_name", "a")
	}
	// Of a group that went well before one that failed, and of a block around a
	// savepoint, the right part.
	c.request(p, "SET application_name = 'x'", "SET application_name = 'y'; SELECT 1/0")
	c.shows(p, false, "application_name", "x")
	c.request(p, "BEGIN; SET application_name = 'z'; SAVEPOINT s; SET datestyle = 'ISO'; ROLLBACK TO s; COMMIT")
	c.shows(p, false, "application_name", "z")
	c.shows(p, false, "datestyle", "German, DMY")
}

func TestResetIsNotAdopted(t *testing.T) {
	s := pgtest.Shared(t)
	p := newPooled(t, s, "postgres")
	for _, sql := range []string{
		"SET timezone = 'GMT'; RESET timezone", "SET timezone = 'GMT'; SET timezone TO DEFAULT",
		"SET timezone = 'GMT'; SELECT set_config('timezone', 'CET', false)", "SET TIME ZONE 'GMT'",
	} {
		flags := sqllex.Scan([]byte(sql)).Flags
		p.applied.Note(&p.params, flags)
		p.query(pgwire.Query(sql), 1)
		if q, ok := Empty().Adopt(Empty(), &p.params, Request{Seen: flags}); ok || q != Empty() {
			t.Errorf("%q: adopted %+v", sql, q)
		}
	}
}

// A default that changes while a request sets something else is not taken for
// the client's own, and the client's own settings stay.
func TestAdoptUnderChangedDefaults(t *testing.T) {
	s := pgtest.Shared(t)
	t.Cleanup(func() { s.Exec(t, "ALTER SYSTEM RESET timezone") })
	p := newPooled(t, s, "postgres")
	rows, err := p.wire.Exec("SELECT pg_backend_pid()")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(rows[0][0])
	if err != nil {
		t.Fatal(err)
	}
	// Only this backend is told, and it handles the signal before what is sent to it next.
	reload := func(zone string) {
		s.Exec(t, "ALTER SYSTEM SET timezone = '"+zone+"'")
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	reload("UTC")
	p.query(pgwire.Query("SELECT 1"), 1)
	own, plain := newSetter(t), newSetter(t)
	own.request(p, "SET datestyle = 'German'; SET timezone = 'UTC'") // the default, but its own
	reload("CET")
	own.request(p, "SET application_name = 'x'")
	own.shows(p, false, "TimeZone", "UTC")
	if want := Intern(params("application_name", "x", "datestyle", "German, DMY", "timezone", "UTC")); own.prof != want {
		t.Errorf("profile %+v", own.prof)
	}
	// The others follow the default, though the backend showed UTC all the time.
	plain.shows(p, true, "TimeZone", "CET")
	own.shows(p, true, "TimeZone", "UTC")
	plain.shows(p, true, "TimeZone", "CET")

	reload("GMT")
	plain.request(p, "SET application_name = 'y'")
	if want := Intern(params("application_name", "y")); plain.prof != want {
		t.Errorf("a changed default was adopted: %+v", plain.prof)
	}
	plain.shows(p, true, "TimeZone", "GMT") // the base is learnt by one RESET
	plain.shows(p, false, "TimeZone", "GMT")
	own.shows(p, true, "TimeZone", "UTC")
}

// The oracle: clients that send the same to PostgreSQL itself. Whatever each of
// them does, on whichever backends, it sees the same settings.
func TestAdoptedSettingsAsWithPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	const shown = "application_name client_encoding datestyle intervalstyle standard_conforming_strings timezone work_mem"
	type client struct {
		*setter
		direct *pgwire.Conn
	}
	var clients []client
	for _, startup := range [][]string{
		nil,
		{"application_name", "me"},
		{"timezone", "Asia/Tokyo", "datestyle", "German, DMY", "work_mem", "8MB"},
		{"client_encoding", "LATIN1", "standard_conforming_strings", "off"},
	} {
		direct := append([]string{"user", "postgres", "database", "postgres"}, startup...)
		clients = append(clients, client{newSetter(t, startup...), pgwire.Login(t, "tcp", s.Addr(), direct...)})
	}
	backends := []*pooled{newPooled(t, s, "postgres"), newPooled(t, s, "postgres"), newPooled(t, s, "postgres")}
	rng := rand.New(rand.NewPCG(3, 4))
	for step := range 400 {
		c := clients[rng.IntN(len(clients))]
		texts := strings.Split(setTexts[rng.IntN(len(setTexts))], " | ")
		c.request(backends[rng.IntN(len(backends))], texts...)
		for _, sql := range texts {
			_, _ = c.direct.Exec(sql) // an error is among what is tried
		}
		p := backends[rng.IntN(len(backends))]
		p.become(c.prof)
		for _, name := range strings.Fields(shown) {
			rows, err := c.direct.Exec("SHOW " + name)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.show(name); got != rows[0][0] {
				t.Fatalf("step %d, after %q: %s is %q, PostgreSQL has %q", step, texts, name, got, rows[0][0])
			}
		}
		if p.become(c.prof) {
			t.Fatalf("step %d, after %q: a second batch", step, texts)
		}
	}
}

// setTexts are requests; " | " parts the Query messages of one.
var setTexts = func() (texts []string) {
	for name, values := range map[string][]string{
		"application_name": {"'a'", "'it''s'", "''", "'münchen'", "worker"},
		"timezone":         {"'UTC'", "'Asia/Tokyo'", "2", "-3.5", "'<+03>-03'", "'Mars/Phobos'"},
		"DateStyle":        {"iso", "dmy", "'German'", "sql, ymd", "klingon"},
		"IntervalStyle":    {"iso_8601", "postgres"},
		"client_encoding":  {"utf8", "'latin-1'", "SQL_ASCII", "unicode", "nope"},
		"session standard_conforming_strings": {
			"on", "off",
		},
	} {
		for _, v := range values {
			set := fmt.Sprintf("SET %s = %s", name, v)
			texts = append(
				texts, set, set+"; SELECT 1", "SELECT 1; "+strings.Replace(set, "=", "TO", 1), set+"; SELECT 1/0",
				"BEGIN; "+set+"; COMMIT | END", "BEGIN; "+set+"; ROLLBACK | END", "BEGIN | "+set+" | COMMIT", "BEGIN | "+set+" | ROLLBACK",
				"SELECT 1 | "+set+" | SELECT 1/0", "BEGIN; SET LOCAL timezone = 'CET'; "+set+"; COMMIT | END",
				"BEGIN; SAVEPOINT s; "+set+"; ROLLBACK TO s; SET application_name = 'after'; COMMIT | END",
			)
		}
	}
	slices.Sort(texts) // maps have no order
	for range 40 {
		texts = append(texts, "DISCARD ALL", "SELECT 1")
	}
	return texts
}()
