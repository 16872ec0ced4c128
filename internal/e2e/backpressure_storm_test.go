package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// limits is a route for all of a user's requests to a database, as in the overload guide's example.
var limits = []string{
	"--capacity.max-route-in-flight=8", "--capacity.max-route-waiters=4", "--admission.route-key=database,user", "--server.loops=2",
}

// places checks that 8 requests of a user can run and 4 wait, that one more is refused at once, and that all of them end well.
func places(t *testing.T, s *pgtest.Server, p *pooler.Pooler, user string) {
	t.Helper()
	gate, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Close(t.Context()) }()
	if _, err := pgtest.Rows(gate, "SELECT pg_advisory_lock(4711)"); err != nil {
		t.Fatal(err)
	}
	inside := func() string {
		return s.Value(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	}
	enter := func() *pgwire.Conn {
		return pgwire.Login(t, "tcp", p.Addr(), "user", user, "database", "postgres")
	}
	var all []*pgwire.Conn
	for i := range 12 {
		c := enter()
		all = append(all, c)
		if err := c.Send(pgwire.Query("SELECT pg_advisory_xact_lock_shared(4711)")); err != nil {
			t.Fatal(err)
		}
		if i < 8 {
			until(t, 20*time.Second, fmt.Sprintf("request %d running", i+1), func() bool { return inside() == fmt.Sprint(i+1) })
		}
	}
	last := enter()
	until(t, 5*time.Second, "a refusal of the thirteenth", func() bool { // the twelfth may still be on its way
		last.Timeout = time.Second
		_, err := last.Exec("SELECT 1")
		return code(err) == "53300"
	})
	if n := inside(); n != "8" {
		t.Errorf("%s requests run, 8 may", n)
	}
	if _, err := pgtest.Rows(gate, "SELECT pg_advisory_unlock(4711)"); err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if got, err := c.ReadUntil('Z', 1); err != nil || got[0].Type == 'E' {
			t.Errorf("request %d got %s, %v", i+1, pgwire.Transcript(got), err)
		}
		c.Close()
	}
	last.Timeout = pgwire.DefaultTimeout
	ask(t, last, "SELECT 1")
	last.Close()
}

// TestRouteChurnStorm: 200 clients a second are reset in the middle of all kinds of requests on a route limited to 8. PostgreSQL
// never runs more than 8 of them at once; afterwards 8 run and 4 wait as before.
func TestRouteChurnStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 30
	s := pgtest.Start(t, pgtest.MaxConnections(60))
	p := pooler.Start(t, s, pooler.Options{PoolSize: size, Flags: limits})
	before := baseline(t, p)
	clients := start(t, p, 6, ", pg_sleep(0.001)", "53300")
	samples := sampleSessions(t, s)
	var v vanishers
	v.run(t, p, long(4*time.Second))
	sessions, active := samples.end(t)
	clients.end()
	t.Logf("%d resets, %d answers to others, %d refused, at most %d sessions and %d active", v.resets.Load(), clients.answers.Load(),
		clients.errors.Load(), sessions, active)
	if active > 8 || active < 4 {
		t.Errorf("at most %d sessions were active at once, the limit is 8", active)
	}
	places(t, s, p, "postgres")
	settle(t, p, before+size)
}

// TestRouteEndsStorm: requests that are admitted, refused, time out, are cancelled, or whose client vanishes, in any number: the
// places of the route stay what they were.
func TestRouteEndsStorm(t *testing.T) {
	onlyKinetic(t)
	const size, clients = 12, 32
	s := pgtest.Start(t)
	// One pool and one route of all users, of whom one has the patience that counting the places takes.
	p := pooler.Start(t, s, pooler.Options{PoolSize: size, Flags: append([]string{"--capacity.checkout-timeout-ms=20"}, limits...), Env: []string{
		fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name": "*", "hosts": [%q], "user": "postgres"}]`, s.Addr()),
		`PG_KINETIC_USERS=[{"name": "patient", "checkout_timeout_ms": 60000}]`,
		`PG_KINETIC_ROUTES=[{"name": "all", "match": {"database": "*"}}]`,
	}})
	before := baseline(t, p)
	var n outcomes
	var all sync.WaitGroup
	end := time.Now().Add(long(4 * time.Second))
	for i := range clients {
		all.Go(func() { n.run(t, p, rand.New(rand.NewPCG(uint64(i), 11)), end) })
	}
	all.Wait()
	t.Logf("%d served, %d refused or timed out, %d cancelled, %d vanished", n.served.Load(), n.refused.Load(), n.cancelled.Load(), n.vanished.Load())
	if n.served.Load() == 0 || n.refused.Load() == 0 || n.cancelled.Load() == 0 || n.vanished.Load() == 0 {
		t.Error("not every end was seen")
	}
	settle(t, p, before+size)
	places(t, s, p, "patient")
}

type outcomes struct{ served, refused, cancelled, vanished atomic.Int64 }

// run makes requests until the time is over, each of which ends in one of the ways.
func (n *outcomes) run(t *testing.T, p *pooler.Pooler, random *rand.Rand, end time.Time) {
	t.Helper()
	requests := [][]byte{
		pgwire.Query("SELECT 1"), pgwire.Query("SELECT pg_sleep(0.03)"), pgwire.Query("BEGIN; SELECT pg_sleep(0.01); COMMIT"),
		slices.Concat(pgwire.Parse("", "SELECT pg_sleep(0.005)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()),
	}
	var c *pgwire.Conn
	for time.Now().Before(end) {
		if c == nil {
			var err error
			if c, err = open(p); err != nil {
				t.Error(err)
				return
			}
		}
		if err := c.Send(requests[random.IntN(len(requests))]); err != nil {
			t.Error(err)
			return
		}
		how := random.IntN(6)
		if how < 2 {
			c.Silent(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		switch how {
		case 0:
			c.Reset()
			c = nil
			n.vanished.Add(1)
			continue
		case 1:
			if err := pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key); err != nil {
				t.Error(err)
				return
			}
		}
		if err := n.answer(c); err != nil {
			t.Error(err)
			return
		}
	}
	if c != nil {
		c.Close()
	}
}

func (n *outcomes) answer(c *pgwire.Conn) error {
	all, err := c.ReadUntil('Z', 1)
	if err != nil {
		return err
	}
	count := &n.served
	for _, m := range all {
		if m.Type != 'E' {
			continue
		}
		switch e := pgwire.ErrorOf(m); e.Code() {
		case "53300":
			count = &n.refused
		case "57014":
			count = &n.cancelled
		default:
			return e
		}
	}
	count.Add(1)
	if last := all[len(all)-1]; last.Body[0] != 'I' { // cancelled inside its block
		_, err = c.Exec("ROLLBACK")
	}
	return err
}
