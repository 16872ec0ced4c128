package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// draining runs End and gives its answer, once it has begun.
func draining(t testing.TB, e *engine.Engine, mode view.ShutdownMode, timeout time.Duration) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- e.End(mode, timeout, nil) }()
	until(t, "draining", func() bool { draining, _, _ := e.StateNow(); return draining })
	return done
}

// whileLooping runs transactions until the session ends, which must be between two of them.
func whileLooping(c *pgwire.Conn, sqls []string) (rounds int, err error) {
	for ; ; rounds++ {
		for i, sql := range sqls {
			_, err := c.Exec(sql)
			if err == nil {
				continue
			}
			if told, ok := err.(*pgwire.Error); i == 0 && ok && told.Code() == "57P01" {
				return rounds, nil
			}
			return rounds, fmt.Errorf("%s: %w", sql, err)
		}
	}
}

// TestDrainCutsNothing: clients in a tight loop of transactions, in all modes, are closed between two of them.
func TestDrainCutsNothing(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=8", "--server.loops=2")
	block := []string{"begin", "select 1", "select 2", "commit"}
	var clients sync.WaitGroup
	begun := make(chan struct{}, 50)
	for i := range 50 {
		database, sqls := "postgres", block
		switch {
		case i < 4:
			database = "session"
		case i < 7:
			sqls = []string{"create temp table k (n int)", "drop table k"} // pinned in between
			sqls = append([]string{"begin"}, append(sqls, "commit")...)
		}
		c := loginAs(t, address, "postgres", database)
		clients.Go(func() {
			defer c.Close()
			if _, err := c.Exec("select 0"); err != nil {
				t.Error(err)
			}
			begun <- struct{}{}
			if _, err := whileLooping(c, sqls); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	for range 50 {
		<-begun
	}
	began := time.Now()
	if err := e.Drain(patience, nil); err != nil {
		t.Error(err)
	}
	clients.Wait()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the drain took %v", took)
	}
	rested(t, e)
}

// TestDrainServesThePaused: a request that waits because of PAUSE is served after RESUME, also while the process drains;
// then its client goes as well.
func TestDrainServesThePaused(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	paused, idle := loginTo(t, address, "a"), loginTo(t, address, "a")
	pauseNow(t, e, view.Scope{Database: "a"})
	queue(t, e, paused, "select 1")
	done := draining(t, e, view.ShutdownWaitForClients, patience)
	ended(t, idle, "57P01") // the others, at once
	waiting(t, e, 1)
	must(t, e.Resume(view.Scope{Database: "a"}))
	all, err := paused.ReadAll()
	if err != nil || typesOf(all) != "TDCZIE" || pgwire.ErrorOf(all[len(all)-1]).Code() != "57P01" {
		t.Errorf("the paused one got %s, %v", pgwire.Transcript(all), err)
	}
	must(t, <-done)
}

// TestOperatorsGoLast: while the process drains the console goes on, and lets operators in, to its very end.
func TestOperatorsGoLast(t *testing.T) {
	t.Parallel()
	e, address, _ := startConsole(t, pgtest.Shared(t).Addr(), consoleSettings)
	operator := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	last := login(t, address)
	exec(t, last, "begin")
	done := draining(t, e, view.ShutdownWaitForClients, patience)
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "57P01")
	second := pgwire.Login(t, "tcp", address, "user", "watcher", "database", "pg_kinetic")
	one(t, operator, "who")
	send(t, last, pgwire.Query("commit"))
	if _, err := last.ReadAll(); err != nil {
		t.Fatal(err)
	}
	must(t, <-done)
	one(t, operator, "who")
	one(t, second, "who")
	one(t, pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer"), "who")
}

// TestShutdownWaitForServers: clients without a backend go at once, paused ones too; whoever keeps one is waited for.
func TestShutdownWaitForServers(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg)
	session, block, idle := loginAs(t, address, "postgres", "session"), holder(t, address), login(t, address)
	usable(t, session)
	paused := login(t, address, "application_name", "held")
	usable(t, paused)
	pauseNow(t, e, view.Scope{Route: "postgres/postgres/held/read"})
	queue(t, e, paused, "select 1")
	done := draining(t, e, view.ShutdownWaitForServers, patience)
	ended(t, idle, "57P01")
	ended(t, paused, "57P01")
	usable(t, session)
	exec(t, block, "select 1")
	send(t, block, pgwire.Query("commit"))
	if all, err := block.ReadAll(); err != nil || typesOf(all) != "CZIE" {
		t.Errorf("the block got %s, %v", pgwire.Transcript(all), err)
	}
	usable(t, session) // it has its backend still
	select {
	case err := <-done:
		t.Fatalf("it did not wait for the session: %v", err)
	default:
	}
	send(t, session, pgwire.Terminate())
	must(t, <-done)
}

// TestShutdownNow cuts everything, and tells that.
func TestShutdownNow(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t))
	block, idle := holder(t, address), login(t, address)
	if err := e.End(view.ShutdownNow, patience, nil); err == nil {
		t.Error("the cut transaction was not told")
	}
	ended(t, block, "57P01")
	ended(t, idle, "57P01")
}

// TestShutdownRequests come out in their order; nobody who asks is made to wait.
func TestShutdownRequests(t *testing.T) {
	t.Parallel()
	e, _ := start(t, pgtest.Shared(t))
	if err := e.Shutdown(view.ShutdownWaitForServers + 1); err == nil {
		t.Error("an unknown mode was taken")
	}
	modes := []view.ShutdownMode{view.ShutdownWaitForServers, view.ShutdownWaitForClients, view.ShutdownNow}
	for _, m := range modes {
		must(t, e.Shutdown(m))
	}
	for _, want := range modes {
		if got := <-e.Shutdowns(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	var err error
	for range 100 {
		err = e.Shutdown(view.ShutdownNow)
	}
	if err == nil {
		t.Error("a hundred requests were queued")
	}
}

// TestDrainTellsItsProgress: while it waits who is left, at the end who was closed where.
func TestDrainTellsItsProgress(t *testing.T) {
	t.Parallel()
	e, address, log := startJournal(t)
	e.SetDrainLog(20 * time.Millisecond)
	block, last := holder(t, address), holder(t, address)
	idle := login(t, address)
	done := draining(t, e, view.ShutdownWaitForClients, 3*time.Second)
	ended(t, idle, "57P01")
	idle.Close()
	until(t, "two left", func() bool {
		lines := log.lines(t, "draining")
		return len(lines) > 0 && lines[len(lines)-1]["clients"] == 2.0 && lines[len(lines)-1]["in_transactions"] == 2.0
	})
	send(t, block, pgwire.Query("commit"))
	if _, err := block.ReadAll(); err != nil {
		t.Fatal(err)
	}
	block.Close()
	if err := <-done; err == nil {
		t.Error("the cut transaction was not told")
	}
	ended(t, last, "57P01")
	lines := log.lines(t, "clients closed")
	if len(lines) != 1 || lines[0]["idle"] != 1.0 || lines[0]["at_boundary"] != 1.0 || lines[0]["transactions_cut"] != 1.0 {
		t.Errorf("%v", lines)
	}
}
