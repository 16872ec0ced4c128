package e2e

import (
	"crypto/tls"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestAU11StuffedBytes: what is sent in clear with a request for encryption is not taken as sent after the answer.
func TestAU11StuffedBytes(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "stuffed", "secret")
	startup := pgwire.Startup(0, "user", "stuffed", "database", "postgres")
	for _, mode := range []string{"disable", "prefer"} {
		p := x.door(t, nil, "--tls.client-mode="+mode, "--auth.users-file="+users(t, "stuffed", "secret"))
		for name, stuffed := range map[string][]byte{
			"a startup packet after SSLRequest":    append(pgwire.SSLRequest(), startup...),
			"a startup packet after GSSENCRequest": append(pgwire.GSSENCRequest(), startup...),
			"SSLRequest twice":                     append(pgwire.SSLRequest(), pgwire.SSLRequest()...),
			"one byte after SSLRequest":            append(pgwire.SSLRequest(), 0),
		} {
			c := pgwire.Dial(t, "tcp", p.Addr())
			if err := c.Send(stuffed); err != nil {
				t.Fatal(err)
			}
			all, err := c.ReadAll()
			if err != nil || len(all) != 1 || all[0].Type != 'E' || pgwire.ErrorOf(all[0]).Code() != "08P01" {
				t.Errorf("%s, client_mode %s: %s, %v", name, mode, pgwire.Transcript(all), err)
			}
		}
	}
}

// TestNP06GSSThenTLS: both requests and the startup packet on one socket.
func TestNP06GSSThenTLS(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "patient", "secret")
	password := pgwire.NewPassword("secret")
	for mode, want := range map[string]string{"disable": "NN", "prefer": "NS"} {
		p := x.door(t, nil, "--tls.client-mode="+mode, "--auth.users-file="+users(t, "patient", "secret"))
		c := pgwire.Dial(t, "tcp", p.Addr())
		var got []byte
		for _, request := range [][]byte{pgwire.GSSENCRequest(), pgwire.SSLRequest()} {
			if err := c.Send(request); err != nil {
				t.Fatal(err)
			}
			answer, err := c.ReadByte()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, answer)
		}
		if string(got) != want {
			t.Errorf("client_mode %s: %q, want %q", mode, got, want)
		}
		if want == "NS" {
			if err := c.Handshake(x.trust()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.LoginWith(0, password, "user", "patient", "database", "postgres"); err != nil {
			t.Errorf("client_mode %s: %v", mode, err)
		}
	}
}

// TestAU10SecondStartupPacket, and other messages that are not the answer to what was asked, end a login.
func TestAU10SecondStartupPacket(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "switching", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "switching", "secret", "victim", "other"))
	first := saslFirst("n,,n=,r=nonce")
	for name, messages := range map[string][][]byte{
		"a startup packet instead of SASL":      {pgwire.Startup(0, "user", "victim", "database", "postgres")},
		"a startup packet in the middle":        {first, pgwire.Startup(0, "user", "victim", "database", "postgres")},
		"SSLRequest in the middle":              {first, pgwire.SSLRequest()},
		"a query before the proof":              {pgwire.Query("SELECT 1")},
		"a query in the middle":                 {first, pgwire.Query("SELECT 1")},
		"SASL begun twice":                      {first, first},
		"a mechanism that was not offered":      {pgwire.Raw('p', []byte("SCRAM-SHA-256-PLUS\x00\x00\x00\x00\x00"))},
		"a password where SCRAM was asked for":  {pgwire.Raw('p', []byte("secret\x00"))},
		"a channel binding that is not offered": {saslFirst("p=tls-server-end-point,,n=,r=nonce")},
	} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		if err := c.Send(pgwire.Startup(0, "user", "switching", "database", "postgres")); err != nil {
			t.Fatal(err)
		}
		for i, m := range messages {
			if answer, err := c.Read(); err != nil || answer.Type != 'R' {
				t.Fatalf("%s, before message %d: %v, %v", name, i, answer, err)
			}
			if err := c.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		all, err := c.ReadAll()
		if err != nil || len(all) != 1 || all[0].Type != 'E' || !strings.Contains("08P01 28000", pgwire.ErrorOf(all[0]).Code()) {
			t.Errorf("%s: %s, %v", name, pgwire.Transcript(all), err)
		}
	}
}

// TestNP04DirectTLS: TLS from the first byte, for those who name the protocol; SSLRequest on the same port goes on.
func TestNP04DirectTLS(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "direct", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "direct", "secret"))
	password := pgwire.NewPassword("secret")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, f := range []struct {
			protocols []string
			in        bool
		}{
			{[]string{"postgresql"}, true},
			{[]string{"h2", "postgresql"}, true},
			{nil, false},
			{[]string{"h2"}, false},
			{[]string{"h2", "http/1.1"}, false},
		} {
			config := x.trust()
			config.NextProtos, config.MaxVersion = f.protocols, version
			c := pgwire.Dial(t, "tcp", p.Addr())
			err := c.Handshake(config)
			if err == nil {
				_, err = c.LoginWith(0, password, "user", "direct", "database", "postgres")
			}
			if (err == nil) != f.in {
				t.Errorf("%s, protocols %q: %v", tls.VersionName(version), f.protocols, err)
			}
			if err == nil && ask(t, c, "SELECT current_user") != "direct" {
				t.Error("somebody else came in")
			}
		}
		c := pgwire.Dial(t, "tcp", p.Addr())
		config := x.trust()
		config.MaxVersion = version
		if err := c.Secure(config); err != nil {
			t.Fatal(err)
		}
		if _, err := c.LoginWith(0, password, "user", "direct", "database", "postgres"); err != nil {
			t.Errorf("%s after SSLRequest: %v", tls.VersionName(version), err)
		}
	}
}

// TestNP01OneNegotiation: a version that is not spoken is negotiated once, with a proof that takes several rounds and a user
// who is looked up; one that is spoken needs no negotiation.
func TestNP01OneNegotiation(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "newest", "secret")
	p := x.asking(t, whatPostgreSQLKnows)
	for _, f := range []struct {
		minor        uint16
		params       []string
		negotiations int
		key          int
	}{{0, nil, 0, 4}, {2, nil, 0, 24}, {9999, nil, 1, 24}, {2, []string{"_pq_.test", "1"}, 1, 24}} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		if err := c.Secure(x.trust()); err != nil {
			t.Fatal(err)
		}
		all, err := c.LoginWith(f.minor, pgwire.NewPassword("secret"), append([]string{"user", "newest", "database", "postgres"}, f.params...)...)
		if err != nil {
			t.Fatal(err)
		}
		negotiations := 0
		for _, m := range all {
			if m.Type == 'v' {
				negotiations++
				if got := binary.BigEndian.Uint32(m.Body); got&0xffff != 2 {
					t.Errorf("3.%d: the server speaks %#x", f.minor, got)
				}
			}
		}
		if negotiations != f.negotiations || len(c.Key) != f.key {
			t.Errorf("3.%d %v: %d negotiations, a key of %d bytes", f.minor, f.params, negotiations, len(c.Key))
		}
	}
}

// TestCancelsOverTLS: with long keys and short ones, on a connection by TLS, direct TLS or in clear, while nobody else may log
// in any more.
func TestCancelsOverTLS(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "cancelled", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "cancelled", "secret"), "--server.max-clients=2", "--tls.client-mode=prefer")
	password := pgwire.NewPassword("secret")
	var sessions []*pgwire.Conn
	for _, minor := range []uint16{0, 2} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		if err := c.Secure(x.trust()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.LoginWith(minor, password, "user", "cancelled", "database", "postgres"); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c)
	}
	if _, err := x.enter(t, p, "cancelled", password); code(err) != "53300" {
		t.Fatalf("a third client got %v", err)
	}
	direct := x.trust()
	direct.NextProtos = []string{"postgresql"}
	for _, c := range sessions {
		for name, open := range map[string]func(*pgwire.Conn) error{
			"TLS":        func(by *pgwire.Conn) error { return by.Secure(x.trust()) },
			"direct TLS": func(by *pgwire.Conn) error { return by.Handshake(direct) },
			"clear":      func(*pgwire.Conn) error { return nil },
		} {
			x.cancels(t, p, c, name, open)
		}
	}
}

func (x *site) cancels(t *testing.T, p *pooler.Pooler, c *pgwire.Conn, name string, open func(*pgwire.Conn) error) {
	t.Helper()
	if err := c.Send(pgwire.Query("SELECT 'cancelled', pg_sleep(30)")); err != nil {
		t.Fatal(err)
	}
	x.sleeps(t, "cancelled")
	by := pgwire.Dial(t, "tcp", p.Addr())
	if err := open(by); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := by.Send(pgwire.CancelRequest(c.PID, c.Key)); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 1)
	if err != nil || errorCode(all) != "57014" {
		t.Errorf("%s, key of %d bytes: %s, %v", name, len(c.Key), pgwire.Transcript(all), err)
	}
	if d := time.Since(started); d > 2*time.Second {
		t.Errorf("%s: the cancel took %v", name, d)
	}
	if left, err := by.ReadAll(); err != nil || len(left) > 0 {
		t.Errorf("%s: the cancel was answered: %s, %v", name, pgwire.Transcript(left), err)
	}
}

// sleeps waits until a query of the role sleeps.
func (x *site) sleeps(t *testing.T, role string) {
	t.Helper()
	until(t, 5*time.Second, "a query that sleeps", func() bool {
		return x.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+role+"' AND wait_event = 'PgSleep'") == "1"
	})
}
