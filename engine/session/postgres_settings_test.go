package session

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/setscript"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// The oracle of Settings: one client connected to PostgreSQL itself, and the same
// client moved between backends whenever it is idle, using nothing but this
// package's answers. Whatever it SETs, every value is the same at every step, and
// nothing of it is there for anybody else.

// serving is a backend with a tracker, as the engine has one.
type serving struct {
	*pooled
	tracker protocol.Tracker
}

func newServing(t *testing.T, s *pgtest.Server) *serving {
	v := &serving{pooled: newPooled(t, s, "postgres")}
	v.tracker.Reset()
	return v
}

// follower is a client of the pooler: what the engine keeps of it.
type follower struct {
	t           *testing.T
	st          *Settings
	first, prof *Profile
	srv         *serving
	asked       int
}

// relay sends requests in one go, as far as none has to wait, and returns what
// the client gets, in short.
func (c *follower) relay(requests []setscript.Request) (answers []string) {
	c.t.Helper()
	owed := 0
	for i, r := range requests {
		c.send(r)
		if owed++; i+1 < len(requests) && !c.st.Waits(c.first) {
			continue
		}
		answers = append(answers, c.receive(owed)...)
		owed = 0
		if c.srv.tracker.Status() == protocol.StatusIdle {
			c.resolve()
			c.link(c.srv)
		}
	}
	return answers
}

func (c *follower) send(r setscript.Request) {
	var out []byte
	for _, m := range r.Messages() {
		out = append(out, m.Raw...)
		if c.srv.tracker.Offer(m.Raw[0], false) != protocol.Forward {
			c.t.Fatalf("%q is not forwarded", m.Raw)
		}
		flags := sqllex.Scan([]byte(m.SQL)).Flags
		if flags&Changes != 0 && c.st == nil {
			c.st = new(Settings)
		}
		if flags&Changes != 0 || c.st.Live() && flags&WhileLive != 0 {
			c.st.Sent(c.srv.tracker.Sent(), sqllex.AppendOps(nil, []byte(m.SQL)), []byte(m.SQL))
		}
	}
	if err := c.srv.wire.Send(out); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads up to so many ReadyForQuery for the client.
func (c *follower) receive(ready int) (answers []string) {
	c.t.Helper()
	for ready > 0 {
		m := c.take()
		if s := setscript.Brief(m); s != "" {
			answers = append(answers, s)
		}
		if m.Type == protocol.BackendReadyForQuery {
			ready--
			if q := c.st.Restore(nil, m.Body[0], c.first); ready == 0 && len(q) > 0 {
				c.inject(q, nil)
			}
		}
	}
	return answers
}

// take reads a message and tells the Settings of it.
func (c *follower) take() pgwire.Message {
	c.t.Helper()
	m, err := c.srv.wire.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	c.srv.see(m)
	var status byte
	var code string
	switch m.Type {
	case protocol.BackendReadyForQuery:
		status = m.Body[0]
	case protocol.BackendErrorResponse:
		code = pgwire.ErrorOf(m).Code()
	}
	number := c.srv.tracker.Done() + 1
	a, err := c.srv.tracker.Receive(m.Type, status, []byte(code))
	if err != nil {
		c.t.Fatal(err)
	}
	switch {
	case m.Type == protocol.BackendCommandComplete && !a.Swallow:
		c.st.Step(number, m.Body[:len(m.Body)-1])
	case m.Type == protocol.BackendPortalSuspended && !a.Swallow:
		c.st.Step(number, nil)
	case m.Type == protocol.BackendErrorResponse:
		c.st.Error()
	}
	c.st.Settle(&c.srv.tracker)
	if a.Ready {
		c.st.Ready(a.Status)
	}
	return m
}

// inject sends a Query of ours and reads its answers.
func (c *follower) inject(query []byte, answer func(typ byte, body []byte)) {
	c.t.Helper()
	c.srv.tracker.Inject(protocol.FrontendQuery)
	if err := c.srv.wire.Send(query); err != nil {
		c.t.Fatal(err)
	}
	for {
		m := c.take()
		if answer != nil {
			answer(m.Type, m.Body)
		} else if m.Type == protocol.BackendErrorResponse {
			c.t.Fatalf("%q: %v", query, pgwire.ErrorOf(m))
		}
		if m.Type == protocol.BackendReadyForQuery {
			return
		}
	}
}

func (c *follower) resolve() {
	c.t.Helper()
	var r Resolution
	if c.prof, r = c.st.Resolve(c.prof, c.first, &c.srv.applied, &c.srv.params); r != AskServer {
		return
	}
	c.asked++
	c.inject(c.st.AppendReadBack(nil), c.st.Answer)
	if c.prof, r = c.st.Resolve(c.prof, c.first, &c.srv.applied, &c.srv.params); r != Resolved {
		c.t.Fatalf("the second Resolve says %d", r)
	}
}

// link makes the client run on a backend.
func (c *follower) link(v *serving) {
	c.srv = v
	v.become(c.prof)
}

// TestSettingsFollowTheirClient is the property of the whole package.
func TestSettingsFollowTheirClient(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, setscript.Roles)
	show := setscript.ShowSQL()
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	asked, requests := 0, 0
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		startup := setscript.Startups[seed%len(setscript.Startups)]
		c, a, n := followOne(t, s, rng, startup, show)
		asked += a
		requests += n
		if t.Failed() {
			t.Fatalf("seed %d, startup %q:\n%s", seed, startup, c)
		}
	}
	t.Logf("%d requests, the server was asked %d times", requests, asked)
}

// followOne runs one client's random script on both, and returns the script.
func followOne(t *testing.T, s *pgtest.Server, rng *rand.Rand, startup []string, show string) (script string, asked, requests int) {
	t.Helper()
	direct := pgwire.Login(t, "tcp", s.Addr(), append([]string{"user", "postgres", "database", "postgres"}, startup...)...)
	backends := [2]*serving{newServing(t, s), newServing(t, s)}
	defer func() {
		direct.Close()
		for _, v := range backends {
			v.wire.Close()
		}
	}()
	base, err := backends[0].wire.Exec(show)
	if err != nil {
		t.Fatal(err)
	}
	var verdicts Verdicts
	prof, err := backends[1].judge(&verdicts, params(startup...))
	if err != nil {
		t.Fatal(err)
	}
	c := &follower{t: t, first: prof, prof: prof}
	c.link(backends[0])
	var lines []string
	for requests = range 60 {
		sent := setscript.Pipeline(rng)
		lines = append(lines, setscript.Line(sent))
		script = strings.Join(lines, "\n")
		want := setscript.Run(t, direct, sent)
		if got := c.relay(sent); strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("got %q, PostgreSQL says %q", got, want)
			return script, c.asked, requests
		}
		if c.srv.tracker.Status() == protocol.StatusIdle {
			v := backends[rng.IntN(2)]
			if rng.IntN(4) == 0 { // somebody else in between
				v.become(Empty())
				if rows, err := v.wire.Exec(show); err != nil || strings.Join(rows[0], "|") != strings.Join(base[0], "|") {
					t.Errorf("somebody else sees %q, want %q (%v)", rows, base, err)
					return script, c.asked, requests
				}
			}
			c.link(v)
		}
		if want := setscript.ValuesOf(t, direct); len(want) > 0 {
			if diff := setscript.Difference(c.values(show), want); diff != "" {
				t.Error(diff)
				return script, c.asked, requests
			}
		}
	}
	return script, c.asked, requests
}

// values are what the client sees.
func (c *follower) values(show string) map[string]string {
	c.t.Helper()
	c.srv.tracker.Offer(protocol.FrontendQuery, false)
	if err := c.srv.wire.Send(pgwire.Query(show)); err != nil {
		c.t.Fatal(err)
	}
	var messages []pgwire.Message
	for {
		m := c.take()
		messages = append(messages, m)
		if m.Type == protocol.BackendReadyForQuery {
			break
		}
	}
	if c.srv.tracker.Status() == protocol.StatusIdle {
		c.resolve()
	}
	return setscript.Values(messages)
}

// A default that changes while a client sets something else is not taken for the
// client's own, and the client's own settings stay.
func TestSettingsUnderChangedDefaults(t *testing.T) {
	s := pgtest.Shared(t)
	t.Cleanup(func() { s.Exec(t, "ALTER SYSTEM RESET timezone") })
	v := newServing(t, s)
	rows, err := v.wire.Exec("SELECT pg_backend_pid()")
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
	own, plain := &follower{t: t, first: Empty(), prof: Empty()}, &follower{t: t, first: Empty(), prof: Empty()}
	sets := func(c *follower, sql string) {
		c.link(v)
		c.relay([]setscript.Request{{Texts: []string{sql}}})
	}
	shows := func(c *follower, want string) {
		t.Helper()
		c.link(v)
		rows, err := v.wire.Exec("SHOW TimeZone")
		if err != nil || rows[0][0] != want {
			t.Errorf("TimeZone is %v (%v), want %s", rows, err, want)
		}
	}
	reload("UTC")
	v.query(pgwire.Query("SELECT 1"), 1)
	sets(own, "SET datestyle = 'German'; SET timezone = 'UTC'") // the default, but its own
	reload("CET")
	sets(own, "SET application_name = 'x'")
	shows(own, "UTC")
	if want := Intern(params("application_name", "x", "datestyle", "German, DMY", "timezone", "UTC")); own.prof != want {
		t.Errorf("profile %+v", own.prof)
	}
	// The others follow the default, though the backend showed UTC all the time.
	shows(plain, "CET")
	shows(own, "UTC")
	shows(plain, "CET")

	reload("GMT")
	sets(plain, "SET application_name = 'y'")
	if want := Intern(params("application_name", "y")); plain.prof != want {
		t.Errorf("a changed default was adopted: %+v", plain.prof)
	}
	shows(plain, "GMT")
	shows(own, "UTC")
}

// ST-20: what a client does to standard_conforming_strings is its own, and decides
// how its own texts are read.
func TestST20StandardConformingStrings(t *testing.T) {
	s := pgtest.Shared(t)
	v := newServing(t, s)
	off, on := &follower{t: t, first: Empty(), prof: Empty()}, &follower{t: t, first: Empty(), prof: Empty()}
	off.link(v)
	off.relay([]setscript.Request{{Texts: []string{"SET standard_conforming_strings = off; SET escape_string_warning = off; SET my.own = 'x\\y'"}}})
	for range 3 {
		for c, want := range map[*follower]string{off: "xy1", on: `\x1`} {
			c.link(v)
			sql := `SELECT '\x' || '1'`
			if c == off {
				sql = `SELECT '\x\y' || '1'`
			}
			rows, err := v.wire.Exec(sql)
			if err != nil || rows[0][0] != want {
				t.Errorf("%v (%v), want %q", rows, err, want)
			}
		}
	}
	off.link(v)
	// The whole Query was read before its SET: the backslash was a backslash.
	if rows, err := v.wire.Exec("SHOW my.own"); err != nil || rows[0][0] != `x\y` {
		t.Errorf("my.own is %v (%v)", rows, err)
	}
}
