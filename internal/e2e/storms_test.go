package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// open logs in without failing the test, for clients that run in goroutines.
func open(p *pooler.Pooler) (*pgwire.Conn, error) {
	c, err := pgwire.Open("tcp", p.Addr())
	if err != nil {
		return nil, err
	}
	if _, err := c.Login(0, "user", "postgres", "database", "postgres"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// expect sends a query for a nonce; a wrong answer is a *wrongAnswer, what the server refuses a *pgwire.Error.
func expect(c *pgwire.Conn, nonce, sql string) error {
	rows, err := c.Exec(fmt.Sprintf("SELECT '%s'%s", nonce, sql))
	if len(rows) > 0 && (len(rows) != 1 || rows[0][0] != nonce) {
		return &wrongAnswer{nonce, rows}
	}
	if err == nil && len(rows) == 0 {
		return &wrongAnswer{nonce, nil}
	}
	return err
}

type wrongAnswer struct {
	nonce string
	rows  [][]string
}

func (w *wrongAnswer) Error() string { return fmt.Sprintf("asked for %q, got %q", w.nonce, w.rows) }

// crowd is clients that ask for nonces until end; each error that allowed refuses is a failure of the test.
type crowd struct {
	answers, errors atomic.Int64
	stop            chan struct{}
	all             sync.WaitGroup
}

// start starts the clients. allowed lists the SQLSTATEs with which a query may fail; the session must go on after them.
func start(t *testing.T, p *pooler.Pooler, clients int, sql string, allowed ...string) *crowd {
	t.Helper()
	w := &crowd{stop: make(chan struct{})}
	for i := range clients {
		c, err := open(p)
		if err != nil {
			t.Fatal(err)
		}
		w.all.Go(func() {
			defer c.Close()
			for n := 0; !w.stopped(); n++ {
				err := expect(c, fmt.Sprintf("client %d query %d", i, n), sql)
				switch {
				case err == nil:
					w.answers.Add(1)
				case slices.Contains(allowed, code(err)):
					w.errors.Add(1)
				default:
					t.Errorf("client %d, query %d: %v", i, n, err)
					return
				}
			}
		})
	}
	return w
}

func (w *crowd) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

func (w *crowd) end() {
	close(w.stop)
	w.all.Wait()
}

// every calls f at each interval until the time is over.
func every(interval, total time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for end := time.Now().Add(total); time.Now().Before(end); <-tick.C {
		f()
	}
}

// TestKilledBackendsStorm: queries outside a block fail with the server's word, on a session that stays.
func TestKilledBackendsStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 10
	s := pgtest.Start(t, pgtest.MaxConnections(50))
	p := pooler.Start(t, s, pooler.Options{PoolSize: size})
	before := baseline(t, p)
	clients := start(t, p, 40, "", "57P01", "08006")
	every(100*time.Millisecond, long(3*time.Second), func() {
		s.KillBackends(t, "random() < 0.5")
	})
	clients.end()
	t.Logf("%d answers, %d queries lost with their backend", clients.answers.Load(), clients.errors.Load())
	if clients.answers.Load() < 100 {
		t.Errorf("only %d answers", clients.answers.Load())
	}
	steady(t, s, p, size, before)
}

// TestRestartStorm: while PostgreSQL is away queries wait or fail with the cause; a second after it is back they succeed.
func TestRestartStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 10
	s := pgtest.Start(t, pgtest.MaxConnections(50))
	p := pooler.Start(t, s, pooler.Options{PoolSize: size})
	before := baseline(t, p)
	clients := start(t, p, 40, "", "57P01", "57P02", "57P03", "08006", "53300")
	mode := pgtest.Fast
	for end := time.Now().Add(long(3 * time.Second)); time.Now().Before(end); {
		if err := s.Restart(mode); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		answers := clients.answers.Load()
		until(t, 5*time.Second, "an answer after the restart", func() bool { return clients.answers.Load() > answers })
		if d := time.Since(back); d > time.Second {
			t.Errorf("the first answer came %v after the restart", d)
		}
		if mode == pgtest.Fast {
			mode = pgtest.Immediate
		} else {
			mode = pgtest.Fast
		}
	}
	clients.end()
	t.Logf("%d answers, %d refused", clients.answers.Load(), clients.errors.Load())
	steady(t, s, p, size, before)
}

// vanishers are clients that come, send something and are gone by a reset, about 200 a second.
type vanishers struct{ resets atomic.Int64 }

// scenes are what a vanishing client has sent; nothing of it may reach anybody else.
var scenes = [][][]byte{
	{pgwire.Query("SELECT 'vanished', pg_sleep(0.05)")},
	{pgwire.Query("SELECT 'vanished' FROM generate_series(1, 20000)")},
	{pgwire.Query("BEGIN"), pgwire.Query("SELECT 'vanished'")},
	{pgwire.Query("SELECT 'vanished'")[:9]},
	{pgwire.Parse("", "SELECT 'vanished', $1::text"), pgwire.Bind("", "", []byte("x")), pgwire.Execute("", 0)},
	{pgwire.Parse("", "SELECT 'vanished' FROM generate_series(1, 1000)"), pgwire.Bind("", ""), pgwire.Execute("", 3), pgwire.Flush()},
	{pgwire.Query("COPY (SELECT 'vanished' FROM generate_series(1, 20000)) TO STDOUT")},
	{pgwire.Query("CREATE TEMP TABLE gone(a text); COPY gone FROM STDIN"), pgwire.CopyData([]byte("vanished\n"))},
	{pgwire.Query("SELECT 1/0"), pgwire.Sync(), pgwire.Sync(), pgwire.Query("SELECT 'vanished'")},
	{pgwire.Parse("", "SELEC"), pgwire.Query("SELECT 'vanished'")},
}

func (v *vanishers) run(t *testing.T, p *pooler.Pooler, total time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			every(100*time.Millisecond, total, func() {
				c, err := open(p)
				if err != nil {
					t.Errorf("login: %v", err)
					return
				}
				if err := c.Send(scenes[random.IntN(len(scenes))]...); err != nil {
					t.Errorf("send: %v", err)
				}
				if random.IntN(2) == 0 { // let it begin
					c.Timeout = time.Duration(random.IntN(20)+1) * time.Millisecond
					_, _ = c.Read()
				}
				c.Reset()
				v.resets.Add(1)
			})
		})
	}
	all.Wait()
}

// TestResetStorm: clients that are reset in the middle of their queries do not disturb others, and hardly cost logins.
func TestResetStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 10
	s := pgtest.Start(t, pgtest.MaxConnections(50))
	p := pooler.Start(t, s, pooler.Options{PoolSize: size})
	before := baseline(t, p)
	clients := start(t, p, 10, ", pg_sleep(0.001)")
	samples := sampleSessions(t, s)
	var v vanishers
	v.run(t, p, time.Second) // the memory of the first second is no leak
	memory := resident(t, p.PID())
	v.run(t, p, long(4*time.Second))
	sessions, active := samples.end(t)
	clients.end()

	resets := int(v.resets.Load())
	logins := s.Logins()
	t.Logf("%d resets, %d answers to others, %d logins, at most %d sessions and %d active", resets, clients.answers.Load(), logins, sessions, active)
	if limit := size + resets/50; logins > limit {
		t.Errorf("%d logins to PostgreSQL for %d resets, want at most %d", logins, resets, limit)
	}
	if sessions > size || active > size {
		t.Errorf("PostgreSQL had %d sessions and %d active ones, permits are %d", sessions, active, size)
	}
	if clients.answers.Load() == 0 {
		t.Error("nobody else was served")
	}
	steady(t, s, p, size, before)
	if grown := resident(t, p.PID()) - memory; grown > 32<<20 {
		t.Errorf("the process has grown by %d KiB", grown>>10)
	}
}

// TestConnectStorm: 20 000 clients come and go in every way, at every stage of a login.
func TestConnectStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 5
	s := pgtest.Start(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: size})
	cycle(t, p, 2000)
	before, memory := baseline(t, p), resident(t, p.PID())
	cycle(t, p, 8000)
	for end := time.Now().Add(long(0)); time.Now().Before(end); {
		cycle(t, p, 10000)
	}
	settle(t, p, before+size)
	steady(t, s, p, size, before)
	if grown := resident(t, p.PID()) - memory; grown > 16<<20 {
		t.Errorf("the process has grown by %d KiB", grown>>10)
	}
	if n := s.Logins(); n > size+1 {
		t.Errorf("connects and disconnects made %d logins to PostgreSQL", n)
	}
}

func cycle(t *testing.T, p *pooler.Pooler, total int) {
	t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= total; i = int(next.Add(1)) {
				if err := comeAndGo(p, i); err != nil {
					t.Errorf("cycle %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// comeAndGo is one client. Most use the Unix socket or end by a reset: an orderly end of a TCP connection occupies its
// port for a minute, and there are only 28 000.
func comeAndGo(p *pooler.Pooler, i int) error {
	network, address := "unix", p.SocketPath()
	if i%2 == 0 {
		network, address = "tcp", p.Addr()
	}
	c, err := pgwire.Open(network, address)
	if err != nil {
		return err
	}
	defer func() {
		if i%20 == 0 {
			c.Close()
		} else {
			c.Reset()
		}
	}()
	startup := pgwire.Startup(0, "user", "postgres", "database", "postgres")
	switch i % 7 {
	case 0:
		return nil
	case 1:
		return c.Send(startup[:5+i%20])
	case 2:
		if err := c.Send(pgwire.SSLRequest()); err != nil {
			return err
		}
		if b, err := c.ReadByte(); err != nil || b != 'N' {
			return fmt.Errorf("answer to SSLRequest: %q, %w", b, err)
		}
		return nil
	case 3:
		return c.Send(startup)
	}
	if _, err := c.Login(0, "user", "postgres", "database", "postgres"); err != nil {
		return err
	}
	switch i % 7 {
	case 4:
		return nil
	case 5:
		return expect(c, fmt.Sprint("cycle ", i), "")
	}
	if err := errors.Join(expect(c, fmt.Sprint("cycle ", i), ""), c.Send(pgwire.Terminate())); err != nil {
		return err
	}
	_, err = c.Read()
	if err == nil {
		return errors.New("a message after Terminate")
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("after Terminate: %w", err)
	}
	return nil
}
