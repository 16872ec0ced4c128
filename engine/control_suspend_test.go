package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// quietFor is how long a client gets nothing that should get nothing.
const quietFor = 40 * time.Millisecond

// suspending runs Suspend and gives its answer, once it has begun.
func suspending(t testing.TB, e *engine.Engine, ctx context.Context) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- e.Suspend(ctx) }()
	until(t, "suspended", func() bool { _, _, suspended := e.StateNow(); return suspended })
	return done
}

// TestSuspend: what has been read is passed on before Suspend returns, what comes later stays unread until RESUME; nothing
// is lost. Operators notice nothing.
func TestSuspend(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	root := startRooted(t, pg, "--capacity.pool-max-size=2", "--server.loops=2")
	e, address := root.e, root.address
	block, running, waiter, idle := holder(t, address), login(t, address), login(t, address), login(t, address)
	g := shut(t, pg, 1)
	send(t, running, pgwire.Query(g.query(0)))
	g.running(t, 0)
	queue(t, e, waiter, "select 'waited'")
	done := suspending(t, e, t.Context())
	send(t, idle, pgwire.Query("select 'unread'"))
	exec(t, block, "select 'in its block'") // the end of the block would serve the waiter
	for _, c := range []*pgwire.Conn{idle, waiter} {
		if !c.Silent(quietFor) {
			t.Error("it was answered")
		}
	}
	select {
	case err := <-done:
		t.Fatalf("suspended (%v) while a request waits", err)
	default:
	}
	g.open(t, 0)
	must(t, <-done)
	send(t, block, pgwire.Query("select 'behind it'"))
	if !block.Silent(quietFor) {
		t.Error("the block was answered")
	}
	if n := e.Totals().Waiting; n != 0 {
		t.Errorf("%d wait", n)
	}
	newcomer := pgwire.Dial(t, "tcp", address)
	send(t, newcomer, pgwire.Startup(0, "user", "postgres", "database", "postgres"))
	if !newcomer.Silent(quietFor) || !idle.Silent(quietFor) {
		t.Error("it was answered")
	}
	one(t, root.operator, "who")
	one(t, pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer"), "who")
	must(t, e.Suspend(t.Context())) // it is
	must(t, e.Resume(view.Scope{}))
	for _, c := range []*pgwire.Conn{running, waiter, idle} {
		answered(t, c, "TDCZI")
	}
	answered(t, block, "TDCZT")
	if _, err := newcomer.ReadUntil('Z', 1); err != nil {
		t.Fatal(err)
	}
	exec(t, block, "commit")
	for _, c := range []*pgwire.Conn{running, waiter, idle, newcomer, block} {
		usable(t, c)
	}
	if err := e.Resume(view.Scope{}); !errors.Is(err, engine.ErrNotPaused) {
		t.Errorf("resuming again: %v", err)
	}
	rested(t, e)
}

// rooted is an engine with an operator at its console.
type rooted struct {
	e        *engine.Engine
	address  string
	operator *pgwire.Conn
}

func startRooted(t *testing.T, pg *pgtest.Server, settings ...string) (r rooted) {
	t.Helper()
	r.e, r.address, _ = startConsole(t, pg.Addr(), "admin: {users: [root], stats_users: [watcher]}\n", settings...)
	r.operator = pgwire.Login(t, "tcp", r.address, "user", "root", "database", "pgbouncer")
	return r
}

// TestSuspendUnderLoad: suspensions in a row under load lose, repeat and refuse nothing.
func TestSuspendUnderLoad(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=4", "--server.loops=2")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 24 {
		c := login(t, address)
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// Two requests at once, the second of which waits for the first.
				want := strconv.Itoa(n)
				if err := c.Send(pgwire.Query("begin; select "+want), pgwire.Query("commit; select -"+want)); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				all, err := c.ReadUntil('Z', 2)
				if err != nil || typesOf(all) != "CTDCZTCTDCZI" {
					t.Errorf("client %d, round %d: %s, %v", i, n, pgwire.Transcript(all), err)
					return
				}
			}
		})
	}
	for range 10 {
		done := suspending(t, e, t.Context())
		must(t, answer(t, done))
		before := e.Totals().Queries
		must(t, e.Suspend(t.Context()))
		if now := e.Totals().Queries; now != before {
			t.Errorf("%d queries were answered while it was suspended", now-before)
		}
		must(t, e.Resume(view.Scope{}))
		until(t, "going on", func() bool { return e.Totals().Queries > before+50 })
	}
	close(stop)
	clients.Wait()
	rested(t, e)
}

// TestSuspendAmongBlocks: clients that talk to their transactions step by step hold all backends whenever a suspension
// begins; those that wait get one, since blocks are read to their end.
func TestSuspendAmongBlocks(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2", "--server.loops=2", "--capacity.checkout-timeout-ms=60000")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 12 {
		c := login(t, address)
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, sql := range []string{"begin", "select 1", "select 2", "commit"} {
					if _, err := c.Exec(sql); err != nil {
						t.Errorf("client %d: %s: %v", i, sql, err)
						return
					}
				}
			}
		})
	}
	for range 10 {
		begun := e.Totals().Queries
		until(t, "going on", func() bool { return e.Totals().Queries > begun+20 })
		must(t, answer(t, suspending(t, e, t.Context())))
		before := e.Totals().Queries
		if n := e.Totals().Waiting; n != 0 {
			t.Errorf("%d wait in a suspension", n)
		}
		must(t, e.Suspend(t.Context())) // another one changes nothing
		if now := e.Totals().Queries; now != before {
			t.Errorf("%d queries were answered while it was suspended", now-before)
		}
		must(t, e.Resume(view.Scope{}))
	}
	close(stop)
	clients.Wait()
	rested(t, e)
}

// TestSuspendBehindLock: a request that waits for a lock of an open block gets it; so does whoever waits for its backend.
func TestSuspendBehindLock(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=2", "--capacity.checkout-timeout-ms=60000")
	block, locked, waiter := holder(t, address), login(t, address), login(t, address)
	exec(t, block, "select pg_advisory_xact_lock(7703)")
	send(t, locked, pgwire.Query("begin; select pg_advisory_xact_lock(7703); commit"))
	until(t, "it waits for the lock", func() bool {
		return pg.Value(t, "select count(*) from pg_locks where locktype = 'advisory' and objid = 7703 and not granted") == "1"
	})
	queue(t, e, waiter, "select 'waited'")
	done := suspending(t, e, t.Context())
	exec(t, block, "commit")
	must(t, answer(t, done))
	must(t, e.Resume(view.Scope{}))
	answered(t, locked, "CTDCCZI")
	answered(t, waiter, "TDCZI")
	rested(t, e)
}

// TestSuspendedClocksStandStill: nobody is out of time because the process did not read.
func TestSuspendedClocksStandStill(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.idle-client-timeout-ms=400", "--capacity.idle-transaction-timeout-ms=400",
		"--capacity.query-timeout-ms=400", "--capacity.transaction-timeout-ms=800")
	idle, block, running := login(t, address), holder(t, address), login(t, address)
	usable(t, idle)
	send(t, running, pgwire.Query("select 'ran' from pg_sleep(0.1)"))
	must(t, e.Suspend(t.Context()))
	send(t, idle, pgwire.Query("select 1"))
	send(t, block, pgwire.Query("select 1"))
	if !block.Silent(1200 * time.Millisecond) {
		t.Error("it was answered")
	}
	must(t, e.Resume(view.Scope{}))
	answered(t, idle, "TDCZI")
	answered(t, block, "TDCZT")
	answered(t, running, "TDCZI")
	ended(t, block, "25P03") // they run again
	ended(t, idle, "57P05")
}

// TestSuspendEnds: the caller's context, RESUME while it waits, the end of the process.
func TestSuspendEnds(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1")
	block, waiter := holder(t, address), login(t, address)
	queue(t, e, waiter, "select 1")
	done := suspending(t, e, t.Context())
	must(t, e.Resume(view.Scope{}))
	if err := answer(t, done); !errors.Is(err, engine.ErrResumed) {
		t.Errorf("resumed before it was complete: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done = suspending(t, e, ctx)
	cancel()
	if err := answer(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("its caller is gone: %v", err)
	}
	if _, _, suspended := e.StateNow(); !suspended {
		t.Error("the suspension has gone with its caller")
	}
	must(t, e.Resume(view.Scope{}))
	paused := pausing(e, t.Context(), view.Scope{})
	until(t, "paused", func() bool { _, paused, _ := e.StateNow(); return paused })
	must(t, e.Suspend(t.Context())) // a request that waits for a pause does not hinder it
	send(t, block, pgwire.Query("commit"))
	must(t, e.Resume(view.Scope{})) // of both
	if err := answer(t, paused); err != nil && !errors.Is(err, engine.ErrResumed) {
		t.Error(err)
	}
	answered(t, block, "CZI")
	answered(t, waiter, "TDCZI")

	exec(t, block, "begin")
	must(t, e.Suspend(t.Context()))
	send(t, block, pgwire.Query("commit"))
	over := draining(t, e, view.ShutdownWaitForClients, patience)
	if all, err := block.ReadAll(); err != nil || typesOf(all) != "CZIE" {
		t.Errorf("the block got %s, %v", pgwire.Transcript(all), err)
	}
	must(t, <-over)
	if err := e.Suspend(t.Context()); err == nil {
		t.Error("a process that ends was suspended")
	}
}
