package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

var (
	ends  = flag.Int("ends", 1500, "how many requests TestEveryEnd makes on each engine")
	churn = flag.Duration("churn", 2*time.Second, "how long TestExactUnderChurn resets clients")
)

// eightAndFour checks that 8 requests of a route can run and 4 wait, no more, and that all of them end well.
func eightAndFour(t testing.TB, e *engine.Engine, address, label string, params ...string) {
	t.Helper()
	rested(t, e)
	g := shut(t, pgtest.Shared(t), 8)
	var all []*pgwire.Conn
	for i := range 12 {
		c := pgwire.Login(t, "tcp", address, params...)
		all = append(all, c)
		sql := "select 'waited'"
		if i < 8 {
			sql = g.query(i)
		}
		send(t, c, pgwire.Query(sql))
		until(t, fmt.Sprintf("request %d at its place", i+1), func() bool {
			n := e.Tally(label)
			return n.InFlight == min(i+1, 8) && n.Waiting == max(i-7, 0)
		})
	}
	_, err := pgwire.Login(t, "tcp", address, params...).Exec("select 1")
	overloaded(t, err, "ERROR", "53300")
	g.running(t, 0, 1, 2, 3, 4, 5, 6, 7)
	g.open(t, 0, 1, 2, 3, 4, 5, 6, 7)
	for _, c := range all {
		answered(t, c, "TDCZI")
		c.Close()
	}
	rested(t, e)
}

// warm makes a pool open n backends.
func warm(t testing.TB, address string, n int, params ...string) {
	t.Helper()
	var all []*pgwire.Conn
	for range n {
		c := pgwire.Login(t, "tcp", address, params...)
		exec(t, c, "begin")
		all = append(all, c)
	}
	for _, c := range all {
		exec(t, c, "commit")
		c.Close()
	}
}

// watchActive samples pg_stat_activity until stopped, and gives the most sessions of a user that were active at once.
func watchActive(t testing.TB, pg *pgtest.Server, user string) (stop func() int) {
	t.Helper()
	c := pgwire.Login(t, "unix", pg.SocketPath(), "user", "postgres", "database", "postgres", "application_name", "pgtest")
	done, result := make(chan struct{}), make(chan int)
	go func() {
		most, samples := 0, 0
		for ; ; samples++ {
			var n int
			_, _ = fmt.Sscan(one2(c, "select count(*) from pg_stat_activity where state = 'active' and usename = '"+user+"'"), &n)
			most = max(most, n)
			select {
			case <-done:
				if samples < 10 {
					t.Errorf("only %d samples", samples)
				}
				result <- most
				return
			default:
			}
		}
	}()
	return func() int {
		close(done)
		return <-result
	}
}

// TestExactUnderChurn: 200 clients a second are reset while their query runs on a route limited to 8. A permit belongs to the
// query and not to its client: PostgreSQL never runs more than 8 of them, those of clients that have gone included.
func TestExactUnderChurn(t *testing.T) {
	pg := pgtest.Shared(t)
	who := role(t, pg)
	e, address := startYAML(t, "capacity: {max_route_in_flight: 8, max_route_waiters: 4, pool_max_size: 30}\n"+databases(pg), "--server.loops=2")
	params := []string{"user", who, "database", "postgres", "application_name", "churn"}
	warm(t, address, 8, params...) // so that no login needs a backend
	most := watchActive(t, pg, who)
	var all sync.WaitGroup
	var resets atomic.Int64
	end := time.Now().Add(*churn)
	for i := range 20 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for time.Now().Before(end) {
				c, err := pgwire.Open("tcp", address)
				if err == nil {
					_, err = c.Login(0, params...)
				}
				if err == nil {
					err = c.Send(pgwire.Query("select pg_sleep(10)"))
				}
				if err != nil {
					t.Error(err)
					return
				}
				c.Timeout = time.Duration(random.IntN(80)) * time.Millisecond
				_, _ = c.Read() // lets it run, or wait, or be refused
				c.Reset()
				resets.Add(1)
				<-tick.C
			}
		})
	}
	all.Wait()
	rested(t, e)
	n, label := most(), "postgres/"+who+"/churn/read"
	tally := e.Tally(label)
	t.Logf("%d resets, at most %d active, %+v", resets.Load(), n, tally)
	if tally.Routes > 1 {
		t.Errorf("clients of one address, name and class were on %d routes", tally.Routes)
	}
	if n > 8 {
		t.Errorf("PostgreSQL ran %d queries of the route at once, the limit is 8", n)
	}
	if n < 8 {
		t.Errorf("at most %d were active at once: the limit was not reached", n)
	}
	eightAndFour(t, e, address, label, params...)
}

// TestEveryEnd: thousands of requests that are admitted, refused, time out, are cancelled, shed, or whose client vanishes, leave
// every gauge at zero, and 8 + 4 places usable.
func TestEveryEnd(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, test := range []struct {
		loops  int
		onFull string
	}{{1, "reject_new"}, {2, "reject_new"}, {4, "drop_random"}} {
		t.Run(fmt.Sprintf("loops %d, %s", test.loops, test.onFull), func(t *testing.T) {
			e, address := startYAML(t, fmt.Sprintf(`capacity: {max_route_in_flight: 8, max_route_waiters: 4, checkout_timeout_ms: 8, pool_max_size: 12}
databases: [{name: "*", hosts: [%q], user: postgres}]
users: [{name: patient, checkout_timeout_ms: 60000}]
routes: [{name: ends, match: {application_name: ends}, on_full: %s}]
`, pg.Addr(), test.onFull), fmt.Sprintf("--server.loops=%d", test.loops))
			warm(t, address, 8, "user", "patient", "database", "postgres", "application_name", "ends")
			var left atomic.Int64
			left.Store(int64(*ends))
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					k := ender{address: address, random: rand.New(rand.NewPCG(uint64(i), uint64(test.loops)))}
					for left.Add(-1) >= 0 {
						if err := k.once(); err != nil {
							t.Errorf("client %d: %v", i, err)
							return
						}
					}
					if k.c != nil {
						k.c.Close()
					}
				})
			}
			all.Wait()
			rested(t, e)
			n := e.Tally("ends")
			t.Logf("%+v", n)
			sum := n.Admitted + n.Rejected + n.TimedOut + n.Canceled + n.Disconnected + n.Shed
			if sum < uint64(*ends) {
				t.Errorf("%d requests were made, %d are counted: %+v", *ends, sum, n)
			}
			rejected, shed := n.Rejected > 0, n.Shed > 0
			late := n.TimedOut > 0 || shed // whose place is taken by others may never wait for so long
			if n.Admitted == 0 || !late || n.Canceled == 0 || n.Disconnected == 0 || n.Queued == 0 ||
				rejected != (test.onFull == "reject_new") || shed == rejected {
				t.Errorf("not every end was seen: %+v", n)
			}
			if test.onFull == "reject_new" {
				eightAndFour(t, e, address, "ends", "user", "patient", "database", "postgres", "application_name", "ends")
			}
		})
	}
}

// ender is a client whose requests end in every way.
type ender struct {
	address string
	random  *rand.Rand
	c       *pgwire.Conn
}

// once makes one request. What it may end with is no error.
func (k *ender) once() error {
	if k.c == nil {
		c, err := pgwire.Open("tcp", k.address)
		if err != nil {
			return err
		}
		if _, err := c.Login(0, "user", "postgres", "database", "postgres", "application_name", "ends"); err != nil {
			return err
		}
		k.c = c
	}
	message, cycles := k.request()
	if err := k.c.Send(message); err != nil {
		return err
	}
	switch k.random.IntN(8) {
	case 0: // gone while it waits or runs
		k.pause()
		k.c.Reset()
		k.c = nil
		return nil
	case 1:
		k.pause()
		if err := pgwire.Cancel("tcp", k.address, k.c.PID, k.c.Key); err != nil {
			return err
		}
	}
	all, err := k.c.ReadUntil('Z', cycles)
	if err != nil {
		return fmt.Errorf("%w, after %s", err, pgwire.Transcript(all))
	}
	for _, m := range all {
		if m.Type == 'E' && !slices.Contains([]string{"53300", "57014"}, pgwire.ErrorOf(m).Code()) {
			return pgwire.ErrorOf(m)
		}
	}
	if all[0].Type == 'E' { // as a client that has read the hint
		k.c.Silent(time.Duration(k.random.IntN(60)) * time.Millisecond)
	}
	if last := all[len(all)-1]; last.Body[0] != 'I' { // cancelled inside its block
		_, err = k.c.Exec("rollback")
	}
	return err
}

// pause reads for a moment in which nothing may come; what comes is not looked at.
func (k *ender) pause() {
	k.c.Silent(time.Duration(k.random.IntN(20)) * time.Millisecond)
}

func (k *ender) request() (message []byte, cycles int) {
	extended := slices.Concat(pgwire.Parse("", "select pg_sleep(0.003)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
	switch k.random.IntN(5) {
	case 0:
		return pgwire.Query("select 1"), 1
	case 1:
		return pgwire.Query("select pg_sleep(0.04)"), 1
	case 2:
		return extended, 1
	case 3:
		return slices.Concat(extended, pgwire.Query("select pg_sleep(0.005)"), extended), 3
	}
	return pgwire.Query("begin; select pg_sleep(0.02); commit"), 1
}
