package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// refused wants an overload error in its full form.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	e, ok := err.(*pgwire.Error)
	if !ok || e.Code() != want || e.Fields['V'] != "ERROR" || e.Fields['S'] == "" || e.Fields['M'] == "" ||
		e.Fields['D'] == "" || !strings.Contains(e.Fields['H'], "retry after") {
		t.Errorf("got %v (fields %v), want ERROR %s with detail and hint", err, e, want)
	}
}

// TestFullQueues: with 1 in flight and 1 waiting allowed the third is refused at once, on a session that stays.
func TestFullQueues(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	for _, flags := range [][]string{
		{"--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=1"},
		{"--capacity.pool-max-size=1", "--capacity.max-route-waiters=1"},
		{"--capacity.max-route-in-flight=1", "--capacity.max-checkout-waiters=1"},
		{"--capacity.max-backends=1", "--capacity.max-route-waiters=1", "--capacity.overload-error-code=ABC12"},
	} {
		t.Run(strings.Join(flags, ","), func(t *testing.T) {
			want := "53300"
			if len(flags) == 3 {
				want = "ABC12"
			}
			p := pooler.Start(t, s, pooler.Options{Flags: append(flags, "--admission.route-key=database,user")}) // a BEGIN and a SELECT share it
			holder, waiter, third := login(t, p), login(t, p), login(t, p)
			ask(t, holder, "BEGIN")
			if err := waiter.Send(pgwire.Query("SELECT 'waited'")); err != nil {
				t.Fatal(err)
			}
			if !waiter.Silent(30 * time.Millisecond) {
				t.Fatal("the second client was not made to wait")
			}
			for range 3 {
				_, err := third.Exec("SELECT 'third'")
				refused(t, err, want)
			}
			extendedRefusal(t, third, want)
			ask(t, holder, "COMMIT")
			if all, err := waiter.ReadUntil('Z', 1); err != nil || !strings.Contains(pgwire.Transcript(all), "waited") {
				t.Errorf("the waiter got %s, %v", pgwire.Transcript(all), err)
			}
			if got := ask(t, third, "SELECT 'third'"); got != "third" {
				t.Errorf("the refused session got %q", got)
			}
		})
	}
}

// extendedRefusal: one error, nothing until Sync, one ReadyForQuery per Sync.
func extendedRefusal(t *testing.T, c *pgwire.Conn, want string) {
	t.Helper()
	group := [][]byte{pgwire.Parse("", "SELECT 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()}
	if err := c.Send(slices.Concat(group, group)...); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 2)
	if err != nil {
		t.Fatal(err)
	}
	types := ""
	for _, m := range all {
		types += string(m.Type)
		if m.Type == 'E' {
			refused(t, pgwire.ErrorOf(m), want)
		}
	}
	if types != "EZEZ" {
		t.Errorf("two refused groups got %q, want EZEZ", types)
	}
}

// TestExactLimits: many clients at once, never more than the limits let in.
func TestExactLimits(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--capacity.max-route-in-flight=8", "--capacity.max-route-waiters=4"}})
	for round := range 5 {
		var clients []*pgwire.Conn
		for range 30 {
			clients = append(clients, login(t, p))
		}
		for _, c := range clients {
			if err := c.Send(pgwire.Query("SELECT pg_sleep(0.5)")); err != nil {
				t.Fatal(err)
			}
		}
		served, rejected := 0, 0
		for _, c := range clients {
			all, err := c.ReadUntil('Z', 1)
			if err != nil {
				t.Fatal(err)
			}
			if all[0].Type == 'E' {
				rejected++
			} else {
				served++
			}
			c.Close()
		}
		if served != 12 || rejected != 18 {
			t.Errorf("round %d: of 30 at once %d were served and %d refused, want 12 and 18", round, served, rejected)
		}
	}
}

func TestLoginRefusals(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--server.max-clients=3"}})
	attempt := func(params ...string) string {
		t.Helper()
		c := pgwire.Dial(t, "tcp", p.Addr())
		defer c.Close()
		_, err := c.Login(0, params...)
		if e, ok := err.(*pgwire.Error); ok {
			if _, err := c.ReadAll(); err != nil {
				t.Errorf("%v: the connection stays open after %v", params, e)
			}
			return e.Fields['V'] + " " + e.Code()
		}
		return fmt.Sprint(err)
	}
	for _, test := range []struct {
		want   string
		params []string
	}{
		{"FATAL 3D000", []string{"user", "postgres", "database", "no-such-database"}},
		{"FATAL 28000", []string{"user", "no-such-user", "database", "postgres"}},
		{"FATAL 28000", []string{"database", "postgres"}},
		{"FATAL 0A000", []string{"user", "postgres", "replication", "true"}},
		{"FATAL 22023", []string{"user", "postgres", "client_encoding", "no-such-encoding"}},
		{"FATAL 42704", []string{"user", "postgres", "no_such_parameter", "x"}},
		{"FATAL 22023", []string{"user", "postgres", "DateStyle", "no-such-style"}},
		{"FATAL 22023", []string{"user", "postgres", "options", "-c statement_timeout=no-number"}},
		{"<nil>", []string{"user", "postgres", "extra_float_digits", "2", "geqo", "off", "IntervalStyle", "iso_8601"}},
	} {
		if got := attempt(test.params...); got != test.want {
			t.Errorf("%q: %s, want %s", test.params, got, test.want)
		}
	}
	var clients []*pgwire.Conn
	for len(clients) < 3 {
		var c *pgwire.Conn // the clients of the attempts may still be counted for a moment
		until(t, 5*time.Second, "a place", func() bool {
			var err error
			c, err = open(p)
			return err == nil
		})
		t.Cleanup(c.Close)
		clients = append(clients, c)
	}
	if got := attempt("user", "postgres"); got != "FATAL 53300" {
		t.Errorf("above max_clients: %s, want FATAL 53300", got)
	}
	clients[0].Close()
	until(t, 5*time.Second, "a place for another client", func() bool { return attempt("user", "postgres") == "<nil>" })
}

// TestJunkBeforeLogin: no bytes make the process fall over, hang, or believe a length.
func TestJunkBeforeLogin(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{})
	for name, junk := range map[string][]byte{
		"http":            []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"huge length":     {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"negative length": {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"tiny length":     {0, 0, 0, 4, 0, 0, 0, 0},
		"no zero":         {0, 0, 0, 12, 0, 3, 0, 0, 'u', 's', 'e', 'r'},
		"version 2":       {0, 0, 0, 9, 0, 2, 0, 0, 0},
		"zeros":           make([]byte, 64),
		"long packet":     pgwire.Startup(0, "user", strings.Repeat("x", 20000)),
	} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		if err := c.Send(junk); err != nil {
			t.Fatal(err)
		}
		got := ends(t, c)
		if name == "version 2" && got == "FATAL 0A000" {
			continue
		}
		if got != "FATAL 08P01" {
			t.Errorf("%s: ended with %q, want FATAL 08P01", name, got)
		}
	}
	c := login(t, p)
	if err := c.Send([]byte{'Q', 0x7f, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if got := ends(t, c); got != "FATAL 08P01" {
		t.Errorf("an absurd length in a session ended with %q, want FATAL 08P01", got)
	}
	ask(t, login(t, p), "SELECT 1")
}

func TestNegotiation(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{})
	c := pgwire.Dial(t, "tcp", p.Addr())
	for _, request := range [][]byte{pgwire.SSLRequest(), pgwire.GSSENCRequest()} {
		if err := c.Send(request); err != nil {
			t.Fatal(err)
		}
		if b, err := c.ReadByte(); err != nil || b != 'N' {
			t.Errorf("got %q, %v, want N", b, err)
		}
	}
	all, err := c.Login(9, "user", "postgres", "_pq_.unknown", "1")
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Type != 'v' || !bytes.Contains(all[0].Body, []byte("_pq_.unknown\x00")) {
		t.Errorf("protocol 3.9 with an unknown option got %s", pgwire.Transcript(all[:1]))
	}
	if n := len(slices.Collect(func(yield func(byte) bool) {
		for _, m := range all {
			if m.Type == 'v' && !yield(m.Type) {
				return
			}
		}
	})); n != 1 {
		t.Errorf("%d NegotiateProtocolVersion messages", n)
	}
	ask(t, c, "SELECT 1")
	modern := pgwire.Dial(t, "tcp", p.Addr())
	if _, err := modern.Login(2, "user", "postgres"); err != nil {
		t.Fatal(err)
	}
	if len(modern.Key) < 4 || len(modern.Key) > 256 {
		t.Errorf("the key of protocol 3.2 has %d bytes", len(modern.Key))
	}
}

// TestPostgreSQLAway: each request is told the cause within its time, on a session that stays.
func TestPostgreSQLAway(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--capacity.connect-timeout-ms=500", "--capacity.checkout-timeout-ms=1000"}})
	c := login(t, p)
	ask(t, c, "SELECT 1")
	if err := s.Stop(pgtest.Fast); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		began := time.Now()
		if _, err := c.Exec("SELECT 1"); code(err) != "08006" && code(err) != "57P01" {
			t.Errorf("got %v, want 08006", err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("the answer took %v", d)
		}
	}
	other := pgwire.Dial(t, "tcp", p.Addr())
	if _, err := other.Login(0, "user", "postgres", "database", "postgres"); err != nil && code(err) != "08006" {
		t.Errorf("a login got %v", err)
	}
	if err := s.StartAgain(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	until(t, 5*time.Second, "a success", func() bool { _, err := c.Exec("SELECT 1"); return err == nil })
	if d := time.Since(back); d > time.Second {
		t.Errorf("the first success came %v after PostgreSQL was back", d)
	}
}
