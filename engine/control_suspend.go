package engine

// SUSPEND: nothing is read from clients any more, what has been read of them is
// passed on, and then nothing is read from their backends either. RESUME goes on.
//
// A suspension has two steps, so that what waits for a backend gets one: first
// clients are not read, until no request that has been read waits; then their
// backends are not, until every buffer is empty. A request that waits because of
// PAUSE stays where it is. Logins that have begun go on; whoever comes later is
// held at its startup packet (and is out of time after login_timeout_ms), unless it
// asks for the console, which goes on as ever.
//
// Owner: Engine.suspension is Engine.operating's; worker.suspended and suspendedAt
// are the worker's, set on its loop; Engine.suspended is for whoever looks.
//
// Invariants: the clocks of clients stand still while they are not read (deadline),
// but for that of a request that waits, and that of a client that does not take
// what is sent to it; the end of the suspension moves the others by its length.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"pgkinetic/protocol"
)

// suspended is how far a worker's suspension is.
type suspended uint8

const (
	suspendedNot     suspended = iota
	suspendedClients           // clients are not read
	suspendedAll               // nor are their backends
)

// suspendPoll is how often a suspension looks whether a step is complete.
const suspendPoll = 20 * time.Millisecond

var errSuspendEnds = errors.New("the pooler is shutting down: there is nothing to suspend any more")

// Suspend stops reading from clients, passes on what has been read, and returns nil
// when nothing is left to be passed on; when RESUME comes before: ErrResumed; or
// when ctx ends: its error, and the suspension stays. If there is one already it is
// waited for likewise. Any goroutine but a loop's.
func (e *Engine) Suspend(ctx context.Context) error {
	e.operating.Lock()
	switch {
	case !e.started.Load():
		e.operating.Unlock()
		return ErrNotRunning
	case e.draining.Load():
		e.operating.Unlock()
		return errSuspendEnds
	}
	p := e.suspension
	if p == nil {
		p = &pause{resumed: make(chan struct{})}
		e.suspension = p
		e.suspended.Store(true)
		e.walk(func(w *worker) { w.suspend(suspendedClients) }, func(*client) {})
		e.log.Info("suspended")
	}
	e.operating.Unlock()
	if err := e.awaitSuspension(ctx, p, (*client).holdsRequest); err != nil {
		return err
	}
	e.operating.Lock()
	if e.suspension == p {
		e.walk(func(w *worker) { w.suspend(suspendedAll) }, func(*client) {})
	}
	e.operating.Unlock()
	return e.awaitSuspension(ctx, p, (*client).holdsBytes)
}

// awaitSuspension waits until no client is busy.
func (e *Engine) awaitSuspension(ctx context.Context, p *pause, busy func(*client) bool) error {
	poll := time.NewTicker(suspendPoll)
	defer poll.Stop()
	for {
		var left atomic.Int64
		e.walk(func(*worker) {}, func(c *client) {
			if busy(c) {
				left.Add(1)
			}
		})
		if closed(p.resumed) {
			return ErrResumed
		}
		if left.Load() == 0 {
			return nil
		}
		select {
		case <-p.resumed:
			return ErrResumed
		case <-ctx.Done():
			return fmt.Errorf("suspended, but what was read from %d clients has not been passed on: %w", left.Load(), ctx.Err())
		case <-poll.C:
			if e.allStopped() {
				return ErrNotRunning
			}
		}
	}
}

// suspend begins a step of a suspension.
func (w *worker) suspend(s suspended) {
	if w.suspended == suspendedNot {
		w.suspendedAt = w.now()
	}
	w.suspended = s
}

// holdsRequest tells whether something of c that has been read whole waits to be
// passed on, other than because of a pause.
func (c *client) holdsRequest() bool {
	switch c.state {
	case clientWaiting:
		paused, _, _ := c.waiter.Paused(c.w.now())
		return !paused
	case clientIdle, clientLinked, clientSkipping:
		return c.held || c.inTodo
	}
	return false
}

// holdsBytes tells whether bytes for c or for its backend wait to be taken.
func (c *client) holdsBytes() bool {
	return c.state < clientClosing && c.ordinary() && (c.out.Len() > 0 || c.srv != nil && c.srv.out.Len() > 0)
}

// endSuspension has everybody read again; false if nothing was suspended. It may
// be called under operating only.
func (e *Engine) endSuspension() bool {
	p := e.suspension
	if p == nil {
		return false
	}
	e.suspension = nil
	e.walk(func(*worker) {}, (*client).moveClocks)
	e.walk(func(w *worker) { w.suspended = suspendedNot }, (*client).readOn)
	e.suspended.Store(false)
	close(p.resumed)
	e.log.Info("suspension ended")
	return true
}

// moveClocks lets the time of the suspension not count.
func (c *client) moveClocks() {
	now, from := c.w.now(), c.w.suspendedAt
	move := func(at *int64) {
		if *at != 0 {
			*at += now - max(*at, from)
		}
	}
	if c.state >= clientIdle && c.state < clientClosing {
		move(&c.since)
	}
	if s := c.srv; s != nil {
		for _, at := range []*int64{&s.cycleAt, &s.xactAt, &s.waitAt, &s.cancelAt} {
			move(at)
		}
	}
}

// readOn goes on with a client behind a suspension.
func (c *client) readOn() {
	if c.state >= clientClosing {
		return
	}
	if s := c.srv; s != nil && s.wantRead {
		c.w.loop.Later(&s.sock)
	}
	c.armTimer()
	c.w.later(c)
}

// mustHold tells whether a login that begins now has to wait for RESUME.
func (c *client) mustHold(st *protocol.Startup) bool {
	if st.Kind != protocol.KindStartup || c.w.suspended == suspendedNot {
		return false
	}
	database, _, _ := namesOf(st)
	return !c.w.eng.isConsole(database)
}
