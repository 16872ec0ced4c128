package engine_test

// Attacks on the login path that have one right answer each.

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// TestLoginAttackAnswers: what is out of order, absurd or stuffed, and what is told of it, at once.
func TestLoginAttackAnswers(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	startup := func(user string) []byte { return pgwire.Startup(0, "user", user) }
	proof := func(size int) []byte { return pgwire.Raw('p', append(bytes.Repeat([]byte("x"), size-1), 0)) }
	secure := func(s *stranger) { s.secure() }
	sasl := func(s *stranger) { s.send(startup("scram_user")); s.asked(10) }
	password := func(s *stranger) { s.send(startup("password_user")); s.asked(3) }
	challenge := func(s *stranger) { s.challenged("", "scram_user") }
	for name, c := range map[string]struct {
		before func(*stranger)
		bytes  []byte
		code   string
	}{
		"length of a startup packet":    {nil, []byte{0, 0, 0x27, 0x15, 0, 3, 0, 0}, "08P01"},
		"NULs only":                     {nil, make([]byte, 64), "08P01"},
		"a proof first":                 {nil, proof(20), "08P01"},
		"stuffed behind SSLRequest":     {nil, slices.Concat(pgwire.SSLRequest(), startup("trust_user")), "08P01"},
		"stuffed behind GSSENCRequest":  {nil, slices.Concat(pgwire.GSSENCRequest(), startup("trust_user")), "08P01"},
		"two SSLRequests":               {nil, slices.Concat(pgwire.SSLRequest(), pgwire.SSLRequest()), "08P01"},
		"SSLRequest in TLS":             {secure, pgwire.SSLRequest(), "08P01"},
		"GSSENCRequest in TLS":          {secure, pgwire.GSSENCRequest(), "08P01"},
		"TLS in TLS":                    {secure, clientHello(t), "08P01"},
		"PROXY header from a stranger":  {nil, []byte("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"), "08P01"},
		"PROXY header in TLS":           {secure, []byte("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"), "08P01"},
		"a startup packet during SASL":  {sasl, startup("trust_user"), "08P01"},
		"one for a password":            {password, startup("trust_user"), "08P01"},
		"one behind the first":          {nil, slices.Concat(startup("scram_user"), startup("trust_user")), "08P01"},
		"ClientHello behind a startup":  {sasl, clientHello(t), "08P01"},
		"SSLRequest behind a startup":   {sasl, pgwire.SSLRequest(), "08P01"},
		"Query for a proof":             {sasl, pgwire.Query("select 1"), "08P01"},
		"half a Query for a password":   {password, pgwire.Query("select 1")[:7], "08P01"},
		"Terminate for a proof":         {sasl, pgwire.Terminate(), "08P01"},
		"SASL of 1 025 bytes":           {sasl, proof(1025), "08P01"},
		"its header alone":              {sasl, proof(1025)[:5], "08P01"},
		"a second SASL of 1 025 bytes":  {challenge, proof(1025)[:5], "08P01"},
		"NUL in SASL":                   {sasl, saslInitial("SCRAM-SHA-256", "n,,n=\x00,r=abc"), "08P01"},
		"no nonce":                      {sasl, saslInitial("SCRAM-SHA-256", "n,,n="), "08P01"},
		"PLUS in clear":                 {sasl, saslInitial("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc"), "08P01"},
		"the first SASL again":          {challenge, saslInitial("SCRAM-SHA-256", saslFirst), "08P01"},
		"somebody else's nonce":         {challenge, pgwire.Raw('p', []byte("c=biws,r=abc,p="+strings.Repeat("A", 43)+"=")), "08P01"},
		"a password of 16 379 bytes":    {password, proof(16379), "28P01"},
		"a password of 16 380 bytes":    {password, proof(16380), "08P01"},
		"its header":                    {password, proof(16380)[:5], "08P01"},
		"two passwords in one":          {password, pgwire.Raw('p', []byte("a\x00b\x00")), "08P01"},
		"an unended password":           {password, pgwire.Raw('p', []byte("a")), "08P01"},
		"an empty password":             {password, pgwire.Raw('p', []byte{0}), "28P01"},
		"a SASL message for a password": {password, saslInitial("SCRAM-SHA-256", saslFirst), "08P01"},
		"rejected":                      {nil, startup("reject_user"), "28000"},
		"protocol 2 in TLS":             {secure, []byte{0, 0, 0, 8, 0, 2, 0, 0}, "0A000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := f.stranger(t)
			if c.before != nil {
				c.before(s)
			}
			s.send(c.bytes)
			s.endsWith(name, c.code)
		})
	}
	t.Cleanup(func() { f.empty(t) })
}

// TestLoginAttackSame: an unknown user, a wrong password, and a database that does not exist are told apart by nothing.
func TestLoginAttackSame(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	for _, database := range []string{"postgres", "no_such_database"} {
		for _, user := range []string{"scram_user", "plain_user", "no_such_user"} {
			s := f.stranger(t)
			s.challenged(database, user)
			s.send(s.wrongProof())
			m, err := s.message()
			if err != nil || m.Type != 'E' {
				t.Fatal(m, err)
			}
			e := pgwire.ErrorOf(m)
			if want := fmt.Sprintf("password authentication failed for user %q", user); e.Code() != "28P01" || e.Fields['M'] != want || len(e.Fields) != 4 {
				t.Errorf("%s in %s: %v", user, database, e.Fields)
			}
		}
	}
}

// TestLoginAttackCut: a good login whose bytes come one by one, in clear and within TLS, succeeds; cut behind any of them
// it leaves nothing.
func TestLoginAttackCut(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	packet := pgwire.Startup(2, "user", "password_user", "database", "postgres")
	proof := pgwire.Raw('p', []byte(fortPassword+"\x00"))
	for _, secure := range []bool{false, true} {
		for end := range len(packet) + len(proof) + 1 {
			s := f.stranger(t)
			if secure {
				s.secure()
			}
			dribble := func(p []byte) {
				for i := range p {
					s.send(p[i : i+1])
				}
			}
			dribble(packet[:min(end, len(packet))])
			if end < len(packet) {
				must(t, s.tcp.Close())
				continue
			}
			s.asked(3)
			dribble(proof[:end-len(packet)])
			if end < len(packet)+len(proof) {
				must(t, s.tcp.Close())
				continue
			}
			s.asked(0)
			must(t, s.tcp.Close())
		}
	}
	f.empty(t)
}

// TestLoginAttackHelloCut: a ClientHello cut behind any of its bytes, asked for and direct, hung up.
func TestLoginAttackHelloCut(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	hello := clientHello(t)
	for end := 1; end < len(hello); end += 7 {
		for _, direct := range []bool{false, true} {
			s := f.stranger(t)
			if !direct {
				s.askTLS()
			}
			s.send(hello[:end])
			must(t, s.tcp.Close())
		}
	}
	f.empty(t)
}

// TestLoginAttackMany: a thousand logins at once, all of them come to their challenge.
func TestLoginAttackMany(t *testing.T) {
	t.Parallel()
	f := besiege(t, "--server.max-unauthenticated=5000")
	const many = 1000
	done := make(chan string, many)
	for i := range many {
		go func() {
			s := f.stranger(t)
			s.send(pgwire.Startup(0, "user", []string{"scram_user", "plain_user", "nobody"}[i%3]))
			if m, err := s.message(); err != nil || m.Type != 'R' {
				done <- fmt.Sprint("not asked: ", m, err)
				return
			}
			s.say(saslInitial("SCRAM-SHA-256", saslFirst))
			if m, err := s.message(); err != nil || m.Type != 'R' {
				done <- fmt.Sprint("not challenged: ", m, err)
				return
			}
			done <- ""
			_ = s.tcp.Close()
		}()
	}
	for range many {
		select {
		case wrong := <-done:
			if wrong != "" {
				t.Error(wrong)
			}
		case <-time.After(patience):
			t.Fatal("they take too long")
		}
	}
	f.empty(t)
}

// TestLoginAttackLog: a failed handshake takes little of the log, whatever the client has put into it.
func TestLoginAttackLog(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	s := f.stranger(t)
	var protocols []string
	for i := range 200 {
		protocols = append(protocols, fmt.Sprint(strings.Repeat("x", 200), i))
	}
	s.askTLS()
	if err := tls.Client(s.tcp, &tls.Config{RootCAs: f.ca.Pool(), ServerName: "127.0.0.1", NextProtos: protocols}).Handshake(); err == nil {
		t.Error("the handshake has succeeded")
	}
	until(t, "the line", func() bool { return strings.Contains(f.log.String(), "TLS handshake failed") })
	for line := range strings.Lines(f.log.String()) {
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes: %s…", len(line), line[:200])
		}
	}
}
