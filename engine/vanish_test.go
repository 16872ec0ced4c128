package engine_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// vanish closes a connection without a word to its peer, as when a machine or what has translated addresses for it is gone. It
// skips the test where that is not allowed.
func vanish(t testing.TB, nc net.Conn) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	must(t, err)
	var refused error
	must(t, raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON)
	}))
	if refused != nil {
		t.Skipf("cannot leave silently: %v", refused)
	}
	must(t, nc.Close())
}

// acknowledged waits until what was received has been acknowledged: a peer that is sent anything when it has gone answers with a
// reset, and keepalive finds nothing.
func acknowledged() { time.Sleep(300 * time.Millisecond) }

// TestClientVanishes: a client that has gone without a word is found by keepalive, idle or with a backend, which serves others
// then; one that is only silent stays. Without keepalive nobody notices.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--server.tcp-keepalive-ms=1000", "--capacity.pool-max-size=1")
	without, elsewhere := start(t, pg, "--server.tcp-keepalive-ms=0")
	stays := login(t, address)
	idle, holds, unnoticed := login(t, address), holder(t, address), login(t, elsewhere)
	acknowledged()
	vanish(t, idle.Net)
	vanish(t, holds.Net)
	vanish(t, unnoticed.Net)
	until(t, "both are gone", func() bool { return e.Totals().Clients == 1 })
	usable(t, stays)
	if n := e.Totals(); n.ServerLogins != 1 || n.Closed["client_gone"] != 2 {
		t.Errorf("%d logins, closed %v", n.ServerLogins, n.Closed)
	}
	if n := without.Totals().Clients; n != 1 {
		t.Errorf("%d clients without keepalive, want the one that nobody misses", n)
	}
}

// TestBackendVanishes: an idle backend that has gone without a word is found by keepalive, and none of those is given to a request.
func TestBackendVanishes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var conns []net.Conn
	mock := pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		mu.Lock()
		conns = append(conns, c.Net)
		mu.Unlock()
		return pgmock.Serve("alive")(c)
	})
	e, address := startAt(t, mock.Addr(), "--reaper.backend-tcp-keepalive-ms=1000")
	c := idleServers(t, address, 3)
	acknowledged()
	mu.Lock()
	for _, nc := range conns {
		vanish(t, nc)
	}
	mu.Unlock()
	until(t, "all are found", func() bool { return e.Totals().Evictions["unhealthy"] == 3 })
	usable2(t, c, "alive")
	if n := e.Totals(); n.BackendsLost != 0 || n.ServerLogins != 4 {
		t.Errorf("%d lost to a client, %d logins", n.BackendsLost, n.ServerLogins)
	}
}

// TestUserTimeoutOfClients: a client whose kernel takes nothing any more is closed by the user time-out, long before
// client_write_timeout_ms, and its backend serves others.
func TestUserTimeoutOfClients(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.tcp-user-timeout-ms=500", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	send(t, c, pgwire.Query("select repeat('x', 100000) from generate_series(1, 500)"))
	until(t, "the client closed", func() bool { return e.Totals().Closed["client_vanished"] == 1 })
	reused(t, address, pid)
}

// TestUserTimeoutOfBackends: a request that PostgreSQL's kernel does not take fails by the user time-out.
func TestUserTimeoutOfBackends(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		for {
			m, err := c.ReadHeader()
			if err == nil && m > 1000 {
				return pgmock.Wait(t.Context().Done())(c) // and reads no more
			}
			if err == nil {
				_, err = c.Discard(m)
			}
			if err != nil {
				return err
			}
			if err := pgmock.Send(pgmock.Row("alive"), pgmock.Complete("SELECT 1"), pgmock.Ready('I'))(c); err != nil {
				return err
			}
		}
	})
	e, address := startAt(t, mock.Addr(), "--reaper.backend-tcp-user-timeout-ms=500")
	c := login(t, address)
	usable2(t, c, "alive")
	c.Timeout = patience
	begin := time.Now()
	go func() { _ = c.Send(pgwire.Query(strings.Repeat("x", 50<<20))) }() // it ends with the connection
	if f := ended(t, c, "08006"); !strings.Contains(f.Fields['M'], "does not answer") {
		t.Errorf("message %q", f.Fields['M'])
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("told after %v", took)
	}
	if n := e.Totals().BackendsLost; n != 1 {
		t.Errorf("%d backends lost", n)
	}
}

// TestClientSocketOptions: keepalive and user time-out of clients' sockets; changed ones hold for clients that come from then on.
func TestClientSocketOptions(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--server.tcp-keepalive-ms=5000", "--server.tcp-user-timeout-ms=6123")
	tcp, err := net.ResolveTCPAddr("tcp", address)
	must(t, err)
	usable(t, login(t, address))
	if n := acceptedWith(tcp.Port, 6123, 5); n != 1 {
		t.Fatalf("%d sockets of clients have the options, want 1", n)
	}
	reload(t, e, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\nserver: {tcp_keepalive_ms: 8000, tcp_user_timeout_ms: 0}\n", pg.Addr()))
	usable(t, login(t, address))
	if was, is := acceptedWith(tcp.Port, 6123, 5), acceptedWith(tcp.Port, 0, 8); was != 1 || is != 1 {
		t.Errorf("behind a reload: %d sockets with the options of before, %d with those of now", was, is)
	}
}
