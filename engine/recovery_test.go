package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestVanishingClient: wherever a client leaves, its backend serves the next one, clean, without a new login; except inside
// a message above 16 KiB.
func TestVanishingClient(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists vanish; create table vanish (a text)")
	large := pgwire.Query("select '" + strings.Repeat("x", 100000) + "'")
	for name, c := range map[string]struct {
		before   string
		messages [][]byte
		relogin  bool
	}{
		"idle":                     {"", nil, false},
		"idle in a block":          {"begin; insert into vanish values ('a')", nil, false},
		"failed block":             {"begin; select 1/0", nil, false},
		"running":                  {"", [][]byte{pgwire.Query("select pg_sleep(60)")}, false},
		"running in a block":       {"begin; insert into vanish values ('a')", [][]byte{pgwire.Query("select pg_sleep(60)")}, false},
		"running, more behind it":  {"", [][]byte{pgwire.Query("select pg_sleep(60)"), pgwire.Query("select pg_sleep(60)"), pgwire.Query("select 1")}, false},
		"no Sync":                  {"", [][]byte{pgwire.Parse("", "insert into vanish values ('a')"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush()}, false},
		"after an error, no Sync":  {"", [][]byte{pgwire.Parse("", "selec")}, false},
		"COPY IN":                  {"", [][]byte{pgwire.Query("copy vanish from stdin"), pgwire.CopyData([]byte("a\n"))}, false},
		"COPY IN, extended":        {"", [][]byte{pgwire.Parse("", "copy vanish from stdin"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(), pgwire.CopyData([]byte("a\n"))}, false},
		"COPY OUT":                 {"", [][]byte{pgwire.Query("copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout")}, false},
		"large result":             {"", [][]byte{pgwire.Query("select repeat('x', 1000) from generate_series(1, 100000)")}, false},
		"half a small message":     {"begin", [][]byte{pgwire.Query("select 1")[:8]}, false},
		"half a large message":     {"", [][]byte{large[:50000]}, true},
		"pinned":                   {"set work_mem = '9MB'; create temp table x (a int)", nil, false},
		"pinned, running":          {"listen x", [][]byte{pgwire.Query("select pg_sleep(60)")}, false},
		"portal suspended":         {"begin", [][]byte{pgwire.Parse("", "select generate_series(1, 10)"), pgwire.Bind("p", ""), pgwire.Execute("p", 2), pgwire.Flush()}, false},
		"prepared transaction end": {"begin; savepoint a", [][]byte{pgwire.Query("rollback to a")}, false},
	} {
		for _, how := range []string{"reset", "close", "terminate"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				e, address := start(t, pg, "--capacity.pool-max-size=1", "--server.loops=1")
				conn, next := login(t, address), login(t, address)
				pid := one(t, conn, backendPID)
				if c.before != "" {
					_, _ = conn.Exec(c.before) // one of them fails as it should
				}
				if len(c.messages) > 0 {
					from := e.Totals().BytesFromClients
					send(t, conn, c.messages...)
					until(t, "the messages read", func() bool { return e.Totals().BytesFromClients > from })
				}
				switch how {
				case "reset":
					conn.Reset()
				case "close":
					conn.Close()
				case "terminate":
					if !strings.HasPrefix(name, "half") { // else it would be more of the message
						send(t, conn, pgwire.Terminate())
					}
					conn.Close()
				}
				rows, err := next.Exec(leftovers)
				if err != nil || rows[0][0] != clean {
					t.Fatalf("the next client got %v, %v", rows, err)
				}
				if got := one(t, next, backendPID); (got != pid) != c.relogin {
					t.Errorf("backend %s, before %s", got, pid)
				}
				for i := range 20 {
					if got, nonce := one(t, next, fmt.Sprintf("select 'nonce %d'", i)), fmt.Sprintf("nonce %d", i); got != nonce {
						t.Fatalf("got %q, want %q", got, nonce)
					}
				}
			})
		}
	}
	t.Cleanup(func() {
		if got := pg.Value(t, "select count(*) from vanish"); got != "0" {
			t.Errorf("%s rows of clients that vanished", got)
		}
	})
}

// TestRecoveryTimeout: a backend that does not come back to ReadyForQuery is closed after recovery_timeout_ms.
func TestRecoveryTimeout(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Hang())
	e, address := startAt(t, mock.Addr(), "--capacity.recovery-timeout-ms=150", "--capacity.pool-max-size=1")
	c, next := login(t, address), login(t, address)
	from := e.Totals().BytesFromClients
	send(t, c, pgwire.Query("select"))
	until(t, "the query at work", func() bool { return e.Totals().BytesFromClients > from })
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	c.Reset()
	usable2(t, next, "alive")
	if s := e.Totals(); s.Timeouts["recovery"] != 1 || s.Cancels != 1 || s.ServerLogins != 2 {
		t.Errorf("%d recovery time-outs, %d cancels, %d logins", s.Timeouts["recovery"], s.Cancels, s.ServerLogins)
	}
}

// TestRollbackFails: a backend that stays in its block is not used again.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		for {
			m, err := c.Read()
			if err != nil || m.Type == 'X' {
				return err
			}
			if err := pgmock.Send(pgmock.Complete("BEGIN"), pgmock.Ready('T'))(c); err != nil {
				return err
			}
		}
	})
	e, address := startAt(t, mock.Addr(), "--capacity.pool-max-size=1")
	c, next := login(t, address), login(t, address)
	exec(t, c, "begin")
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	c.Close()
	usable2(t, next, "alive")
	if n := e.Totals().Closed["dirty"]; n != 0 { // it counts clients
		t.Errorf("%d clients closed as dirty", n)
	}
}

// TestCancelHoldsBackend: the backend is not reused while a cancel for it travels; one that does not end in time costs the
// backend, never another client's query.
func TestCancelHoldsBackend(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	mock := pgmock.Start(t, func(c *pgmock.Conn) error {
		err := pgmock.Login()(c)
		if err != nil && c.Cancels() > 0 {
			_ = pgmock.Wait(hold)(c) // the connection of the cancel: it stays open
		}
		return err
	}, pgmock.Expect('Q'), func(c *pgmock.Conn) error { return pgmock.Wait(c.Cancelled())(c) },
		pgmock.Send(pgmock.Error("ERROR", "57014", "canceled"), pgmock.Ready('I')), pgmock.Serve("alive"))
	e, address := startAt(t, mock.Addr(), "--capacity.pool-max-size=1")
	a, b := login(t, address), login(t, address)
	from := e.Totals().BytesFromClients
	send(t, a, pgwire.Query("select"))
	until(t, "the query at work", func() bool { return e.Totals().BytesFromClients > from })
	gone := make(chan error)
	go func() { gone <- pgwire.Cancel("tcp", address, a.PID, a.Key) }()
	if got := types(t, a, 1); got != "EZI" {
		t.Fatalf("got %s", got)
	}
	send(t, b, pgwire.Query("select"))
	if !b.Silent(300 * time.Millisecond) {
		t.Error("the backend was reused while a cancel for it was under way")
	}
	close(hold)
	types(t, b, 1)
	if err := <-gone; err != nil {
		t.Error(err)
	}
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins", n)
	}
}

// TestCancelStorm: cancels at random moments hit nobody else's query, and leave nothing behind.
func TestCancelStorm(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=3", "--server.loops=2", "--server.max-clients=20")
	var all sync.WaitGroup
	for i := range 6 {
		victim, bystander := login(t, address), login(t, address)
		stop := make(chan struct{})
		all.Go(func() {
			defer close(stop)
			for n := range 15 {
				if err := victim.Send(pgwire.Query("select pg_sleep(0.02)")); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration((i*7+n*5)%22) * time.Millisecond) // a random moment of the query
				_ = pgwire.Cancel("tcp", address, victim.PID, victim.Key)
				if _, err := victim.ReadUntil('Z', 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if got, nonce := one2(bystander, fmt.Sprintf("select 'n%d_%d'", i, n)), fmt.Sprintf("n%d_%d", i, n); got != nonce {
					t.Errorf("got %q, want %q", got, nonce)
					return
				}
			}
		})
	}
	all.Wait()
	until(t, "only the clients left", func() bool { return e.Totals().Clients == 12 })
}

// TestSweeps: idle and lifetime limits close idle backends, never one in use.
func TestSweeps(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	for _, setting := range []string{"--capacity.pool-idle-timeout-ms=100", "--capacity.pool-max-lifetime-ms=100"} {
		e, address := start(t, pg, setting)
		c := login(t, address)
		exec(t, c, "begin")
		usable(t, login(t, address))
		usable(t, login(t, address))
		until(t, "idle backends closed", func() bool { return e.Totals().Servers == 1 })
		usable(t, c)
		exec(t, c, "commit")
		until(t, "the last one closed", func() bool { return e.Totals().Servers == 0 })
		usable(t, c)
	}
}

// TestServerDefaultsChange: new clients are told the defaults of new backends; no client's own values change.
func TestServerDefaultsChange(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	who := role(t, pg)
	own := pgwire.Login(t, "tcp", address, "user", who, "database", "postgres", "TimeZone", "Asia/Tokyo")
	usable(t, own)
	pg.Exec(t, "alter role "+who+" set timezone = 'Europe/Paris'")
	pg.KillBackends(t, "usename = '"+who+"'")
	until(t, "another backend", func() bool { _, err := own.Exec("select 1"); return err == nil })
	c := pgwire.Dial(t, "tcp", address)
	all, err := c.Login(0, "user", who, "database", "postgres")
	if got := reportedIn(all)["TimeZone"]; err != nil || got != "Europe/Paris" {
		t.Errorf("a new client is told %q, %v", got, err)
	}
	if got := one(t, c, "show timezone"); got != "Europe/Paris" {
		t.Errorf("a new client has %s", got)
	}
	if got := one(t, own, "show timezone"); got != "Asia/Tokyo" {
		t.Errorf("a client with a value of its own has %s", got)
	}
}

// TestCancelBeforeSettings: a cancel that comes while the client's settings are being made to hold ends the request, here,
// and not the settings.
func TestCancelBeforeSettings(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(pgmock.Answer("r")), // the verdict about the role
		pgmock.Expect('Q'), func(*pgmock.Conn) error { close(asked); return nil }, pgmock.Wait(release),
		pgmock.Send(pgmock.Complete("SET"), pgmock.Ready('I')), pgmock.Serve("alive"))
	e, address := startAt(t, mock.Addr(), "--capacity.pool-max-size=1")
	c := login(t, address, "options", "-c role=r")
	send(t, c, pgwire.Query("select"))
	<-asked
	if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(all) != "EZI" {
		t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
	}
	refused(t, pgwire.ErrorOf(all[0]), "ERROR", "57014")
	close(release)
	usable2(t, c, "alive")
	if n := mock.Cancels(); n != 0 {
		t.Errorf("%d cancels went to PostgreSQL", n)
	}
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL", n)
	}
}
