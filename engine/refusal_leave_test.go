package engine_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// ways in which a waiting client gives its place up.
var ways = map[string]func(t testing.TB, address string, c *pgwire.Conn){
	"FIN": func(t testing.TB, _ string, c *pgwire.Conn) {
		t.Helper()
		if err := c.Net.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	},
	"close": func(_ testing.TB, _ string, c *pgwire.Conn) { c.Close() },
	"RST":   func(_ testing.TB, _ string, c *pgwire.Conn) { c.Reset() },
	"cancel": func(t testing.TB, address string, c *pgwire.Conn) {
		t.Helper()
		if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
	},
}

// stuff writes more than max_client_buffer_bytes behind a request that waits; with all it writes until the kernel takes no
// more: the pooler does not read from a client that waits. (Then only a reset can be seen, since what TCP has not sent yet
// goes before the end of the stream.)
func stuff(t testing.TB, c *pgwire.Conn, all bool) {
	t.Helper()
	filler := pgwire.Query("insert into late_work values ('behind')")
	for len(filler) < 48<<10 {
		filler = append(filler, filler...)
	}
	send(t, c, filler)
	c.Timeout = 50 * time.Millisecond
	for n := 0; all && c.Send(filler) == nil; n++ {
		if n > 1000 {
			t.Fatal("everything is read from a client that waits")
		}
	}
	c.Timeout = pgwire.DefaultTimeout
}

// TestWaiterLeaves: whoever gives its place up frees it at once, also when it has sent more than is read from a client; and
// nothing of what it sent is ever begun, neither its request nor what stands behind.
func TestWaiterLeaves(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists late_work; create table late_work (who text)")
	e, address := startYAML(t, databases(pg), "--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=1",
		"--admission.route-key=database,user", "--capacity.checkout-timeout-ms=60000", "--server.loops=2",
		"--capacity.max-client-buffer-bytes=32768")
	hold, next := holder(t, address), login(t, address)
	left, canceled := uint64(0), uint64(0)
	for name, leave := range ways {
		for _, stuffed := range []bool{false, true} {
			if stuffed && name == "cancel" {
				continue // it stays, and so does what it has pipelined: see TestCancelledWaiterGoesOn
			}
			for _, extended := range []bool{false, true} {
				c := login(t, address)
				if extended {
					send(t, c, pgwire.Parse("", "insert into late_work values ('extended')"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
				} else {
					send(t, c, pgwire.Query("insert into late_work values ('simple')"))
				}
				waiting(t, e, 1)
				if stuffed {
					stuff(t, c, name == "RST")
				}
				leave(t, address, c)
				if name == "cancel" {
					refused(t, answered(t, c, "EZI"), "ERROR", "57014")
					canceled++
				} else {
					left++
				}
				waiting(t, e, 0)
				queue(t, e, next, "select 'next'") // the place is free: not a refusal
				if err := pgwire.Cancel("tcp", address, next.PID, next.Key); err != nil {
					t.Fatal(err)
				}
				answered(t, next, "EZI")
				canceled++
			}
		}
	}
	exec(t, hold, "commit")
	rested(t, e)
	usable(t, next)
	if got := pg.Value(t, "select count(*) from late_work"); got != "0" {
		t.Errorf("%s statements of clients that had gone were begun", got)
	}
	if n := e.Tally(plain); n.Disconnected != left || n.Canceled != canceled || n.Rejected != 0 || n.TimedOut != 0 {
		t.Errorf("%+v, want %d disconnected, %d canceled and nothing else", n, left, canceled)
	}
}

// TestCancelledWaiterGoesOn: a cancel ends the request that waits, not those that were pipelined behind it.
func TestCancelledWaiterGoesOn(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--capacity.max-route-in-flight=1", "--admission.route-key=database,user")
	hold, c := holder(t, address), login(t, address)
	send(t, c, pgwire.Query("select 1"), pgwire.Parse("", "select 2"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(), pgwire.Query("select 3"))
	for _, want := range []string{"EZI", "E"} {
		until(t, "its request in the queue", func() bool { return e.Tally(plain).Waiting == 1 })
		if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
		all, err := c.ReadUntil(want[max(0, len(want)-2)], 1)
		if err != nil || typesOf(all) != want {
			t.Fatalf("got %s, %v, want %s", pgwire.Transcript(all), err, want)
		}
		refused(t, pgwire.ErrorOf(all[0]), "ERROR", "57014")
	}
	answered(t, c, "ZI")
	waiting(t, e, 1) // select 3
	exec(t, hold, "commit")
	answered(t, c, "TDCZI")
	rested(t, e)
}

// TestTerminateBehindWaiter: a Terminate behind a request that waits takes effect after its answer.
func TestTerminateBehindWaiter(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--capacity.max-route-in-flight=1", "--admission.route-key=database,user")
	hold, c := holder(t, address), login(t, address)
	send(t, c, pgwire.Query("select 1"), pgwire.Terminate())
	waiting(t, e, 1)
	exec(t, hold, "commit")
	if all, err := c.ReadAll(); err != nil || typesOf(all) != "TDCZI" {
		t.Errorf("got %s, %v", pgwire.Transcript(all), err)
	}
	rested(t, e)
}

// TestGoneBeforeItsTurn: the client leaves, and right afterwards its turn comes, on any loop: what it sent is not begun. Others
// keep the loops busy with each other's backends.
func TestGoneBeforeItsTurn(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, loops := range []int{1, 2, 4} {
		pg.Exec(t, "drop table if exists gone_work; create table gone_work (who int)")
		e, address := startYAML(t, "routes: [{name: one, match: {application_name: one}, max_route_in_flight: 1, weight: 100}]\n"+databases(pg),
			"--capacity.pool-max-size=3", fmt.Sprintf("--server.loops=%d", loops), "--admission.fifo-slack-ms=0")
		stop := make(chan struct{})
		var all sync.WaitGroup
		press(t, crowd(t, address, loops, 8, "user", "postgres", "database", "postgres"), "select 1", stop, &all)
		hold := login(t, address, "application_name", "one")
		for i := range 60 {
			exec(t, hold, "begin")
			c := login(t, address, "application_name", "one")
			send(t, c, pgwire.Query(fmt.Sprintf("insert into gone_work values (%d)", i)))
			until(t, "its request in the queue", func() bool { return e.Tally("one").Waiting == 1 })
			commit := pgwire.Query("commit")
			c.Reset()
			send(t, hold, commit)
			answered(t, hold, "CZI")
			until(t, "nothing left of it", func() bool { n := e.Tally("one"); return n.InFlight+n.Waiting == 0 })
		}
		close(stop)
		all.Wait()
		rested(t, e)
		if got := pg.Exec(t, "select who from gone_work"); len(got) != 0 {
			t.Errorf("loops %d: the requests %v of clients that had gone were begun", loops, got)
		}
	}
}
