package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestServerLogin: every method of pg_hba.conf, right and wrong passwords, from each place where a password may stand.
func TestServerLogin(t *testing.T) {
	pg := pgtest.Start(t)
	pg.Exec(t, `set password_encryption = 'md5'; create role md5_user login password 'secret, "x"'`)
	pg.Exec(t, `set password_encryption = 'scram-sha-256'; create role scram_user login password 'secret, "x"'`)
	pg.Exec(t, `create role plain_user login password 'secret, "x"'; create role trust_user login`)
	pg.HBA(t, "host all md5_user all md5", "host all scram_user all scram-sha-256", "host all plain_user all password")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret, \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVER_LOGIN_PASSWORD", `secret, "x"`)
	const right, wrong = `password: 'secret, "x"'`, `password: wrong`
	for name, c := range map[string]struct{ user, secret, code string }{
		"trust":          {"trust_user", "", ""},
		"password":       {"plain_user", right, ""},
		"md5":            {"md5_user", right, ""},
		"scram":          {"scram_user", right, ""},
		"env":            {"scram_user", "password_env: SERVER_LOGIN_PASSWORD", ""},
		"file":           {"scram_user", fmt.Sprintf("password_file: %q", file), ""},
		"wrong password": {"plain_user", wrong, "28P01"},
		"wrong md5":      {"md5_user", wrong, "28P01"},
		"wrong scram":    {"scram_user", wrong, "28P01"},
		"no password":    {"scram_user", "", "28000"},
		"no such user":   {"nobody", right, "28000"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := c.secret
			if secret != "" {
				secret = ", " + secret
			}
			e, address := startYAML(t, fmt.Sprintf("databases: [{name: app, hosts: [%q], dbname: postgres, user: %s%s}]\n", pg.Addr(), c.user, secret))
			for range 3 { // the derived keys serve again; a refusal is told again
				conn := pgwire.Dial(t, "tcp", address)
				_, err := conn.Login(0, "user", "anybody", "database", "app")
				if c.code != "" {
					refused(t, err, "FATAL", c.code)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := one(t, conn, "select current_user"); got != c.user {
					t.Errorf("current_user is %s", got)
				}
				pg.KillBackends(t, "usename = '"+c.user+"'")
				until(t, "the loss seen", func() bool { return e.Totals().Servers == 0 })
			}
		})
	}
}

// TestServerLoginUnix: through PostgreSQL's Unix socket.
func TestServerLoginUnix(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := startYAML(t, fmt.Sprintf("databases: [{name: postgres, hosts: [%q]}]\n", fmt.Sprintf("%s:%d", pg.SocketDir(), pg.Port)))
	c := login(t, address)
	if got := one(t, c, "select coalesce(inet_server_addr()::text, 'unix')"); got != "unix" {
		t.Errorf("through %s", got)
	}
	send(t, c, pgwire.Query("select pg_sleep(60)"))
	until(t, "cancelled", func() bool { // the cancel finds its way through the socket too
		if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
		return !c.Silent(1e6)
	})
	if all, err := c.ReadUntil('Z', 1); err != nil || !strings.HasSuffix(typesOf(all), "EZI") { // a RowDescription, if it was in time
		t.Errorf("got %s, %v", typesOf(all), err)
	}
}

// TestConnectQuery: it runs once per backend; what it breaks is told.
func TestConnectQuery(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	for query, code := range map[string]string{
		"set work_mem = '7MB'; set application_name = 'greeted'": "",
		"select 1/0":                "22012",
		"begin":                     "28000",
		"copy (select 1) to stdout": "28000",
	} {
		_, address := startYAML(t, fmt.Sprintf("databases: [{name: postgres, hosts: [%q], connect_query: %q}]\n", pg.Addr(), query))
		c, err := tryLogin(t, address)
		if code != "" {
			refused(t, err, "FATAL", code)
			continue
		}
		if got := one(t, c, "select current_setting('work_mem') || current_setting('application_name')"); got != "7MBgreeted" {
			t.Errorf("got %s", got)
		}
		exec(t, c, "set work_mem = '8MB'")
		c.Close()
	}
}
