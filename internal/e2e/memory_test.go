//go:build !race

package e2e

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestSlowReaderMemory: 64 MiB to a client that reads 1 MB a second, and then at full speed, pass through a process that
// stays below 64 MiB.
func TestSlowReaderMemory(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{})
	for _, sql := range []string{
		"SELECT repeat('x', 67108864)",
		"SELECT repeat('y', 1024) FROM generate_series(1, 65536)",
		"COPY (SELECT repeat('z', 1024) FROM generate_series(1, 65536)) TO STDOUT",
	} {
		c := login(t, p)
		peak := watchMemory(t, p.PID())
		if err := c.Send(pgwire.Query(sql)); err != nil {
			t.Fatal(err)
		}
		// Straight from the socket: the messages are not to be held here either.
		total := 0
		piece := make([]byte, 100<<10)
		for slow := time.Now().Add(long(3 * time.Second)); time.Now().Before(slow); time.Sleep(100 * time.Millisecond) {
			n, err := io.ReadFull(c.Net, piece)
			if total += n; err != nil {
				t.Fatal(err)
			}
		}
		for {
			if err := c.Net.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := c.Net.Read(piece)
			if total += n; err != nil {
				break // nothing more comes
			}
		}
		if total < 64<<20 || total > 66<<20 {
			t.Errorf("%s: %d bytes came", sql, total)
		}
		if got := peak(); got > 64<<20 {
			t.Errorf("%s: the process had %d KiB", sql, got>>10)
		}
		c.Close()
	}
}

// watchMemory samples the resident memory of a process; the returned function ends that and gives the highest value.
func watchMemory(t *testing.T, pid int) func() int {
	t.Helper()
	var peak atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			n, err := residentMemory(pid)
			if err != nil {
				t.Errorf("sampling memory: %v", err)
				return
			}
			peak.Store(max(peak.Load(), int64(n)))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int {
		close(stop)
		<-done
		return int(peak.Load())
	}
}

// TestIdleClientsMemory: 8 000 idle clients that ran a query cost at most 1 KiB of resident memory each over the same
// process with 100, read 60 s after the last query.
func TestIdleClientsMemory(t *testing.T) {
	onlyKinetic(t)
	const few, many = 100, 8000
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{})
	connect := func(n int) {
		for range n {
			c, err := pgwire.Open("unix", p.SocketPath())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if _, err := c.Login(0, "user", "postgres", "database", "postgres"); err != nil {
				t.Fatal(err)
			}
			ask(t, c, "SELECT 1")
		}
	}
	connect(few)
	time.Sleep(time.Minute) // the runtime gives memory back in its own time: the wait is what is measured
	before := resident(t, p.PID())
	connect(many - few)
	time.Sleep(time.Minute)
	after := resident(t, p.PID())
	each := (after - before) / (many - few)
	t.Logf("%d clients: %d KiB, %d clients: %d KiB: %d bytes each", few, before>>10, many, after>>10, each)
	if each > 1024 {
		t.Errorf("an idle client costs %d bytes, want at most 1024", each)
	}
}
