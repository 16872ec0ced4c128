package engine

// DISCONNECT: the clients of a database connect anew, each between two of its
// transactions, as drivers do that choose a host, or learn about one, when they
// connect. Backends have nothing to do with it: see RECONNECT.
//
// State: client.leaving, and how many there are on each loop. Owner: the loop.

import (
	"slices"
	"sync/atomic"
)

var errDisconnected = shutdownError("DISCONNECT")

// Disconnect has the clients that a database, by the name that Pause takes, has now
// leave when their transactions have ended; a request that waits is served before.
// It does not wait for that. Any goroutine but a loop's.
func (e *Engine) Disconnect(database string) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	pools, err := e.poolsNamed(database)
	if err != nil {
		return err
	}
	var n atomic.Int64
	e.walk(func(*worker) {}, func(c *client) {
		if c.up != nil && c.state < clientClosing && !c.leaving && slices.Contains(pools, c.up.pool) {
			c.leaving = true
			c.w.leaving++
			n.Add(1)
		}
	})
	e.log.Info("clients are disconnected", "database", database, "clients", n.Load())
	return nil
}

// leaveTick parts from the next few clients that have nothing under way, at the pace of a
// drain, so that they do not all come back at once.
func (w *worker) leaveTick() {
	if w.leaving == 0 {
		return
	}
	left := drainPerTick
	for range min(w.all.Len(), drainVisits) {
		c := w.all.next()
		if left == 0 || c == nil {
			break
		}
		switch {
		case !c.leaving:
		case c.state == clientIdle, c.state == clientSkipping, c.state == clientLinked && c.srv.tracker.Idle():
			c.leaveAtBoundary()
			left--
		}
	}
}

// departs tells whether c is to go as soon as its transaction has ended.
func (c *client) departs() bool { return c.leaving || c.w.eng.draining.Load() }
