package engine_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// entry is settings text with one database "app" whose login is fixed, and which says more of itself.
func entry(host, user, more string) string {
	return fmt.Sprintf("databases: [{name: app, dbname: postgres, hosts: [%q], user: %s, %s}]\n", host, user, more)
}

// sessionsOf gives the pids of a role's sessions, in order.
func sessionsOf(t testing.TB, pg *pgtest.Server, who string) string {
	t.Helper()
	return pg.Value(t, "select coalesce(string_agg(pid::text, ' ' order by pid), '') from pg_stat_activity where usename = '"+who+"'")
}

// TestMinIdle: backends are there before the first client, they stay though their idle time is over, and as many are idle
// beside one in use. Without load nobody logs in again.
func TestMinIdle(t *testing.T) {
	t.Parallel()
	for _, loops := range []string{"1", "2"} {
		t.Run(loops+" loops", func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Shared(t)
			who := role(t, pg)
			e, address := startYAML(t, entry(pg.Addr(), who, "pool_min_idle: 3, pool_idle_timeout_ms: 50"), "--server.loops="+loops)
			until(t, "three are there", func() bool { return len(strings.Fields(sessionsOf(t, pg, who))) == 3 })
			before := sessionsOf(t, pg, who)
			time.Sleep(2500 * time.Millisecond) // sweeps pass
			if after := sessionsOf(t, pg, who); after != before || e.Totals().ServerLogins != 3 {
				t.Fatalf("%d logins without load; sessions %s, then %s", e.Totals().ServerLogins, before, after)
			}
			for s := range e.Servers() {
				if s.Kept != "pool_min_idle" {
					t.Errorf("kept: %q, want the minimum", s.Kept)
				}
			}
			c := pgwire.Login(t, "tcp", address, "user", "anybody", "database", "app")
			exec(t, c, "begin")
			until(t, "a fourth", func() bool { return e.Totals().Servers == 4 })
			exec(t, c, "commit")
			until(t, "it is closed again", func() bool { return e.Totals().Servers == 3 })
			if n := e.Totals(); n.ServerLogins != 4 || n.Evictions["idle_timeout"] != 1 {
				t.Errorf("%d logins, evictions %v", n.ServerLogins, n.Evictions)
			}
			pg.KillBackends(t, "usename = '"+who+"'")
			until(t, "three are there again", func() bool { return e.Totals().Servers == 3 && e.Totals().ServerLogins == 7 })
			reload(t, e, entry(pg.Addr(), who, "pool_min_idle: 1, pool_idle_timeout_ms: 50"))
			until(t, "one is left", func() bool { return e.Totals().Servers == 1 })
			reload(t, e, entry(pg.Addr(), who, "pool_min_idle: 2, pool_idle_timeout_ms: 50"))
			until(t, "two are kept", func() bool { return e.Totals().Servers == 2 })
		})
	}
}

// TestMinIdleBounds: pool_min_idle opens nothing beyond the limits, nothing in a pool that no client has asked for and that
// its entry does not name, and nothing while a pause lasts.
func TestMinIdleBounds(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	f := func(text string, want int) {
		t.Helper()
		e, address := startYAML(t, text)
		if strings.Contains(text, `"*"`) {
			usable(t, login(t, address))
		}
		until(t, "what may be open is", func() bool { return e.Totals().Servers == int64(want) })
		time.Sleep(1200 * time.Millisecond) // a sweep
		if n := e.Totals(); n.Servers != int64(want) || n.ServerLogins != uint64(want) {
			t.Errorf("%d open, %d logins, want %d: %s", n.Servers, n.ServerLogins, want, text)
		}
	}
	f(entry(pg.Addr(), "postgres", "pool_min_idle: 5, pool_max_size: 2"), 2)
	f(entry(pg.Addr(), "postgres", "pool_min_idle: 5")+"capacity: {max_backends: 3}\n", 3)
	f(fmt.Sprintf("databases: [{name: app, hosts: [%q], pool_min_idle: 5}]\n", pg.Addr()), 0)
	f(fmt.Sprintf("databases: [{name: \"*\", hosts: [%q], pool_min_idle: 4}]\n", pg.Addr()), 4)
}

// TestMinIdleIsNoStorm: while PostgreSQL does not let it in, attempts become rare.
func TestMinIdleIsNoStorm(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "28P01", "no")))
	e, _ := startYAML(t, entry(mock.Addr(), "u", "pool_min_idle: 5"))
	time.Sleep(3500 * time.Millisecond)
	if n := mock.Opened(); n < 1 || n > 3 {
		t.Errorf("%d attempts in 3.5 s, want two or three", n)
	}
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	until(t, "all are there when it may be", func() bool { return e.Totals().ServerLogins == 5 }) // Servers counts those that are being opened
	mock.Down()
	until(t, "their loss is noticed", func() bool { return e.Totals().BackendsClosed == 5 })
	if n := e.Totals().Evictions["unhealthy"]; n != 5 {
		t.Errorf("%d unhealthy, want 5", n)
	}
}

// TestIdleDeath: a backend that PostgreSQL ends while it is idle is nobody's next.
func TestIdleDeath(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := startYAML(t, entry(pg.Addr(), who, "pool_max_size: 2"))
	c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
	for n := uint64(1); n <= 5; n++ {
		usable(t, c)
		if killed := pg.KillBackends(t, "usename = '"+who+"'"); killed != 1 {
			t.Fatalf("%d killed", killed)
		}
		until(t, "it is noticed", func() bool { return e.Totals().Servers == 0 })
		if s := e.Totals(); s.Evictions["unhealthy"] != n || s.BackendsLost != 0 {
			t.Fatalf("evictions %v, %d lost to a client", s.Evictions, s.BackendsLost)
		}
	}
	usable(t, c)
}

// TestLifetimeUnderLoad: a life that is over ends at the next release, also of a backend that never rests.
func TestLifetimeUnderLoad(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1", "--capacity.pool-max-lifetime-ms=300")
	stop := make(chan struct{})
	done := make(chan int)
	for range 2 { // one of them waits at any time
		go func() {
			c := login(t, address)
			n := 0
			for ; !closedChan(stop); n++ {
				if _, err := c.Exec("select 1"); err != nil {
					t.Error(err)
					break
				}
			}
			done <- n
		}()
	}
	until(t, "several lives", func() bool { return e.Totals().Evictions["max_lifetime"] >= 3 })
	close(stop)
	if n := <-done + <-done; n < 10 {
		t.Errorf("%d queries", n)
	}
	holds := holder(t, address)
	time.Sleep(400 * time.Millisecond)
	lives := e.Totals().Evictions["max_lifetime"]
	for s := range e.Servers() {
		if s.Kept != "in_use" || s.CloseNeeded != 1 {
			t.Errorf("kept: %q, close needed: %d", s.Kept, s.CloseNeeded)
		}
	}
	exec(t, holds, "commit")
	until(t, "closed at its release", func() bool { return e.Totals().Servers == 0 })
	if n := e.Totals(); n.Evictions["max_lifetime"] != lives+1 || n.Evictions["idle_timeout"] != 0 {
		t.Errorf("evictions %v", n.Evictions)
	}
}

func closedChan(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestSweepsAreFair: what there is to close in one pool puts off nothing in another, and a pool does not end at once.
func TestSweepsAreFair(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	const each = 12
	e, address := start(t, pg, "--server.loops=1", "--capacity.pool-max-size=12")
	var roles []string
	for range 2 {
		who := role(t, pg)
		roles = append(roles, who)
		var all []*pgwire.Conn
		for range each {
			c := pgwire.Login(t, "tcp", address, "user", who, "database", "postgres")
			exec(t, c, "begin")
			all = append(all, c)
		}
		for _, c := range all {
			exec(t, c, "commit")
		}
	}
	if err := e.SetLimit("capacity.pool_idle_timeout_ms", "1"); err != nil {
		t.Fatal(err)
	}
	until(t, "a sweep", func() bool { return e.Totals().Evictions["idle_timeout"] > 0 })
	until(t, "it is over", func() bool { return e.Totals().Servers == 2*each-16 })
	for _, who := range roles {
		if n := len(strings.Fields(sessionsOf(t, pg, who))); n != each-8 {
			t.Errorf("%d sessions of %s after one sweep, want %d", n, who, each-8)
		}
	}
	until(t, "all closed", func() bool { return e.Totals().Servers == 0 })
}

// TestEntryGone: when an entry and its last client are gone, so are the pool's backends, and the pool.
func TestEntryGone(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := startYAML(t, entry(pg.Addr(), who, "pool_min_idle: 2"))
	c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
	until(t, "two kept", func() bool { return e.Totals().Servers == 2 })
	reload(t, e, "databases: [{name: other, hosts: [\""+pg.Addr()+"\"]}]\n")
	usable(t, c)
	time.Sleep(1200 * time.Millisecond) // a sweep
	usable(t, c)
	if n := e.Totals().Evictions["reload"]; n != 0 {
		t.Errorf("%d closed while a client is there", n)
	}
	c.Reset()
	until(t, "no backends", func() bool { return e.Totals().Servers == 0 })
	if n := e.Totals(); n.Evictions["reload"] != 2 {
		t.Errorf("evictions %v", n.Evictions)
	}
}

// TestEntryLeadsElsewhere: when an entry has another user or database by now, nobody comes to the pool of before any more, so
// nothing is kept in it, and it goes with its last client.
func TestEntryLeadsElsewhere(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who, next := role(t, pg), role(t, pg)
	e, address := startYAML(t, entry(pg.Addr(), who, "pool_min_idle: 2"))
	c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
	until(t, "two kept", func() bool { return e.Totals().ServerLogins == 2 })
	reload(t, e, entry(pg.Addr(), next, "pool_min_idle: 3"))
	until(t, "three of the next user", func() bool { return len(strings.Fields(sessionsOf(t, pg, next))) == 3 })
	usable(t, c)
	if got := one(t, c, "select current_user"); got != who {
		t.Errorf("a client that is there is served as %s, want %s", got, who)
	}
	c.Reset()
	until(t, "none of the user before", func() bool { return sessionsOf(t, pg, who) == "" && e.Totals().Servers == 3 })
	if n := e.Totals(); n.Evictions["reload"] != 2 || n.ServerLogins != 5 {
		t.Errorf("%d logins, evictions %v", n.ServerLogins, n.Evictions)
	}
}

// TestMinIdleAfterRestart: what is kept idle is there again soon after PostgreSQL is, in every pool, however long it was away.
func TestMinIdleAfterRestart(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	one := func(name string) string {
		return fmt.Sprintf("{name: %s, hosts: [%q], user: u, pool_min_idle: 4}", name, mock.Addr())
	}
	e, _ := startYAML(t, "databases: ["+one("a")+", "+one("b")+", "+one("c")+"]\n")
	until(t, "all are there", func() bool { return e.Totals().ServerLogins == 12 })
	must(t, e.Reconnect(""))
	until(t, "anew after RECONNECT", func() bool { return e.Totals().ServerLogins == 24 && e.Totals().Servers == 12 })
	mock.Down()
	until(t, "noticed", func() bool { return e.Totals().Servers == 0 || e.Totals().Evictions["unhealthy"] == 12 })
	time.Sleep(4 * time.Second) // the pauses have become long
	mock.Up()
	begin := time.Now()
	until(t, "anew after a restart", func() bool { return e.Totals().ServerLogins == 36 })
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("all were there after %v", took)
	}
}

// TestStartUpThatStops: a server that stops anywhere in the start-up ends at connect_timeout_ms, and its place and its
// connect slot are free.
func TestStartUpThatStops(t *testing.T) {
	t.Parallel()
	f := func(name, tls string, steps ...pgmock.Step) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mock := pgmock.Start(t, steps...)
			e, address := startAt(t, mock.Addr(),
				"--capacity.connect-timeout-ms=300", "--capacity.pool-max-size=1", "--admission.max-connects-per-host=1", "--tls.server-mode="+tls)
			begin := time.Now()
			_, err := tryLogin(t, address)
			refused(t, err, "FATAL", "08006")
			if took := time.Since(begin); took < 250*time.Millisecond || took > 3*time.Second {
				t.Errorf("told after %v, want 300 ms", took)
			}
			until(t, "the place is free", func() bool { return e.Totals().Servers == 0 })
			if n := e.Totals().Timeouts["connect"]; n < 1 {
				t.Errorf("%d connects timed out", n)
			}
			if tls == "prefer" {
				mock.Script(encryption('N'), pgmock.Login(), pgmock.Serve("alive"))
			} else {
				mock.Script(pgmock.Login(), pgmock.Serve("alive"))
			}
			until(t, "a login when it goes on", func() bool {
				c, err := tryLogin(t, address)
				if err == nil {
					usable2(t, c, "alive")
				}
				return err == nil
			})
		})
	}
	f("never answers", "disable", pgmock.Hang())
	f("grants TLS and stops", "prefer", encryption('S'), pgmock.Hang())
	f("stops after AuthenticationOk", "disable", pgmock.Startup(), pgmock.Send(pgmock.AuthenticationOk()), pgmock.Hang())
	f("stops before ReadyForQuery", "disable",
		pgmock.Startup(), pgmock.Send(pgmock.AuthenticationOk(), pgmock.Parameters(), pgmock.KeyData(1, 2)), pgmock.Hang())
}

// encryption takes a request for TLS and gives the answer.
func encryption(answer byte) pgmock.Step {
	return func(c *pgmock.Conn) error {
		if _, err := c.Discard(8); err != nil {
			return err
		}
		return pgmock.Send([]byte{answer})(c)
	}
}

// TestBackendSocketOptions: keepalive and user time-out of sockets to PostgreSQL, live for new ones.
func TestBackendSocketOptions(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	host := []string{"--reaper.backend-tcp-keepalive-ms=4000", "--reaper.backend-tcp-user-timeout-ms=7123"}
	e, address := startAt(t, pg.Addr(), host...)
	usable(t, login(t, address))
	has := func(userTimeout, keepIdle int) bool { return socketsWith(pg.Port, userTimeout, keepIdle) > 0 }
	if !has(7123, 4) {
		t.Fatal("no socket with the options")
	}
	listener := login(t, address)
	before := socketsWith(pg.Port, 7123, 4)
	exec(t, listener, "listen here")
	until(t, "that of a listener as well", func() bool { return socketsWith(pg.Port, 7123, 4) > before })
	reload(t, e, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\nreaper: {backend_tcp_keepalive_ms: 9000, backend_tcp_user_timeout_ms: 8321}\n", pg.Addr()))
	if !has(7123, 4) || has(8321, 9) {
		t.Fatal("a socket that was open has changed, or closed")
	}
	holder(t, address)
	holder(t, address)
	if !has(8321, 9) {
		t.Fatal("no new socket with the new options")
	}
}

// socketsWith counts this process's sockets to a port that have these options.
func socketsWith(port, userTimeout, keepIdle int) (n int) {
	return optionsOf(port, userTimeout, keepIdle, unix.Getpeername)
}

// acceptedWith counts the connections that it has accepted at a port.
func acceptedWith(port, userTimeout, keepIdle int) (n int) {
	return optionsOf(port, userTimeout, keepIdle, func(fd int) (unix.Sockaddr, error) {
		if _, err := unix.Getpeername(fd); err != nil { // the listening one
			return nil, err
		}
		return unix.Getsockname(fd)
	})
}

func optionsOf(port, userTimeout, keepIdle int, end func(fd int) (unix.Sockaddr, error)) (n int) {
	for fd := range 2000 {
		peer, err := end(fd)
		to, tcp := peer.(*unix.SockaddrInet4)
		if err != nil || !tcp || to.Port != port {
			continue
		}
		option := func(name int) int {
			v, err := unix.GetsockoptInt(fd, syscall.IPPROTO_TCP, name)
			if err != nil {
				return -1
			}
			return v
		}
		alive, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		if err == nil && alive == 1 && option(unix.TCP_USER_TIMEOUT) == userTimeout && option(unix.TCP_KEEPIDLE) == keepIdle {
			n++
		}
	}
	return n
}
