package engine_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestDeathOnTheWay: a backend that ends while another loop asks for it is nobody's next: the request gets another one; if its
// client has gone, so has the backend.
func TestDeathOnTheWay(t *testing.T) {
	t.Parallel()
	f := func(name string, meanwhile func(e *engine.Engine, c *pgwire.Conn), logins uint64) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
			e, address := startAt(t, mock.Addr(), "--capacity.pool-max-size=1", "--server.loops=2")
			all := crowd(t, address, 2, 2, "user", "postgres", "database", "postgres")
			usable2(t, all[0], "alive")
			release := e.HoldLoop(engine.LoopOf(all[0].PID))
			defer release()
			before := e.Totals().Messages
			send(t, all[1], pgwire.Query("select"))
			until(t, "the other loop asks for it", func() bool { return e.Totals().Messages > before })
			mock.Down()
			mock.Up()
			meanwhile(e, all[1])
			release()
			until(t, "at rest, the dead one closed", func() bool { return e.Totals().Evictions["unhealthy"] == 1 && len(e.Unrest()) == 0 })
			if n := e.Totals(); n.BackendsLost != 0 || n.ServerLogins != logins {
				t.Errorf("%d lost to a client, %d logins, want %d", n.BackendsLost, n.ServerLogins, logins)
			}
			usable2(t, all[0], "alive")
			if logins == 2 {
				if got := types(t, all[1], 1); got != "TDCZI" && got != "DCZI" {
					t.Errorf("the request got %s", got)
				}
			}
		})
	}
	f("its client waits", func(*engine.Engine, *pgwire.Conn) {}, 2)
	f("its client has gone", func(e *engine.Engine, c *pgwire.Conn) {
		n := e.Totals().Clients
		c.Reset()
		until(t, "the client has gone", func() bool { return e.Totals().Clients < n })
	}, 1)
}

// TestLoginMeetsDeath: the same of a login that has to ask a backend.
func TestLoginMeetsDeath(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := start(t, pg, "--capacity.pool-max-size=1", "--server.loops=2")
	var last *pgwire.Conn // on the second loop, since the first one accepts
	for _, c := range crowd(t, address, 2, 2, "user", who, "database", "postgres") {
		if engine.LoopOf(c.PID) == 1 {
			last = c
		}
	}
	pid, err := strconv.Atoi(one(t, last, "select pg_backend_pid()"))
	must(t, err)
	release := e.HoldLoop(1)
	defer release()
	before := e.Totals().Messages
	done := make(chan error)
	const logins = 6 // some of them are the first loop's
	for range logins {
		c := pgwire.Dial(t, "tcp", address)
		go func() {
			_, err := c.Login(0, "user", who, "database", "postgres", "work_mem", "3MB")
			done <- err
		}()
	}
	until(t, "the other loop asks for it", func() bool { return e.Totals().Messages > before })
	pg.KillBackends(t, "usename = '"+who+"'")
	until(t, "it has ended", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	release()
	for range logins {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := e.Totals().BackendsLost; n != 0 {
		t.Errorf("%d lost to a client", n)
	}
}

// TestMoveThatFails: a backend that no loop takes any more is closed, also when nobody waits for it, or whoever is given it
// first finds it dead.
func TestMoveThatFails(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	file, err := os.Open(os.Args[0])
	must(t, err)
	defer file.Close()
	e, address := start(t, pg, "--capacity.pool-max-size=2", "--server.loops=1")
	c, other := login(t, address), holder(t, address)
	usable(t, c)
	exec(t, other, "commit")
	if n := e.LoseMoves(int(file.Fd())); n != 2 {
		t.Fatalf("%d servers were idle", n)
	}
	until(t, "both are gone", func() bool { return e.Totals().Servers == 0 })
	usable(t, c)
	if n := e.Totals(); n.Evictions["unhealthy"] != 2 || n.ServerLogins != 3 {
		t.Errorf("%d logins, evictions %v", n.ServerLogins, n.Evictions)
	}
	if rest := e.Unrest(); len(rest) > 0 {
		t.Errorf("left: %v", rest)
	}
}

// TestLivesDiffer: backends that were opened together have lives of their own.
func TestLivesDiffer(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	e, _ := startYAML(t, entry(mock.Addr(), "u", "pool_min_idle: 20"))
	until(t, "all are there", func() bool { return e.Totals().ServerLogins == 20 })
	seen := map[int64]bool{}
	for _, n := range e.Spreads() {
		if n < -100 || n > 100 {
			t.Errorf("a life is %d ‰ longer", n)
		}
		seen[n] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 lives end at %d times", len(seen))
	}
}
