package reactor

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// State: Helpers is a set of computing tokens and the workers behind a bounded
// queue. Safe for use from any goroutine.
//
// Invariants:
//   - at most cap(tokens) goroutines compute at a time, workers and holders of
//     Acquire together
//   - waiting is the number of those who wait for a token, jobs in the queue excepted
//   - the queue holds at most its capacity; a job beyond it is refused
//   - every job that Submit accepted is computed and its message posted

// HelpersMax is the number of helpers that may compute at a time: half the CPUs,
// at least one. Loops have the others.
func HelpersMax() int { return max(1, runtime.NumCPU()/2) }

// In a storm, when more than stormWaiting wait to compute, one rests after its use
// stormRest times as long as it was used: then those who are being served keep
// their share of the CPUs, and who comes waits longer.
const (
	stormWaiting = 16
	stormRest    = 3
	// tooMany are so many that nobody else should be let in who will compute.
	tooMany = 2 * stormWaiting
)

// Helpers runs CPU work (key derivation, handshakes, look-ups) off the loops.
type Helpers struct {
	tokens  chan struct{}
	waiting atomic.Int64
	queue   chan job
	onPanic func(error)
	workers sync.WaitGroup

	mu     sync.RWMutex // guards closed against a send on a closed queue
	closed bool
}

type job struct {
	loop *Loop
	done *Message
	work func()
}

// NewHelpers starts n workers (0: HelpersMax) over a queue of queueMax jobs.
// onPanic is told of a job that panicked; its message is posted all the same,
// so that the state machine that waits for it goes on, without a result.
func NewHelpers(n, queueMax int, onPanic func(error)) *Helpers {
	if n <= 0 {
		n = HelpersMax()
	}
	h := &Helpers{tokens: make(chan struct{}, n), queue: make(chan job, queueMax), onPanic: onPanic}
	for range n {
		h.workers.Go(h.run)
	}
	return h
}

// Submit queues work for a helper; when it is done, done is posted to l. The
// work must not touch what belongs to a loop: it writes into memory that the
// loop leaves alone until done arrives. It returns false, and does nothing, when
// the queue is full or the helpers are closed.
func (h *Helpers) Submit(l *Loop, done *Message, work func()) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return false
	}
	select {
	case h.queue <- job{l, done, work}:
		return true
	default:
		return false
	}
}

// Acquire takes a computing token for a goroutine of the caller's own. Hold it
// only while computing: Release before waiting for bytes.
func (h *Helpers) Acquire(ctx context.Context) (Token, error) {
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	select {
	case h.tokens <- struct{}{}:
		return Token{Now()}, nil
	case <-ctx.Done():
		return Token{}, ctx.Err()
	}
}

// Crowded reports whether so many wait to compute that nobody else who will should
// be let in.
func (h *Helpers) Crowded() bool { return h.crowd() > tooMany }

func (h *Helpers) crowd() int { return int(h.waiting.Load()) + len(h.queue) }

// Token is the right to compute.
type Token struct{ since int64 }

// Release returns the token.
func (h *Helpers) Release(t Token) {
	if h.crowd() <= stormWaiting {
		<-h.tokens
		return
	}
	time.AfterFunc(time.Duration(Now()-t.since)*stormRest, func() { <-h.tokens })
}

// Close ends the workers after the jobs that are queued. It waits for them.
func (h *Helpers) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.queue)
	}
	h.mu.Unlock()
	h.workers.Wait()
}

func (h *Helpers) run() {
	for j := range h.queue {
		t, _ := h.Acquire(context.Background())
		h.compute(j.work)
		h.Release(t)
		j.loop.Post(j.done)
	}
}

func (h *Helpers) compute(work func()) {
	defer func() {
		if p := recover(); p != nil && h.onPanic != nil {
			h.onPanic(fmt.Errorf("helper: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	work()
}
