package engine_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// tryLogin is a login that may be refused.
func tryLogin(t testing.TB, address string, more ...string) (*pgwire.Conn, error) {
	t.Helper()
	c := pgwire.Dial(t, "tcp", address)
	_, err := c.Login(0, append([]string{"user", "postgres", "database", "postgres"}, more...)...)
	return c, err
}

// letIn tells whether a login succeeds.
func letIn(t testing.TB, address string, more ...string) bool {
	t.Helper()
	c, err := tryLogin(t, address, more...)
	c.Close()
	return err == nil
}

// TestNobodyListens: the real cause within min(checkout, connect) time-out, then at once, and the first success soon after
// PostgreSQL accepts.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	mock.Down()
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=300")
	begin := time.Now()
	_, err := tryLogin(t, address)
	if f := refused(t, err, "FATAL", "08006"); !strings.Contains(f.Fields['M'], "refused") || !strings.Contains(f.Fields['M'], mock.Addr()) {
		t.Errorf("message %q does not tell the cause", f.Fields['M'])
	}
	if took := time.Since(begin); took < 290*time.Millisecond || took > 3*time.Second {
		t.Errorf("told after %v, want 300 ms", took)
	}
	slow := 0
	for range 10 {
		begin := time.Now()
		_, err := tryLogin(t, address)
		refused(t, err, "FATAL", "08006")
		if time.Since(begin) > 150*time.Millisecond {
			slow++
		}
	}
	if slow > 1 { // a machine that is busy
		t.Errorf("%d of 10 logins were not told at once", slow)
	}
	mock.Up()
	begin = time.Now()
	for {
		c, err := tryLogin(t, address)
		if err == nil {
			usable2(t, c, "alive")
			break
		}
		if time.Since(begin) > patience {
			t.Fatal("no login after PostgreSQL is back")
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("first success %v after PostgreSQL is back, want 1 s", took)
	}
}

// TestLoneClient: while PostgreSQL is down only the first request waits to see whether it comes back. The others, however
// seldom they come, are told at once, whether probes have found out or, when the pool is new, their own attempt does.
func TestLoneClient(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=600")
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Down()
	until(t, "an error", func() bool { _, err := c.Exec("select"); return err != nil })
	told := func(severity string, request func() error) {
		t.Helper()
		begin := time.Now()
		err := request()
		if f := refused(t, err, severity, "08006"); !strings.Contains(f.Fields['M'], "refused") {
			t.Errorf("message %q does not tell the cause", f.Fields['M'])
		}
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("told after %v", took)
		}
	}
	until(t, "the host is known to be down", func() bool {
		begin := time.Now()
		_, err := c.Exec("select")
		return err != nil && time.Since(begin) < 100*time.Millisecond
	})
	for range 3 {
		time.Sleep(700 * time.Millisecond) // longer than between two probes
		told("ERROR", func() error { _, err := c.Exec("select"); return err })
	}
	told("FATAL", func() error { _, err := tryLogin(t, address, "user", "new"); return err })
	mock.Up()
	until(t, "an answer", func() bool { _, err := c.Exec("select"); return err == nil })
}

// usable2 is usable for a scripted server.
func usable2(t testing.TB, c *pgwire.Conn, want string) {
	t.Helper()
	if got := one(t, c, "select"); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// TestServerGoesAway: sessions stay, with 08006 for each request; they go on when it is back.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=200")
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Down()
	for range 3 {
		until(t, "08006", func() bool { // the first may still find the old backend
			_, err := c.Exec("select")
			if err == nil {
				return false
			}
			refused(t, err, "ERROR", "08006")
			return true
		})
	}
	send(t, c, pgwire.Parse("", "select 1"), pgwire.Sync(), pgwire.Sync())
	if got := types(t, c, 2); got != "EZIZI" {
		t.Errorf("extended: %s", got)
	}
	_, err := tryLogin(t, address, "options", "-c work_mem=77kB")
	refused(t, err, "FATAL", "08006")
	mock.Up()
	until(t, "an answer", func() bool { _, err := c.Exec("select"); return err == nil })
}

// TestSilentServer: whatever point of the login PostgreSQL stops at, the attempt ends at connect_timeout_ms and its place
// is free again.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]pgmock.Step{
		"accepts only":         {pgmock.Hang()},
		"reads startup":        {pgmock.Startup(), pgmock.Hang()},
		"authenticated":        {pgmock.Startup(), pgmock.Send(pgmock.AuthenticationOk()), pgmock.Hang()},
		"half a message":       {pgmock.Startup(), pgmock.Send(pgmock.AuthenticationOk()[:6]), pgmock.Hang()},
		"before ReadyForQuery": {pgmock.Startup(), pgmock.Send(pgmock.AuthenticationOk(), pgmock.Parameters(), pgmock.KeyData(1, 2)), pgmock.Hang()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mock := pgmock.Start(t, steps...)
			e, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=150", "--capacity.pool-max-size=1")
			begin := time.Now()
			_, err := tryLogin(t, address)
			refused(t, err, "FATAL", "08006")
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("told after %v", took)
			}
			mock.Script(pgmock.Login(), pgmock.Serve("alive"))
			until(t, "a login", func() bool { c, err := tryLogin(t, address); c.Close(); return err == nil })
			if n := e.Totals().Timeouts["connect"]; n == 0 {
				t.Error("no connect time-out was counted")
			}
		})
	}
}

// TestStrangeServer: what answers is no PostgreSQL, or hangs up in the login.
func TestStrangeServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []pgmock.Step
		code  string
	}{
		"closes":       {[]pgmock.Step{pgmock.Startup()}, "08006"},
		"resets":       {[]pgmock.Step{pgmock.Startup(), pgmock.Reset()}, "08006"},
		"speaks HTTP":  {[]pgmock.Step{pgmock.Startup(), pgmock.Send([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))}, "08P01"},
		"cannot fork":  {[]pgmock.Step{pgmock.Startup(), pgmock.Send([]byte("Ecould not fork new process\n\x00"))}, "53000"},
		"huge message": {[]pgmock.Step{pgmock.Startup(), pgmock.Send([]byte{'R', 0x7f, 0xff, 0xff, 0xff}), pgmock.Hang()}, "08P01"},
		"no SQLSTATE":  {[]pgmock.Step{pgmock.Startup(), pgmock.Send(pgwire.Raw('E', []byte("SFATAL\x00Mno\x00\x00")))}, "08006"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address := startAt(t, pgmock.Start(t, c.steps...).Addr(), "--capacity.connect-timeout-ms=150")
			_, err := tryLogin(t, address)
			refused(t, err, "FATAL", c.code)
		})
	}
}

// TestStartingServer: while PostgreSQL says that it starts up or has no room, requests wait and the login is tried again.
func TestStartingServer(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"57P03", "53300"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			mock := pgmock.Start(t, func(c *pgmock.Conn) error {
				if tries.Add(1) < 4 {
					if err := pgmock.Startup()(c); err != nil {
						return err
					}
					_ = pgmock.Send(pgmock.Error("FATAL", code, "not now"))(c)
					return io.EOF
				}
				return pgmock.Login()(c)
			}, pgmock.Serve("alive"))
			_, address := startAt(t, mock.Addr())
			usable2(t, login(t, address), "alive")
		})
	}
}

// TestServerWithoutRoom: PostgreSQL's own 53300 is told apart from ours.
func TestServerWithoutRoom(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "53300", "sorry, too many clients already")))
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=150")
	_, err := tryLogin(t, address)
	if f := refused(t, err, "FATAL", "53300"); f.Fields['M'] != "PostgreSQL: sorry, too many clients already" {
		t.Errorf("message %q", f.Fields['M'])
	}
}

// TestLivePoolFailsNobody: while a pool has a backend, a connect that fails fails nobody: its holder waits on.
func TestLivePoolFailsNobody(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	e, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=100", "--capacity.pool-max-size=4")
	hold, c := login(t, address), login(t, address)
	exec(t, hold, "begin")
	mock.Script(pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "53300", "no room")))
	send(t, c, pgwire.Query("select"))
	failed := e.Totals().ConnectsFailed
	until(t, "three failed connects", func() bool { return e.Totals().ConnectsFailed >= failed+3 })
	exec(t, hold, "commit")
	if got := types(t, c, 1); got != "TDCZI" {
		t.Errorf("the waiter got %s", got)
	}
}

// TestRefusedLogin: PostgreSQL's refusal of our login is told at once, to all who wait, and concerns this pool only.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	for _, c := range []struct{ user, database, code string }{
		{"postgres", "missing", "3D000"}, {"nobody_here", "postgres", "28000"},
	} {
		begin := time.Now()
		errs := make(chan error)
		for range 5 {
			conn := pgwire.Dial(t, "tcp", address)
			go func() {
				_, err := conn.Login(0, "user", c.user, "database", c.database)
				errs <- err
			}()
		}
		for range 5 {
			refused(t, <-errs, "FATAL", c.code)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("%s was told after %v", c.code, took)
		}
	}
	usable(t, login(t, address))
}

// TestRefusedLoginOfSession: a session whose pool can no longer log in stays.
func TestRefusedLoginOfSession(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg)
	who := role(t, pg)
	c := pgwire.Login(t, "tcp", address, "user", who, "database", "postgres")
	usable(t, c)
	pg.Exec(t, "alter role "+who+" nologin")
	pg.KillBackends(t, "usename = '"+who+"'")
	until(t, "the loss seen", func() bool { return e.Totals().Servers == 0 })
	for range 2 {
		_, err := c.Exec("select 1")
		refused(t, err, "ERROR", "28000")
	}
	pg.Exec(t, "alter role "+who+" login")
	until(t, "an answer", func() bool { _, err := c.Exec("select 1"); return err == nil })
}

// TestConnectInProgressAtDeadline: the only cause of the wait is a connect that has not ended.
func TestConnectInProgressAtDeadline(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Startup(), pgmock.Hang())
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=60000", "--capacity.checkout-timeout-ms=150")
	_, err := tryLogin(t, address)
	if f := refused(t, err, "FATAL", "08006"); !strings.Contains(f.Fields['M'], mock.Addr()) {
		t.Errorf("message %q", f.Fields['M'])
	}
}

// TestLoginsInParallel: a cold pool opens several backends at a time, never more than max_connects_per_host.
func TestLoginsInParallel(t *testing.T) {
	t.Parallel()
	const bound, clients = 3, 9
	mock := pgmock.Start(t, pgmock.SlowLogin(200*time.Millisecond), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--admission.max-connects-per-host=3", "--capacity.pool-max-size=9", "--server.loops=2")
	errs := make(chan error)
	for range clients {
		c := pgwire.Dial(t, "tcp", address)
		go func() {
			_, err := c.Login(0, "user", "postgres", "database", "postgres")
			if err == nil {
				_, err = c.Exec("begin")
			}
			errs <- err
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := mock.MostLogins(); n > bound || n < 2 {
		t.Errorf("%d logins at a time, want %d at most and more than one", n, bound)
	}
}
