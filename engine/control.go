package engine

// Control: what other goroutines (a console, HTTP, a signal) have done on the
// loops. A change of admission tells the time of a loop and may end in calls of
// its Driver, so it runs on a loop's goroutine, brought there by a message.
//
// Owner: a control is its caller's until it is posted, then its loop's until
// done is closed. Engine.operating lets one change in at a time.
//
// Invariants:
//   - run is called on the loop until it answers false, never again afterwards;
//   - whoever waits for a control gets an answer, also when the loop has stopped;
//   - one turn of a loop does a bounded part of a long change.

import (
	"errors"
	"time"

	"pgkinetic/engine/reactor"
)

// ErrNotRunning is the answer of everything here before Start and after Stop.
var ErrNotRunning = errors.New("the pooler is not running")

var errLoopFailed = errors.New("an event loop has failed in the middle of the change")

const (
	walkPerTurn = 512 // clients that one turn visits
	stepPerTurn = 64  // routes, pools, … that one turn changes
)

// control is a function on its way to a loop.
type control struct {
	msg     reactor.Message
	run     func(w *worker) (again bool)
	started chan struct{} // closed when run is about to be called
	done    chan struct{} // closed when it has answered false
	begun   bool          // loop: started is closed
}

// controlled carries out k, or one turn's part of it.
func (w *worker) controlled(k *control) {
	if !k.begun {
		k.begun = true
		close(k.started)
	}
	if k.run(w) {
		w.loop.Post(&k.msg)
		return
	}
	close(k.done)
}

// submit sends run to w's loop. Any goroutine but a loop's, which must not wait.
func (w *worker) submit(run func(*worker) bool) *control {
	k := &control{run: run, started: make(chan struct{}), done: make(chan struct{})}
	k.msg.Kind, k.msg.Ref = msgControl, k
	w.loop.Post(&k.msg)
	return k
}

// wait blocks until k has run on w, or until w's loop has ended without it.
func (k *control) wait(w *worker) (ran bool) { return k.waitUnless(w, func() bool { return false }) }

// waitUnless is wait that gives up when a condition holds; k may then run still.
func (k *control) waitUnless(w *worker, gone func() bool) (ran bool) {
	poll := time.NewTicker(stopPoll)
	defer poll.Stop()
	for !closed(k.done) {
		if w.loop.Stopped() || gone() { // a loop that has stopped did before whatever it did
			return closed(k.done)
		}
		select {
		case <-k.done:
		case <-poll.C:
		}
	}
	return true
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// onLoop runs f on some loop and waits for it.
func (e *Engine) onLoop(f func(w *worker)) error {
	return e.turns(func(w *worker) bool { f(w); return false })
}

// turns runs f on some loop, a turn at a time, until it answers false.
func (e *Engine) turns(f func(w *worker) (again bool)) error {
	if !e.started.Load() {
		return ErrNotRunning
	}
	for _, w := range e.workers {
		if w.loop.Stopped() {
			continue
		}
		k := w.submit(f)
		if k.wait(w) {
			return nil
		}
		if closed(k.started) {
			return errLoopFailed
		}
	}
	return ErrNotRunning
}

// each calls f for all items on one loop, a bounded number per turn.
func each[T any](e *Engine, items []T, f func(w *worker, item T)) error {
	if len(items) == 0 {
		return nil
	}
	return e.turns(func(w *worker) bool {
		n := min(len(items), stepPerTurn)
		for _, item := range items[:n] {
			f(w, item)
		}
		items = items[n:]
		return len(items) > 0
	})
}

// walk calls visit for every client that is there when it begins, on the client's
// loop, and first begin on each loop. A client that comes meanwhile may be left
// out, one may be visited twice; visit may close its client, and must not add or
// remove any other.
func (e *Engine) walk(begin func(w *worker), visit func(c *client)) {
	e.everywhere(func() func(*worker) bool { return walker(begin, visit) })
}

// look is walk for who only looks and keeps nobody waiting: it does not wait for a
// loop that has not turned for too long, and then answers false. What visit has
// written may in that case still be written to.
func (e *Engine) look(begin func(w *worker), visit func(c *client)) (all bool) {
	return e.runEverywhere(func() func(*worker) bool { return walker(begin, visit) }, func(k *control, w *worker) bool {
		return k.waitUnless(w, func() bool { return !w.turns(e.turnBound) }) || w.loop.Stopped()
	})
}

// everywhere runs what turn gives on each loop that runs, until it answers false, and
// waits for all of them.
func (e *Engine) everywhere(turn func() func(w *worker) (again bool)) {
	e.runEverywhere(turn, func(k *control, w *worker) bool {
		k.wait(w) // a loop that has ended has no clients
		return true
	})
}

// runEverywhere is everywhere with another way to wait, which tells whether it has.
func (e *Engine) runEverywhere(turn func() func(w *worker) (again bool), wait func(*control, *worker) bool) bool {
	type sent struct {
		w *worker
		k *control
	}
	var all []sent
	for _, w := range e.workers {
		if !w.loop.Stopped() {
			all = append(all, sent{w, w.submit(turn())})
		}
	}
	for _, s := range all {
		if !wait(s.k, s.w) {
			return false
		}
	}
	return true
}

// walker visits from the end of the list to its beginning: a client that leaves
// is replaced by the last one, which has been visited.
func walker(begin func(*worker), visit func(*client)) func(*worker) bool {
	at := -1
	return func(w *worker) bool {
		if at < 0 {
			begin(w)
			at = w.all.Len()
		}
		at = min(at, w.all.Len())
		for n := walkPerTurn; at > 0 && n > 0; n-- {
			at--
			visit(w.all.items[at])
		}
		return at > 0
	}
}

// rearm sets a waiting client's timer anew: which clock runs has changed.
func (c *client) rearm() {
	if c.state == clientWaiting || c.state == clientLoginWait {
		c.armTimer()
	}
}
