package engine

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
)

func TestAlive(t *testing.T) {
	t.Parallel()
	cfg, _, problems := configs.Load("", nil, []string{"--server.listen=127.0.0.1:0", "--server.loops=2"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Alive(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("before the start: %v", err)
	}
	e.Start()
	if err := e.Alive(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	const bound = 50 * time.Millisecond
	stuck, release := e.workers[1], make(chan struct{})
	k := stuck.submit(func(*worker) bool { <-release; return false })
	until := func(what string, ok func(error) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if err := e.turnedWithin(bound); ok(err) {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	until("a loop that is stuck", func(err error) bool {
		return err != nil && strings.HasPrefix(err.Error(), "event loop 1 has not turned for ")
	})
	if err := e.Alive(); err != nil {
		t.Errorf("stuck for a moment: %v", err)
	}
	close(release)
	k.wait(stuck)
	until("a loop that goes on", func(err error) bool { return err == nil || !strings.Contains(err.Error(), "loop 1") })
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.Alive(); err == nil || err.Error() != "event loop 0 has ended" {
		t.Errorf("after the end: %v", err)
	}
}

// A loop that does not turn keeps nobody waiting who looks at the others, nor the end of the process.
func TestStuckLoop(t *testing.T) {
	t.Parallel()
	for stuck := range 2 {
		cfg, _, problems := configs.Load("", nil, []string{"--server.listen=127.0.0.1:0", "--server.loops=2"})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		e, err := New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		e.turnBound = 300 * time.Millisecond // six ticks
		e.Start()
		release := make(chan struct{})
		k := e.workers[stuck].submit(func(*worker) bool { <-release; return false })
		<-k.started
		for range e.Clients() {
			t.Error("a client")
		}
		for range e.Servers() {
			t.Error("a server")
		}
		if m := e.Metrics(); m == nil || e.Pools() != nil || e.inTransactions() != 0 {
			t.Error("there is something to be seen")
		}
		if err := e.Stop(); err == nil || !strings.Contains(err.Error(), "has not turned") {
			t.Errorf("loop %d: %v", stuck, err)
		}
		close(release)
		k.wait(e.workers[stuck])
		e.turnBound = time.Minute
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}
