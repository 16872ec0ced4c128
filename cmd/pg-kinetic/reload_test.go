package main

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds what a test waits for; it is long because the machine may be busy.
const patience = 20 * time.Second

// running is a process that lets the user postgres in by TLS, rules and a file of users.
type running struct {
	*pooler.Process
	*securityFiles
	port                        int
	stopped                     bool   // by the test
	settings                    string // those it began with
	config, users, hba, ca, key string // paths
}

// serving starts one; alter changes its command.
func serving(t *testing.T, alter ...func(r *running, cmd *exec.Cmd)) *running {
	t.Helper()
	pg := pgtest.Shared(t)
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := pooler.Built()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{securityFiles: newSecurityFiles(t), port: port}
	cert, key := r.pair("server")
	r.key = key
	r.ca = r.write("ca.pem", string(r.authority.PEM()))
	r.users = r.write("users.txt", "\"postgres\" \"first\"\n")
	r.hba = r.write("hba.conf", "hostssl all postgres 127.0.0.1/32 scram-sha-256\n")
	r.settings = hbaSettings(r.users, r.hba, "", tlsWords("client_mode", "require", "client_cert_file", cert, "client_key_file", key)...) +
		fmt.Sprintf("server:\n  listen: [\"127.0.0.1:%d\"]\ndatabases:\n- {name: \"*\", hosts: [%q]}\n", port, pg.Addr())
	r.config = r.write("pg-kinetic.yaml", r.settings)
	cmd := exec.Command(binary, "serve", "--config", r.config, "--admin.listen=")
	cmd.Env = append(pooler.CleanEnvironment(), "GORACE=halt_on_error=1 exitcode=66")
	for _, change := range alter {
		change(r, cmd)
	}
	base := filepath.Join(pg.SocketDir(), fmt.Sprintf("reload-%d", port))
	r.Process, err = pooler.Launch(cmd, base, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close() // nothing was sent
		}
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.End() == r.stopped || strings.Contains(r.Log(), "WARNING: DATA RACE") || t.Failed() {
			t.Errorf("the process's log:\n%s", r.LogTail(40))
		}
	})
	return r
}

// stop ends the process and checks how.
func (r *running) stop(want int) {
	r.t.Helper()
	r.stopped = true
	if err := r.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if code, err := r.ExitCode(patience); err != nil || code != want {
		r.t.Errorf("exit %d, %v, want %d", code, err, want)
	}
}

// connect logs in, and gives the number of the certificate that it was shown.
func (r *running) connect(password string) (c *pgconn.PgConn, serial string, err error) {
	cfg, err := pgconn.ParseConfig(fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=verify-full&sslrootcert=%s", password, r.port, r.ca))
	if err != nil {
		return nil, "", err
	}
	cfg.TLSConfig.VerifyConnection = func(state tls.ConnectionState) error {
		serial = state.PeerCertificates[0].SerialNumber.String()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err = pgconn.ConnectConfig(ctx, cfg)
	return c, serial, err
}

func query(c *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.Exec(ctx, "SELECT 1").ReadAll()
	return err
}

// enter logs in for the length of the test.
func (r *running) enter(password string) (c *pgconn.PgConn, serial string) {
	r.t.Helper()
	c, serial, err := r.connect(password)
	if err == nil {
		r.t.Cleanup(func() { _ = c.Close(context.Background()) })
		err = query(c)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return c, serial
}

// refused checks that nobody gets in with the password.
func (r *running) refused(password, code string) {
	r.t.Helper()
	c, _, err := r.connect(password)
	if err == nil {
		_ = c.Close(context.Background())
	}
	var told *pgconn.PgError
	if !errors.As(err, &told) || told.Code != code {
		r.t.Errorf("password %s: %v, want %s", password, err, code)
	}
}

func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// reload sends SIGHUP and waits for its lines in the log: so many more, each with a text.
func (r *running) reload(text string, lines int) (told string) {
	r.t.Helper()
	before := r.Log()
	if err := r.Signal(syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
	return r.sees("SIGHUP", before, text, lines)
}

// sees waits for the lines in the log behind what it was before.
func (r *running) sees(what, before, text string, lines int) (told string) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%s: %d lines with %q", what, lines, text), func() bool {
		told = r.Log()[len(before):]
		return strings.Count(told, text) == lines
	})
	return told
}

const (
	reloaded    = "settings changed"
	notReloaded = `level=ERROR msg="not reloaded: everything goes on as it was" place=`
)

// Reloads disturb no login.
func TestReloadUnderLogins(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var logins atomic.Int64
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, _, err := r.connect("first")
				if err == nil {
					err = query(c)
					_ = c.Close(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
				logins.Add(1)
			}
		})
	}
	defer clients.Wait()
	defer close(stop)
	for i := range 20 {
		before := logins.Load()
		if i%5 == 0 {
			r.pair("server")
		}
		r.reload(reloaded, 1)
		until(t, "logins go on", func() bool { return logins.Load() > before+4 || t.Failed() })
	}
}

// A new certificate is for new handshakes; one that cannot be used leaves the old one.
func TestReloadOfCertificates(t *testing.T) {
	t.Parallel()
	r := serving(t)
	session, first := r.enter("first")
	r.pair("server")
	if _, serial := r.enter("first"); serial != first {
		t.Errorf("certificate %s before the reload, want %s", serial, first)
	}
	r.reload(reloaded, 1)
	_, second := r.enter("first")
	if second == first {
		t.Error("the old certificate after the reload")
	}
	r.write(filepath.Base(r.key), "no key\n")
	if told := r.reload(notReloaded, 1); !strings.Contains(told, r.config+":9:20") || !strings.Contains(told, "tls.client_key_file") {
		t.Errorf("the log of a broken pair:\n%s", told)
	}
	if _, serial := r.enter("first"); serial != second {
		t.Errorf("certificate %s after a broken one, want %s", serial, second)
	}
	if err := query(session); err != nil {
		t.Errorf("a session through the reloads: %v", err)
	}
}

func TestReloadOfUsersAndRules(t *testing.T) {
	t.Parallel()
	r := serving(t)
	session, _ := r.enter("first")
	r.write("users.txt", "\"postgres\" \"second\"\n")
	r.reload(reloaded, 1)
	r.refused("first", "28P01")
	r.enter("second")
	r.write("users.txt", "\"postgres\" \"third\"\nand so on\n")
	r.write("hba.conf", "hostssl all postgres 127.0.0.1/33 scram-sha-256\n")
	told := r.reload(notReloaded, 2)
	if !strings.Contains(told, notReloaded+r.users+":2:1 ") || !strings.Contains(told, notReloaded+r.hba+":1:22 ") {
		t.Errorf("the log of bad files:\n%s", told)
	}
	r.enter("second")
	r.write("users.txt", "\"postgres\" \"third\"\n")
	r.write("hba.conf", "hostssl all postgres 127.0.0.1/32 reject\nlocal all all trust\n")
	if told := r.reload(reloaded, 1); !strings.Contains(told, r.hba+":2:1 reason=\"the local line is for no client") {
		t.Errorf("no warning of a line for nobody:\n%s", told)
	}
	r.refused("third", "28000")
	if err := query(session); err != nil {
		t.Errorf("a session through the reloads: %v", err)
	}
}

// Settings that are not good change nothing; what does not hold at once is told.
func TestReloadOfSettings(t *testing.T) {
	t.Parallel()
	r := serving(t)
	session, _ := r.enter("first")
	r.write("pg-kinetic.yaml", "capacity: {query_timeout_ms: -1}\nserver:\n  max_clients: none\n")
	told := r.reload(notReloaded, 2)
	if !strings.Contains(told, r.config+":1:30 ") || !strings.Contains(told, r.config+":3:16 ") {
		t.Errorf("the log of bad settings:\n%s", told)
	}
	r.write("pg-kinetic.yaml", "log: {level: debug}\n")
	if told := r.reload(notReloaded, 1); !strings.Contains(told, "nothing says where the users' secrets are") {
		t.Errorf("the log of settings by which nobody could log in:\n%s", told)
	}
	if err := os.Remove(r.config); err != nil {
		t.Fatal(err)
	}
	if told := r.reload(notReloaded, 1); !strings.Contains(told, r.config+" error=\"cannot be read: no such file") {
		t.Errorf("the log without a file:\n%s", told)
	}
	r.enter("first")
	r.write("pg-kinetic.yaml", strings.Replace(r.settings, "server:\n", "server:\n  io_uring: false\n", 1)+"capacity: {query_timeout_ms: 50}\n")
	r.reload(`setting=server.io_uring effect="needs a restart"`, 1)
	_, err := session.Exec(t.Context(), "SELECT pg_sleep(10)").ReadAll()
	var timeout *pgconn.PgError
	if !errors.As(err, &timeout) || timeout.Code != "57014" {
		t.Errorf("a query beyond the new time-out: %v", err)
	}
}

// What this process does by itself follows a reload too.
func TestReloadOfLogAndDrain(t *testing.T) {
	t.Parallel()
	r := serving(t)
	pid := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(r.dir, name))
		return strings.TrimSpace(string(text))
	}
	write := func(more string) {
		r.write("pg-kinetic.yaml", strings.Replace(r.settings, "server:\n", fmt.Sprintf("server:\n  pid_file: %q\n", filepath.Join(r.dir, "first.pid")), 1)+more)
	}
	r.enter("first")
	write("log: {format: json, connections: false}\n")
	told := r.reload(reloaded, 1)
	if strings.Contains(told, "needs a restart") || pid("first.pid") != fmt.Sprint(r.PID()) {
		t.Errorf("pid file %q, the log:\n%s", pid("first.pid"), told)
	}
	before := r.Log()
	c, _ := r.enter("first")
	_ = c.Close(context.Background())
	r.write("pg-kinetic.yaml", strings.Replace(r.settings, "server:\n", "server:\n  pid_file: /nonexistent/pid\n", 1))
	r.reload(`"level":"ERROR","msg":"not reloaded: everything goes on as it was","error":"cannot write server.pid_file`, 1)
	if quiet := r.Log()[len(before):]; strings.Contains(quiet, "client") || pid("first.pid") == "" {
		t.Errorf("logins without log.connections, pid file %q:\n%s", pid("first.pid"), quiet)
	}
	r.write("pg-kinetic.yaml", r.settings+"log: {level: warn}\ndrain: {timeout_ms: 1}\n")
	if err := r.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the pid file has gone", func() bool { return pid("first.pid") == "" })
	session, _ := r.enter("first")
	if _, err := session.Exec(t.Context(), "BEGIN").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if quiet := r.Log()[len(before):]; strings.Contains(quiet, "client logged in") {
		t.Errorf("a login at level warn:\n%s", quiet)
	}
	r.stop(exitFailure) // the transaction is cut
}
