package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// pair is a user with a secret for clients, and what PostgreSQL has for the user that logs in there.
type pair struct {
	user, database string
	want           string // "": works; else what each of the client's errors says
	current        string // the user of PostgreSQL; "": the same
}

// secretPairs makes users of each kind of secret on both sides, and the entries of databases that force another user.
func (x *site) secretPairs(t *testing.T) (listed, databases []string, all []pair) {
	t.Helper()
	for _, name := range []string{"s_plain_scram", "s_same_scram", "s_other_scram", "m_md5_scram", "s_client"} {
		x.role(t, name, "secret")
	}
	x.role(t, "s_wrong_scram", "changed")
	x.Exec(t, "SET password_encryption = 'md5'; CREATE ROLE s_other_md5 LOGIN PASSWORD 'secret'; CREATE ROLE m_same_md5 LOGIN PASSWORD 'secret'; "+
		"CREATE ROLE s_plain_md5 LOGIN PASSWORD 'secret'; CREATE ROLE m_wrong_md5 LOGIN PASSWORD 'changed'; "+
		"GRANT secured_md5 TO s_other_md5, m_same_md5, s_plain_md5, m_wrong_md5")
	t.Cleanup(func() { x.Exec(t, "DROP ROLE s_other_md5, m_same_md5, s_plain_md5, m_wrong_md5") })
	md5Of := func(user string) string {
		return x.Value(t, fmt.Sprintf("SELECT 'md5' || md5('secret%s')", user))
	}
	verifier := x.secretOf(t, "s_client") // of the same password, with a salt of its own
	all = []pair{
		{"s_plain_scram", "postgres", "", ""},
		{"s_plain_md5", "postgres", "", ""},
		{"s_same_scram", "postgres", "", ""},
		{"s_other_scram", "postgres", "SCRAM secret", ""},
		{"s_other_md5", "postgres", "SCRAM secret", ""},
		{"s_wrong_scram", "postgres", "28P01", ""},
		{"m_same_md5", "postgres", "", ""},
		{"m_wrong_md5", "postgres", "28P01", ""},
		{"m_md5_scram", "postgres", "md5", ""},
	}
	listed = []string{
		"s_plain_scram", "secret", "s_plain_md5", "secret", "s_same_scram", x.secretOf(t, "s_same_scram"), "s_other_scram", verifier,
		"s_other_md5", verifier, "s_wrong_scram", "secret", "m_same_md5", md5Of("m_same_md5"), "m_wrong_md5", md5Of("m_wrong_md5"),
		"m_md5_scram", md5Of("m_md5_scram"), "s_client", verifier, "m_client", md5Of("m_client"), "s_client_plain", "secret",
	}
	// Another user of PostgreSQL than the client: what the client proves says nothing of that one.
	for _, f := range []struct{ name, entry, secret, want string }{
		{"forced_password", "password: secret", "", ""},
		{"forced_listed", "", "secret", ""},
		{"forced_stored", "", "verifier", "SCRAM secret"},
		{"forced_unknown", "", "", "none is known"},
	} {
		x.role(t, f.name, "secret")
		switch f.secret {
		case "verifier":
			listed = append(listed, f.name, x.secretOf(t, f.name))
		case "secret":
			listed = append(listed, f.name, f.secret)
		}
		databases = append(databases, strings.TrimSuffix(fmt.Sprintf("name: %[1]s, dbname: postgres, user: %[1]s, %[2]s", f.name, f.entry), ", "))
		for _, user := range []string{"s_client", "m_client", "s_client_plain"} {
			all = append(all, pair{user, f.name, f.want, f.name})
		}
	}
	return listed, databases, all
}

// TestAU06EverySecretOnBothSides: what can work does, also after PostgreSQL has ended the sessions, and beside others; what
// cannot says which secret is missing.
func TestAU06EverySecretOnBothSides(t *testing.T) {
	t.Parallel()
	x := secured(t)
	listed, databases, pairs := x.secretPairs(t)
	p := x.door(t, append(databases, "name: postgres"), "--auth.method=hba", "--auth.hba-file="+tempFile(t, "hba.conf", whoMayLogIn),
		"--auth.users-file="+users(t, listed...), "--capacity.checkout-timeout-ms=20000")
	password := pgwire.NewPassword("secret")
	var clients []*pgwire.Conn
	for _, f := range pairs {
		c, err := x.enterAs(p, password, f)
		if f.want == "" != (err == nil) || err != nil && !strings.Contains(refusal(err), f.want) {
			t.Errorf("%s in %s: %v, want %q", f.user, f.database, err, f.want)
		}
		if err == nil {
			t.Cleanup(c.Close)
		}
		clients = append(clients, c)
	}
	var roles []string
	for _, f := range pairs {
		roles = append(roles, f.server())
	}
	for round := range 3 {
		x.KillBackends(t, "usename = ANY ('{"+strings.Join(roles, ",")+"}')")
		for i, f := range pairs {
			if f.want != "" || clients[i] == nil {
				continue
			}
			until(t, 5*time.Second, fmt.Sprintf("%s in %s goes on after kill %d", f.user, f.database, round+1), func() bool {
				rows, err := clients[i].Exec("SELECT current_user")
				return err == nil && rows[0][0] == f.server()
			})
		}
	}
	x.sideBySide(t, p, password, pairs)
}

func (f *pair) server() string {
	if f.current != "" {
		return f.current
	}
	return f.user
}

func (x *site) enterAs(p *pooler.Pooler, password *pgwire.Password, f pair) (*pgwire.Conn, error) {
	c, err := pgwire.Open("tcp", p.Addr())
	if err != nil {
		return nil, err
	}
	if _, err = c.LoginWith(0, password, "user", f.user, "database", f.database); err == nil {
		var rows [][]string
		if rows, err = c.Exec("SELECT current_user"); err == nil && rows[0][0] != f.server() {
			err = fmt.Errorf("%s in %s is %s", f.user, f.database, rows[0][0])
		}
	}
	if err != nil {
		c.Close()
	}
	return c, err
}

// sideBySide lets all who come in work at the same time.
func (x *site) sideBySide(t *testing.T, p *pooler.Pooler, password *pgwire.Password, pairs []pair) {
	t.Helper()
	var all sync.WaitGroup
	for _, f := range pairs {
		if f.want != "" {
			continue
		}
		all.Go(func() {
			for range 5 {
				c, err := x.enterAs(p, password, f)
				if err != nil {
					t.Errorf("%s in %s, beside others: %v", f.user, f.database, err)
					return
				}
				c.Close()
			}
		})
	}
	all.Wait()
}
