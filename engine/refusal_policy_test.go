package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// policy is a route with one request in flight and n that wait, in the order of waiters, under an on_full policy.
func policy(t *testing.T, onFull string, loops, n int) (e *engine.Engine, address string, hold *pgwire.Conn, waiters []*pgwire.Conn) {
	t.Helper()
	e, address = startYAML(t, fmt.Sprintf(`routes: [{name: job, match: {application_name: job}, on_full: %s, max_route_in_flight: 1, max_route_waiters: %d}]
`, onFull, n)+databases(pgtest.Shared(t)), fmt.Sprintf("--server.loops=%d", loops), "--admission.fifo-slack-ms=0", "--capacity.checkout-timeout-ms=60000")
	hold = login(t, address, "application_name", "job")
	exec(t, hold, "begin")
	waiters = crowd(t, address, loops, n, "user", "postgres", "database", "postgres", "application_name", "job")
	for i, c := range waiters {
		queue(t, e, c, fmt.Sprintf("select 'waiter %d'", i))
	}
	return e, address, hold, waiters
}

// TestDropOldest: a newcomer to a full queue waits; whoever has waited longest is refused in its place, with the error of a
// refusal; on every loop, simple and extended.
func TestDropOldest(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 2, 4} {
		e, address, hold, waiters := policy(t, "drop_oldest", loops, 4)
		line := slices.Clone(waiters) // those that wait, oldest first
		for i := range 6 {
			c := login(t, address, "application_name", "job")
			if i%2 == 0 {
				send(t, c, pgwire.Query(fmt.Sprintf("select 'newcomer %d'", i)))
			} else {
				send(t, c, pgwire.Parse("", fmt.Sprintf("select 'newcomer %d'", i)), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
			}
			f := answered(t, line[0], "EZI")
			overloaded(t, f, "ERROR", "53300")
			if !strings.Contains(f.Fields['M'], "shed from the route queue") || !strings.Contains(f.Fields['D'], "route job: 1 of 1 in flight, 4 of 4 waiting") {
				t.Errorf("loops %d: %v", loops, f)
			}
			line = append(line[1:], c)
			waiting(t, e, 4)
		}
		if n := e.Tally("job"); n.Shed != 6 || n.Rejected != 0 || n.PeakWaiting != 4 || n.PeakInFlight != 1 {
			t.Errorf("loops %d: %+v, want 6 shed and none rejected", loops, n)
		}
		exec(t, hold, "commit")
		for i, c := range line {
			if all, err := c.ReadUntil('Z', 1); err != nil || strings.Contains(typesOf(all), "E") {
				t.Errorf("loops %d: of the line's %d: %s, %v", loops, i, pgwire.Transcript(all), err)
			}
		}
		rested(t, e)
		for _, c := range waiters { // a session that was shed goes on
			usable(t, c)
		}
	}
}

// TestDropRandom: each newcomer takes the place of one waiter, whichever; all others are served.
func TestDropRandom(t *testing.T) {
	t.Parallel()
	const places, newcomers = 16, 32
	for _, loops := range []int{1, 4} {
		e, address, hold, waiters := policy(t, "drop_random", loops, places)
		all := waiters
		for i := range newcomers {
			c := login(t, address, "application_name", "job")
			send(t, c, pgwire.Query("select 'newcomer'"))
			all = append(all, c)
			until(t, "another one shed", func() bool { return e.Tally("job").Shed == uint64(i+1) })
			waiting(t, e, places)
		}
		exec(t, hold, "commit")
		served := 0
		var shed []int
		for i, c := range all {
			got, err := c.ReadUntil('Z', 1)
			switch {
			case err == nil && typesOf(got) == "TDCZI":
				served++
			case err == nil && typesOf(got) == "EZI":
				overloaded(t, pgwire.ErrorOf(got[0]), "ERROR", "53300")
				shed = append(shed, i)
			default:
				t.Errorf("loops %d: client %d got %s, %v", loops, i, pgwire.Transcript(got), err)
			}
		}
		if served != places || len(shed) != newcomers {
			t.Errorf("loops %d: %d served, %d shed", loops, served, len(shed))
		}
		// That the last ones all stay happens by chance once in 16^16 / 16!, which is 880 000 runs.
		if slices.Max(shed) < newcomers {
			t.Errorf("loops %d: the oldest were shed, in place of random ones", loops)
		}
		rested(t, e)
		for _, c := range all {
			usable(t, c)
		}
	}
}

// TestFullProcessQueueRefusesNewcomer: whatever the policy of the route, the process's own bound sheds nobody.
func TestFullProcessQueueRefusesNewcomer(t *testing.T) {
	t.Parallel()
	for _, onFull := range []string{"drop_oldest", "drop_random"} {
		e, address := startYAML(t, fmt.Sprintf("routes: [{name: job, match: {application_name: job}, on_full: %s, max_route_in_flight: 1, max_route_waiters: 2}]\n", onFull)+
			databases(pgtest.Shared(t)), "--capacity.max-checkout-waiters=2")
		hold := login(t, address, "application_name", "job")
		exec(t, hold, "begin")
		a, b, c := login(t, address, "application_name", "job"), login(t, address, "application_name", "job"), login(t, address, "application_name", "job")
		queue(t, e, a, "select 1")
		queue(t, e, b, "select 1")
		_, err := c.Exec("select 1")
		f := overloaded(t, err, "ERROR", "53300")
		if !strings.Contains(f.Fields['M'], "process queue full") {
			t.Errorf("%s: %v", onFull, f)
		}
		exec(t, hold, "commit")
		answered(t, a, "TDCZI")
		answered(t, b, "TDCZI")
		rested(t, e)
		if n := e.Tally("job"); n.Shed != 0 || n.Rejected != 1 {
			t.Errorf("%s: %+v", onFull, n)
		}
	}
}

// TestShedLogin: a login that waits and is shed ends FATAL.
func TestShedLogin(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, "routes: [{name: job, match: {application_name: job}, on_full: drop_oldest, max_route_in_flight: 1, max_route_waiters: 1}]\n"+databases(pgtest.Shared(t)))
	hold, next := login(t, address, "application_name", "job"), login(t, address, "application_name", "job")
	exec(t, hold, "begin")
	c := pgwire.Dial(t, "tcp", address)
	send(t, c, pgwire.Startup(0, "user", "postgres", "database", "postgres", "application_name", "job", "options", "-c work_mem=1239kB"))
	waiting(t, e, 1)
	send(t, next, pgwire.Query("select 1"))
	all, err := c.ReadAll()
	if err != nil || len(all) == 0 || all[len(all)-1].Type != 'E' {
		t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
	}
	overloaded(t, pgwire.ErrorOf(all[len(all)-1]), "FATAL", "53300")
	exec(t, hold, "commit")
	answered(t, next, "TDCZI")
	rested(t, e)
}
