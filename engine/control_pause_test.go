package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// twoDatabases is an engine with the databases a and b, both of them postgres of pg, and a rule named bulk.
func twoDatabases(t testing.TB, settings ...string) (*engine.Engine, string) {
	t.Helper()
	return startYAML(t, twoEntries(t), settings...)
}

// twoEntries is the settings text of twoDatabases.
func twoEntries(t testing.TB) string {
	t.Helper()
	addr := pgtest.Shared(t).Addr()
	return fmt.Sprintf("databases: [{name: a, hosts: [%q], dbname: postgres}, {name: b, hosts: [%q], dbname: postgres}]\n"+
		"routes: [{name: bulk, match: {application_name: bulk}}]\n", addr, addr)
}

func loginTo(t testing.TB, address, database string, more ...string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", address, append([]string{"user", "postgres", "database", database}, more...)...)
}

// pausing runs Pause and gives its answer.
func pausing(e *engine.Engine, ctx context.Context, s view.Scope) <-chan error {
	done := make(chan error, 1)
	go func() { done <- e.Pause(ctx, s) }()
	return done
}

// answer waits for the end of a Pause.
func answer(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("Pause did not return")
		return nil
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pauseNow pauses what has nothing in flight.
func pauseNow(t testing.TB, e *engine.Engine, s view.Scope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, e.Pause(ctx, s))
}

// TestPause: queries in flight end, those that come wait, Pause returns when the last has ended, Resume lets the waiters
// go; whoever is outside the scope notices nothing. Clients sit on all loops.
func TestPause(t *testing.T) {
	for _, loops := range []int{1, 2, 4} {
		for _, c := range []struct {
			name    string
			scope   view.Scope
			outside bool // whether database b, without the application name, is outside
		}{
			{"process", view.Scope{}, false},
			{"database", view.Scope{Database: "a"}, true},
			{"rule", view.Scope{Route: "bulk"}, true},
		} {
			t.Run(fmt.Sprintf("%s_%d", c.name, loops), func(t *testing.T) {
				t.Parallel()
				pg := pgtest.Shared(t)
				e, address := twoDatabases(t, fmt.Sprintf("--server.loops=%d", loops))
				running := crowd(t, address, loops, 4, "user", "postgres", "database", "a", "application_name", "bulk")
				late := crowd(t, address, loops, 4, "user", "postgres", "database", "a", "application_name", "bulk")
				other := loginTo(t, address, "b")
				g := shut(t, pg, 4)
				for i, conn := range running {
					send(t, conn, pgwire.Query(g.query(i)))
				}
				g.running(t, 0, 1, 2, 3)
				done := pausing(e, t.Context(), c.scope)
				until(t, "paused", func() bool { return pausedRows(e) > 0 || c.scope.Route == "" && pausedSeen(e, c.scope) })
				for _, conn := range late {
					queue(t, e, conn, "select 'late'")
				}
				if c.outside {
					usable(t, other)
				}
				g.open(t, 0, 1, 2)
				for _, conn := range running[:3] {
					answered(t, conn, "TDCZI")
				}
				select {
				case err := <-done:
					t.Fatalf("Pause returned %v with a query in flight", err)
				default:
				}
				g.open(t, 3)
				answered(t, running[3], "TDCZI")
				must(t, answer(t, done))
				waiting(t, e, 4) // still
				queue(t, e, running[0], "select 'again'")
				must(t, e.Resume(c.scope))
				for _, conn := range append(late, running[0]) {
					answered(t, conn, "TDCZI")
				}
				rested(t, e)
			})
		}
	}
}

// pausedRows counts the live routes that are paused themselves.
func pausedRows(e *engine.Engine) (n int) {
	for _, r := range e.Routes() {
		if r.Paused {
			n++
		}
	}
	return n
}

// pausedSeen tells whether a request to database a would wait for a pause.
func pausedSeen(e *engine.Engine, s view.Scope) bool {
	x, err := e.Foresee(view.Request{Database: "a", User: "postgres", ApplicationName: "bulk", ClientAddr: "127.0.0.1"})
	return err == nil && x.Decision == engine.DecisionWait && x.Cause == "pause"
}

// TestPauseBeforeTheFirst: a pool and a route that are made while their name is paused admit nobody; nor does a login that
// needs a backend get one. All go on with RESUME.
func TestPauseBeforeTheFirst(t *testing.T) {
	t.Parallel()
	for _, s := range []view.Scope{{}, {Database: "a"}, {Route: "bulk"}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			e, address := twoDatabases(t)
			pauseNow(t, e, s)
			if s.Route == "" { // its first login needs a backend, as class default, of no rule's
				c := pgwire.Dial(t, "tcp", address)
				send(t, c, pgwire.Startup(0, "user", "postgres", "database", "a", "application_name", "bulk"))
				waiting(t, e, 1)
				if n := e.Totals().ServerLogins; n != 0 {
					t.Errorf("%d backends were opened", n)
				}
				must(t, e.Resume(s))
				if _, err := c.ReadUntil('Z', 1); err != nil {
					t.Fatal(err)
				}
				usable(t, c)
				return
			}
			c := login2(t, address)
			queue(t, e, c, "select 1")
			if n := pausedRows(e); n != 1 {
				t.Errorf("%d routes paused", n)
			}
			must(t, e.Resume(s))
			answered(t, c, "TDCZI")
			usable(t, c)
		})
	}
}

// login2 is a client that belongs to rule bulk from its first request on.
func login2(t testing.TB, address string) *pgwire.Conn {
	t.Helper()
	loginTo(t, address, "a").Close() // the pool knows its parameters now
	return loginTo(t, address, "a", "application_name", "bulk")
}

// TestPauseTimeout: pause_timeout_ms ends a wait with an error that names the pause, on a session that stays, also of one
// who waited for a place before the pause began.
func TestPauseTimeout(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t, "--capacity.pause-timeout-ms=250", "--capacity.checkout-timeout-ms=60000", "--capacity.pool-max-size=1")
	hold, before, later := loginTo(t, address, "a"), loginTo(t, address, "a"), loginTo(t, address, "a")
	exec(t, hold, "begin")
	queue(t, e, before, "select 1")
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := pausing(e, ctx, view.Scope{Database: "a"})
	until(t, "paused", func() bool { return pausedSeen(e, view.Scope{}) })
	queue(t, e, later, "select 1")
	for _, c := range []*pgwire.Conn{before, later} {
		f := overloaded(t, answered(t, c, "EZI"), "ERROR", "53300")
		if took := time.Since(begin); took < 240*time.Millisecond {
			t.Errorf("refused after %v, want 250 ms", took)
		}
		if !strings.Contains(f.Fields['M'], "paused") || !strings.Contains(f.Fields['M'], "pause_timeout_ms") {
			t.Errorf("message %q", f.Fields['M'])
		}
	}
	if n := e.Totals().Timeouts["pause"]; n != 2 {
		t.Errorf("timeout_total pause %d, want 2", n)
	}
	cancel()
	if err := answer(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("Pause gave %v", err)
	}
	exec(t, hold, "commit") // the pause stays
	queue(t, e, later, "select 1")
	must(t, e.Resume(view.Scope{Database: "a"}))
	answered(t, later, "TDCZI")
	usable(t, before)
}

// TestCheckoutClockStandsStill: a waiter with 300 ms survives a pause of 600 ms, and then still has its rest.
func TestCheckoutClockStandsStill(t *testing.T) {
	t.Parallel()
	for _, s := range []view.Scope{{}, {Database: "a"}, {Route: "bulk"}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			e, address := twoDatabases(t, "--capacity.checkout-timeout-ms=300", "--capacity.pool-max-size=1")
			hold := loginTo(t, address, "a", "application_name", "bulk")
			exec(t, hold, "begin")
			first, second := loginTo(t, address, "a", "application_name", "bulk"), loginTo(t, address, "a", "application_name", "bulk")
			begin := time.Now()
			queue(t, e, first, "select 1")
			ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
			defer cancel()
			if err := e.Pause(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Pause with a block open gave %v", err)
			}
			if n := e.Totals().Waiting; n != 1 {
				t.Fatalf("%d waiting after the pause", n)
			}
			queue(t, e, second, "select 1") // whose clock has not begun
			resumed := time.Now()
			must(t, e.Resume(s))
			f := overloaded(t, answered(t, first, "EZI"), "ERROR", "53300")
			if total := time.Since(begin); total < 890*time.Millisecond {
				t.Errorf("timed out %v after it came, want 300 ms beside the pause: %s", total, f.Fields['M'])
			}
			overloaded(t, answered(t, second, "EZI"), "ERROR", "53300")
			if took := time.Since(resumed); took < 290*time.Millisecond || took > 3*time.Second {
				t.Errorf("the second one timed out %v after the resume, want 300 ms", took)
			}
			exec(t, hold, "commit")
			usable(t, first)
		})
	}
}

// TestResumeWhilePausing: RESUME by another ends every PAUSE that is not complete, at once; nobody notices anything.
func TestResumeWhilePausing(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	for _, s := range []view.Scope{{}, {Database: "a"}, {Route: "bulk"}} {
		c, late := loginTo(t, address, "a", "application_name", "bulk"), loginTo(t, address, "a", "application_name", "bulk")
		exec(t, c, "begin")
		first := pausing(e, t.Context(), s)
		until(t, "paused", func() bool { return pausedSeen(e, s) })
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Pause(gone, s); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a second Pause gave %v", s, err)
		}
		queue(t, e, late, "select 1")
		must(t, e.Resume(s))
		if err := answer(t, first); !errors.Is(err, engine.ErrResumed) {
			t.Errorf("%s: Pause gave %v", s, err)
		}
		answered(t, late, "TDCZI")
		exec(t, c, "commit")
		if err := e.Resume(s); !errors.Is(err, engine.ErrNotPaused) {
			t.Errorf("%s: resuming again gave %v", s, err)
		}
	}
}

// TestPausesOverlap: what two names pause goes on when both are resumed, and not with the process's pause over it.
func TestPausesOverlap(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	c := login2(t, address)
	usable(t, c)
	all := []view.Scope{{Route: "bulk"}, {Database: "a"}, {}}
	for _, s := range all {
		pauseNow(t, e, s)
	}
	queue(t, e, c, "select 1")
	for i, s := range all {
		waiting(t, e, 1)
		if !pausedSeen(e, s) {
			t.Errorf("before %d: not paused", i)
		}
		must(t, e.Resume(s))
	}
	answered(t, c, "TDCZI")
	// A rule's name and the label of one of its routes.
	e2, address := startYAML(t, databases(pgtest.Shared(t))+"routes: [{name: bulk, match: {application_name: bulk}, split_by: [user]}]\n")
	c = login(t, address, "application_name", "bulk")
	usable(t, c)
	pauseNow(t, e2, view.Scope{Route: "bulk"})
	pauseNow(t, e2, view.Scope{Route: "bulk/user=postgres"})
	queue(t, e2, c, "select 1")
	must(t, e2.Resume(view.Scope{Route: "bulk"}))
	if n := pausedRows(e2); n != 1 {
		t.Errorf("%d routes paused after one of two resumes", n)
	}
	must(t, e2.Resume(view.Scope{Route: "bulk/user=postgres"}))
	answered(t, c, "TDCZI")
}

// TestPauseNames: what is unknown is told with what is nearest; what a name stands for.
func TestPauseNames(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--admission.route-key=database,user")
	c := login(t, address)
	usable(t, c)
	for _, x := range []struct {
		scope view.Scope
		want  string
	}{
		{view.Scope{Route: "postgres/postgers//default"}, `nearest: "postgres/postgres//default"`},
		{view.Scope{Database: "postgres", Route: "x"}, "not both"},
	} {
		if err := e.Pause(t.Context(), x.scope); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("pause %s: %v, want %s", x.scope, err, x.want)
		}
		if err := e.Resume(x.scope); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("resume %s: %v, want %s", x.scope, err, x.want)
		}
	}
	only, _ := twoDatabases(t)
	for _, err := range []error{only.Pause(t.Context(), view.Scope{Database: "aa"}), only.Resume(view.Scope{Database: "aa"})} {
		if err == nil || !strings.Contains(err.Error(), `nearest: "a"`) {
			t.Errorf("a name without an entry: %v", err)
		}
	}
	// The entry for all names: one that nobody has asked for yet, one of them, then all.
	pauseNow(t, e, view.Scope{Database: "template1"})
	must(t, e.Reconnect("template1"))
	early, in := pgwire.Dial(t, "tcp", address), make(chan error, 1)
	go func() {
		_, err := early.Login(0, "user", "postgres", "database", "template1")
		in <- err
	}()
	waiting(t, e, 1)
	must(t, e.Resume(view.Scope{Database: "template1"}))
	must(t, <-in)
	session := loginTo(t, address, "session")
	for _, name := range []string{"postgres", "*"} {
		pauseNow(t, e, view.Scope{Database: name})
		queue(t, e, c, "select 1")
		exec(t, session, "select 1")
		must(t, e.Resume(view.Scope{Database: name}))
		answered(t, c, "TDCZI")
	}
	// An entry with a database of its own cannot pause one name.
	e, address = startYAML(t, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q], dbname: postgres}]\n", pgtest.Shared(t).Addr()))
	loginTo(t, address, "x")
	if err := e.Pause(t.Context(), view.Scope{Database: "x"}); err == nil || !strings.Contains(err.Error(), `"*"`) {
		t.Errorf("pause x: %v", err)
	}
}

// TestPausedRouteIsKept: a directory that is full does not forget a paused route.
func TestPausedRouteIsKept(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.max-routes=16",
		"--admission.route-key=database,user,application_name")
	c := login(t, address, "application_name", "kept")
	usable(t, c)
	pauseNow(t, e, view.Scope{Route: "postgres/postgres/kept/default"})
	for i := range 60 {
		exec(t, login(t, address, "application_name", fmt.Sprint("n", i)), "select 1")
	}
	if n := pausedRows(e); n != 1 {
		t.Errorf("%d routes paused after a flood", n)
	}
	queue(t, e, c, "select 1")
	must(t, e.Resume(view.Scope{Route: "postgres/postgres/kept/default"}))
	answered(t, c, "TDCZI")
}

// TestControlWithoutLoops: nothing hangs when the loops do not run yet or any more.
func TestControlWithoutLoops(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	c := loginTo(t, address, "a")
	exec(t, c, "begin")
	done := pausing(e, t.Context(), view.Scope{})
	until(t, "paused", func() bool { return pausedSeen(e, view.Scope{}) })
	stopNow(t, e)
	if err := answer(t, done); err != nil && !errors.Is(err, engine.ErrNotRunning) {
		t.Errorf("a Pause that the stop overtook gave %v", err)
	}
	for what, err := range map[string]error{
		"pause": e.Pause(t.Context(), view.Scope{Database: "a"}), "resume": e.Resume(view.Scope{}),
		"set": e.SetLimit("capacity.pool_max_size", "3"),
	} {
		if !errors.Is(err, engine.ErrNotRunning) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPauseOverMaintenance: while PostgreSQL is stopped and the process or the database is paused, requests wait, also
// when it had been found dead before; after RESUME all of them, and whoever comes, are served.
func TestPauseOverMaintenance(t *testing.T) {
	t.Parallel()
	for _, s := range []view.Scope{{}, {Database: "postgres"}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Start(t)
			e, address := startYAML(t, databases(pg), "--capacity.connect-timeout-ms=1000")
			var clients []*pgwire.Conn
			for range 4 {
				clients = append(clients, login(t, address))
			}
			usable(t, clients[0])
			must(t, pg.Stop(pgtest.Fast))
			until(t, "found dead", func() bool {
				_, err := clients[0].Exec("select 1")
				x, _ := e.Foresee(view.Request{Database: "postgres", User: "postgres"})
				return err != nil && x.Decision == engine.DecisionRefuse
			})
			pauseNow(t, e, s)
			late := clients
			if s.Database != "" { // else all of them come after RESUME
				late = clients[:1]
				for _, c := range clients[1:] {
					queue(t, e, c, "select 1")
				}
			}
			must(t, pg.StartAgain())
			waiting(t, e, len(clients)-len(late))
			must(t, e.Resume(s))
			for _, c := range late {
				send(t, c, pgwire.Query("select 1"))
			}
			for _, c := range clients {
				answered(t, c, "TDCZI")
			}
		})
	}
}
