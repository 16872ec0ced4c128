package engine_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestServerEndsBehindSlowReader: a backend that ends without a word while its client is too slow to read further: the
// client gets what was there, and then the end. Through PostgreSQL's Unix socket: of a TCP socket that its process has closed
// with bytes to send, the kernel at times gives up both these and the end (seen with both queues of ours empty); in service,
// keepalive ends such a connection.
func TestServerEndsBehindSlowReader(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: postgres, hosts: [\"%s:%d\"]}]\n", pg.SocketDir(), pg.Port))
	who := role(t, pg)
	c := loginAs(t, address, who, "postgres")
	send(t, c, pgwire.Query("select repeat('x', 100000) from generate_series(1, 5000)"))
	sessions := func(state string) int {
		return len(pg.Exec(t, "select 1 from pg_stat_activity where "+state+" usename = '"+who+"'"))
	}
	until(t, "a backend that cannot write", func() bool { return sessions("wait_event = 'ClientWrite' and") == 1 })
	pg.KillBackends(t, "usename = '"+who+"'") // it dies silently, since it cannot write
	until(t, "its end", func() bool { return sessions("") == 0 })
	if all, err := c.ReadAll(); err != nil {
		t.Errorf("after %d rows: %v", len(all)-1, err)
	}
	if n := e.Totals().Closed["backend_lost"]; n != 1 {
		t.Errorf("%d sessions lost their backend", n)
	}
	usable(t, loginAs(t, address, who, "postgres"))
}

// TestCancelWithoutWaiting: a CancelRequest whose sender closes its connection at once, as some client libraries do.
func TestCancelWithoutWaiting(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	who := role(t, pg)
	for range 20 {
		c := pgwire.Dial(t, "tcp", address)
		all, err := c.Login(0, "user", who, "database", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		var key []byte
		for _, m := range all {
			if m.Type == 'K' {
				key = m.Body
			}
		}
		send(t, c, pgwire.Query("select pg_sleep(60)"))
		running(t, pg, who, 1)
		other := pgwire.Dial(t, "tcp", address)
		send(t, other, pgwire.CancelRequest(binary.BigEndian.Uint32(key), key[4:]))
		other.Close()
		if all, err = c.ReadUntil('Z', 1); err != nil || typesOf(all[len(all)-2:]) != "EZI" {
			t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
		}
		refused(t, pgwire.ErrorOf(all[len(all)-2]), "ERROR", "57014")
		c.Close()
	}
}

// TestTerminateInsideGroup: what stands before a Terminate in the same packet reaches the backend, which is undone and
// serves the next client.
func TestTerminateInsideGroup(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	for _, last := range [][]byte{pgwire.Bind("", ""), pgwire.Flush()} {
		c := login(t, address)
		send(t, c, slices.Concat(pgwire.Parse("", "select 1"), last, pgwire.Terminate()))
		if all, err := c.ReadAll(); err != nil {
			t.Errorf("not closed: %v %s", err, pgwire.Transcript(all))
		}
		usable(t, login(t, address))
	}
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL, want 1", n)
	}
}

// TestEndBehindFlush: a Terminate and a malformed message behind a Flush take effect as soon as the answers before them
// are there, though no ReadyForQuery comes.
func TestEndBehindFlush(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	group := slices.Concat(pgwire.Parse("", "select pg_sleep(0.1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush())
	c := login(t, address)
	send(t, c, slices.Concat(group, pgwire.Terminate()))
	if all, err := c.ReadAll(); err != nil || typesOf(all) != "12DC" {
		t.Errorf("Terminate: got %s, %v", pgwire.Transcript(all), err)
	}
	c = login(t, address)
	send(t, c, slices.Concat(group, pgwire.Raw('!', nil)))
	ended(t, c, "08P01")
	usable(t, login(t, address))
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL, want 1", n)
	}
}

// TestExcludedInsideGroup: statement mode ends a session that opens a block inside a group; its backend is not lost.
func TestExcludedInsideGroup(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--server.pool-mode=statement")
	c := login(t, address)
	send(t, c, slices.Concat(pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Parse("", "begin"), pgwire.Sync()))
	ended(t, c, "0A000")
	usable(t, login(t, address))
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL, want 1", n)
	}
}

// TestUnusedPoolsMakeRoom: names of databases that do not exist, or that nobody uses any more, do not use up max_pools.
func TestUnusedPoolsMakeRoom(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--server.max-pools=2")
	stays := login(t, address)
	usable(t, stays)
	for i := range 10 {
		c := pgwire.Dial(t, "tcp", address)
		_, err := c.Login(0, "user", "postgres", "database", fmt.Sprint("none", i))
		refused(t, err, "FATAL", "3D000")
		c.Close()
		until(t, "the refused client gone", func() bool { return e.Totals().Clients == 1 && e.Totals().Servers == 1 })
	}
	c := loginAs(t, address, role(t, pg), "postgres")
	usable(t, c)
	usable(t, stays)
	// A pool with a client stays, and so does one with a backend.
	_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "none")
	refused(t, err, "FATAL", "53300")
	c.Close()
	until(t, "the client gone", func() bool { return e.Totals().Clients == 1 })
	_, err = pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "none")
	refused(t, err, "FATAL", "53300")
}

// TestCauseOfRefusedLogins: the log and the counters tell a PostgreSQL that cannot be had from one that has no room.
func TestCauseOfRefusedLogins(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1", "--capacity.checkout-timeout-ms=300")
	_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "none")
	refused(t, err, "FATAL", "3D000")
	holder(t, address)
	_, err = pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "postgres", "work_mem", "5MB")
	overloaded(t, err, "FATAL", "53300")
	down, address := startAt(t, "127.0.0.1:1", "--capacity.checkout-timeout-ms=300")
	_, err = pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "postgres")
	refused(t, err, "FATAL", "08006")
	for _, c := range []struct {
		of    *engine.Engine
		cause string
	}{{e, "server_refused_login"}, {e, "overload"}, {down, "connect_failed"}} {
		until(t, c.cause, func() bool { return c.of.Totals().Closed[c.cause] == 1 })
	}
}
