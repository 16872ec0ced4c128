package reactor

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestHelpersPostTheResultBack(t *testing.T) {
	const jobs = 50
	results := make([]int, jobs)
	all := make(chan struct{})
	arrived := 0
	l := startLoopWith(t, LoopOptions{OnMessage: func(m *Message) {
		if i := int(m.Arg); results[i] != i*i {
			t.Errorf("job %d: result %d", i, results[i])
		}
		if arrived++; arrived == jobs {
			close(all)
		}
	}})
	h := NewHelpers(2, jobs, nil)
	defer h.Close()
	messages := make([]Message, jobs)
	for i := range jobs {
		messages[i].Arg = uint64(i)
		if !h.Submit(l, &messages[i], func() { results[i] = i * i }) {
			t.Fatalf("job %d refused", i)
		}
	}
	await(t, all, "all results")
}

// TestHelpersAreBounded: never more than n compute, and the queue refuses what
// is beyond it.
func TestHelpersAreBounded(t *testing.T) {
	const workers, queued = 2, 3
	l := startLoopWith(t, LoopOptions{OnMessage: func(*Message) {}})
	h := NewHelpers(workers, queued, nil)
	var computing, most atomic.Int32
	started, release := make(chan struct{}, 10), make(chan struct{})
	work := func() {
		if n := computing.Add(1); n > most.Load() {
			most.Store(n)
		}
		started <- struct{}{}
		<-release
		computing.Add(-1)
	}
	messages := make([]Message, workers+queued+1)
	submit := func(i int) bool { return h.Submit(l, &messages[i], work) }
	for i := range workers {
		if !submit(i) {
			t.Fatalf("job %d refused", i)
		}
	}
	for range workers { // they are off the queue now
		await(t, started, "a job to start")
	}
	for i := range queued {
		if !submit(workers + i) {
			t.Fatalf("job %d refused", workers+i)
		}
	}
	if submit(workers + queued) {
		t.Fatal("a job beyond the queue was accepted")
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Acquire(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a token beyond the bound: %v", err)
	}
	close(release)
	h.Close() // the queued ones are computed
	if most.Load() != workers || computing.Load() != 0 || len(started) != queued {
		t.Errorf("%d at a time, %d still, %d of the queued ran", most.Load(), computing.Load(), len(started))
	}
	if submit(workers + queued) {
		t.Error("a job was accepted after Close")
	}
	h.Close()
	token, err := h.Acquire(context.Background())
	if err != nil {
		t.Errorf("a free token: %v", err)
	}
	h.Release(token)
}

func TestHelperPanicIsReportedAndAnswered(t *testing.T) {
	back := make(chan struct{})
	l := startLoopWith(t, LoopOptions{OnMessage: func(*Message) { close(back) }})
	reported := make(chan error, 1)
	h := NewHelpers(1, 1, func(err error) { reported <- err })
	defer h.Close()
	var m Message
	h.Submit(l, &m, func() { panic("a job's mistake") })
	if err := await(t, reported, "the report"); !strings.Contains(err.Error(), "a job's mistake") || !strings.Contains(err.Error(), "helpers_test.go") {
		t.Error(err)
	}
	await(t, back, "the message")
}

func TestHelpersMax(t *testing.T) {
	if n := HelpersMax(); n < 1 || n > max(1, runtime.NumCPU()/2) {
		t.Errorf("%d helpers on %d CPUs", n, runtime.NumCPU())
	}
	h := NewHelpers(0, 1, nil)
	defer h.Close()
	if cap(h.tokens) != HelpersMax() {
		t.Errorf("%d tokens by default", cap(h.tokens))
	}
}

// TestHelpersRest: while many wait to compute a token rests after its use, and while very many do they are a crowd.
func TestHelpersRest(t *testing.T) {
	h := NewHelpers(1, 1, nil)
	defer h.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	token, err := h.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	granted := make(chan time.Time, tooMany+1)
	var waiters sync.WaitGroup
	for range tooMany + 1 {
		waiters.Go(func() {
			token, err := h.Acquire(ctx)
			if err == nil {
				granted <- time.Now()
				<-ctx.Done()
				h.Release(token)
			}
		})
	}
	for end := time.Now().Add(patience); !h.Crowded(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no crowd")
		}
	}
	released := time.Now()
	used := released.Sub(begun)
	h.Release(token)
	if rest := (<-granted).Sub(released); rest < stormRest*used {
		t.Errorf("a token that was used for %v rested for %v", used, rest)
	}
	cancel()
	waiters.Wait()
	if h.Crowded() {
		t.Error("a crowd of nobody")
	}
}
