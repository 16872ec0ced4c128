package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestBulkRouteCostsOthersNoMessages: requests of a route cost no more messages between loops while another route of the
// pool is at its limit with a queue that is never empty and refuses thousands. The clients of the other route sit on one
// loop, so that its own requests cost none, which is checked as well; which messages are whose where they do not is a
// matter of admission's tests.
func TestBulkRouteCostsOthersNoMessages(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, loops := range []int{2, 4} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			e, address := startYAML(t, databases(pg)+`
routes:
  - {name: bulk, match: {application_name: bulk}, max_route_in_flight: 3, max_route_waiters: 16}
`, fmt.Sprintf("--server.loops=%d", loops), fmt.Sprintf("--capacity.pool-max-size=%d", 3+3*loops), "--log.connections=false")
			interactive := crowd(t, address, loops, 2*loops, "user", "postgres", "database", "postgres", "application_name", "web")
			b := newBulk(t, address, 30)
			exchanges(t, interactive, 100) // each loop gets the backends that its clients need
			b.start()
			b.turn(t, 100)
			before := e.Totals().Messages
			b.turn(t, 100)
			own := e.Totals().Messages - before
			b.stop(t)
			if own != 0 {
				t.Fatalf("the bulk route's own requests cost %d messages", own)
			}
			alone, beside := 0.0, 0.0
			for range 3 { // in turn
				alone += messagesEach(t, e, interactive) / 3
				b.start()
				refused := b.refused.Load()
				b.turn(t, 50)
				exchanges(t, interactive, 20) // a new load takes its backends to its loop: that is not what is measured
				beside += messagesEach(t, e, interactive) / 3
				if n := b.refused.Load() - refused; n < 20 { // each one found its queue full
					t.Errorf("only %d bulk requests were refused", n)
				}
				b.stop(t)
			}
			b.start()
			b.turn(t, 50)
			straysMessages(t, e, address)
			b.stop(t)
			t.Logf("messages per request: %.5f alone, %.5f beside a full route", alone, beside)
			if beside > 1.01*alone+0.01 {
				t.Errorf("a request costs %.4f messages beside a full route, %.4f alone", beside, alone)
			}
			if n := e.Tally("postgres/postgres/web/read").Rejected; n != 0 {
				t.Errorf("%d requests of the other route were refused", n)
			}
		})
	}
}

// messagesEach gives the messages between loops per request, of all clients at the same time.
func messagesEach(t *testing.T, e *engine.Engine, clients []*pgwire.Conn) float64 {
	const each = 100
	before := e.Totals().Messages
	exchanges(t, clients, each)
	return float64(e.Totals().Messages-before) / float64(each*len(clients))
}

// straysMessages checks that the count of messages counts: a bulk client on another loop gets its backend by a message.
func straysMessages(t *testing.T, e *engine.Engine, address string) {
	t.Helper()
	c := login(t, address, "application_name", "bulk")
	for engine.LoopOf(c.PID) == 0 {
		c = login(t, address, "application_name", "bulk")
	}
	before := e.Totals().Messages
	until(t, "a place in the queue", func() bool {
		_, err := c.Exec("select 1")
		return err == nil
	})
	if e.Totals().Messages == before {
		t.Error("a backend that moves to another loop cost no message")
	}
}

// exchanges lets each client run n queries, all clients at the same time.
func exchanges(t *testing.T, clients []*pgwire.Conn, n int) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range n {
				if _, err := c.Exec("select 1"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// bulk is a load of clients on loop 0, each with one request after the other; a refused one comes back a little later.
// Owner: the test's goroutine; the counters are atomic.
type bulk struct {
	clients         []*pgwire.Conn
	served, refused atomic.Int64
	end             chan struct{}
	all             sync.WaitGroup
	failed          atomic.Pointer[error]
}

func newBulk(t *testing.T, address string, n int) *bulk {
	t.Helper()
	b := &bulk{}
	for len(b.clients) < n {
		c := login(t, address, "application_name", "bulk")
		if engine.LoopOf(c.PID) == 0 {
			b.clients = append(b.clients, c)
		}
	}
	return b
}

func (b *bulk) start() {
	b.end = make(chan struct{})
	for _, c := range b.clients {
		b.all.Go(func() { b.work(c, b.end) })
	}
}

// stop ends the load and waits until its last request is answered.
func (b *bulk) stop(t *testing.T) {
	t.Helper()
	close(b.end)
	b.all.Wait()
	if err := b.failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

func (b *bulk) work(c *pgwire.Conn, end <-chan struct{}) {
	for {
		_, err := c.Exec("select pg_sleep(0.002)")
		back := time.Duration(0)
		var e *pgwire.Error
		switch {
		case err == nil:
			b.served.Add(1)
		case errors.As(err, &e) && e.Code() == "53300":
			b.refused.Add(1)
			back = 3 * time.Millisecond
		default:
			b.failed.Store(&err)
			return
		}
		select {
		case <-end:
			return
		case <-time.After(back):
		}
	}
}

// turn waits until that many more of its requests have been served.
func (b *bulk) turn(t *testing.T, n int64) {
	t.Helper()
	n += b.served.Load()
	until(t, fmt.Sprintf("%d bulk requests served", n), func() bool { return b.served.Load() >= n || b.failed.Load() != nil })
}
