package e2e

import (
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// ends reads to the end of the connection and returns the SQLSTATE and severity of the last error.
func ends(t *testing.T, c *pgwire.Conn) string {
	t.Helper()
	all, err := c.ReadAll()
	if err != nil {
		t.Fatalf("the connection does not end: %v after\n%s", err, pgwire.Transcript(all))
	}
	last := ""
	for _, m := range all {
		if m.Type == 'E' {
			e := pgwire.ErrorOf(m)
			last = e.Fields['V'] + " " + e.Code()
		}
	}
	return last
}

// TestTimeouts: each deadline ends what it names, in the way that it names, and the only backend serves the next client,
// the same one, without a new login to PostgreSQL.
func TestTimeouts(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	hang := func(messages ...[]byte) func(*testing.T, *pgwire.Conn) {
		return func(t *testing.T, c *pgwire.Conn) {
			if err := c.Send(messages...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name, flag string
		act        func(*testing.T, *pgwire.Conn)
		want       string // of the connection's end; "" = unable to tell
	}{
		{"transaction", "--capacity.transaction-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			ask(t, c, "BEGIN")
			if err := c.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
				t.Fatal(err)
			}
		}, "FATAL 25P04"},
		{"idle transaction", "--capacity.idle-transaction-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			ask(t, c, "BEGIN")
		}, "FATAL 25P03"},
		{"idle failed transaction", "--capacity.idle-transaction-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			ask(t, c, "BEGIN")
			if _, err := c.Exec("SELECT 1/0"); code(err) != "22012" {
				t.Fatal(err)
			}
		}, "FATAL 25P03"},
		{"idle after flush", "--capacity.idle-transaction-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			hang(pgwire.Parse("", "SELECT 1"), pgwire.Flush())(t, c)
			if m, err := c.Read(); err != nil || m.Type != '1' {
				t.Fatal(m, err)
			}
		}, "FATAL 25P03"},
		{"idle client", "--capacity.idle-client-timeout-ms=300", func(*testing.T, *pgwire.Conn) {}, "FATAL 57P05"},
		{
			"group without sync", "--capacity.client-stall-timeout-ms=300",
			hang(pgwire.Parse("", "SELECT 1"), pgwire.Bind("", ""), pgwire.Execute("", 0)), "FATAL 08006",
		},
		{"half a message in a block", "--capacity.client-stall-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			ask(t, c, "BEGIN")
			hang(pgwire.Query("SELECT 'half'")[:9])(t, c)
		}, "FATAL 08006"},
		{"copy without end", "--capacity.client-stall-timeout-ms=50", func(t *testing.T, c *pgwire.Conn) {
			ask(t, c, "CREATE TEMP TABLE c(a int)")
			hang(pgwire.Query("COPY c FROM STDIN"))(t, c)
		}, "FATAL 08006"},
		{"stalled reader", "--capacity.client-write-timeout-ms=300", func(t *testing.T, c *pgwire.Conn) {
			hang(pgwire.Query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))(t, c)
			// The pooler must have given up before we begin to read.
			until(t, 10*time.Second, "the stalled reader's query ends", func() bool {
				return s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT repeat' AND state = 'active'") == "0"
			})
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{test.flag}})
			other := login(t, p)
			before := ask(t, other, "SELECT pg_backend_pid()")
			other.Close()
			logins := s.Logins()
			c := login(t, p)
			test.act(t, c)
			began := time.Now()
			if got := ends(t, c); test.want != "" && got != test.want {
				t.Errorf("the connection ended with %q, want %q", got, test.want)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("the deadline took effect after %v", d)
			}
			next := login(t, p)
			if after := ask(t, next, "SELECT pg_backend_pid()"); after != before {
				t.Errorf("backend %s became %s", before, after)
			}
			if n := s.Logins() - logins; n != 0 {
				t.Errorf("%d new logins to PostgreSQL", n)
			}
		})
	}
}

func TestQueryTimeout(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{"--capacity.query-timeout-ms=300"}})
	c := login(t, p)
	pid := ask(t, c, "SELECT pg_backend_pid()")
	for range 3 {
		began := time.Now()
		if _, err := c.Exec("SELECT pg_sleep(30)"); code(err) != "57014" {
			t.Fatalf("got %v, want 57014", err)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("the deadline took effect after %v", d)
		}
		if got := ask(t, c, "SELECT pg_backend_pid()"); got != pid {
			t.Errorf("backend %s became %s", pid, got)
		}
	}
	// In a block the query fails and the block stays, failed, as after any error.
	ask(t, c, "BEGIN")
	if _, err := c.Exec("SELECT pg_sleep(30)"); code(err) != "57014" {
		t.Fatalf("got %v, want 57014", err)
	}
	if _, err := c.Exec("SELECT 1"); code(err) != "25P02" {
		t.Fatalf("got %v, want 25P02", err)
	}
	ask(t, c, "ROLLBACK")
}

func TestLoginTimeout(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--server.login-timeout-ms=300"}})
	for _, bytes := range [][]byte{nil, pgwire.Startup(0, "user", "postgres")[:7]} {
		c := pgwire.Dial(t, "tcp", p.Addr())
		if err := c.Send(bytes); err != nil {
			t.Fatal(err)
		}
		if got := ends(t, c); got != "FATAL 08006" {
			t.Errorf("after %d bytes the connection ended with %q", len(bytes), got)
		}
	}
}

// TestCheckoutTimeout: who waits too long is told what for, on a session that stays, and PostgreSQL is not marked down.
func TestCheckoutTimeout(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{"--capacity.checkout-timeout-ms=300"}})
	holder, waiter := login(t, p), login(t, p)
	ask(t, holder, "BEGIN")
	began := time.Now()
	_, err := waiter.Exec("SELECT 1")
	if code(err) != "53300" {
		t.Fatalf("got %v, want 53300", err)
	}
	if d := time.Since(began); d < 250*time.Millisecond || d > 2*time.Second {
		t.Errorf("it came after %v", d)
	}
	e := err.(*pgwire.Error)
	if e.Fields['V'] != "ERROR" || !strings.Contains(e.Fields['H'], "retry after") || e.Fields['D'] == "" {
		t.Errorf("the error is %v", e)
	}
	ask(t, holder, "COMMIT")
	if got := ask(t, waiter, "SELECT 'served'"); got != "served" {
		t.Errorf("got %q", got)
	}
}

func TestIdleBackendsAreClosed(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 3, Flags: []string{"--capacity.pool-idle-timeout-ms=300"}})
	c := login(t, p)
	ask(t, c, "SELECT 1")
	until(t, 10*time.Second, "no session with PostgreSQL", func() bool { return s.Backends(t) == 0 })
	if got := ask(t, c, "SELECT 'again'"); got != "again" {
		t.Errorf("got %q", got)
	}
}
