package lookup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// plainQuery names nothing by its schema, so that the search_path counts.
const plainQuery = "SELECT rolname, rolpassword, rolvaliduntil FROM pg_authid WHERE rolname = $1 AND rolcanlogin"

func serverConfig(s *pgtest.Server, query string) Config {
	cfg := config()
	cfg.Query, cfg.Timeout = query, 20*time.Second // on a busy machine
	cfg.Server.Host = configs.Host{Network: "tcp", Address: s.Addr()}
	cfg.Server.Mode = configs.TLSDisable
	cfg.Server.Login = backend.LoginConfig{User: "postgres", Database: "postgres"}
	return cfg
}

func newLookup(t *testing.T, cfg Config) *Lookup {
	t.Helper()
	l := New(cfg)
	t.Cleanup(l.Close)
	return l
}

type told struct {
	r   Result
	err error
}

// await makes an asynchronous call a plain one.
func await(call func(Done) (Result, bool, error)) (Result, error) {
	results := make(chan told, 1)
	r, found, err := call(func(r Result, err error) { results <- told{r, err} })
	if found || err != nil {
		return r, err
	}
	got := <-results
	return got.r, got.err
}

func find(l *Lookup, user string) (Result, error) {
	return await(func(done Done) (Result, bool, error) { return l.Find(user, done) })
}

func refresh(l *Lookup, old Result) (Result, error) {
	return await(func(done Done) (Result, bool, error) { return l.Refresh(old, done) })
}

// verifier writes a SCRAM secret by hand, since PostgreSQL's own salts have 16 bytes.
func verifier(salt string) string {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	return fmt.Sprintf("SCRAM-SHA-256$4096:%s$%s:%s", base64.StdEncoding.EncodeToString([]byte(salt)), key, key)
}

func TestSecretsFromPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, `CREATE ROLE plain LOGIN PASSWORD 'secret';
		SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'secret'; RESET password_encryption;
		CREATE ROLE passwordless LOGIN; CREATE ROLE nologin PASSWORD 'secret';
		CREATE ROLE "Odd "" ' $1 name" LOGIN PASSWORD 'secret'; CREATE ROLE "ünicode" LOGIN PASSWORD 'secret';
		CREATE ROLE expired LOGIN PASSWORD 'secret' VALID UNTIL '2000-01-01 12:34:56.789';
		CREATE ROLE later LOGIN PASSWORD 'secret' VALID UNTIL '2999-01-01';
		CREATE ROLE forever LOGIN PASSWORD 'secret' VALID UNTIL 'infinity';
		CREATE ROLE never LOGIN PASSWORD 'secret' VALID UNTIL '-infinity'`)
	for _, salt := range []int{8, 12, 16, 33, 64} {
		s.Exec(t, fmt.Sprintf("CREATE ROLE salt%d LOGIN PASSWORD '%s'", salt, verifier(strings.Repeat("s", salt))))
	}
	l := newLookup(t, serverConfig(s, plainQuery))
	f := func(user, want string) {
		t.Helper()
		r, err := find(l, user)
		got := "unknown"
		switch {
		case err != nil:
			got = err.Error()
		case r.Known:
			got = []string{auth.NoSecret: "none", auth.PlainSecret: "plain", auth.MD5Secret: "md5", auth.SCRAMSecret: "scram"}[r.Secret.Kind()]
			if r.Expired(time.Now()) {
				got += " expired"
			}
		}
		if got != want || r.User != user {
			t.Errorf("%q: %q %s, want %s", user, r.User, got, want)
		}
	}
	f("plain", "scram")
	f("md5", "md5")
	f("passwordless", "none")
	f(`Odd " ' $1 name`, "scram")
	f("ünicode", "scram")
	for _, salt := range []int{8, 12, 16, 33, 64} {
		f(fmt.Sprint("salt", salt), "scram")
	}
	f("expired", "scram expired")
	f("never", "scram expired")
	f("later", "scram")
	f("forever", "scram")
	// Nobody, least of all the user who looks.
	f("nologin", "unknown")
	f("nobody", "unknown")
	f("' OR true --", "unknown")
	f("", "unknown")
	f("\xff\xfe", "unknown")
	f(strings.Repeat("plain", 20), "unknown")
}

// What docs/login.md shows works, and so do functions that give a row of NULLs
// when they find nobody.
func TestQueriesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/login.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### Users from PostgreSQL")
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of SQL", len(blocks))
	}
	s := pgtest.Shared(t)
	s.Exec(t, `CREATE ROLE documented LOGIN PASSWORD 'secret' VALID UNTIL '2000-01-01'; CREATE ROLE "documented too" PASSWORD 'secret';
		CREATE FUNCTION public.one_row(name text, OUT text, OUT text) SECURITY DEFINER LANGUAGE sql AS
		'SELECT usename::text, passwd FROM pg_catalog.pg_shadow WHERE usename = $1'`)
	s.Exec(t, blocks[1][1])
	f := func(user, query string, expires bool) {
		t.Helper()
		cfg := serverConfig(s, query)
		cfg.Server.Login.User = user
		l := newLookup(t, cfg)
		if r, err := find(l, "documented"); err != nil || r.Secret.Kind() != auth.SCRAMSecret || r.Expired(time.Now()) != expires {
			t.Errorf("%s: %+v, %v", query, r, err)
		}
		for _, nobody := range []string{"nobody", "documented too"} {
			if r, err := find(l, nobody); err != nil || r.Known {
				t.Errorf("%s: %+v, %v", query, r, err)
			}
		}
	}
	f("postgres", blocks[0][1], true)
	f("pooler", blocks[2][1], true)
	f("pooler", "SELECT * FROM public.one_row($1)", false)
}

// A changed password is found as soon as it is used; PostgreSQL is asked once for
// as many logins as wait, and sessions that it has ended are replaced.
func TestPasswordChange(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "CREATE SEQUENCE asked; CREATE ROLE changing LOGIN PASSWORD 'one'")
	l := newLookup(t, serverConfig(s, `SELECT rolname, rolpassword, rolvaliduntil FROM pg_authid, nextval('public.asked') WHERE rolname = $1`))
	queries := func() string { return s.Value(t, "SELECT last_value FROM asked") }

	results := make(chan told, 1000)
	now := 0
	for range 1000 {
		r, found, err := l.Find("changing", func(r Result, err error) { results <- told{r, err} })
		if found || err != nil {
			results <- told{r, err}
			now++
		}
	}
	var old Result
	for range 1000 {
		got := <-results
		if got.err != nil || !got.r.Known {
			t.Fatalf("%+v", got)
		}
		old = got.r
	}
	if n := queries(); n != "1" {
		t.Errorf("%s queries for 1000 logins, %d of which came behind the result", n, now)
	}

	s.Exec(t, "ALTER ROLE changing PASSWORD 'two'")
	if n := s.KillBackends(t, "application_name = 'pg-kinetic auth_query'"); n != 1 {
		t.Errorf("%d sessions ask", n)
	}
	l.mu.Lock() // as if a second had passed
	old.asked = old.asked.Add(-refreshEvery)
	l.known.put(old)
	l.mu.Unlock()
	r, err := refresh(l, old)
	if err != nil || !r.Newer(old) || r.Secret == old.Secret {
		t.Errorf("after the change: %+v, %v", r, err)
	}
	if again, err := find(l, "changing"); err != nil || again != r {
		t.Errorf("then: %+v, %v", again, err)
	}
	if again, err := refresh(l, r); err != nil || again.Newer(r) || queries() != "2" {
		t.Errorf("a wrong password then: %+v, %v, %s queries", again, err, queries())
	}
}

// Neither a role's nor a database's settings lead the query elsewhere.
func TestEvilSearchPath(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, `CREATE ROLE asking LOGIN SUPERUSER; CREATE ROLE victim LOGIN PASSWORD 'secret';
		CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
		CREATE TABLE evil.pg_authid (rolname text, rolpassword text, rolvaliduntil timestamptz, rolcanlogin bool);
		INSERT INTO evil.pg_authid VALUES ('victim', 'evil', NULL, true);
		CREATE FUNCTION evil.yes(name, name) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.yes)`)
	s.Exec(t, `ALTER ROLE asking SET search_path = evil, pg_catalog; ALTER DATABASE postgres SET search_path = evil, pg_catalog;
		ALTER ROLE asking SET datestyle = 'German'; ALTER ROLE asking SET timezone = 'Asia/Tokyo'`)
	defer s.Exec(t, "ALTER DATABASE postgres RESET ALL")
	cfg := serverConfig(s, plainQuery)
	cfg.Server.Login.User = "asking"
	cfg.Server.Login.Params = nil
	r, err := find(newLookup(t, cfg), "victim")
	if err != nil || !r.Known || r.Secret.Kind() != auth.SCRAMSecret {
		t.Errorf("%+v, %v", r, err)
	}
	cfg.Query = "SELECT $1::text, pg_catalog.current_setting('search_path') || pg_catalog.current_setting('timezone') WHERE $1 = 'x'"
	if r, err := find(newLookup(t, cfg), "x"); err != nil || !r.Known {
		t.Errorf("%+v, %v", r, err)
	}
	cfg.Query = "SELECT name, secret FROM only_in_public WHERE name = $1"
	s.Exec(t, "CREATE TABLE public.only_in_public (name text, secret text)")
	if _, err := find(newLookup(t, cfg), "x"); err == nil || !strings.Contains(err.Error(), "with its schema") {
		t.Errorf("a table outside pg_catalog: %v", err)
	}
}

func TestQueriesThatCannotWork(t *testing.T) {
	s := pgtest.Shared(t)
	f := func(query, code, want string) {
		t.Helper()
		cfg := serverConfig(s, query)
		if strings.Contains(query, "pg_sleep") {
			cfg.Timeout = 300 * time.Millisecond
		}
		l := newLookup(t, cfg)
		for range 2 { // also by the session that the first has left
			r, err := find(l, "postgres")
			var e *Error
			if !errors.As(err, &e) || e.Answer().Code != code || !strings.Contains(err.Error(), want) || r != (Result{}) {
				t.Errorf("%s: %+v, %v, want %s %s", query, r, err, code, want)
			}
			if strings.Contains(fmt.Sprint(err), "planted") {
				t.Errorf("%s: a secret is told: %v", query, err)
			}
			if code == "08006" {
				return
			}
		}
	}
	f("SELECT $1::text", "28000", "it gives 1 columns")
	f("SELECT $1::text, 'a', NULL::timestamptz, 4", "28000", "it gives 4 columns")
	f("SELECT $1::text, 'a', '2000-01-01'", "28000", "not of type timestamptz")
	f("SELECT $1::text, 'a', 1 WHERE false", "28000", "not of type timestamptz")
	f("SELECT 'other', 'a' WHERE $1 <> ''", "28000", "another user's row")
	f("SELECT upper($1), 'a'", "28000", "another user's row")
	f("SELECT $1::text, 'a' FROM generate_series(1, 2)", "28000", "more than one row")
	f("SELECT $1::text, 'SCRAM-SHA-256$cut off'", "28000", "user \"postgres\"")
	f("SELECT $1::text, 'a', 'infinity'::timestamptz; SELECT 1", "28000", "42601")
	f("SELECT 'x', 'y'", "28000", "08P01")
	f("SELECT $1, $2", "28000", "08P01")
	f("SELECT nonsense", "28000", "42703")
	f("SELECT $1, ('planted' || $1)::int", "28000", "22P02")
	f("SELECT $1::text, 'a', ('planted' || $1)::timestamptz", "28000", "22007")
	f("SELECT $1::text, 'SCRAM-SHA-256$planted'", "28000", "user \"postgres\"")
	f("SELECT a, b FROM nowhere WHERE a = $1", "28000", "42P01")
	f("", "28000", "08P01")
	f("SET timezone = 'UTC'", "28000", "08P01")
	f("UPDATE pg_database SET datname = $1 WHERE false", "28000", "not a query that gives rows")
	f("COPY (SELECT 1) TO STDOUT", "28000", "08P01")
	f("SELECT $1::text, pg_sleep(60)::text", "08006", "") // by our clock or PostgreSQL's
	f("SELECT $1::text, pg_terminate_backend(pg_backend_pid())::text", "08006", "57P01")
}

func TestServersThatCannotBeAsked(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "CREATE ROLE secretive LOGIN PASSWORD 'secret'")
	s.HBA(t, "host all secretive all scram-sha-256")
	defer s.HBA(t)
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, change func(*Config), code, want string) {
		t.Helper()
		cfg := serverConfig(s, plainQuery)
		change(&cfg)
		_, err := find(newLookup(t, cfg), "postgres")
		var e *Error
		if code == "" && err == nil {
			return
		}
		if !errors.As(err, &e) || e.Answer().Code != code || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s %s", name, err, code, want)
		}
	}
	login := func(user, database string, password configs.Secret) func(*Config) {
		return func(c *Config) {
			credentials := backend.NewCredentials(user, nil)
			credentials.Set(backend.Stored{Password: password})
			c.Server.Login = backend.LoginConfig{User: user, Database: database, Credentials: credentials}
		}
	}
	f("nobody there", func(c *Config) { c.Server.Host.Address = fmt.Sprint("127.0.0.1:", port) }, "08006", "connection refused")
	f("wrong password", login("secretive", "postgres", "wrong"), "28000", "28P01")
	f("no password", login("secretive", "postgres", ""), "28000", "none is known")
	f("no database", login("postgres", "nowhere", ""), "28000", "3D000")
	f("no TLS", func(c *Config) { c.Server.Mode = configs.TLSRequire }, "28000", "has no TLS")
	f("no permission", login("secretive", "postgres", "secret"), "28000", "42501")
	f("Unix socket", func(c *Config) {
		c.Server.Host, c.Server.Mode = configs.Host{Network: "unix", Address: s.SocketPath()}, configs.TLSRequire
	}, "", "")
}
