package engine

import (
	"fmt"
	"time"

	"pgkinetic/engine/reactor"
)

// turnBound is how long a loop may take to come back to its housekeeping, which it
// does every tickInterval. Nothing that a loop does takes a tenth of that.
const turnBound = 10 * time.Second

// Alive is nil while every loop turns; else it names one that does not. It asks no
// loop anything, so it answers at once. Any goroutine.
func (e *Engine) Alive() error { return e.turnedWithin(e.turnBound) }

// turns tells whether w's loop has turned within bound. Any goroutine.
func (w *worker) turns(bound time.Duration) bool {
	return time.Duration(reactor.Now()-w.turned.Load()) <= bound
}

func (e *Engine) turnedWithin(bound time.Duration) error {
	if !e.started.Load() {
		return ErrNotRunning
	}
	now := reactor.Now()
	for _, w := range e.workers {
		if w.loop.Stopped() {
			return fmt.Errorf("event loop %d has ended", w.id)
		}
		if since := time.Duration(now - w.turned.Load()); since > bound {
			return fmt.Errorf("event loop %d has not turned for %v", w.id, since.Round(time.Millisecond))
		}
	}
	return nil
}
