package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/backend"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// pooled is one real backend, driven as the engine drives it.
type pooled struct {
	t       *testing.T
	wire    *pgwire.Conn
	params  backend.Params
	applied Applied
}

func newPooled(t *testing.T, s *pgtest.Server, database string) *pooled {
	t.Helper()
	p := &pooled{t: t, wire: pgwire.Dial(t, "tcp", s.Addr())}
	messages, err := p.wire.Login(0, "user", "postgres", "database", database)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		p.see(m)
	}
	p.applied.Cleared(&p.params)
	return p
}

func (p *pooled) see(m pgwire.Message) {
	if m.Type == protocol.BackendParameterStatus {
		name, value, _ := protocol.DecodeParameterStatus(m.Body)
		p.params.Set(name, value)
	}
}

// query sends Query messages and reads their answers.
func (p *pooled) query(messages []byte, queries int) []pgwire.Message {
	p.t.Helper()
	if err := p.wire.Send(messages); err != nil {
		p.t.Fatal(err)
	}
	answers, err := p.wire.ReadUntil('Z', queries)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range answers {
		p.see(m)
	}
	return answers
}

// become makes the backend carry want and says what the batch was answered.
func (p *pooled) become(want *Profile) (sent bool) {
	p.t.Helper()
	batch, plan := p.applied.Batch(nil, want, &p.params)
	if plan == Nothing {
		return false
	}
	for _, m := range p.query(batch, 1) {
		if m.Type == 'E' {
			p.t.Fatalf("%q: %v", batch, pgwire.ErrorOf(m))
		}
	}
	p.applied.Confirm(&p.params)
	return true
}

// judge takes a startup packet's parameters through Judge, as the engine does.
func (p *pooled) judge(v *Verdicts, settings []protocol.Param) (*Profile, error) {
	p.t.Helper()
	j, err := NewJudge(settings)
	if err != nil {
		return nil, err
	}
	ready, err := j.Decide(p.params.Snapshot(nil), v, 0)
	if err == nil && !ready {
		p.become(Empty())
		done := false
		for _, m := range p.query(j.AppendProbes(nil), j.Probes()) {
			if done, err = j.Receive(m.Type, m.Body); err != nil {
				return nil, err
			}
		}
		if !done {
			p.t.Fatal("all answers were read, and it is not done")
		}
		ready, err = j.Decide(p.params.Snapshot(nil), v, 0)
	}
	if err == nil && !ready {
		p.t.Fatal("not ready after the probes")
	}
	return j.Profile(), err
}

// settings are what a session shows: all of pg_settings, and the parameters
// that only exist once set. An unset one and an empty one are the same.
const settingsQuery = `SELECT name, setting FROM pg_settings WHERE setting <> ''
	UNION SELECT 'my.own', current_setting('my.own', true) UNION SELECT 'My.Other', current_setting('My.Other', true)
	UNION SELECT 'user', current_user::text`

func settingsOf(t *testing.T, wire *pgwire.Conn) map[string]string {
	t.Helper()
	// What is read is not data of the client: its encoding must not matter.
	rows, err := wire.Exec(settingsQuery)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string, len(rows))
	for _, r := range rows {
		if r[1] != "" {
			all[strings.ToLower(r[0])] = r[1]
		}
	}
	return all
}

func difference(got, want map[string]string) string {
	var b strings.Builder
	for name, w := range want {
		if got[name] != w {
			fmt.Fprintf(&b, "%s=%q, want %q; ", name, got[name], w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "%s=%q, want none; ", name, g)
		}
	}
	return b.String()
}

// The oracle: a client that connects to PostgreSQL itself with these startup
// parameters. Whoever had the backend before, every setting is the same.
var clients = [][]string{
	{},
	{"client_encoding", "UTF8", "DateStyle", "ISO", "TimeZone", "Europe/Berlin", "extra_float_digits", "2"},
	{"client_encoding", "latin-1", "application_name", "münchen", "IntervalStyle", "iso_8601"},
	{"application_name", strings.Repeat("n", 70), "datestyle", "dmy", "geqo", "off"},
	{"DateStyle", "German", "timezone", "utc", "search_path", ""},
	{"options", `-c search_path=s1,public,"$user" -c statement_timeout=12345`, "lock_timeout", "1s"},
	{"options", `--search_path=\"a\ b\",\ "tablé"\,x -c work-mem=8MB --my.own=it\'s\ a\ \\\\`, "client_encoding", "SQL_ASCII"},
	{"standard_conforming_strings", "off", "backslash_quote", "off", "My.Other", `a\'b"c;--`, "escape_string_warning", "on"},
	{"role", "r", "work_mem", "16MB", "default_transaction_read_only", "on"},
	{"options", "-c role=r -c session_authorization=s", "deadlock_timeout", "2s"},
	{"session_authorization", "s", "statement_timeout", "900", "temp_tablespaces", ""},
	{"default_transaction_isolation", "serializable", "bytea_output", "escape", "client_min_messages", "error"},
	{"TimeZone", "<+03>-03", "options", "-c TimeZone=UTC", "transaction_read_only", "on", "client_encoding", "UNICODE"},
}

func TestSettingsHoldAsWithPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "DROP DATABASE IF EXISTS ascii WITH (FORCE)")
	s.Exec(t, "DROP ROLE IF EXISTS r, s; CREATE ROLE r; CREATE ROLE s; CREATE SCHEMA IF NOT EXISTS s1; GRANT r TO s")
	s.Exec(t, "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
	for _, database := range []string{"postgres", "ascii"} {
		p, other := newPooled(t, s, database), newPooled(t, s, database)
		var v Verdicts
		var profiles []*Profile
		var want []map[string]string
		for _, c := range clients {
			direct := append([]string{"user", "postgres", "database", database}, c...)
			want = append(want, settingsOf(t, pgwire.Login(t, "tcp", s.Addr(), direct...)))
			profile, err := other.judge(&v, params(c...))
			if err != nil {
				t.Fatalf("%q: %v", c, err)
			}
			profiles = append(profiles, profile)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 150 {
			i := rng.IntN(len(profiles))
			if rng.IntN(10) == 0 {
				p.applied.Uncertain()
			}
			p.become(profiles[i])
			if diff := difference(settingsOf(t, p.wire), want[i]); diff != "" {
				t.Fatalf("database %s, client %q: %s", database, clients[i], diff)
			}
			if p.become(profiles[i]) {
				t.Fatalf("database %s, client %q: a second batch", database, clients[i])
			}
		}
		p.become(Empty())
		if got := settingsOf(t, p.wire); !maps.Equal(got, want[0]) {
			t.Errorf("database %s, back to nothing: %s", database, difference(got, want[0]))
		}
	}
}

// ParameterStatus at a client's login is what PostgreSQL itself would report.
func TestLoginParamsAsPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	p := newPooled(t, s, "postgres")
	for _, c := range [][]string{
		{"application_name", "me"},
		{"application_name", "é", "client_encoding", "latin 1", "TimeZone", "utc", "DateStyle", "German", "IntervalStyle", "sql_standard"},
		{"application_name", "", "options", "-c standard_conforming_strings=off -c default_transaction_read_only=on -c client_encoding=UNICODE"},
	} {
		direct := &pooled{t: t, wire: pgwire.Dial(t, "tcp", s.Addr())}
		messages, err := direct.wire.Login(0, append([]string{"user", "postgres", "database", "postgres"}, c...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			direct.see(m)
		}
		var v Verdicts
		profile, err := p.judge(&v, params(c...))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		direct.params.Each(func(name string, value []byte) { want[name] = string(value) })
		got := map[string]string{}
		burst := LoginParams(nil, p.params.Snapshot(nil), profile)
		for len(burst) > 0 {
			_, size, err := protocol.PeekBackend(burst)
			if err != nil {
				t.Fatal(err)
			}
			name, value, _ := protocol.DecodeParameterStatus(burst[protocol.HeaderLen:size])
			got[string(name)] = string(value)
			burst = burst[size:]
		}
		if diff := difference(got, want); diff != "" {
			t.Errorf("%q: %s", c, diff)
		}
	}
}

// A refusal has PostgreSQL's own SQLSTATE and text.
func TestRefusalsAsPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	p := newPooled(t, s, "postgres")
	f := func(c ...string) {
		t.Helper()
		direct := pgwire.Dial(t, "tcp", s.Addr())
		_, err := direct.Login(0, append([]string{"user", "postgres", "database", "postgres"}, c...)...)
		want, refused := err.(*pgwire.Error)
		if !refused {
			t.Fatalf("%q: PostgreSQL says %v", c, err)
		}
		var v Verdicts
		_, err = p.judge(&v, params(c...))
		got, refused := err.(*SettingError)
		if !refused || got.Answer().Code != want.Fields['C'] || got.Answer().Message != want.Fields['M'] {
			t.Errorf("%q: got %v, want %v", c, err, want)
		}
		if _, err := p.judge(&v, params(c...)); err == nil {
			t.Errorf("%q: accepted the second time", c)
		}
	}
	f("nope", "1")
	f("timezone", "Mars/Phobos")
	f("client_encoding", "klingon")
	f("options", "-c extra_float_digits=99")
	f("options", "-c work_mem")
	f("options", "xyz")
	f("statement_timeout", "soon")
	f("work_mem", "1")
	f("role", "nobody_of_that_name")
	f("session_authorization", "nobody_of_that_name")
	f("a.b c", "1")
}

func TestStartOnlySettingsAreNotApplied(t *testing.T) {
	s := pgtest.Shared(t)
	p := newPooled(t, s, "postgres")
	var v Verdicts
	profile, err := p.judge(&v, params("log_disconnections", "on", "session_authorization", "postgres", "application_name", "a"))
	if err != nil || profile != Intern(params("application_name", "a")) {
		t.Errorf("profile %+v, %v", profile, err)
	}
}

func TestEncodingNamesAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	official := map[string]bool{}
	for alias, want := range encodingAliases {
		official[want] = true
		if got := s.Value(t, "SELECT pg_encoding_to_char(pg_char_to_encoding('"+alias+"'))"); got != want && !dropped(t, s, want) {
			t.Errorf("%s: PostgreSQL says %s, we %s", alias, got, want)
		}
	}
	for _, row := range s.Exec(t, "SELECT pg_encoding_to_char(i) FROM generate_series(0, 100) i WHERE pg_encoding_to_char(i) <> ''") {
		if got, known := EncodingName(row[0]); !known || got != row[0] || !official[got] {
			t.Errorf("%s: we say %q %t", row[0], got, known)
		}
	}
}

// dropped says whether this server no longer has the encoding at all.
func dropped(t *testing.T, s *pgtest.Server, encoding string) bool {
	return s.Value(t, "SELECT pg_char_to_encoding('"+encoding+"')") == "-1"
}
