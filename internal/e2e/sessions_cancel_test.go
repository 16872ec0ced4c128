package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// running waits until so many queries that sleep are active.
func running(t *testing.T, s *pgtest.Server, n int) {
	t.Helper()
	until(t, 5*time.Second, fmt.Sprintf("%d queries that sleep", n), func() bool {
		return s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'pg_sleep\\(30\\)' AND pid <> pg_backend_pid()") == fmt.Sprint(n)
	})
}

// TestCA01LateCancel: the key of a client that owns no backend any more reaches nobody, however often it is used.
func TestCA01LateCancel(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{"--server.loops=2"}})
	late, victim := login(t, p), login(t, p)
	ask(t, late, "SELECT 1") // the only backend was late's
	if err := victim.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
		t.Fatal(err)
	}
	running(t, s, 1)
	for range 20 {
		if err := pgwire.Cancel("tcp", p.Addr(), late.PID, late.Key); err != nil {
			t.Fatal(err)
		}
	}
	if !victim.Silent(200 * time.Millisecond) {
		t.Error("a late cancel has ended somebody else's query")
	}
	cancels(t, p, victim)
	ask(t, late, "SELECT 1")
}

// TestCA04CancelStorm at a client limit that is just enough: nobody is refused, afterwards every place is free.
func TestCA04CancelStorm(t *testing.T) {
	onlyKinetic(t)
	const clients = 40
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 5, Flags: []string{fmt.Sprint("--server.max-clients=", clients), "--capacity.checkout-timeout-ms=20000"}})
	end := time.Now().Add(long(3 * time.Second))
	var all sync.WaitGroup
	var cancelled, done atomic.Int64
	var conns []*pgwire.Conn
	for i := range clients {
		c := login(t, p)
		conns = append(conns, c)
		random := rand.New(rand.NewPCG(4, uint64(i)))
		all.Go(func() {
			for time.Now().Before(end) {
				if err := c.Send(pgwire.Query("SELECT 'asleep', pg_sleep(0.02)")); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // the race is what is tried
				if err := pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key); err != nil {
					t.Error(err)
					return
				}
				answer, err := c.ReadUntil('Z', 1)
				switch {
				case err == nil && errorCode(answer) == "57014":
					cancelled.Add(1)
				case err == nil && strings.HasPrefix(row(answer), "asleep"):
					done.Add(1)
				default:
					t.Errorf("client %d: %v, got\n%s", i, err, pgwire.Transcript(answer))
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d cancelled, %d came to their end", cancelled.Load(), done.Load())
	for _, c := range conns {
		ask(t, c, "SELECT 1")
		c.Close()
	}
	for range clients {
		until(t, 5*time.Second, "a free place", func() bool {
			c, err := open(p)
			if err == nil {
				t.Cleanup(c.Close)
			}
			return err == nil
		})
	}
}

// TestCA05CancelNeedsNoPlace: the pool is busy, no further client may come, and a cancel works within a second.
func TestCA05CancelNeedsNoPlace(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{"--server.max-clients=2"}})
	busy, waiting := login(t, p), login(t, p)
	if err := busy.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
		t.Fatal(err)
	}
	running(t, s, 1)
	if err := waiting.Send(pgwire.Query("SELECT 'served'")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(p); code(err) != "53300" {
		t.Fatalf("a third client got %v", err)
	}
	start := time.Now()
	cancels(t, p, busy)
	if d := time.Since(start); d > time.Second {
		t.Errorf("the cancel took %v", d)
	}
	if all, err := waiting.ReadUntil('Z', 1); err != nil || row(all) != "served" {
		t.Errorf("the waiting client got %s, %v", pgwire.Transcript(all), err)
	}
}

// TestCA06CancelsOfADeadServer: cancels that were on their way when PostgreSQL died do not stand in anybody's way.
func TestCA06CancelsOfADeadServer(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 50, Flags: []string{"--capacity.checkout-timeout-ms=20000"}})
	var clients []*pgwire.Conn
	for range 50 {
		c := login(t, p)
		if err := c.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	running(t, s, 50)
	if err := s.Stop(pgtest.Immediate); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			if err := pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.StartAgain(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c := login(t, p)
	until(t, 5*time.Second, "an answer", func() bool {
		rows, err := c.Exec("SELECT 'back'")
		return err == nil && rows[0][0] == "back"
	})
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("the first answer came %v after the restart", d)
	}
}

// TestCA08BrokenCancels: halves, resets and keys of clients that have just gone are of no consequence.
func TestCA08BrokenCancels(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 2, Flags: []string{"--server.loops=2"}})
	others := start(t, p, 4, ", pg_sleep(0.001)")
	for i := range 100 {
		gone := login(t, p)
		request := pgwire.CancelRequest(gone.PID, gone.Key)
		raw, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0:
			_, err = raw.Write(request[:len(request)/2])
		case 1:
			_, err = raw.Write(request)
			_ = raw.(*net.TCPConn).SetLinger(0)
		case 2:
			gone.Reset()
			_, err = raw.Write(request)
		case 3:
			if err = gone.Send(pgwire.Query("SELECT pg_sleep(0.01)")); err == nil {
				gone.Reset()
				_, err = raw.Write(request)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
		gone.Close()
	}
	others.end()
	steady(t, s, p, 2, descriptors(t, p.PID()))
}

// TestCA10TheQueryOfAClientThatDied ends with it, and the backend is used again.
func TestCA10TheQueryOfAClientThatDied(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	for _, vanish := range []func(*pgwire.Conn){(*pgwire.Conn).Reset, (*pgwire.Conn).Close} {
		for _, messages := range [][][]byte{
			{pgwire.Query("SELECT pg_sleep(30)")},
			{pgwire.Query("BEGIN; SELECT pg_sleep(30)")},
			{pgwire.Parse("s", "SELECT pg_sleep(30)"), invoke("s"), pgwire.Sync()},
			{pgwire.Parse("", "SELECT pg_sleep(30)"), invoke(""), pgwire.Flush()},
		} {
			c := login(t, p)
			if err := c.Send(messages...); err != nil {
				t.Fatal(err)
			}
			running(t, s, 1)
			vanish(c)
			start := time.Now()
			next := login(t, p)
			ask(t, next, "SELECT 1")
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("the backend was free after %v", d)
			}
			next.Close()
		}
	}
}

// TestCA11RandomKeys have no effect and get no answer.
func TestCA11RandomKeys(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	victim := login(t, p)
	if err := victim.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
		t.Fatal(err)
	}
	running(t, s, 1)
	random := rand.New(rand.NewPCG(11, 1))
	for i := range 1000 {
		pid, key := victim.PID, make([]byte, 4)
		for j := range key {
			key[j] = byte(random.Uint32())
		}
		if i%2 == 0 {
			pid = random.Uint32()
			copy(key, victim.Key)
			if pid == victim.PID {
				continue
			}
		}
		c, err := pgwire.Open("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(pgwire.CancelRequest(pid, key)); err != nil {
			t.Fatal(err)
		}
		if all, err := c.ReadAll(); err != nil || len(all) > 0 {
			t.Fatalf("a wrong key was answered: %s, %v", pgwire.Transcript(all), err)
		}
		c.Close()
	}
	if !victim.Silent(100 * time.Millisecond) {
		t.Error("a wrong key has ended a query")
	}
	cancels(t, p, victim)
}
