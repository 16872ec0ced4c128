package e2e

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// sceneOverload: queues, refusals, and every cause of a wait.
func sceneOverload(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{
			"name: narrow, dbname: postgres, checkout_timeout_ms: 3000", "name: small, dbname: postgres, pool_max_size: 1",
			"name: full, dbname: postgres, max_backends: 1, checkout_timeout_ms: 1000", "name: shed, dbname: postgres, pool_max_size: 1",
			"name: held, dbname: postgres, pause_timeout_ms: 1000",
		},
		Flags: []string{"--server.loops=2", "--log.slow-query-ms=1"},
		Env: []string{`PG_KINETIC_ROUTES=[
			{"name": "narrow", "match": {"database": "narrow"}, "max_route_in_flight": 1, "max_route_waiters": 1, "query_timeout_ms": 100000,
				"transaction_timeout_ms": 100000, "idle_client_timeout_ms": 100000},
			{"name": "dropping", "match": {"database": "shed"}, "max_route_in_flight": 1, "max_route_waiters": 1, "on_full": "drop_oldest"}]`},
	})
	holder, waiter := o.client("narrow", "postgres:report"), o.client("narrow", "postgres:report")
	o.wants(holder, "BEGIN", "")
	o.queued(waiter, "SELECT 1", 1)
	late := o.client("narrow", "postgres:report")
	o.send(late, pgwire.Parse("", "SELECT 1"), pgwire.Flush())
	o.lookUntil("CLIENTS.wait", "POOLS.maxwait", "BACKPRESSURE.rejected", "pg_kinetic_client_connections{state=skipping}")
	o.answered(waiter) // its time is over
	o.queued(waiter, "SELECT 1", 1)
	if err := pgwire.Cancel("tcp", o.Addr(), waiter.PID, waiter.Key); err != nil {
		t.Fatal(err)
	}
	o.answered(waiter)
	o.queued(waiter, "SELECT 1", 1)
	waiter.Close()
	o.lookUntil("BACKPRESSURE.timed_out", "BACKPRESSURE.canceled", "BACKPRESSURE.disconnected")
	other := o.client("narrow", "postgres:report")
	o.queued(other, "SELECT 1", 1)
	o.wants(holder, "COMMIT", "")
	o.answered(other)

	shed, oldest, newest := o.client("shed", "postgres"), o.client("shed", "postgres"), o.client("shed", "postgres")
	o.wants(shed, "BEGIN", "")
	o.queued(oldest, "SELECT 1", 1)
	o.send(newest, pgwire.Query("SELECT 1"))
	o.answered(oldest)
	o.wants(shed, "COMMIT", "")
	o.answered(newest)
	paused, timely := o.client("held", "postgres:a"), o.client("held", "postgres:b")
	o.command("PAUSE held")
	o.command("PAUSE ROUTE narrow")
	o.queued(paused, "SELECT 1", 1)
	o.look()
	o.answered(paused)
	o.queued(timely, "SELECT 1", 1)
	o.command("RESUME held")
	o.command("RESUME ROUTE narrow")
	o.answered(timely)
	o.wants(newest, "SELECT pg_sleep(0.01)", "")
	o.fullPools()
	o.look()
}

// fullPools: one client has the only backend, another waits for it: of the pool; of the database, which counts as the host.
func (o *watched) fullPools() {
	o.t.Helper()
	a, b := o.client("small", "postgres:a"), o.client("small", "postgres:b")
	o.wants(a, "BEGIN", "")
	o.queued(b, "SELECT 1", 1)
	o.look()
	o.wants(a, "COMMIT", "")
	o.answered(b)

	a = o.client("full", "postgres")
	o.wants(a, "BEGIN", "")
	login := make(chan error, 1)
	enter := func() {
		c, err := pgwire.Open("tcp", o.Addr())
		if err == nil {
			_, err = c.Login(0, "user", "seen_app", "database", "full")
			c.Close()
		}
		login <- err
	}
	go enter()
	o.lookUntil("pg_kinetic_client_connections{state=login_wait}")
	if err := <-login; code(err) != "53300" {
		o.t.Errorf("a login without a backend for it: %v", err)
	}
	go enter()
	o.waiting(1)
	o.wants(a, "COMMIT", "")
	if err := <-login; err != nil {
		o.t.Errorf("a login with a backend for it: %v", err)
	}
}

// sceneTimeouts: every time-out fires.
func sceneTimeouts(t *testing.T, x *site, w *watch) {
	silent := func() string { // it is never accepted
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	entry := func(name, host, more string) string {
		return fmt.Sprintf(`{"name": %q, "hosts": [%q], "dbname": "postgres", %s}`, name, host, more)
	}
	o := w.operate(t, x.Server, pooler.Options{Env: []string{"PG_KINETIC_DATABASES=[" + strings.Join([]string{
		entry("query", x.Addr(), `"query_timeout_ms": 100, "recovery_timeout_ms": 500`), entry("transaction", x.Addr(), `"transaction_timeout_ms": 100`),
		entry("idle", x.Addr(), `"idle_client_timeout_ms": 100`), entry("block", x.Addr(), `"idle_transaction_timeout_ms": 100`),
		entry("pin", x.Addr(), `"idle_pin_timeout_ms": 100`), entry("write", x.Addr(), `"client_write_timeout_ms": 300`),
		entry("stall", x.Addr(), `"client_stall_timeout_ms": 100`), entry("connect", silent(), `"connect_timeout_ms": 300`),
		entry("slow", silent(), `"connect_timeout_ms": 30000, "checkout_timeout_ms": 300`),
		entry("recovery", x.Addr(), `"recovery_timeout_ms": 500`),
	}, ",") + "]"}})
	o.wants(o.client("query", "postgres"), "SELECT pg_sleep(60)", "57014")
	for _, one := range [][2]string{{"transaction", "BEGIN"}, {"idle", "SELECT 1"}, {"block", "BEGIN"}, {"pin", "CREATE TEMP TABLE held(a int)"}, {"query", stubborn}} {
		c := o.client(one[0], "postgres")
		o.send(c, pgwire.Query(one[1]))
		o.closed(c)
	}
	writer := o.client("write", "postgres")
	o.send(writer, pgwire.Query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))
	staller := o.client("stall", "postgres")
	o.wants(staller, "BEGIN", "")
	o.send(staller, pgwire.Query(strings.Repeat("-", 200000))[:100000])
	o.closed(staller)
	for _, database := range []string{"connect", "slow"} {
		o.refused("08006", "user", "postgres", "database", database)
		o.look()
	}
	left := o.client("recovery", "postgres")
	o.send(left, pgwire.Query(stubborn))
	o.lookUntil("SERVERS.link")
	left.Close()
	o.lookUntil("RECOVERY.current", "pg_kinetic_timeout_total{kind=recovery}", "pg_kinetic_timeout_total{kind=client_write}", "DATABASES.failing")
	x.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO %stubborn%' AND pid <> pg_backend_pid()")
}

// stubborn is a statement that no cancel ends.
const stubborn = "DO $$ /* stubborn */ BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN END; END LOOP; END $$"

// sceneSessions: pins and prepared statements.
func sceneSessions(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{`name: "*"`, "name: few, dbname: postgres, max_prepared_statements: 2, pool_max_size: 1"},
		Flags:     []string{"--admission.max-routes=16"},
	})
	for _, sql := range []string{
		"CREATE TEMP TABLE held(a int)", "SELECT pg_advisory_lock(4711)", "DECLARE held CURSOR WITH HOLD FOR SELECT 1", "PREPARE held AS SELECT 1",
		"LOAD 'plpgsql'",
	} {
		o.wants(o.client("postgres", "postgres:pinned"), sql, "")
	}
	large := o.client("postgres", "postgres")
	o.send(large, pgwire.Parse("large", "SELECT '"+strings.Repeat("x", 2<<20)+"'"), pgwire.Sync())
	o.answered(large)
	c := o.client("few", "postgres:prepares")
	for _, name := range []string{"a", "b", "c", "a"} {
		o.send(c, pgwire.Close('S', name), pgwire.Parse(name, "SELECT '"+name+"'"), pgwire.Bind("", name), pgwire.Execute("", 0), pgwire.Sync())
		o.answered(c)
	}
	again := o.client("few", "postgres:again")
	o.send(again, pgwire.Parse("known", "SELECT 'a'"), pgwire.Sync())
	o.answered(again)
	x.Exec(t, "DROP TABLE IF EXISTS seen_stale; CREATE TABLE seen_stale(a int)")
	stale := [][]byte{pgwire.Bind("", "stale"), pgwire.Execute("", 0), pgwire.Sync()}
	o.send(c, append([][]byte{pgwire.Parse("stale", "SELECT * FROM seen_stale")}, stale...)...)
	o.answered(c)
	x.Exec(t, "ALTER TABLE seen_stale ADD b int")
	o.send(c, stale...)
	o.answered(c)
	o.wants(c, "SELECT 1/0", "22012")
	o.wants(c, "BEGIN", "")
	var many []*pgwire.Conn
	for i := range 20 { // more routes than may be
		many = append(many, o.client("few", fmt.Sprint("postgres:route ", i)))
		o.queued(many[i], "SELECT 1", i+1)
	}
	o.look()
	o.wants(c, "ROLLBACK", "")
	for _, c := range many {
		o.answered(c)
	}
}

// sceneBuffers: everything that may be held is held.
func sceneBuffers(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{
			`name: "*"`, "name: frugal, dbname: postgres, max_client_buffer_bytes: 32768, max_backend_buffer_bytes: 32768, pool_max_size: 1",
			"name: lavish, dbname: postgres, max_backend_buffer_bytes: 4194304",
		},
		Flags: []string{"--server.max-buffer-memory=4000KiB"},
	})
	const rows = "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
	reader := o.client("frugal", "postgres:reader")
	o.send(reader, pgwire.Query(rows))
	o.lookUntil("SOCKETS.send_remain", "pg_kinetic_buffer_limit_total{kind=backend}", "pg_kinetic_buffer_bytes")
	var written sync.WaitGroup
	written.Go(func() { // it reads nothing, so PostgreSQL neither, and then nobody
		for err := error(nil); err == nil; {
			_, err = reader.Net.Write(pgwire.Query("SELECT '" + strings.Repeat("x", 1000) + "'"))
		}
	})
	o.lookUntil("SOCKETS.recv_pos", "pg_kinetic_buffer_limit_total{kind=client}")
	reader.Close()
	written.Wait()
	collected := o.client("postgres", "postgres:collected")
	o.send(collected, pgwire.Parse("one", "SELECT 1"), pgwire.Sync())
	o.answered(collected)
	o.send(collected, pgwire.Parse("large", strings.Repeat("-", 200000))[:100000])
	passing := o.client("postgres", "postgres:passing")
	o.send(passing, pgwire.Query(strings.Repeat("-", 200000))[:100000])
	o.lookUntil("SOCKETS.pkt_pos", "SOCKETS.pkt_remain", "ACTIVE_SOCKETS.pkt_pos", "ACTIVE_SOCKETS.prepared_statements")
	greedy, greedier := o.client("lavish", "postgres:greedy"), o.client("lavish", "postgres:greedy") // each may hold what all may
	o.wants(greedier, "SELECT 1", "")
	o.send(greedy, pgwire.Query(rows))
	o.send(greedier, pgwire.Query(rows))
	o.lookUntil("pg_kinetic_client_closed_total{reason=buffer_memory}")
	until(t, 20*time.Second, "kind=process", func() bool {
		_, _ = greedy.Net.Write(pgwire.Query("SELECT 1")) // one of the two is gone
		_, _ = greedier.Net.Write(pgwire.Query("SELECT 1"))
		o.look()
		return o.was["pg_kinetic_buffer_limit_total{kind=process}"]
	})
}
