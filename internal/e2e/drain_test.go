package e2e

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

func signal(t *testing.T, p *pooler.Pooler, sig syscall.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func exits(t *testing.T, p *pooler.Pooler, want int) {
	t.Helper()
	got, err := p.ExitCode(20 * time.Second)
	if err != nil || got != want {
		t.Errorf("exit status %d (%v), want %d", got, err, want)
	}
}

// TestDrain: idle and waiting clients are sent away at once, busy ones after their transaction; new ones are told.
func TestDrain(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{PoolSize: 2, Flags: []string{"--drain.timeout-ms=20000"}})
			idle, busy, running, waiting := login(t, p), login(t, p), login(t, p), login(t, p)
			ask(t, idle, "SELECT 1")
			ask(t, busy, "BEGIN")
			if err := running.Send(pgwire.Query("SELECT 'ran', pg_sleep(1)")); err != nil {
				t.Fatal(err)
			}
			until(t, 5*time.Second, "the query runs", func() bool {
				return s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT .ran'") == "1"
			})
			if err := waiting.Send(pgwire.Query("SELECT 'waited'")); err != nil {
				t.Fatal(err)
			}
			if !waiting.Silent(30 * time.Millisecond) {
				t.Fatal("the last client was not made to wait")
			}
			signal(t, p, sig)
			for name, c := range map[string]*pgwire.Conn{"idle": idle, "waiting": waiting} {
				if got := ends(t, c); got != "FATAL 57P01" {
					t.Errorf("the %s client ended with %q, want FATAL 57P01", name, got)
				}
			}
			fresh := pgwire.Dial(t, "tcp", p.Addr())
			if _, err := fresh.Login(0, "user", "postgres"); code(err) != "57P01" {
				t.Errorf("a new client got %v, want 57P01", err)
			}
			if all, err := running.ReadUntil('Z', 1); err != nil || !strings.Contains(pgwire.Transcript(all), "ran") {
				t.Errorf("the running query got %s, %v", pgwire.Transcript(all), err)
			}
			if got := ends(t, running); got != "FATAL 57P01" {
				t.Errorf("after its query the client ended with %q, want FATAL 57P01", got)
			}
			if got := ask(t, busy, "SELECT 'still'"); got != "still" {
				t.Errorf("in its block the client got %q", got)
			}
			ask(t, busy, "COMMIT")
			if got := ends(t, busy); got != "FATAL 57P01" {
				t.Errorf("after its block the client ended with %q, want FATAL 57P01", got)
			}
			exits(t, p, 0)
			until(t, 5*time.Second, "no session with PostgreSQL", func() bool { return s.Backends(t) == 0 })
		})
	}
}

// TestDrainOfBusyClients: fifty clients in a tight loop of transactions are parted from between two of them, well inside the
// time; the log tells where they were.
func TestDrainOfBusyClients(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 8, Flags: []string{"--drain.timeout-ms=15000"}})
	var clients sync.WaitGroup
	begun := make(chan struct{}, 50)
	for i := range 50 {
		c := login(t, p)
		clients.Go(func() {
			block := []string{"BEGIN", "SELECT 1", "SELECT 2", "COMMIT"}
			for n := 0; ; n++ {
				_, err := c.Exec(block[n%len(block)])
				if n == len(block) {
					begun <- struct{}{}
				}
				if err == nil {
					continue
				}
				if n%len(block) != 0 || code(err) != "57P01" {
					t.Errorf("client %d: %s: %v", i, block[n%len(block)], err)
				}
				return
			}
		})
	}
	for range 50 {
		<-begun
	}
	signal(t, p, syscall.SIGTERM)
	began := time.Now()
	clients.Wait()
	exits(t, p, 0)
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the drain took %v", d)
	}
	if log := p.Log(); !strings.Contains(log, "transactions_cut=0") || strings.Contains(log, "at_boundary=0 ") {
		t.Errorf("the log:\n%s", log)
	}
}

func TestDrainDeadline(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--drain.timeout-ms=300"}})
	c := login(t, p)
	ask(t, c, "BEGIN")
	signal(t, p, syscall.SIGTERM)
	began := time.Now()
	if got := ends(t, c); got != "FATAL 57P01" {
		t.Errorf("at the deadline the client ended with %q, want FATAL 57P01", got)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("the deadline took effect after %v", d)
	}
	exits(t, p, 1)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--drain.timeout-ms=60000"}})
	ask(t, login(t, p), "BEGIN")
	signal(t, p, syscall.SIGTERM)
	if _, err := p.ExitCode(300 * time.Millisecond); err == nil {
		t.Error("it ended although a transaction is open")
	}
	signal(t, p, syscall.SIGTERM)
	exits(t, p, 1)
}

// TestOtherSignals: what is not built is said in the log, and is no death.
func TestOtherSignals(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{})
	c := login(t, p)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		before := len(p.Log())
		signal(t, p, sig)
		until(t, 5*time.Second, "a log line after "+sig.String(), func() bool { return len(p.Log()) > before })
		ask(t, c, "SELECT 1")
	}
}

// TestLogTellsEachDisconnect: one line per event with a cause, and no line holds what a client said.
func TestLogTellsEachDisconnect(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: []string{"--log.level=debug"}})
	c := login(t, p, "application_name", "log-test")
	ask(t, c, "SELECT 'a secret of the client'")
	if err := c.Send(pgwire.Terminate()); err != nil {
		t.Fatal(err)
	}
	login(t, p).Reset()
	until(t, 5*time.Second, "two disconnects in the log", func() bool {
		return strings.Count(p.Log(), "client disconnected") >= 2
	})
	log := p.Log()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "client disconnected") && !strings.Contains(line, "cause=") {
			t.Errorf("no cause in %q", line)
		}
	}
	for _, want := range []string{"cause=client_terminate", "log-test", "user=postgres", "database=postgres"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(log, "secret") {
		t.Error("the log holds the text of a query")
	}
}
