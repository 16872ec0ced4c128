package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/tlsconfig"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/testcert"
	"pgkinetic/protocol"
)

// secureServer is a PostgreSQL with TLS.
func secureServer(t *testing.T) (*pgtest.Server, *x509.CertPool) {
	t.Helper()
	authority := testcert.Authority("authority")
	cert := authority.Issue(testcert.Request{CommonName: "postgres", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	s := pgtest.Start(t, pgtest.Certificate(cert.PEM(), cert.KeyPEM()))
	return s, authority.Pool()
}

// Each mode against each pg_hba.conf, and what the session is then: PostgreSQL
// says so itself.
func TestModesAgainstPostgreSQL(t *testing.T) {
	s, roots := secureServer(t)
	s.Exec(t, "CREATE ROLE u LOGIN PASSWORD 'secret'")
	cfg := Config{
		Host: configs.Host{Network: "tcp", Address: s.Addr()}, TLS: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"},
		EndPoint: tlsconfig.EndPoint,
	}
	credentials := backend.NewCredentials("u", nil)
	credentials.Set(backend.Stored{Password: "secret"})
	cfg.Login = backend.LoginConfig{User: "u", Database: "postgres", Credentials: credentials}
	computed := 0
	cfg.Compute = func(_ context.Context, work func()) error { computed++; work(); return nil }

	try := func(cfg Config) string {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := Open(ctx, &cfg)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		if c.PID() == 0 {
			t.Error("no process id")
		}
		return fmt.Sprint("in, TLS ", encrypted(t, c))
	}
	f := func(mode configs.TLSMode, want string) {
		t.Helper()
		cfg.Mode = mode
		if got := try(cfg); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
	s.HBA(t, "host all u all scram-sha-256")
	f(configs.TLSDisable, "in, TLS false")
	f(configs.TLSAllow, "in, TLS false")
	f(configs.TLSPrefer, "in, TLS true")
	f(configs.TLSRequire, "in, TLS true")
	f(configs.TLSVerifyFull, "in, TLS true")
	s.HBA(t, "hostssl all u all scram-sha-256", "host all u all reject")
	f(configs.TLSDisable, "rejects connection")
	f(configs.TLSAllow, "in, TLS true")
	f(configs.TLSPrefer, "in, TLS true")
	s.HBA(t, "hostnossl all u all scram-sha-256", "host all u all reject")
	f(configs.TLSAllow, "in, TLS false")
	f(configs.TLSPrefer, "in, TLS false")
	f(configs.TLSRequire, "rejects connection")
	if computed != 1 {
		t.Errorf("%d logins derived their keys", computed)
	}

	// The login is bound to the certificate: with another one it does not hold.
	s.HBA(t, "host all u all scram-sha-256")
	cfg.Mode = configs.TLSRequire
	bound := cfg
	bound.EndPoint = func(*x509.Certificate) []byte { return []byte("of another certificate") }
	if got := try(bound); !strings.Contains(got, "channel binding check failed") {
		t.Errorf("bound to another certificate: %s", got)
	}
	bound.EndPoint = func(*x509.Certificate) []byte { return nil }
	if got := try(bound); got != "in, TLS true" {
		t.Errorf("not bound: %s", got)
	}
	cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	f(configs.TLSRequire, "TLS with PostgreSQL: tls: failed to verify certificate")
	f(configs.TLSPrefer, "in, TLS false")
}

func encrypted(t *testing.T, c *Conn) bool {
	t.Helper()
	release := c.Bound(t.Context())
	defer release()
	if err := c.Send(protocol.AppendQuery(nil, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")); err != nil {
		t.Fatal(err)
	}
	ssl := false
	for {
		typ, body, err := c.Receive()
		switch {
		case err != nil:
			t.Fatal(err)
		case typ == protocol.BackendDataRow:
			ssl = body[len(body)-1] == 't'
		case typ == protocol.BackendReadyForQuery:
			return ssl
		}
	}
}

// script is a server that says what it is told to, one text for each time that it
// has read something.
func script(t *testing.T, texts ...string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	go func() {
		defer theirs.Close()
		buf := make([]byte, 4096)
		for _, text := range texts {
			if _, err := theirs.Read(buf); err != nil {
				return
			}
			if _, err := io.WriteString(theirs, text); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, theirs)
	}()
	return ours
}

const (
	okay  = "R\x00\x00\x00\x08\x00\x00\x00\x00"
	ready = "Z\x00\x00\x00\x05I"
)

func TestOddServers(t *testing.T) {
	f := func(name string, mode configs.TLSMode, class backend.Class, want string, attempts ...[]string) {
		t.Helper()
		attempt := 0
		cfg := Config{Host: configs.Host{Network: "tcp", Address: "h:5432"}, Mode: mode, TLS: &tls.Config{ServerName: "h"}}
		cfg.Login = backend.LoginConfig{User: "u", Database: "d"}
		cfg.Connect = func(context.Context) (net.Conn, error) {
			attempt++
			return script(t, attempts[attempt-1]...), nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := Open(ctx, &cfg)
		if err == nil {
			defer c.Close()
			_, _, err = c.Receive()
		}
		if got := fmt.Sprint(err); !strings.Contains(got, want) || backend.ClassOf(err) != class || attempt != len(attempts) {
			t.Errorf("%s: %d attempts, %s fault %v, want %s fault %s", name, attempt, backend.ClassOf(err), err, class, want)
		}
	}
	f("huge message", configs.TLSDisable, backend.HostFault, "not PostgreSQL's protocol", []string{okay + ready + "D\x00\x01\x00\x00"})
	f("huge length", configs.TLSDisable, backend.HostFault, "not PostgreSQL's protocol", []string{"R\x7f\xff\xff\xff"})
	f("no PostgreSQL", configs.TLSDisable, backend.HostFault, "not PostgreSQL's protocol", []string{"HTTP/1.1 400 Bad Request\r\n\r\n"})
	f("error without SQLSTATE", configs.TLSDisable, backend.LoginFault, "refused the login: what", []string{"E\x00\x00\x00\x0bMwhat\x00\x00"})
	f("stuffed bytes", configs.TLSRequire, backend.HostFault, "bytes behind the answer", []string{"S" + okay + ready})
	f("stuffed bytes in clear", configs.TLSPrefer, backend.HostFault, "bytes behind the answer", []string{"N" + okay + ready})
	f("no TLS", configs.TLSRequire, backend.LoginFault, "has no TLS", []string{"N"})
	f("no handshake", configs.TLSRequire, backend.LoginFault, "TLS with PostgreSQL: ", []string{"S", "no TLS record"})
	f("no handshake, in clear then", configs.TLSPrefer, backend.LoginFault, "role", []string{"S", "no TLS record"}, []string{"E\x00\x00\x00\x12C28000\x00Mrole\x00\x00"})
	f("error to the request", configs.TLSVerifyFull, backend.HostFault, "with an error", []string{"E\x00\x00\x00\x10"})
}

func TestTimeouts(t *testing.T) {
	f := func(name, want string, cancelled bool, connect func(context.Context) (net.Conn, error)) {
		t.Helper()
		cfg := Config{Host: configs.Host{Network: "tcp", Address: "h:5432"}, Mode: configs.TLSRequire, TLS: &tls.Config{ServerName: "h"}, Connect: connect}
		cfg.Login = backend.LoginConfig{User: "u", Database: "d"}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if cancelled {
			ctx, cancel = context.WithCancel(t.Context())
			go cancel()
		}
		defer cancel()
		_, err := Open(ctx, &cfg)
		if got := fmt.Sprint(err); got != want || backend.ClassOf(err) != backend.HostFault {
			t.Errorf("%s: %s fault %s, want %s", name, backend.ClassOf(err), got, want)
		}
	}
	const timeout = "cannot connect to PostgreSQL at h:5432: no answer in time"
	silent := func(texts ...string) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) { return script(t, texts...), nil }
	}
	f("silent", timeout, false, silent())
	f("silent in the handshake", timeout, false, silent("S"))
	f("cancelled", timeout, true, silent())
	f("cannot connect", "cannot connect to PostgreSQL at h:5432: no route", false,
		func(context.Context) (net.Conn, error) { return nil, errors.New("no route") })
}
