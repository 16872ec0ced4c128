package engine

// SUSPEND: nothing is read from clients any more, what has been read of them is
// passed on, and then nothing is read from their backends either. RESUME goes on.
//
// A suspension has steps, so that what waits for a backend gets one: first clients
// without a backend are not read, until no request that has been read waits; those
// with one are, since it is their next message that lets it go. Then nobody is read,
// and if that has left a request waiting after all, it is the first step again. When
// nothing waits, backends of clients are not read either, until every buffer is
// empty. A request that waits because of PAUSE stays where it is. Logins that have
// begun go on; whoever comes later is held at its startup packet (and is out of time
// after login_timeout_ms), unless it asks for the console, which goes on as ever.
//
// Owner: Engine.suspension is Engine.operating's, its complete whoever has taken its
// turn; worker.suspended and suspendedAt are the worker's, set on its loop;
// Engine.suspended is for whoever looks.
//
// Invariants: the clocks of clients stand still from the first step on (deadline),
// but for that of a request that waits, and that of a client that does not take
// what is sent to it; the end of the suspension moves the others by its length. A
// suspension that is complete takes no step back.

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
	suspendedIdle              // clients without a backend are not read
	suspendedClients           // no client is
	suspendedAll               // nor are their backends
)

// suspension is one while it lasts.
type suspension struct {
	pause
	turn     chan struct{} // has one place, for whoever takes the steps
	complete bool          // no request that was read waits; the last step has been taken
}

// suspendPoll is how often a suspension looks whether a step is complete.
const suspendPoll = 20 * time.Millisecond

// suspendLooks is how often it does so while nobody is read, before those with a
// backend are read again.
const suspendLooks = 3

var errSuspendEnds = errors.New("the pooler is shutting down: there is nothing to suspend any more")

// Suspend stops reading from clients, passes on what has been read, and returns nil
// when nothing is left to be passed on; when RESUME comes before: ErrResumed; or
// when ctx ends: its error, and the suspension stays. If there is one already it is
// waited for likewise. Any goroutine but a loop's.
func (e *Engine) Suspend(ctx context.Context) error {
	p, err := e.beginSuspension()
	if err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-p.resumed:
		return ErrResumed
	case <-ctx.Done():
		return fmt.Errorf("suspended, but what was read has not been passed on: %w", ctx.Err())
	}
	for !p.complete {
		e.suspendTo(p, suspendedIdle)
		if _, err := e.awaitSuspension(ctx, p, (*client).waits, -1); err != nil {
			return err
		}
		e.suspendTo(p, suspendedClients)
		if p.complete, err = e.awaitSuspension(ctx, p, (*client).holdsRequest, suspendLooks); err != nil {
			return err
		}
	}
	e.suspendTo(p, suspendedAll)
	_, err = e.awaitSuspension(ctx, p, (*client).holdsBytes, -1)
	return err
}

// beginSuspension gives the suspension that there is, or begins one.
func (e *Engine) beginSuspension() (*suspension, error) {
	e.operating.Lock()
	defer e.operating.Unlock()
	switch {
	case !e.started.Load():
		return nil, ErrNotRunning
	case e.draining.Load():
		return nil, errSuspendEnds
	}
	if e.suspension == nil {
		e.suspension = &suspension{pause: pause{resumed: make(chan struct{})}, turn: make(chan struct{}, 1)}
		e.suspended.Store(true)
		e.suspendAll(suspendedIdle)
		e.log.Info("suspended")
	}
	return e.suspension, nil
}

// suspendTo takes a step, unless there has been a RESUME.
func (e *Engine) suspendTo(p *suspension, step suspended) {
	e.operating.Lock()
	defer e.operating.Unlock()
	if e.suspension == p {
		e.suspendAll(step)
	}
}

func (e *Engine) suspendAll(step suspended) {
	e.walk(func(w *worker) { w.suspend(step) }, func(c *client) {
		if step == suspendedIdle && c.state == clientLinked {
			c.readOn()
		}
	})
}

// awaitSuspension waits until no client is busy, and tells whether that came to be
// within so many looks; with -1 it looks until then.
func (e *Engine) awaitSuspension(ctx context.Context, p *suspension, busy func(*client) bool, looks int) (bool, error) {
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
			return false, ErrResumed
		}
		if looks--; left.Load() == 0 || looks == 0 {
			return left.Load() == 0, nil
		}
		select {
		case <-p.resumed:
			return false, ErrResumed
		case <-ctx.Done():
			return false, fmt.Errorf("suspended, but what was read from %d clients has not been passed on: %w", left.Load(), ctx.Err())
		case <-poll.C:
			if e.allStopped() {
				return false, ErrNotRunning
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

// waits tells whether c has been read and needs what only other clients can give: a
// backend, or the end of what its next message rests on.
func (c *client) waits() bool {
	switch c.state {
	case clientLoginWait, clientWaiting:
		paused, _, _ := c.waiter.Paused(c.w.now())
		return !paused
	case clientIdle, clientLinked, clientSkipping:
		return c.held
	}
	return false
}

// holdsRequest tells whether something of c that has been read whole waits to be
// passed on, other than because of a pause.
func (c *client) holdsRequest() bool {
	return c.waits() || c.inTodo && c.state >= clientIdle && c.state <= clientSkipping
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
