package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// app logs in as a user under an application name.
func app(t testing.TB, address, user, name string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", address, "user", user, "database", "postgres", "application_name", name)
}

// TestFloodOfNames: a tenant with more names than its share gets one route for the rest of them, with limits; nobody else's
// routes are pushed out, and others still get routes of their own.
func TestFloodOfNames(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	flood, quietUser, late := role(t, pg), role(t, pg), role(t, pg)
	e, address := startYAML(t, databases(pg), "--admission.max-routes=16", "--capacity.max-route-in-flight=3",
		"--capacity.max-route-waiters=0", "--server.loops=2", "--capacity.pool-max-size=30")
	steady := app(t, address, quietUser, "steady")
	for range 5 {
		exec(t, steady, "select 1")
	}
	kept := e.Tally("postgres/" + quietUser + "/steady/read")
	if kept.Routes != 1 || kept.Admitted != 5 {
		t.Fatalf("before the flood: %+v", kept)
	}

	shared := "postgres/" + flood + "/overflow"
	var holders []*pgwire.Conn
	for i := 0; e.Tally(shared).InFlight < 3; i++ { // busy routes cannot be forgotten for new ones
		if i > 30 {
			t.Fatalf("after %d names nothing is shared: %v", i, e.Tallies())
		}
		c := app(t, address, flood, fmt.Sprintf("busy-%d", i))
		exec(t, c, "begin")
		holders = append(holders, c)
	}
	c := app(t, address, flood, "one-more")
	_, err := c.Exec("begin")
	if f := overloaded(t, err, "ERROR", "53300"); !strings.Contains(f.Fields['D'], shared+": 3 of 3 in flight") {
		t.Errorf("detail %q", f.Fields['D'])
	}
	for i := range 15 {
		// A route that nobody has looked for in the last second or two is forgotten in any case.
		exec(t, app(t, address, quietUser, "steady"), "select 1")
		begin := time.Now()
		for j := range 20 {
			k := app(t, address, flood, fmt.Sprintf("idle-%d-%d", i, j))
			_, _ = k.Exec("select 1") // most of them share the route that is full
			k.Close()
		}
		if n := e.Tally("postgres/" + quietUser + "/steady/read"); n.Routes != 1 && time.Since(begin) < 900*time.Millisecond {
			t.Errorf("another tenant's route was pushed out: %+v", n)
		}
	}
	if routes, overflows := e.RouteCounts(); routes > 16 || overflows != 1 {
		t.Errorf("%d routes and %d overflow routes, allowed are 16 and 1", routes, overflows)
	}
	exec(t, steady, "select 1")
	if n := e.Tally("postgres/" + quietUser + "/steady/read"); n.Admitted != kept.Admitted+16 || n.Rejected != 0 {
		t.Errorf("another tenant's route has counted %+v", n)
	}
	exec(t, app(t, address, late, "new"), "select 1")
	if n := e.Tally("postgres/" + late + "/new/read"); n.Admitted != 1 {
		t.Errorf("a tenant that came late has no route of its own: %+v", n)
	}
	for _, k := range holders {
		exec(t, k, "commit")
	}
	usable(t, c)
	rested(t, e)
	for label, n := range e.Tallies() {
		if n.PeakInFlight > 3 {
			t.Errorf("%s had %d in flight", label, n.PeakInFlight)
		}
	}
}

// TestForgottenRouteIsMadeAnew: a client whose route was forgotten while it was idle gets another with its next request, and
// what was counted stays.
func TestForgottenRouteIsMadeAnew(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--admission.max-routes=16")
	label := "postgres/postgres/kept/read"
	c := app(t, address, "postgres", "kept")
	exec(t, c, "select 1")
	rested(t, e)
	for i := 0; e.Tally(label).Routes == 1; i++ {
		if i > 100 {
			t.Fatal("its own tenant's names never take its route's place")
		}
		k := app(t, address, "postgres", fmt.Sprintf("name-%d", i))
		exec(t, k, "select 1")
		k.Close()
	}
	for range 3 {
		exec(t, c, "select 1")
	}
	rested(t, e)
	if n := e.Tally(label); n.Admitted != 4 {
		t.Errorf("%+v, want 4 admitted", n)
	}
}
