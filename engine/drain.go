package engine

// Drain: the end of service in order. The listeners stay open and answer 57P01;
// clients without a backend get FATAL 57P01 at a bounded rate, those with one when
// their transaction has ended (or, as the mode says, when they give it back); at
// the deadline all of them. A transaction that is cut is counted. Operators go
// last, with the loops (Stop).
//
// A request that waits because of PAUSE goes on waiting: RESUME serves it, and its
// client goes afterwards.
//
// Owner: Engine.drain is atomics. Invariant: draining is set after mode and end.

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
)

// drain is the end of service.
type drain struct {
	mode       atomic.Uint32 // a view.ShutdownMode
	end        atomic.Int64  // reactor.Now() at which what is left is cut
	idle       atomic.Int64  // clients that were closed while they had no backend
	atBoundary atomic.Int64  // and those behind a transaction
	cut        atomic.Int64  // transactions cut at the deadline
	requests   chan view.ShutdownMode
	logEvery   time.Duration // between the lines that tell how far it is
}

const (
	// drainPerTick keeps the pace at 1 000 clients a second and loop.
	drainPerTick = 1000 / 20
	// drainVisits bounds the clients that one tick looks at.
	drainVisits = 4096
	// startupGrace is what a new connection has to send its startup packet during a
	// drain, so that it can be told why it is refused.
	startupGrace  = 1000 * ms
	drainLogEvery = 5 * time.Second
	// shutdownsQueued are requests that nobody has taken yet.
	shutdownsQueued = 4
)

var (
	errCut          = errors.New("the drain deadline cut open transactions")
	errShuttingDown = errors.New("too many requests to shut down wait already")
)

// Shutdown asks whoever runs the engine to end it: the mode comes out of Shutdowns.
// Any goroutine.
func (e *Engine) Shutdown(mode view.ShutdownMode) error {
	if mode > view.ShutdownWaitForServers {
		return fmt.Errorf("no such mode of shutdown: %d", mode)
	}
	select {
	case e.drain.requests <- mode:
		return nil
	default:
		return errShuttingDown
	}
}

// Shutdowns gives what Shutdown was asked for. Who takes it calls End and Stop; a
// ShutdownNow that comes during End closes the channel that was given to it.
func (e *Engine) Shutdowns() <-chan view.ShutdownMode { return e.drain.requests }

// Drain is End as SIGTERM means it: it waits for the clients.
func (e *Engine) Drain(timeout time.Duration, stop <-chan struct{}) error {
	return e.End(view.ShutdownWaitForClients, timeout, stop)
}

// End ends service by a mode: new logins are answered 57P01, clients without a
// backend are closed, the others between transactions (ShutdownWaitForClients) or
// when they give their backend back (ShutdownWaitForServers), all of them at the
// end of the timeout, with ShutdownNow at once. It blocks until the last client has
// gone, or stop is closed (then everything is cut); operators stay until Stop. It
// returns nil when no transaction was cut.
func (e *Engine) End(mode view.ShutdownMode, timeout time.Duration, stop <-chan struct{}) error {
	if mode == view.ShutdownNow {
		timeout = 0
	}
	began := time.Now()
	e.drain.mode.Store(uint32(mode))
	e.drain.end.Store(reactor.Now() + int64(timeout))
	e.draining.Store(true)
	e.operating.Lock()
	e.endSuspension() // else nobody's transaction would end
	e.operating.Unlock()
	hard := began.Add(timeout + stopGrace)
	last := began
	for e.clients() > 0 && time.Now().Before(hard) {
		select {
		case <-stop:
			e.drain.end.Store(reactor.Now())
			stop = nil
			hard = time.Now().Add(stopGrace)
		case <-time.After(stopPoll):
		}
		if time.Since(last) >= e.drain.logEvery {
			last = time.Now()
			e.log.Info("draining", "clients", e.clients(), "in_transactions", e.inTransactions(),
				"ends_within_ms", max(time.Until(hard)-stopGrace, 0).Milliseconds())
		}
	}
	if n := e.clients(); n > 0 {
		e.drain.cut.Add(n)
	}
	d := &e.drain
	e.log.Info("clients closed", "idle", d.idle.Load(), "at_boundary", d.atBoundary.Load(), "transactions_cut", d.cut.Load(),
		"took_ms", time.Since(began).Milliseconds())
	if d.cut.Load() > 0 {
		return errCut
	}
	return nil
}

// clients counts open client connections of loops that run, without operators'.
func (e *Engine) clients() (n int64) {
	for _, w := range e.workers {
		if !w.loop.Stopped() {
			n += w.stats.clientsOpen.Load()
		}
	}
	return n
}

// inTransactions counts the clients that a drain waits for.
func (e *Engine) inTransactions() (n int64) {
	var found atomic.Int64
	e.look(func(*worker) {}, func(c *client) {
		if c.state == clientLinked && !c.srv.tracker.Idle() {
			found.Add(1)
		}
	})
	return found.Load()
}

// waitsForServers tells that a drain lets clients keep the backends that are theirs.
func (e *Engine) waitsForServers() bool {
	return view.ShutdownMode(e.drain.mode.Load()) == view.ShutdownWaitForServers
}

// drainTick closes the next few clients of a draining worker.
func (w *worker) drainTick(now int64) {
	e := w.eng
	if !e.draining.Load() {
		return
	}
	if now >= e.drain.end.Load() {
		w.cutAll()
		return
	}
	left := drainPerTick
	for range min(w.all.Len(), drainVisits) {
		c := w.all.next()
		if left == 0 || c == nil {
			break
		}
		if c.ordinary() && c.drainNow(now) {
			left--
		}
	}
}

// drainNow closes c if this is the time for it.
func (c *client) drainNow(now int64) bool {
	e := c.w.eng
	switch c.state {
	case clientStartup, clientHandshake:
		if now-c.since < startupGrace {
			return false
		}
		c.close(reasonDraining)
		return true
	case clientWaiting, clientLoginWait:
		if paused, _, _ := c.waiter.Paused(now); paused && !e.waitsForServers() {
			return false
		}
	case clientIdle, clientSkipping, clientLogin, clientAuth:
	case clientLinked:
		if !c.srv.tracker.Idle() || e.waitsForServers() {
			return false
		}
		c.leaveAtBoundary()
		return true
	default:
		return false
	}
	e.drain.idle.Add(1)
	c.fatal(reasonDraining, errShutdown)
	return true
}

// goesNow tells whether a draining process is to part from c, whose requests have all
// been answered outside a block. What else c has sent is answered by request, unless
// c keeps its backend.
func (c *client) goesNow() bool {
	if c.pins != 0 {
		return !c.w.eng.waitsForServers()
	}
	return c.in.Len() == 0
}

// leaveAtBoundary closes a client whose transaction has ended, or which is about to
// begin one, during a drain or for DISCONNECT.
func (c *client) leaveAtBoundary() {
	if !c.w.eng.draining.Load() {
		c.fatal(reasonKilled, errDisconnected)
		return
	}
	c.w.eng.drain.atBoundary.Add(1)
	c.fatal(reasonDraining, errShutdown)
}

// cutAll: the deadline has passed.
func (w *worker) cutAll() {
	for range w.all.Len() {
		c := w.all.next()
		if c == nil {
			return
		}
		if c.state >= clientClosing || !c.ordinary() {
			continue
		}
		if c.state == clientLinked && !c.srv.tracker.Idle() {
			w.eng.drain.cut.Add(1)
		} else {
			w.eng.drain.idle.Add(1)
		}
		c.fatal(reasonDraining, errShutdown)
	}
}
