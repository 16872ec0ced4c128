package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// backpressure is the row of a label.
func backpressure(t testing.TB, e *engine.Engine, label string) view.Backpressure {
	t.Helper()
	for _, r := range e.Backpressure() {
		if r.Route == label {
			return r
		}
	}
	t.Fatalf("no row %q in %+v", label, e.Backpressure())
	return view.Backpressure{}
}

// counted is the number under a name.
func counted(all []view.Count, name string) uint64 {
	for _, k := range all {
		if k.Label == name {
			return k.N
		}
	}
	return 0
}

func metric(t testing.TB, e *engine.Engine, label string) view.RouteMetrics {
	t.Helper()
	for _, r := range e.Metrics().Routes {
		if r.Route == label {
			return r
		}
	}
	t.Fatalf("no metric %q", label)
	return view.RouteMetrics{}
}

// TestEveryOutcome drives one route into each way that a request may fare and looks at each number of its row.
func TestEveryOutcome(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t), "--server.loops=2")
	e := f.e
	row := func() view.Backpressure { return backpressure(t, e, plain) }
	if r := row(); r.InFlight != 1 || r.MaxInFlight != 1 || r.Waiting != 1 || r.MaxWaiters != 1 || r.Admitted != 2 || r.Queued != 1 { // the first login needs a backend
		t.Errorf("filled: %+v", r)
	}
	if m := metric(t, e, plain); m.InFlight != 1 || m.Waiting != 1 || m.LimitInFlight != 1 || m.LimitWaiters != 1 ||
		m.SaturationInFlight != 1 || m.SaturationWaiters != 1 {
		t.Errorf("filled: %+v", m)
	}
	until(t, "the oldest wait grows", func() bool { return row().OldestWaitMs >= 20 })

	c := login(t, f.address)
	_, err := c.Exec("select 1")
	overloaded(t, err, "ERROR", "53300")
	must(t, e.SetLimit("capacity.max_route_waiters", "2"))
	queue(t, e, c, "select 1")
	must(t, pgwire.Cancel("tcp", f.address, c.PID, c.Key))
	answered(t, c, "EZI")
	queue(t, e, c, "select 1")
	c.Reset()
	waiting(t, e, 1)
	c = login(t, f.address)
	must(t, e.SetLimit("capacity.checkout_timeout_ms", "100"))
	queue(t, e, c, "select 1")
	answered(t, c, "EZI")
	must(t, e.SetLimit("capacity.checkout_timeout_ms", "60000"))
	must(t, e.SetLimit("capacity.max_route_waiters", "1"))
	must(t, e.SetRoute(plain, "on_full", "drop_oldest"))
	d := login(t, f.address)
	send(t, d, pgwire.Query("select 1")) // takes the first waiter's place
	answered(t, f.waiter, "EZI")
	want := view.Backpressure{Admitted: 2, Queued: 5, Rejected: 1, TimedOut: 1, Canceled: 1, Disconnected: 1, Shed: 1}
	until(t, "every outcome counted", func() bool {
		r := row()
		return r.Admitted == want.Admitted && r.Queued == want.Queued && r.Rejected == want.Rejected && r.TimedOut == want.TimedOut &&
			r.Canceled == want.Canceled && r.Disconnected == want.Disconnected && r.Shed == want.Shed
	})
	if r := row(); r.WaitP50Ms <= 0 || r.WaitP99Ms < r.WaitP50Ms || r.WaitP99Ms < 100 {
		t.Errorf("waits %+v", r)
	}
	go func() { _ = e.Drain(200*time.Millisecond, nil) }() // the block that is open is cut
	ended(t, d, "57P01")
	m := metric(t, e, plain)
	for outcome, n := range map[string]uint64{
		"queued": 5, "rejected": 1, "timed_out": 1, "canceled": 1, "disconnected": 1, "shed": 1, "drained": 1,
	} {
		if counted(m.Events, outcome) != n {
			t.Errorf("%s: %d, want %d", outcome, counted(m.Events, outcome), n)
		}
	}
	if n := e.Totals().Timeouts["checkout"]; n != 1 {
		t.Errorf("timeout_total checkout %d", n)
	}
}

// waitsFor is how many waits of a label have had a cause, and how long they were together in ms.
func waitsFor(t testing.TB, e *engine.Engine, label, cause string) (n uint64, sum float64) {
	t.Helper()
	for _, m := range e.Metrics().Routes {
		for _, h := range m.Waits {
			if h.Cause == cause && m.Route == label {
				return h.Total(), h.SumMs
			}
		}
	}
	return 0, 0
}

// TestEveryCause: waits for the route, the pool, the host, a connect, the end of a pause, each in the histogram of its
// cause.
func TestEveryCause(t *testing.T) {
	t.Parallel()
	for cause, settings := range map[string]string{
		"route": "--capacity.max-route-in-flight=1", "pool": "--capacity.pool-max-size=1", "pause": "",
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--admission.route-key=database,user", "--capacity.checkout-timeout-ms=60000"}
			if settings != "" {
				flags = append(flags, settings)
			}
			e, address := startYAML(t, databases(pgtest.Shared(t)), flags...)
			c := login(t, address)
			if cause == "pause" {
				pauseNow(t, e, view.Scope{})
			} else {
				exec(t, login(t, address), "begin") // keeps the only one; its end comes with the test's
			}
			queue(t, e, c, "select 1")
			until(t, "a wait of 20 ms", func() bool { return backpressure(t, e, plain).OldestWaitMs >= 20 })
			if cause == "pause" {
				must(t, e.Resume(view.Scope{}))
			} else {
				must(t, pgwire.Cancel("tcp", address, c.PID, c.Key))
			}
			if _, err := c.ReadUntil('Z', 1); err != nil {
				t.Fatal(err)
			}
			if n, sum := waitsFor(t, e, plain, cause); n != 1 || sum < 19 {
				t.Errorf("%d waits of %v ms for %s: %+v", n, sum, cause, metric(t, e, plain).Waits)
			}
		})
	}
	t.Run("host", func(t *testing.T) { // the first login of a pool, while another one has the host's only place
		t.Parallel()
		e, address := twoDatabases(t, "--capacity.max-backends=1", "--admission.route-key=database,user")
		exec(t, loginTo(t, address, "a"), "begin")
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, pgwire.Startup(0, "user", "postgres", "database", "b"))
		until(t, "a wait of 20 ms", func() bool {
			return e.Totals().Waiting == 1 && backpressure(t, e, "b/postgres//default").OldestWaitMs >= 20
		})
		if r := limitRow(t, e, "max_backends", "host"); r.Value != 1 || r.Current != 1 {
			t.Errorf("%+v", r)
		}
		c.Reset()
		quiet(t, e)
		if n, sum := waitsFor(t, e, "b/postgres//default", "host"); n != 1 || sum < 19 {
			t.Errorf("%d waits of %v ms: %+v", n, sum, metric(t, e, "b/postgres//default").Waits)
		}
	})
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.route-key=database,user")
		usable(t, login(t, address))
		if n, sum := waitsFor(t, e, plain, "connect"); n == 0 || sum <= 0 {
			t.Errorf("%d waits of %v ms: %+v", n, sum, metric(t, e, plain).Waits)
		}
	})
}

// TestLimits: each limit with its value, what is used, the most that ever was, and where it comes from.
func TestLimits(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	user := role(t, pg)
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: a, hosts: [%q], dbname: postgres, max_backends: 5, max_clients: 50}]\n"+
		"users: [{name: %s, max_backends: 4, max_clients: 40, pool_max_size: 3}]\n", pg.Addr(), user),
		"--capacity.max-route-in-flight=2", "--admission.route-key=database,user")
	var held []*pgwire.Conn
	for range 2 {
		c := pgwire.Login(t, "tcp", address, "user", user, "database", "a")
		exec(t, c, "begin")
		held = append(held, c)
	}
	waiter := pgwire.Login(t, "tcp", address, "user", user, "database", "a")
	queue(t, e, waiter, "select 1")
	row := func(name, of string, value, current, peak int64) view.Limit {
		t.Helper()
		r := limitRow(t, e, name, of)
		if r.Value != value || r.Current != current || r.Peak < peak || r.Peak > value {
			t.Errorf("%+v, want %d %d %d", r, value, current, peak)
		}
		return r
	}
	row("max_clients", "", 10000, 3, 3)
	row("max_clients", "database a", 50, 3, 3)
	row("max_clients", "user "+user, 40, 3, 3)
	row("max_unauthenticated", "", 1000, 0, 1)
	row("max_checkout_waiters", "", 10000, 1, 1)
	row("max_backends", "host", 90, 2, 2)
	row("max_backends", "database a", 5, 2, 2)
	row("max_backends", "user "+user, 4, 2, 2)
	row("max_connects_per_host", "host", 8, 0, 1)
	row("max_pools", "", 1000, 1, 1)
	row("max_routes", "", 10000, 1, 1)
	row("pool_max_size", "pool a/postgres/"+user, 3, 2, 2)
	row("max_route_in_flight", "route a/"+user, 2, 2, 2)
	row("max_route_waiters", "route a/"+user, 1000, 1, 1)
	// Somebody who does not read makes buffers fill.
	slow := held[0]
	send(t, slow, pgwire.Query("select repeat('x', 100000) from generate_series(1, 300)"))
	until(t, "buffers in use", func() bool { r := limitRow(t, e, "max_buffer_memory", ""); return r.Current > 0 && r.Peak >= r.Current })
	if _, err := slow.ReadUntil('Z', 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range held {
		exec(t, c, "commit")
	}
	answered(t, waiter, "TDCZI")
	rested(t, e)
	if r := limitRow(t, e, "max_route_in_flight", ""); r.Current != 0 || r.Peak != 2 {
		t.Errorf("at rest %+v", r)
	}
	cfg, origins := settingsOf(t, fmt.Sprintf("databases: [{name: a, hosts: [%q], max_backends: 5}]\n", pg.Addr()), "--server.max-clients=77")
	_, err := e.Reload(cfg, origins)
	must(t, err)
	if r := limitRow(t, e, "max_clients", ""); r.Value != 77 || r.Origin != "flag --server.max-clients" {
		t.Errorf("%+v", r)
	}
	if r := limitRow(t, e, "max_backends", "database a"); r.Origin[:5] != "file " {
		t.Errorf("%+v", r)
	}
}

// TestRoutes: what tells a route apart, what holds on it, how full it is.
func TestRoutes(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t).Exec(t, "drop table if exists seen; create table seen (a int)")
	e, address := startYAML(t, databases(pgtest.Shared(t))+
		"routes: [{name: w, match: {query_class: write}, weight: 4, on_full: drop_random, query_timeout_ms: 7000}]\n")
	c := login(t, address, "application_name", "app")
	exec(t, c, "begin")
	d := login(t, address, "application_name", "app")
	exec(t, d, "insert into seen values (1)")
	rows := map[string]view.Route{}
	for _, r := range e.Routes() {
		rows[r.Route] = r
	}
	r := rows["postgres/postgres/app/transaction"]
	if r.Database != "postgres" || r.User != "postgres" || r.ApplicationName != "app" || r.ClientAddr != "127.0.0.1" ||
		r.QueryClass != "transaction" || r.InFlight != 1 || r.PeakInFlight != 1 || r.MaxInFlight != 100 || r.MaxWaiters != 1000 ||
		r.Weight != 1 || r.OnFull != "reject_new" || r.Pool != "*/postgres/postgres" || r.Rule != "" || r.Overflow || r.Paused {
		t.Errorf("%+v in %+v", r, rows)
	}
	w := rows["w"]
	if w.Rule != "w" || w.Weight != 4 || w.OnFull != "drop_random" || w.QueryTimeoutMs != 7000 || w.ClientAddr != "" || w.PeakInFlight != 1 {
		t.Errorf("%+v in %+v", w, rows)
	}
}

// TestSumsNeverFall: routes come and go by the hundred while others look: no sum of any label over all labels falls, and in
// the end every request is there exactly once.
func TestSumsNeverFall(t *testing.T) {
	t.Parallel()
	const clients, rounds = 8, 120
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.max-routes=32", "--server.loops=2",
		"--admission.route-key=database,user,application_name")
	stop := make(chan struct{})
	var look, work sync.WaitGroup
	look.Go(func() {
		var last uint64
		for {
			var sum uint64
			for _, r := range e.Backpressure() {
				sum += r.Admitted
			}
			if sum < last {
				t.Errorf("%d admitted, after %d", sum, last)
			}
			last = sum
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var sent uint64
	for i := range clients {
		c := login(t, address)
		work.Go(func() {
			for k := range rounds {
				if _, err := c.Exec(fmt.Sprintf("set application_name = 'n%d_%d'", i, k)); err != nil {
					t.Error(err)
				}
				if _, err := c.Exec("select 1"); err != nil {
					t.Error(err)
				}
			}
		})
		sent += 2 * rounds
	}
	work.Wait()
	close(stop)
	look.Wait()
	rested(t, e)
	var sum uint64
	other := false
	rows := e.Backpressure()
	for _, r := range rows {
		sum += r.Admitted
		other = other || r.Route == "other"
	}
	logins := uint64(1) // asks for the pool's parameters
	if sum < sent || sum > sent+clients*logins {
		t.Errorf("%d admitted, %d sent", sum, sent)
	}
	if len(rows) > 201 || !other {
		t.Errorf("%d labels, other %v", len(rows), other)
	}
}

// TestWaitForConnectIsSeen: while PostgreSQL does not answer, the connect is what is waited for.
func TestWaitForConnectIsSeen(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	mock.Down()
	e, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=200", "--admission.route-key=database,user")
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "08006")
	if n, sum := waitsFor(t, e, plain, "connect"); n != 1 || sum < 190 {
		t.Errorf("%d waits of %v ms: %+v", n, sum, metric(t, e, plain).Waits)
	}
	if r := backpressure(t, e, plain); r.TimedOut != 1 {
		t.Errorf("%+v", r)
	}
	// The host counts as down connect_timeout_ms after its first failure, which came a moment after the login began to wait.
	until(t, "a new request to be refused at once", func() bool {
		x, err := e.Foresee(view.Request{Database: "postgres", User: "postgres"})
		must(t, err)
		return x.Decision == engine.DecisionRefuse && x.Limit == "" && x.Reason != ""
	})
}

// Who is called as the sums of others are counts among them: no series is there twice.
func TestMetricsOfOneCalledOther(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: other, hosts: [%q], dbname: postgres, user: postgres}]\n", pgtest.Shared(t).Addr()))
	usable(t, pgwire.Login(t, "tcp", address, "user", "other", "database", "other"))
	_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", "u", "database", "none")
	refused(t, err, "FATAL", "3D000")
	var rows []view.TrafficMetrics
	until(t, "both are counted", func() bool {
		rows = e.Metrics().Traffic
		return len(rows) == 1 && rows[0].Logins == 1 && rows[0].Refused == 1 && rows[0].Queries > 0
	})
}
