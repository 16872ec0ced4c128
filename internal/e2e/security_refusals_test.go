package e2e

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// whoMayLogIn gives each method of a password to the users whose names begin with its letter.
const whoMayLogIn = `
host all /^s_ all scram-sha-256
host all /^m_ all md5
host all /^p_ all password
`

// whatPostgreSQLKnows is an auth_query.
const whatPostgreSQLKnows = "SELECT rolname, rolpassword, rolvaliduntil FROM pg_authid WHERE rolname = $1 AND rolcanlogin"

// credentials makes the users of each method: listed in a file, and asked of PostgreSQL.
func (x *site) credentials(t *testing.T) (usersFile string) {
	t.Helper()
	var listed []string
	for _, letter := range []string{"s_", "m_", "p_"} {
		listed = append(listed, letter+"plain", "secret")
		for _, name := range []string{"asked", "expired", "nologin", "nopassword", "stored"} {
			x.role(t, letter+name, "secret")
		}
		x.Exec(t, fmt.Sprintf(`ALTER ROLE %[1]sexpired VALID UNTIL '2000-01-01'; ALTER ROLE %[1]snologin NOLOGIN;
			ALTER ROLE %[1]snopassword PASSWORD NULL`, letter))
		listed = append(listed, letter+"stored", x.secretOf(t, letter+"stored"))
	}
	x.role(t, "s_plain", "secret")
	return users(t, listed...)
}

// TestWrongCredentialsTellNothing: whatever is wrong with a user, a password or a database, the answer is the same, and so is
// everything before it.
func TestWrongCredentialsTellNothing(t *testing.T) {
	t.Parallel()
	x := secured(t)
	file := x.credentials(t)
	p := x.door(t, []string{"name: postgres", "name: billing, dbname: postgres", `name: other, dbname: postgres, auth_query: "SELECT $1, NULL WHERE false"`},
		"--auth.method=hba", "--auth.hba-file="+tempFile(t, "hba.conf", whoMayLogIn), "--auth.users-file="+file,
		"--auth.auth-query="+whatPostgreSQLKnows, "--auth.auth-user=postgres")
	right, wrong := pgwire.NewPassword("secret"), pgwire.NewPassword("guessed")
	for _, letter := range []string{"s_", "m_", "p_"} {
		var first string
		for _, test := range []struct {
			user, database string
			password       *pgwire.Password
		}{
			{"plain", "postgres", wrong}, // the measure of the others
			{"unknown", "postgres", wrong},
			{"stored", "postgres", wrong},
			{"asked", "postgres", wrong},
			{"expired", "postgres", wrong},
			{"expired", "postgres", right},
			{"nologin", "postgres", right},
			{"nopassword", "postgres", right},
			{"plain", "nowhere", wrong},
			{"asked", "nowhere", wrong},
			{"unknown", "nowhere", wrong},
			{"asked", "other", right}, // its auth_query finds nobody
		} {
			for _, secure := range []bool{false, true} {
				x.forgive(t, p)
				what := fmt.Sprintf("%s%s in %s, TLS %v", letter, test.user, test.database, secure)
				got := x.refused(t, p, secure, test.password, letter+test.user, test.database)
				got = strings.ReplaceAll(got, letter+test.user, "USER")
				if first == "" {
					first = got
				}
				if secure { // which offers more
					got = strings.Replace(got, "SCRAM-SHA-256-PLUS ", "", 1)
				}
				want := first
				if letter == "m_" { // md5 asks those whose secret is one of SCRAM for that, as PostgreSQL does
					_, got, _ = strings.Cut(got, "FATAL")
					_, want, _ = strings.Cut(want, "FATAL")
				}
				if got != want {
					t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
				}
			}
		}
		if !strings.HasSuffix(first, `FATAL 28P01: password authentication failed for user "USER"`) {
			t.Errorf("%s: %s", letter, first)
		}
	}
}

// forgive lets somebody in, which clears what has failed from this address: the next failure is answered at once.
func (x *site) forgive(t *testing.T, p *pooler.Pooler) {
	t.Helper()
	c, err := plainly(t, p, forgiven, "user", "s_plain", "database", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

var forgiven = pgwire.NewPassword("secret")

var random = regexp.MustCompile(`r=[^,]*,s=[^,]*`)

// refused tries to log in and returns what came, with everything random by its length alone.
func (x *site) refused(t *testing.T, p *pooler.Pooler, secure bool, password *pgwire.Password, user, database string) string {
	t.Helper()
	c := pgwire.Dial(t, "tcp", p.Addr())
	defer c.Close()
	if secure {
		if err := c.Secure(x.trust()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.LoginWith(0, password, "user", user, "database", database)
	var out strings.Builder
	for _, m := range all {
		switch {
		case m.Type == 'R' && binary.BigEndian.Uint32(m.Body) == 10:
			fmt.Fprintf(&out, "SASL %s\n", strings.ReplaceAll(string(m.Body[4:]), "\x00", " "))
		case m.Type == 'R':
			text := random.ReplaceAllStringFunc(string(m.Body[4:]), func(s string) string { return fmt.Sprint(len(s)) })
			if code := binary.BigEndian.Uint32(m.Body); code == 5 {
				text = "salt"
			}
			fmt.Fprintf(&out, "R %d %s\n", m.Body[3], text)
		case m.Type != 'E':
			fmt.Fprintf(&out, "%c %d\n", m.Type, len(m.Body))
		}
	}
	return out.String() + refusal(err)
}

// TestSaltsTellNothing: what a user is shown before the proof depends on the user alone, so that nobody learns which
// databases there are.
func TestSaltsTellNothing(t *testing.T) {
	t.Parallel()
	x := secured(t)
	for _, name := range []string{"salted", "salted_too"} {
		x.role(t, name, "secret")
	}
	p := x.door(t, []string{"name: postgres", "name: billing, dbname: postgres"}, "--auth.users-file="+users(t, "salted_too", "secret"),
		"--auth.auth-query="+whatPostgreSQLKnows, "--auth.auth-user=postgres")
	for _, user := range []string{"salted", "salted_too", "salted_not"} {
		salts := map[string]string{}
		for _, database := range []string{"postgres", "billing", "nowhere", "elsewhere"} {
			salt := saltOf(t, p, user, database)
			for other, shown := range salts {
				if shown != salt {
					t.Errorf("%s is shown %s in %s and %s in %s", user, salt, database, shown, other)
				}
			}
			salts[database] = salt
		}
	}
}

// saltOf begins a login by SCRAM and gives salt and iterations.
func saltOf(t *testing.T, p *pooler.Pooler, user, database string) string {
	t.Helper()
	c := pgwire.Dial(t, "tcp", p.Addr())
	defer c.Close()
	if err := c.Send(pgwire.Startup(0, "user", user, "database", database)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(saslFirst("n,,n=,r=nonce")); err != nil {
		t.Fatal(err)
	}
	m, err := c.Read()
	if err != nil || m.Type != 'R' {
		t.Fatalf("%v, %v", m, err)
	}
	_, salt, _ := strings.Cut(string(m.Body[4:]), ",")
	return salt
}

// saslFirst is a SASLInitialResponse of SCRAM-SHA-256.
func saslFirst(text string) []byte {
	body := append([]byte("SCRAM-SHA-256\x00"), 0, 0, 0, byte(len(text)))
	return pgwire.Raw('p', append(body, text...))
}
