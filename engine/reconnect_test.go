package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

const askPID = "select pg_backend_pid()"

// closedAll waits until nothing older than the latest Reconnect is left.
func closedAll(t testing.TB, e *engine.Engine, database string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, e.WaitClose(ctx, database))
}

// TestReconnect: what is idle is closed at once, what is in use when it is released; other databases keep their backends.
func TestReconnect(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	idle, busy, other := loginTo(t, address, "a"), loginTo(t, address, "a"), loginTo(t, address, "b")
	exec(t, busy, "begin")
	held, rested, foreign := one(t, busy, askPID), one(t, idle, askPID), one(t, other, askPID)
	must(t, e.Reconnect("a"))
	until(t, "the idle one closed", func() bool { return e.Totals().Evictions["reload"] == 1 })
	if got := one(t, busy, askPID); got != held {
		t.Errorf("a block went from backend %s to %s", held, got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := e.WaitClose(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("WAIT_CLOSE while a backend is in use: %v", err)
	}
	closedAll(t, e, "b")
	exec(t, busy, "commit")
	closedAll(t, e, "")
	for _, c := range []*pgwire.Conn{idle, busy} {
		if got := one(t, c, askPID); got == held || got == rested {
			t.Errorf("backend %s is still there", got)
		}
	}
	if got := one(t, other, askPID); got != foreign {
		t.Errorf("backend of another database: %s, then %s", foreign, got)
	}
	must(t, e.Reconnect(""))
	closedAll(t, e, "")
	if got := one(t, other, askPID); got == foreign {
		t.Errorf("backend %s is still there", got)
	}
	for _, err := range []error{e.Reconnect("nobody"), e.WaitClose(t.Context(), "nobody")} {
		if err == nil || !strings.Contains(err.Error(), "no such database") {
			t.Errorf("an unknown name: %v", err)
		}
	}
}

// TestReconnectUnderLoad: however often, with slow logins and clients that come and go, nobody gets an error, and no more
// backends are there than allowed.
func TestReconnectUnderLoad(t *testing.T) {
	t.Parallel()
	e, address := startAt(t, pgtest.Shared(t).Addr(), "--server.loops=2", "--capacity.pool-max-size=6", "--capacity.max-backends=6")
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for !stop.Load() {
				c, err := tryLogin(t, address)
				for n := 0; err == nil && n < 20; n++ {
					if i%3 == 0 {
						_, err = c.Exec("begin; select 1; commit")
					} else {
						_, err = c.Exec("select 1")
					}
				}
				c.Close()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 10 {
		before := e.Totals().Queries
		until(t, "queries", func() bool { return e.Totals().Queries > before+100 || t.Failed() })
		must(t, e.Reconnect(""))
		closedAll(t, e, "")
	}
	stop.Store(true)
	all.Wait()
	if n := e.Totals().Servers; n > 6 {
		t.Errorf("%d backends", n)
	}
	rested(t, e)
}

// TestReconnectDuringLogin: an attempt to connect that has begun before begins anew, and its client does not notice.
func TestReconnectDuringLogin(t *testing.T) {
	t.Parallel()
	hang := pgmock.Start(t, pgmock.Startup(), pgmock.Hang())
	e, address := startAt(t, hang.Addr())
	c := pgwire.Dial(t, "tcp", address)
	done := make(chan error, 1)
	go func() {
		_, err := c.Login(0, "user", "postgres", "database", "postgres")
		done <- err
	}()
	until(t, "a login that hangs", func() bool { return hang.Opened() == 1 && e.Totals().Waiting == 0 })
	hang.Script(pgmock.Login(), pgmock.Serve("alive"))
	must(t, e.Reconnect("postgres"))
	must(t, <-done)
	usable2(t, c, "alive")
	if s := e.Totals(); s.ConnectsFailed != 0 || hang.Logins() != 1 {
		t.Errorf("%d connects failed, %d logins", s.ConnectsFailed, hang.Logins())
	}
}

// TestReconnectListener: LISTEN goes to the new backends' host as well.
func TestReconnectListener(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startAt(t, pg.Addr())
	c := login(t, address)
	exec(t, c, "listen reconnected")
	pid := e.ListenerViews()[0].PID
	must(t, e.Reconnect(""))
	until(t, "another listener", func() bool {
		v := e.ListenerViews()
		return len(v) == 1 && v[0].PID != 0 && v[0].PID != pid && v[0].Pending == 0
	})
	pg.Exec(t, "notify reconnected, 'still here'")
	all, err := c.ReadUntil('A', 1)
	if err != nil || !strings.Contains(string(all[len(all)-1].Body), "still here") {
		t.Errorf("%s: %v", pgwire.Transcript(all), err)
	}
}
