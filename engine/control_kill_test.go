package engine_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestKillClient: one client is told and closed, its transaction rolled back, its backend serves the next.
func TestKillClient(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1", "--server.loops=2")
	victim, waiter, other := login(t, address), login(t, address), login(t, address)
	exec(t, victim, "begin")
	backend := one(t, victim, "select pg_backend_pid()")
	exec(t, victim, "create temp table left_behind (n int)")
	queue(t, e, waiter, "select pg_backend_pid()")
	id := e.ClientID(victim.PID)
	must(t, e.KillClient(id))
	if f := ended(t, victim, "57P01"); !strings.Contains(f.Fields['M'], "KILL_CLIENT") {
		t.Errorf("message %q", f.Fields['M'])
	}
	all, err := waiter.ReadUntil('Z', 1)
	if err != nil || typesOf(all) != "TDCZI" || !strings.Contains(pgwire.Transcript(all), backend) {
		t.Errorf("the next one got %s, %v, want backend %s", pgwire.Transcript(all), err, backend)
	}
	must(t, e.KillClient(e.ClientID(waiter.PID))) // idle
	ended(t, waiter, "57P01")
	for _, gone := range []uint64{id, 0, 1 << 60} {
		if err := e.KillClient(gone); err == nil || !strings.Contains(err.Error(), strconv.FormatUint(gone, 10)) {
			t.Errorf("killing %d: %v", gone, err)
		}
	}
	victim.Close()
	waiter.Close()
	until(t, "two killed", func() bool { return e.Totals().Closed["killed"] == 2 })
	usable(t, other)
	rested(t, e)
}

// TestKillClientSparesOperators: the console's clients are not to be killed.
func TestKillClientSparesOperators(t *testing.T) {
	t.Parallel()
	e, address, _ := startConsole(t, pgtest.Shared(t).Addr(), consoleSettings)
	operator := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	if err := e.KillClient(e.ClientID(operator.PID)); err == nil {
		t.Error("an operator was killed")
	}
	one(t, operator, "who")
}

// TestKill: whoever is in a database is told and closed, in whatever state, its backends end at once, running queries too;
// others notice nothing. RESUME lets clients be served again.
func TestKill(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := twoDatabases(t, "--capacity.pool-max-size=10", "--server.loops=2")
	enter := func() *pgwire.Conn { return pgwire.Login(t, "tcp", address, "user", who, "database", "a") }
	spared := loginTo(t, address, "b")
	exec(t, spared, "begin")
	var idle, busy, waiters []*pgwire.Conn
	for range 10 {
		busy = append(busy, enter())
	}
	for range 150 {
		idle = append(idle, enter())
	}
	for range 40 {
		waiters = append(waiters, enter())
	}
	exec(t, busy[0], "begin")
	exec(t, busy[1], "create temp table k (n int)")
	if _, err := busy[2].Exec("begin; select 1/0"); err == nil {
		t.Fatal("no error")
	}
	for _, c := range busy[3:] {
		send(t, c, pgwire.Query("select pg_sleep(600)"))
	}
	running(t, pg, who, 7)
	for _, c := range waiters {
		queue(t, e, c, "select 1")
	}
	must(t, e.Kill("a"))
	for _, c := range slices.Concat(idle, busy, waiters) {
		if f := ended(t, c, "57P01"); !strings.HasSuffix(f.Fields['M'], "KILL") {
			t.Fatalf("message %q", f.Fields['M'])
		}
	}
	until(t, "no backend of its", func() bool {
		return pg.Value(t, "select count(*) from pg_stat_activity where usename = '"+who+"'") == "0"
	})
	until(t, "all closed", func() bool { return e.Totals().Clients == 1 && e.Totals().Servers == 1 })
	exec(t, spared, "commit")
	rested(t, e)
	later := enter()
	queue(t, e, later, "select 1")
	must(t, e.Kill("a")) // again
	ended(t, later, "57P01")
	later = enter()
	queue(t, e, later, "select 1")
	must(t, e.Resume(view.Scope{Database: "a"}))
	answered(t, later, "TDCZI")
	if err := e.Kill("c"); err == nil || !strings.Contains(err.Error(), "no such database") {
		t.Errorf("an unknown name: %v", err)
	}
	rested(t, e)
}

// TestKillUnderLoad: while 200 clients come, work and come again, kills leave nothing behind.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t, "--capacity.pool-max-size=10", "--server.loops=2")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 200 {
		clients.Go(func() {
			for !isClosed(stop) {
				if err := killedOnce(address, i%3, stop); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	for range 8 {
		before := e.Totals().Queries
		until(t, "working", func() bool { return e.Totals().Queries > before+200 })
		must(t, e.Kill("a"))
		must(t, e.Resume(view.Scope{Database: "a"}))
	}
	close(stop)
	clients.Wait()
	until(t, "all clients gone", func() bool { return e.Totals().Clients == 0 })
	rested(t, e)
	if n := e.Totals().Servers; n > 10 {
		t.Errorf("%d backends of a pool of 10", n)
	}
}

// killedOnce is one session, until it is killed or told to stop.
func killedOnce(address string, kind int, stop <-chan struct{}) error {
	c, err := pgwire.Open("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Login(0, "user", "postgres", "database", "a"); err != nil {
		return killedOr(err)
	}
	sqls := [][]string{{"select 1"}, {"begin", "select 1", "commit"}, {"select pg_sleep(0.01)"}}[kind]
	for !isClosed(stop) {
		for _, sql := range sqls {
			if _, err := c.Exec(sql); err != nil {
				return killedOr(err)
			}
		}
	}
	return nil
}

// killedOr is err unless that tells of a kill, or of the end of the connection inside an answer.
func killedOr(err error) error {
	var told *pgwire.Error
	if errors.As(err, &told) && told.Code() != "57P01" {
		return err
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestKillForADrop: behind KILL and WAIT_CLOSE a database can be dropped and made anew; whoever came meanwhile is served by
// the new one.
func TestKillForADrop(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "create database to_be_dropped")
	e, address := start(t, pg, "--capacity.pool-min-idle=2", "--server.loops=2")
	for i := range 6 {
		c := loginTo(t, address, "to_be_dropped")
		exec(t, c, "begin")
		if i%2 == 0 {
			send(t, c, pgwire.Query("select pg_sleep(600)"))
		}
	}
	must(t, e.Kill("to_be_dropped"))
	must(t, e.WaitClose(t.Context(), "to_be_dropped"))
	late := loginTo(t, address, "to_be_dropped")
	queue(t, e, late, "select 1")
	pg.Exec(t, "drop database to_be_dropped")
	pg.Exec(t, "create database to_be_dropped")
	must(t, e.Resume(view.Scope{Database: "to_be_dropped"}))
	answered(t, late, "TDCZI")
	must(t, e.Kill("to_be_dropped"))
	must(t, e.WaitClose(t.Context(), "to_be_dropped"))
	pg.Exec(t, "drop database to_be_dropped")
}
