package reactor

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// State: Helpers is a set of computing tokens and the workers behind a bounded
// queue. Safe for use from any goroutine.
//
// Invariants:
//   - at most cap(tokens) goroutines compute at a time, workers and holders of
//     Acquire together
//   - the queue holds at most its capacity; a job beyond it is refused
//   - every job that Submit accepted is computed and its message posted

// HelpersMax is the number of helpers that may compute at a time: half the CPUs,
// at least one. Loops have the others.
func HelpersMax() int { return max(1, runtime.NumCPU()/2) }

// Helpers runs CPU work (key derivation, handshakes, look-ups) off the loops.
type Helpers struct {
	tokens  chan struct{}
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
func (h *Helpers) Acquire(ctx context.Context) error {
	select {
	case h.tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release returns the token.
func (h *Helpers) Release() { <-h.tokens }

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
		h.tokens <- struct{}{}
		h.compute(j.work)
		<-h.tokens
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
