package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
	"pgkinetic/internal/testcert"
)

// site is the shared PostgreSQL with a certificate, and the files of both sides' TLS. Its roles that are members of secured
// come in by TLS and SCRAM alone, those of secured_md5 by TLS and MD5, those of secured_cert by a certificate.
type site struct {
	*pgtest.Server
	authority *testcert.Certificate // of PostgreSQL, pg-kinetic and the clients
	files     string                // directory of the files below
}

var madeSite struct {
	sync.Mutex
	*site
}

// secured makes the shared PostgreSQL a site, once. What other tests do with it stays as it was.
func secured(t *testing.T) *site {
	t.Helper()
	onlyKinetic(t)
	madeSite.Lock()
	defer madeSite.Unlock()
	if madeSite.site == nil {
		madeSite.site = newSite(t)
	}
	return madeSite.site
}

func newSite(t *testing.T) *site {
	t.Helper()
	x := &site{Server: pgtest.Shared(t), authority: testcert.Authority("authority of the tests")}
	x.files = filepath.Join(x.SocketDir(), "tls") // goes with the server's directory
	if err := os.Mkdir(x.files, 0o755); err != nil {
		t.Fatal(err)
	}
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "postgres", Addresses: here}), "postgres")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "pooler", Addresses: here}), "pooler")
	if err := os.WriteFile(x.path("ca.crt"), x.authority.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	if u := pgtest.Unprivileged(); u != nil { // PostgreSQL wants to own its key
		if err := os.Chown(x.path("postgres.key"), int(u.Uid), int(u.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	for _, setting := range []string{
		"ssl_cert_file = '" + x.path("postgres.crt") + "'", "ssl_key_file = '" + x.path("postgres.key") + "'",
		"ssl_ca_file = '" + x.path("ca.crt") + "'", "ssl = on",
	} {
		x.Exec(t, "ALTER SYSTEM SET "+setting)
	}
	x.Exec(t, "CREATE ROLE secured; CREATE ROLE secured_md5; CREATE ROLE secured_cert")
	x.HBA(t, "hostssl all +secured all scram-sha-256", "hostssl all +secured_md5 all md5", "hostssl all +secured_cert all cert",
		"host all +secured all reject", "host all +secured_md5 all reject", "host all +secured_cert all reject")
	return x
}

func (x *site) write(t *testing.T, c *testcert.Certificate, name string) {
	t.Helper()
	if _, _, err := c.Write(x.files, name); err != nil {
		t.Fatal(err)
	}
}

// path is that of one of the site's files.
func (x *site) path(name string) string { return filepath.Join(x.files, name) }

// role makes a role that comes in by SCRAM, anew.
func (x *site) role(t *testing.T, name, password string) {
	t.Helper()
	x.roleIn(t, "secured", name, password)
}

// roleIn makes a role that is a member of a group, anew. The password may be a secret as PostgreSQL stores it.
func (x *site) roleIn(t *testing.T, group, name, password string) {
	t.Helper()
	x.Exec(t, fmt.Sprintf(`DROP ROLE IF EXISTS %[1]q; CREATE ROLE %[1]q LOGIN IN ROLE %[2]q PASSWORD '%[3]s'`, name, group, password))
}

// secretOf is what PostgreSQL stores for a role.
func (x *site) secretOf(t *testing.T, name string) string {
	t.Helper()
	return x.Value(t, "SELECT rolpassword FROM pg_authid WHERE rolname = '"+name+"'")
}

// users writes a file of users: name, secret, name, secret…
func users(t *testing.T, pairs ...string) string {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, "%q %q\n", pairs[i], pairs[i+1])
	}
	return tempFile(t, "users.txt", text.String())
}

// tempFile writes a file into a directory of the test.
func tempFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// door is a pg-kinetic in front of the site, with TLS to PostgreSQL that is verified in full and TLS for clients who want it.
// flags go on from there.
func (x *site) door(t *testing.T, databases []string, flags ...string) *pooler.Pooler {
	t.Helper()
	all := append([]string{
		"--tls.server-mode=verify-full", "--tls.server-ca-file=" + x.path("ca.crt"), "--tls.client-mode=prefer",
		"--tls.client-cert-file=" + x.path("pooler.crt"), "--tls.client-key-file=" + x.path("pooler.key"),
		"--auth.method=scram-sha-256",
	}, flags...)
	return pooler.Start(t, x.Server, pooler.Options{PoolSize: 4, Databases: databases, Flags: all})
}

// trust is the configuration of a client that verifies pg-kinetic.
func (x *site) trust() *tls.Config {
	return &tls.Config{RootCAs: x.authority.Pool(), ServerName: "127.0.0.1"}
}

// enter logs in by TLS with a password.
func (x *site) enter(t *testing.T, p *pooler.Pooler, user string, password *pgwire.Password, params ...string) (*pgwire.Conn, error) {
	t.Helper()
	c := pgwire.Dial(t, "tcp", p.Addr())
	if err := c.Secure(x.trust()); err != nil {
		t.Fatal(err)
	}
	_, err := c.LoginWith(0, password, append([]string{"user", user, "database", "postgres"}, params...)...)
	return c, err
}

// plainly logs in without TLS.
func plainly(t *testing.T, p *pooler.Pooler, password *pgwire.Password, params ...string) (*pgwire.Conn, error) {
	t.Helper()
	c := pgwire.Dial(t, "tcp", p.Addr())
	_, err := c.LoginWith(0, password, params...)
	return c, err
}

// refusal is what a client was told, with all fields that a client can see; "" for none.
func refusal(err error) string {
	var e *pgwire.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	if err != nil {
		return "not an answer: " + err.Error()
	}
	return ""
}

// psql runs one command with libpq and returns what it printed, or its complaint.
func psql(t *testing.T, env []string, conninfo, command string) (out string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(pgtest.Shared(t), "psql"), "-XqAt", "-d", conninfo, "-c", command)
	cmd.Env = append(append(pooler.CleanEnvironment(), "PGCONNECT_TIMEOUT=20", "PGPASSFILE=/nonexistent", "LC_ALL=C", "HOME=/nonexistent"), env...)
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err == nil
}

// conninfo is for libpq: the address and what else is wanted.
func conninfo(p *pooler.Pooler, more ...string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres %s", p.Port, strings.Join(more, " "))
}
