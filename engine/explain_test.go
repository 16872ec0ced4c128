package engine_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// ask explains a request of postgres to database postgres.
func ask(t testing.TB, e *engine.Engine, application, query string) engine.Explanation {
	t.Helper()
	x, err := e.Foresee(view.Request{
		Database: "postgres", User: "postgres", ApplicationName: application, ClientAddr: "127.0.0.1", Query: query,
	})
	must(t, err)
	return x
}

// TestExplain: run, wait for each cause, refusal by each queue; the answer is what then happens; and explaining makes no
// pool, no route and no backend.
func TestExplain(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t))+
		"routes: [{name: api, match: {application_name: api, query_class: read}, max_route_in_flight: 1, max_route_waiters: 1}]\n"+
		"capacity: {pool_max_size: 2, max_checkout_waiters: 3, checkout_timeout_ms: 60000}\n")
	x := ask(t, e, "api", "select 1")
	if x.Decision != engine.DecisionRun || !x.Opens || x.PoolExists || x.RouteExists || x.Pool != "*/postgres/postgres" ||
		x.Route != "api" || x.Rule != "api" || x.Class != "read" {
		t.Errorf("nothing there: %+v", x)
	}
	if n := e.Totals().ServerLogins; n != 0 || len(e.Routes()) != 0 || limitRow(t, e, "max_pools", "").Current != 0 {
		t.Error("explaining has made something")
	}
	rows, err := e.Explain(view.Request{Database: "postgres", User: "postgres", ApplicationName: "api", Query: "select 1"})
	must(t, err)
	for _, want := range []view.Explained{
		{Item: "route", Value: "api"},
		{Item: "decision", Value: "run"},
		{Item: "opens_backend", Value: "true"},
		{Item: "waits_for", Value: "connect"},
		{Item: "max_route_in_flight", Value: "1", From: "configuration"},
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no row %+v in %+v", want, rows)
		}
	}
	c := login(t, address, "application_name", "api")
	if x := ask(t, e, "api", "insert into t values (1)"); x.Decision != engine.DecisionRun || x.Opens || !x.PoolExists || x.RouteExists ||
		x.Route != "postgres/postgres/api/write" || x.Rule != "" {
		t.Errorf("an idle backend: %+v", x)
	}
	g := shut(t, pgtest.Shared(t), 3)
	send(t, c, pgwire.Query(g.query(0)))
	g.running(t, 0)
	if x := ask(t, e, "api", "select 1"); x.Decision != engine.DecisionWait || x.Cause != "route" || x.Before != 0 || !x.RouteExists {
		t.Errorf("the route's limit: %+v", x)
	}
	if x := ask(t, e, "x", "select 1"); x.Decision != engine.DecisionRun || !x.Opens || x.Cause != "connect" {
		t.Errorf("a backend to open: %+v", x)
	}
	w := login(t, address, "application_name", "api")
	queue(t, e, w, "select 1")
	if x := ask(t, e, "api", "select 1"); x.Decision != engine.DecisionRefuse || x.Limit != "max_route_waiters" || x.Before != 1 {
		t.Errorf("a full route: %+v", x)
	}
	_, err = login(t, address, "application_name", "api").Exec("select 1")
	overloaded(t, err, "ERROR", "53300")
	d := login(t, address)
	send(t, d, pgwire.Query(g.query(1)))
	g.running(t, 0, 1)
	if x := ask(t, e, "x", "select 1"); x.Decision != engine.DecisionWait || x.Cause != "pool" {
		t.Errorf("a full pool: %+v", x)
	}
	for range 2 {
		queue(t, e, login(t, address), "select 1")
	}
	if x := ask(t, e, "x", "select 1"); x.Decision != engine.DecisionRefuse || x.Limit != "max_checkout_waiters" {
		t.Errorf("a full process: %+v", x)
	}
	must(t, e.SetLimit("capacity.max_checkout_waiters", "100"))
	done := pausing(e, t.Context(), view.Scope{Route: "postgres/postgres/x/read"})
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "no such route") {
			t.Errorf("pause of a label without a route: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Pause did not return")
	}
	g.open(t, 0, 1, 2)
	answered(t, c, "TDCZI")
	answered(t, w, "TDCZI")
	answered(t, d, "TDCZI")
	rested(t, e)
	pauseNow(t, e, view.Scope{Route: "api"})
	if x := ask(t, e, "api", "select 1"); x.Decision != engine.DecisionWait || x.Cause != "pause" || x.ExpectedWaitMs != -1 {
		t.Errorf("a paused route: %+v", x)
	}
	if x := ask(t, e, "x", "select 1"); x.Decision != engine.DecisionRun || x.ExpectedWaitMs != 0 {
		t.Errorf("another route: %+v", x)
	}
}

// TestExplainExpectedWait: the wait is estimated from the rate at which the route drains.
func TestExplainExpectedWait(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t), "--capacity.max-route-waiters=100")
	f.empty(t)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		c := login(t, f.address)
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := c.Exec("select pg_sleep(0.01)"); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	until(t, "an estimate", func() bool {
		x, err := f.e.Foresee(view.Request{Database: "postgres", User: "postgres"})
		return err == nil && x.Decision == engine.DecisionWait && x.Before > 0 && x.ExpectedWaitMs > 0 && x.ExpectedWaitMs < 5000
	})
	close(stop)
	group.Wait()
}

// TestExplainRefuses: what is unknown, and what stands before admission.
func TestExplainRefuses(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t, "--server.max-pools=1", "--capacity.max-backends=1")
	if _, err := e.Foresee(view.Request{Database: "aa", User: "u"}); err == nil || !strings.Contains(err.Error(), `nearest: "a"`) {
		t.Errorf("unknown database: %v", err)
	}
	if _, err := e.Foresee(view.Request{Database: "a", User: "u", ClientAddr: "1.2.3.4:5"}); err == nil {
		t.Error("an address with a port was taken")
	}
	c := loginTo(t, address, "a")
	x, err := e.Foresee(view.Request{Database: "b", User: "u"})
	must(t, err)
	if x.Decision != engine.DecisionRefuse || x.Limit != "max_pools" {
		t.Errorf("no pool to be had: %+v", x)
	}
	e2, address := twoDatabases(t, "--capacity.max-backends=1")
	exec(t, loginTo(t, address, "a"), "begin")
	x, err = e2.Foresee(view.Request{Database: "b", User: "u"})
	must(t, err)
	if x.Decision != engine.DecisionWait || x.Cause != "host" || x.PoolExists {
		t.Errorf("a full host for a pool to come: %+v", x)
	}
	pauseNow(t, e, view.Scope{})
	x, err = e.Foresee(view.Request{Database: "a", User: "postgres"})
	must(t, err)
	if x.Cause != "pause" {
		t.Errorf("paused: %+v", x)
	}
	must(t, e.Resume(view.Scope{}))
	exec(t, c, "begin")
	go func() { _ = e.Drain(patience, nil) }()
	until(t, "draining", func() bool {
		x, err := e.Foresee(view.Request{Database: "a", User: "postgres"})
		return err == nil && x.Decision == engine.DecisionRefuse && strings.Contains(x.Reason, "draining")
	})
	exec(t, c, "commit")
}
