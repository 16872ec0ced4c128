package e2e

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// asking is a door where users are asked of PostgreSQL, by a role that may do that only.
func (x *site) asking(t *testing.T, query string, flags ...string) *pooler.Pooler {
	t.Helper()
	return x.door(t, nil, append([]string{"--auth.auth-query=" + query, "--auth.auth-user=postgres"}, flags...)...)
}

// TestAU08ExpiredAndLocked: who is locked or whose password has expired does not come in, with a pool that is warm, as soon as
// PostgreSQL is asked again. Where it is asked each time, that is at once.
func TestAU08ExpiredAndLocked(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "leaving", "secret")
	p := x.asking(t, whatPostgreSQLKnows, "--auth.auth-query-cache-ms=0")
	password := pgwire.NewPassword("secret")
	warm, err := x.enter(t, p, "leaving", password)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, warm, "SELECT 1")
	const want = `FATAL 28P01: password authentication failed for user "leaving"`
	for _, change := range []string{"VALID UNTIL '2000-01-01'", "VALID UNTIL 'infinity' NOLOGIN"} {
		x.Exec(t, "ALTER ROLE leaving "+change)
		if _, err := x.enter(t, p, "leaving", password); refusal(err) != want {
			t.Errorf("after %s: %q", change, refusal(err))
		}
		ask(t, warm, "SELECT 1") // a session that exists lives on, as in PostgreSQL
	}
	x.Exec(t, "ALTER ROLE leaving LOGIN")
	if _, err := x.enter(t, p, "leaving", password); err != nil {
		t.Errorf("unlocked: %v", err)
	}
}

// TestAU09NothingOfTheClientSteersTheQuery: neither the client's search_path nor other settings reach the session that looks
// users up, not even where the query names nothing by its schema.
func TestAU09NothingOfTheClientSteersTheQuery(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "honest", "secret")
	x.role(t, "chosen", "other")
	x.Exec(t, `CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
		CREATE TABLE evil.seen(what text);
		CREATE FUNCTION evil.same(a name, b text) RETURNS bool LANGUAGE sql AS $$ INSERT INTO evil.seen VALUES (b); SELECT true $$;
		CREATE OPERATOR evil.= (FUNCTION = evil.same, LEFTARG = name, RIGHTARG = text);
		CREATE TABLE evil.pg_authid AS SELECT rolname, 'planted'::text AS rolpassword, NULL::timestamptz AS rolvaliduntil, true AS rolcanlogin FROM pg_roles;
		GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC`)
	t.Cleanup(func() { x.Exec(t, "DROP SCHEMA evil CASCADE") })
	p := x.asking(t, "SELECT rolname, rolpassword, rolvaliduntil FROM pg_authid WHERE rolname = $1::text AND rolcanlogin", "--auth.auth-query-cache-ms=0")
	for _, params := range [][]string{
		{"search_path", "evil,pg_catalog"},
		{"options", "-c search_path=evil,pg_catalog"},
		{"role", "chosen"},
		{"session_authorization", "chosen"},
	} {
		if _, err := x.enter(t, p, "honest", pgwire.NewPassword("planted"), params...); code(err) != "28P01" {
			t.Errorf("%v let the planted password in: %v", params, err)
		}
		if _, err := x.enter(t, p, "honest", pgwire.NewPassword("secret"), params...); err != nil && params[1] != "chosen" { // a role that honest may not take
			t.Errorf("%v: %v", params, err)
		}
	}
	if n := x.Value(t, "SELECT count(*) FROM evil.seen"); n != "0" {
		t.Errorf("the query has used the planted operator %s times", n)
	}
}

// TestHashOfALookup: an md5 hash that was looked up lets the pool in where PostgreSQL asks for md5, also after its sessions
// were ended.
func TestHashOfALookup(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.Exec(t, "SET password_encryption = 'md5'; CREATE ROLE m_looked LOGIN PASSWORD 'secret'; GRANT secured_md5 TO m_looked")
	t.Cleanup(func() { x.Exec(t, "DROP ROLE m_looked") })
	p := x.asking(t, whatPostgreSQLKnows, "--auth.method=hba", "--auth.hba-file="+tempFile(t, "hba.conf", whoMayLogIn))
	c, err := x.enter(t, p, "m_looked", pgwire.NewPassword("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := ask(t, c, "SELECT current_user"); got != "m_looked" {
			t.Error(got)
		}
		x.KillBackends(t, "usename = 'm_looked'")
		until(t, 5*time.Second, "it goes on", func() bool {
			_, err := c.Exec("SELECT 1")
			return err == nil
		})
	}
}

// TestAU19UnknownUser is nobody, and not the user that looks others up.
func TestAU19UnknownUser(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "lookup", "of the pooler")
	x.Exec(t, `CREATE FUNCTION public.one_row(text, OUT usename text, OUT secret text) LANGUAGE sql STABLE SECURITY DEFINER AS
		$$ SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1 $$`)
	t.Cleanup(func() { x.Exec(t, "DROP FUNCTION public.one_row") })
	p := x.door(t, nil, "--auth.auth-query=SELECT * FROM public.one_row($1)", "--auth.auth-user=lookup",
		"--auth.users-file="+users(t, "lookup", "of the pooler"))
	for _, password := range []string{"", "of the pooler", "anything"} {
		_, err := x.enter(t, p, "nobody_at_all", pgwire.NewPassword(password))
		if refusal(err) != `FATAL 28P01: password authentication failed for user "nobody_at_all"` {
			t.Errorf("password %q: %v", password, err)
		}
	}
	x.role(t, "somebody", "secret")
	c, err := x.enter(t, p, "somebody", pgwire.NewPassword("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "SELECT current_user || ' ' || session_user"); got != "somebody somebody" {
		t.Errorf("somebody is %s", got)
	}
}

// TestAU14ChangedPassword, with a cache that holds for a minute. A proof that does not fit is checked against a fresh answer,
// so a password that the client sends works with the first attempt. By SCRAM it works with the second: the proof was made for
// the salt of the old one. From then on the old password is refused. Sessions live on; their pool connects to PostgreSQL with
// what the new login has shown.
func TestAU14ChangedPassword(t *testing.T) {
	t.Parallel()
	x := secured(t)
	first, second := pgwire.NewPassword("first"), pgwire.NewPassword("second")
	p := x.asking(t, whatPostgreSQLKnows, "--auth.method=hba", "--auth.hba-file="+tempFile(t, "hba.conf", whoMayLogIn))
	for user, attempts := range map[string]int{"s_rotated": 2, "p_rotated": 1} {
		x.role(t, user, "first")
		running, err := x.enter(t, p, user, first)
		if err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		ask(t, running, "SELECT 1")
		x.Exec(t, "ALTER ROLE "+user+" PASSWORD 'second'")
		time.Sleep(time.Until(asked.Add(1100 * time.Millisecond))) // a user is asked for once a second
		n := 1
		for ; n <= attempts; n++ {
			if _, err = x.enter(t, p, user, second); err == nil {
				break
			}
		}
		if n != attempts {
			t.Errorf("%s: the new password works with attempt %d, want %d: %v", user, n, attempts, err)
		}
		if _, err := x.enter(t, p, user, first); code(err) != "28P01" {
			t.Errorf("%s: the old password: %v", user, err)
		}
		ask(t, running, "SELECT 1")
		x.KillBackends(t, "usename = '"+user+"'")
		until(t, 5*time.Second, "an answer by a new session", func() bool {
			rows, err := running.Exec("SELECT current_user")
			return err == nil && rows[0][0] == user
		})
	}
}

// TestSamePasswordAnotherSalt: a password that is set once more, as tools do, gets another salt. The keys that clients have
// shown do not fit any more; the secret that is remembered is forgotten with the first login that PostgreSQL refuses, and the
// next client brings those that do.
func TestSamePasswordAnotherSalt(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "resalted", "secret")
	password := pgwire.NewPassword("secret")
	p := x.asking(t, whatPostgreSQLKnows)
	running, err := x.enter(t, p, "resalted", password)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, running, "SELECT 1")
	x.Exec(t, "ALTER ROLE resalted PASSWORD 'secret'")
	x.KillBackends(t, "usename = 'resalted'")
	until(t, 5*time.Second, "the refusal of the old keys", func() bool {
		_, err := running.Exec("SELECT 1")
		return strings.Contains(refusal(err), "another salt")
	})
	until(t, 5*time.Second, "a login that brings the new keys", func() bool {
		c, err := x.enter(t, p, "resalted", password)
		if err == nil {
			_, err = c.Exec("SELECT 1")
			c.Close()
		}
		return err == nil
	})
	ask(t, running, "SELECT 1")
}

// TestAU14QueriesOfManyLogins: 1 000 logins of one user, twenty at a time, ask PostgreSQL once.
func TestAU14QueriesOfManyLogins(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "frequent", "secret")
	x.Exec(t, `CREATE SEQUENCE public.asked; CREATE FUNCTION public.counted(text, OUT usename text, OUT secret text) LANGUAGE sql SECURITY DEFINER AS
		$$ SELECT nextval('public.asked'); SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1 $$`)
	t.Cleanup(func() { x.Exec(t, "DROP FUNCTION public.counted; DROP SEQUENCE public.asked") })
	p := x.asking(t, "SELECT * FROM public.counted($1)")
	password := pgwire.NewPassword("secret")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 50 {
				c, err := pgwire.Open("tcp", p.Addr())
				if err == nil {
					_, err = c.LoginWith(0, password, "user", "frequent", "database", "postgres")
					c.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := x.Value(t, "SELECT last_value FROM public.asked"); n != "1" {
		t.Errorf("1 000 logins have asked PostgreSQL %s times", n)
	}
}

// TestUnknownDatabaseAfterTheProof: that there is no such database is told to those who have proved who they are.
func TestUnknownDatabaseAfterTheProof(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "known", "secret")
	p := x.door(t, []string{"name: postgres"}, "--auth.auth-query="+whatPostgreSQLKnows, "--auth.auth-user=postgres")
	for password, want := range map[string]string{"secret": "3D000", "guessed": "28P01"} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		_, err := c.LoginWith(0, pgwire.NewPassword(password), "user", "known", "database", "nowhere")
		if code(err) != want {
			t.Errorf("password %q: %v, want %s", password, err, want)
		}
	}
}

// TestMisconfiguredQuery: the client is told nothing of it, the log says what is wrong.
func TestMisconfiguredQuery(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "asker", "secret")
	p := x.asking(t, "SELECT usename, passwd FROM public.no_such_table WHERE usename = $1")
	_, err := x.enter(t, p, "asker", pgwire.NewPassword("secret"))
	var e *pgwire.Error
	if !errors.As(err, &e) || e.Code() != "28000" || strings.Contains(e.Error(), "no_such_table") {
		t.Errorf("the client was told %v", err)
	}
	until(t, 5*time.Second, "a line in the log that says why", func() bool { return strings.Contains(p.Log(), "no_such_table") })
}
