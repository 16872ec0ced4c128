package difftest

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

var transcripts = flag.Bool("transcripts", false, "print what PostgreSQL answers to each dialogue")

func TestMain(m *testing.M) { pgtest.Main(m) }

// modes in which every dialogue must give PostgreSQL's answers.
var modes = []string{"transaction", "session"}

func load(t *testing.T) []*Dialogue {
	t.Helper()
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d dialogues found", len(all))
	}
	return all
}

// database makes the role of the dialogues and lets it use what their set-up makes.
func database(t *testing.T) *pgtest.Server {
	t.Helper()
	s := pgtest.Shared(t)
	s.Exec(t, `DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN
			CREATE ROLE app LOGIN;
			GRANT ALL ON SCHEMA public TO app;
			ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO app;
		END IF; END $$`)
	return s
}

// admin is a superuser session that is kept, since thousands of runs ask for it.
type admin struct {
	*pgconn.PgConn
}

func connect(t *testing.T, s *pgtest.Server) admin {
	t.Helper()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return admin{conn}
}

func (a admin) prepare(t *testing.T, d *Dialogue) {
	t.Helper()
	for _, sql := range d.Setup {
		if _, err := pgtest.Rows(a.PgConn, sql); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSameAsPostgreSQL is the oracle: each dialogue once with PostgreSQL and once through the pooler.
func TestSameAsPostgreSQL(t *testing.T) {
	s := database(t)
	su := connect(t, s)
	dialogues := load(t)
	direct, logins := map[string]string{}, map[string]string{}
	for _, d := range dialogues {
		su.prepare(t, d)
		login, transcript, err := d.Run(s.Addr())
		if err != nil {
			t.Errorf("%s with PostgreSQL itself: %v, after\n%s", d.Name, err, transcript)
		}
		direct[d.Name], logins[d.Name] = transcript, login
		if *transcripts {
			t.Logf("%s\n%s", d.Name, transcript)
		}
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{Mode: mode, PoolSize: 1})
			sameLogins := true
			for _, d := range dialogues {
				t.Run(d.Name, func(t *testing.T) {
					su.prepare(t, d)
					login, transcript, err := d.Run(p.Addr())
					if err != nil {
						t.Errorf("%v", err)
					}
					if compare(t, d, p, mode, direct[d.Name], transcript); known(d, p, mode) != "" {
						return
					}
					if login != logins[d.Name] && sameLogins { // told once: all logins would say the same
						sameLogins = false
						t.Errorf("the login differs from PostgreSQL (-) in (+):\n%s", difference(logins[d.Name], login))
					}
				})
			}
			probe(t, p, untouched(t, s.Addr()), 200)
			sessions(t, s, p)
		})
	}
}

// compare fails when the transcript through p differs from PostgreSQL's, or does not although it is known to.
func compare(t *testing.T, d *Dialogue, p *pooler.Pooler, mode, want, got string) {
	t.Helper()
	switch reason := known(d, p, mode); {
	case reason != "" && got == want:
		t.Errorf("no longer true: %s", reason)
	case reason == "" && got != want:
		t.Errorf("differs from PostgreSQL (-) in (+):\n%s", difference(want, got))
	}
}

// known is why the transcript through p may differ; "": it may not.
func known(d *Dialogue, p *pooler.Pooler, mode string) string {
	switch {
	case p.Target != pooler.Kinetic:
		return ""
	case d.Known == "" && mode != "session":
		return d.Shared
	}
	return d.Known
}

// difference shows both texts from one line before the first that differs.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	var out strings.Builder
	if i > 0 {
		fmt.Fprintf(&out, "  %s\n", a[i-1])
	}
	for j := i; j < min(len(a), i+8); j++ {
		fmt.Fprintf(&out, "- %s\n", a[j])
	}
	for j := i; j < min(len(b), i+8); j++ {
		fmt.Fprintf(&out, "+ %s\n", b[j])
	}
	return out.String()
}

// leftovers is one row that is the same in every session that nobody has touched, the pooler's own copies of prepared
// statements left out: they are under names that no client uses.
const leftovers = `SELECT (SELECT count(*) FROM pg_prepared_statements WHERE from_sql OR name !~ '^pgk_[0-9a-f]{8}_[0-9]+$'), (SELECT count(*) FROM pg_cursors),
	(SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
	(SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND pg_table_is_visible(oid)), current_user,
	current_setting('application_name'), current_setting('search_path'), current_setting('DateStyle'),
	current_setting('TimeZone'), current_setting('statement_timeout'), current_setting('client_encoding')`

// untouched is what leftovers gives in a new session.
func untouched(t *testing.T, address string) string {
	t.Helper()
	c := pgwire.Login(t, "tcp", address, "user", User, "database", "postgres")
	defer c.Close()
	rows, err := c.Exec(leftovers)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows)
}

// probe is a new client that must get its own answers, in a session in which no earlier client has left a trace. It
// returns the backend that served it.
func probe(t *testing.T, p *pooler.Pooler, clean string, queries int) (backend string) {
	t.Helper()
	c, err := pgwire.Open("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Login(0, "user", User, "database", "postgres"); err != nil {
		t.Fatalf("poison probe: %v", err)
	}
	for i := range queries {
		nonce := fmt.Sprintf("nonce %d of %p", i, c)
		rows, err := c.Exec("SELECT '" + nonce + "', pg_backend_pid()")
		if err != nil || len(rows) != 1 || rows[0][0] != nonce {
			t.Fatalf("poison probe: query %d of %q got %v, %v", i, nonce, rows, err)
		}
		backend = rows[0][1]
	}
	rows, err := c.Exec(leftovers)
	if err != nil || fmt.Sprint(rows) != clean {
		t.Errorf("poison probe: a new session finds %q, want %q (%v)", rows, clean, err)
	}
	return backend
}

// sessions checks that PostgreSQL has no session beside the pool's one and that for LISTEN.
func sessions(t *testing.T, s *pgtest.Server, p *pooler.Pooler) {
	t.Helper()
	most := 1
	if s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg-kinetic listener'") == "1" {
		most++
	}
	if n := s.Backends(t); n > most && p.Target == pooler.Kinetic {
		t.Errorf("PostgreSQL has %d sessions, the pool is 1", n)
	}
}
