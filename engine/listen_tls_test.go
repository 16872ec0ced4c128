package engine_test

import (
	"fmt"
	"net"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/testcert"
)

// A PostgreSQL that takes nobody without TLS and a proof: the pool's backends and its listener get in alike, with the
// server's name verified, and the listener comes back when its connection is lost.
func TestListenOverTLS(t *testing.T) {
	t.Parallel()
	authority := testcert.Authority("authority")
	cert := authority.Issue(testcert.Request{CommonName: "postgres", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	pg := pgtest.Start(t, pgtest.Certificate(cert.PEM(), cert.KeyPEM()))
	pg.Exec(t, "CREATE ROLE u LOGIN PASSWORD 'secret'")
	pg.HBA(t, "hostssl all u all scram-sha-256", "host all u all reject")
	roots, _, err := authority.Write(t.TempDir(), "roots")
	if err != nil {
		t.Fatal(err)
	}
	e, address := startYAML(t, fmt.Sprintf(`
databases: [{name: "*", hosts: [%q], user: u, password: secret}]
tls: {server_mode: verify-full, server_ca_file: %q}
`, pg.Addr(), roots))
	c := pgwire.Login(t, "tcp", address, "user", "u", "database", "postgres")
	subscribed(t, c, "+c")
	exec(t, c, "NOTIFY c, 'hello'")
	hears(t, c, "c", "hello")
	const listeners = "application_name = 'pg-kinetic listener' AND usename = 'u'"
	encrypted := pg.Value(t, "SELECT bool_and(ssl) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE "+listeners)
	if encrypted != "t" {
		t.Errorf("the listener's connection is encrypted: %q", encrypted)
	}
	pid := listener(t, e).PID
	if n := pg.KillBackends(t, listeners); n != 1 {
		t.Fatalf("%d listeners, want 1", n)
	}
	warned(t, c)
	until(t, "another listener", func() bool { return listener(t, e).PID != pid })
	pg.Exec(t, "NOTIFY c, 'again'")
	hears(t, c, "c", "again")
	// Over TLS as well, a wait for bytes is interrupted by what is to be done.
	for i := range 5 {
		subscribed(t, c, fmt.Sprint("+c", i))
	}
	pg.Exec(t, "NOTIFY c4, 'and more'")
	hears(t, c, "c4", "and more")
}
