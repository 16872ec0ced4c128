package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// volley lets all clients send SQL at the same moment.
func volley(t testing.TB, clients []*pgwire.Conn, sql func(i int) string) {
	t.Helper()
	var ready, all sync.WaitGroup
	fire := make(chan struct{})
	for i, c := range clients {
		ready.Add(1)
		message := pgwire.Query(sql(i))
		all.Go(func() {
			ready.Done()
			<-fire
			if err := c.Send(message); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	close(fire)
	all.Wait()
}

// verdicts reads one answer for each client and counts those that were served and those that were refused.
func verdicts(t testing.TB, clients []*pgwire.Conn) (served, turned int) {
	t.Helper()
	for _, c := range clients {
		all, err := c.ReadUntil('Z', 1)
		switch {
		case err == nil && typesOf(all) == "TDCZI":
			served++
		case err == nil && typesOf(all) == "EZI":
			overloaded(t, pgwire.ErrorOf(all[0]), "ERROR", "53300")
			turned++
		default:
			t.Errorf("got %s, %v", pgwire.Transcript(all), err)
		}
	}
	return served, turned
}

// TestExactAllAtOnce: forty clients on all loops ask at the same moment, of a cold pool and of a warm one: eight run, four wait,
// the others are refused.
func TestExactAllAtOnce(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, loops := range []int{1, 2, 4} {
		e, address := startYAML(t, databases(pg), "--capacity.max-route-in-flight=8", "--capacity.max-route-waiters=4",
			fmt.Sprintf("--server.loops=%d", loops))
		clients := crowd(t, address, loops, 40, "user", "postgres", "database", "postgres", "application_name", "volley")
		const label = "postgres/postgres/volley/read"
		for round := range 5 {
			rested(t, e)
			g := shut(t, pg, 1)
			before := e.Tally(label)
			volley(t, clients, func(int) string { return g.query(0) })
			var n engine.Tally
			until(t, "a verdict on each", func() bool {
				n = e.Tally(label)
				return n.InFlight+n.Waiting+int(n.Rejected-before.Rejected) == len(clients)
			})
			if n.InFlight != 8 || n.Waiting != 4 {
				t.Errorf("loops %d, round %d: %d in flight and %d waiting, want 8 and 4", loops, round, n.InFlight, n.Waiting)
			}
			until(t, "eight inside PostgreSQL", func() bool { return g.count(t) == 8 })
			g.open(t, 0)
			if served, turned := verdicts(t, clients); served != 12 || turned != 28 {
				t.Errorf("loops %d, round %d: %d served and %d refused, want 12 and 28", loops, round, served, turned)
			}
		}
	}
}

// TestExactProcessQueue: routes without a waiter's bound of their own fill the process's queue exactly, on all loops together.
func TestExactProcessQueue(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, loops := range []int{1, 4} {
		e, address := startYAML(t, databases(pg), "--capacity.max-route-in-flight=1", "--capacity.max-checkout-waiters=7",
			"--admission.route-key=application_name", fmt.Sprintf("--server.loops=%d", loops))
		var holders, clients []*pgwire.Conn
		for i := range 3 {
			params := []string{"user", "postgres", "database", "postgres", "application_name", fmt.Sprintf("app-%d", i)}
			hold := pgwire.Login(t, "tcp", address, params...)
			exec(t, hold, "begin")
			holders = append(holders, hold)
			clients = append(clients, crowd(t, address, loops, 10, params...)...)
		}
		volley(t, clients, func(int) string { return "select 'served'" })
		until(t, "a verdict on each", func() bool {
			rejected := 0
			for _, n := range e.Tallies() {
				rejected += int(n.Rejected)
			}
			return int(e.Totals().Waiting)+rejected == len(clients)
		})
		if n := e.Totals().Waiting; n != 7 {
			t.Errorf("loops %d: %d wait, the process may have 7", loops, n)
		}
		for _, c := range holders {
			exec(t, c, "commit")
		}
		if served, turned := verdicts(t, clients); served != 7 || turned != 23 {
			t.Errorf("loops %d: %d served and %d refused, want 7 and 23", loops, served, turned)
		}
		rested(t, e)
	}
}

// TestSlowApplicationHurtsOnlyItself: one application keeps its route full with slow queries, far beyond its limit; another one
// of the same pool hardly ever waits for a permit and is never refused.
func TestSlowApplicationHurtsOnlyItself(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, loops := range []int{1, 2} {
		e, address := startYAML(t, `routes: [{name: slow, match: {application_name: slow}, max_route_in_flight: 4, max_route_waiters: 4}]
`+databases(pg), "--capacity.pool-max-size=8", fmt.Sprintf("--server.loops=%d", loops))
		stop := make(chan struct{})
		var all sync.WaitGroup
		for _, c := range crowd(t, address, loops, 16, "user", "postgres", "database", "postgres", "application_name", "slow") {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.Exec("select pg_sleep(0.05)"); err != nil {
						overloaded(t, err, "ERROR", "53300")
						c.Silent(1e6) // a client that comes back at once, again and again
					}
				}
			})
		}
		until(t, "the slow one's queue full", func() bool { return e.Tally("slow").Rejected > 0 })
		const fast = "postgres/postgres/fast/read"
		c := login(t, address, "application_name", "fast")
		for range 300 {
			usable(t, c)
		}
		n, slow := e.Tally(fast), e.Tally("slow")
		close(stop)
		all.Wait()
		// A place that changes hands at that moment may make one or the other go through the queue.
		if n.Admitted != 300 || n.Queued > 15 || n.Rejected != 0 {
			t.Errorf("loops %d: beside a slow application: %+v", loops, n)
		}
		if slow.Rejected < 10 || slow.PeakInFlight > 4 {
			t.Errorf("loops %d: the slow application: %+v", loops, slow)
		}
		rested(t, e)
	}
}
