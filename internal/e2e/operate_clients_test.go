package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
	"pgkinetic/internal/testcert"
)

// sceneLogins: clients come in, or do not, by every method.
func sceneLogins(t *testing.T, x *site, w *watch) {
	for _, name := range []string{"seen", "seen_cert", "seen_md5", "seen_clear"} {
		x.role(t, name, "secret")
	}
	for _, name := range []string{"seen", "seen_cert"} {
		x.write(t, x.authority.Issue(testcert.Request{CommonName: name}), name)
	}
	x.write(t, testcert.Authority("another").Issue(testcert.Request{CommonName: "seen_cert"}), "seen_forged")
	hba := tempFile(t, "hba", `
local all all trust
host all seen all scram-sha-256
host all seen_md5 all md5
host all seen_clear all password
hostssl all seen_cert all cert
hostssl all seen_trust all trust clientcert=verify-full
host all nobody all reject
host all all all trust
`)
	o := w.operate(t, x.Server, pooler.Options{Flags: []string{
		"--auth.method=hba", "--auth.hba-file=" + hba, "--server.login-timeout-ms=1500", "--tls.client-mode=prefer",
		"--auth.users-file=" + users(t, "seen", "secret", "seen_cert", "secret", "seen_md5", "secret", "seen_clear", "secret"),
		"--tls.client-cert-file=" + x.path("pooler.crt"), "--tls.client-key-file=" + x.path("pooler.key"), "--tls.client-ca-file=" + x.path("ca.crt"),
		"--tls.server-mode=verify-full", "--tls.server-ca-file=" + x.path("ca.crt"),
	}})
	late := pgwire.Dial(t, "tcp", o.Addr())
	proving := pgwire.Dial(t, "tcp", o.Addr())
	o.send(proving, pgwire.Startup(0, "user", "seen", "database", "postgres"))
	shaking := pgwire.Dial(t, "tcp", o.Addr())
	o.send(shaking, pgwire.SSLRequest())
	o.lookUntil("pg_kinetic_client_connections{state=auth}", "pg_kinetic_client_connections{state=handshake}")
	right, wrong := pgwire.NewPassword("secret"), pgwire.NewPassword("guessed")
	for _, name := range []string{"seen", "seen_md5", "seen_clear"} {
		secure, err := x.enter(t, o.Pooler, name, right, "application_name", "seen")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o.wants(secure, "BEGIN", "")
		o.look()
		if _, err := plainly(t, o.Pooler, wrong, "user", name, "database", "postgres"); err == nil {
			t.Errorf("%s: a wrong password lets in", name)
		}
		broken := pgwire.Dial(t, "tcp", o.Addr())
		o.send(broken, pgwire.Startup(0, "user", name, "database", "postgres"), pgwire.Query("SELECT 1"))
		o.closed(broken)
	}
	for _, one := range [][2]string{{"seen_cert", "seen_cert"}, {"", "seen_cert"}, {"seen", "seen_cert"}, {"seen_forged", ""}, {"", "seen_trust"}, {"seen", "seen_trust"}} {
		x.shows(t, o, one[0], one[1])
	}
	o.refused("28000", "user", "nobody", "database", "postgres")
	for _, end := range [][]byte{[]byte("\x16\x03\x01\x00\x02no"), nil} {
		c := pgwire.Dial(t, "tcp", o.Addr())
		o.send(c, pgwire.SSLRequest())
		if _, err := c.ReadByte(); err != nil {
			t.Fatal(err)
		}
		if end == nil {
			c.Close()
			continue
		}
		o.send(c, end)
		o.closed(c)
	}
	o.closed(late)
	o.lookUntil("pg_kinetic_timeout_total{kind=login}", "pg_kinetic_tls_handshakes_total{scope=client,outcome=failed}")
	if err := os.WriteFile(hba, []byte("host all all nowhere trust\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	o.lookUntil("pg_kinetic_config_reload_total{outcome=failed}")
}

// shows comes by TLS with a certificate, as a user; none: the handshake must fail.
func (x *site) shows(t *testing.T, o *watched, file, user string) {
	t.Helper()
	config := x.trust()
	if file != "" {
		cert, err := tls.LoadX509KeyPair(x.path(file+".crt"), x.path(file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil } // whatever is asked for
	}
	c := pgwire.Dial(t, "tcp", o.Addr())
	err := c.Secure(config)
	if user != "" && err == nil {
		_, err = c.Login(0, "user", user, "database", "postgres")
	}
	if user == "" && err == nil {
		_, err = c.Read() // with TLS 1.3 the client has been told nothing yet
	}
	if in := file == user; in != (err == nil) {
		t.Errorf("certificate %q as %q: %v", file, user, err)
	}
}

// sceneDoors: limits of clients, and connections that are not let in.
func sceneDoors(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{
			`name: "*"`, "name: limited, dbname: postgres, max_clients: 1", "name: shut, dbname: postgres", "name: killed, dbname: postgres", "name: late, dbname: postgres",
			"name: statement, dbname: postgres, pool_mode: statement",
		},
		Flags: []string{"--server.max-pools=4", "--server.max-unauthenticated=5"},
		Env:   []string{`PG_KINETIC_USERS=[{"name": "somebody", "pool_mode": "transaction", "pool_max_size": 30, "max_backends": 40, "max_clients": 50}]`},
	})
	nearby := pgwire.Login(t, "unix", o.SocketPath(), "user", "postgres", "database", "postgres", "DateStyle", "German")
	o.wants(nearby, "SELECT 1", "")
	first := o.client("limited", "postgres")
	o.refused("53300", "user", "postgres", "database", "limited")
	o.command("DISABLE shut")
	o.refused("57P03", "user", "postgres", "database", "shut")
	o.refused("0A000", "user", "postgres", "database", "postgres", "replication", "true")
	mode := o.client("statement", "postgres")
	o.send(mode, pgwire.Query("SELECT '"+strings.Repeat("x", 3<<20)+"'; BEGIN; SELECT 1"))
	o.closed(mode)
	junk := o.client("postgres", "postgres")
	o.send(junk, pgwire.Raw('~', nil))
	o.closed(junk)
	polite := o.client("postgres", "postgres")
	o.send(polite, pgwire.Terminate())
	o.closed(polite)
	lost := o.client("postgres", "postgres")
	o.wants(lost, "BEGIN", "")
	o.wants(lost, "SELECT pg_terminate_backend(pg_backend_pid())", "57P01")
	killed, kept := o.client("killed", "postgres"), o.client("statement", "postgres")
	o.refused("53300", "user", "postgres", "database", "late")
	kept.Close()
	o.command("KILL killed")
	o.closed(killed)
	o.look()
	first.Close() // without a word
	o.lookUntil("USERS.abrupt")
	var silent []*pgwire.Conn
	for range 20 { // who comes too early for the oldest to go is sent away
		silent = append(silent, pgwire.Dial(t, "tcp", o.Addr()))
	}
	o.lookUntil("pg_kinetic_client_closed_total{reason=max_unauthenticated}", "LISTS: login_clients")
	for _, c := range silent {
		c.Close()
	}
}

// sceneProxy: only proxies are let in, and this is none.
func sceneProxy(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{Flags: []string{"--server.proxy-protocol=required", "--server.proxy-protocol-from=10.1.2.3/32"}})
	stranger := pgwire.Dial(t, "tcp", o.Addr())
	o.closed(stranger)
	o.look()
}

// sceneOperator: what operators do to a process, and its end.
func sceneOperator(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{
			`name: "*"`, "name: one, dbname: postgres, checkout_timeout_ms: 60000",
			"name: shut, dbname: postgres, user: postgres, pool_mode: session, max_backends: 3, max_clients: 7, pool_min_idle: 1",
		},
		Env: []string{`PG_KINETIC_ROUTES=[{"name": "one", "match": {"database": "one"}, "max_route_in_flight": 1}]`},
	})
	busy, waiter := o.client("one", "postgres"), o.client("one", "postgres")
	o.wants(busy, "BEGIN", "")
	o.command("DISABLE shut")
	o.command("PAUSE shut")
	o.command("SET capacity.max_route_in_flight = 7")
	o.command("RELOAD")
	o.look()
	for _, c := range o.listed("clients") {
		if c["application_name"] == "goner" {
			t.Error("nobody of this name is here")
		}
	}
	idle := o.client("postgres", "postgres:goner")
	for _, c := range o.listed("clients") {
		if c["application_name"] == "goner" {
			o.command(fmt.Sprintf("KILL_CLIENT %.0f", c["id"]))
		}
	}
	o.closed(idle)
	o.command("SUSPEND")
	o.look()
	o.command("RESUME")
	o.queued(waiter, "SELECT 1", 1)
	o.look()
	if err := o.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o.closed(waiter)
	o.lookUntil("pg_kinetic_not_ready{reason=draining}", "BACKPRESSURE.drained", "pg_kinetic_client_closed_total{reason=draining}")
	o.wants(busy, "COMMIT", "")
	if exit, err := o.ExitCode(20 * time.Second); exit != 0 || err != nil {
		t.Errorf("exit status %d, %v", exit, err)
	}
}

// sceneAway: PostgreSQL is away, or is not whom we trust.
func sceneAway(t *testing.T, x *site, w *watch) {
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := away.Addr().String()
	away.Close()
	o := w.operate(t, x.Server, pooler.Options{Env: []string{fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name": "*", "hosts": [%q]}]`, address)}})
	x.role(t, "seen_away", "secret")
	o.refused("08006", "user", "postgres", "database", "postgres")
	o.look()
	o.command("PAUSE")
	o.look()

	garbled := newHost(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 64))
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_ = c.Close()
	})
	o = w.operate(t, x.Server, pooler.Options{Env: []string{fmt.Sprintf(`PG_KINETIC_DATABASES=[
		{"name": "garbled", "hosts": [%q]}, {"name": "open", "hosts": ["`+x.Addr()+`"], "dbname": "postgres", "connect_query": "BEGIN"}, {"name": "several", "hosts": [%q, %q], "dbname": "postgres"},
		{"name": "standby", "hosts": [%q], "dbname": "postgres", "target_session_attrs": "standby"}, {"name": "none", "hosts": [%q]}]`,
		garbled, address, x.Addr(), x.Addr(), x.Addr())}, Flags: []string{"--tls.server-mode=require"}})
	o.refused("28000", "user", "seen_away", "database", "several") // PostgreSQL asks for a password that nobody has told
	o.refused("08P01", "user", "postgres", "database", "garbled")
	o.refused("28000", "user", "postgres", "database", "open")
	o.refused("3D000", "user", "postgres", "database", "none")
	o.refused("08006", "user", "postgres", "database", "standby")
	o.wants(o.client("several", "postgres"), "SELECT 1", "")
	o.look()

	foreign := tempFile(t, "foreign.crt", string(testcert.Authority("another").PEM()))
	nonsense := newHost(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 64))
		_, _ = c.Write([]byte("S"))
		_, _ = c.Read(make([]byte, 64))
		_, _ = c.Write([]byte("\x15\x03\x03\x00\x02\x02\x28")) // an alert
		_ = c.Close()
	})
	o = w.operate(t, x.Server, pooler.Options{
		Env:   []string{fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name": "nonsense", "hosts": [%q]}, {"name": "*", "hosts": ["localhost:%d"]}]`, nonsense, x.Port)},
		Flags: []string{"--tls.server-mode=verify-ca", "--tls.server-ca-file=" + foreign},
	})
	o.refused("08006", "user", "postgres", "database", "postgres")
	o.refused("08006", "user", "postgres", "database", "nonsense")
	o.look()
}

// newHost listens and does something with each connection.
func newHost(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}
