package reactor

import (
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// State: listenChange is a new set of listeners on its way to the loop, and what is
// left to be done there. Owner: Change's caller until it is pending, then the loop
// until done is closed. Acceptor.changing lets one in at a time.
//
// Invariants:
//   - a listener that leaves is closed when nobody waits in its backlog any more, or
//     leavingMost after the change
//   - an address that stays is listened on all the time

// leavingMost is how long a listener that leaves stays open for those in its backlog:
// in a storm, or without descriptors, nobody is accepted for a while.
const leavingMost = 500 * time.Millisecond

// errAcceptorClosed is the answer to a change when the end has come.
var errAcceptorClosed = errors.New("nobody is accepted any more")

type listenChange struct {
	set     *listenSet
	options AcceptorOptions
	leaving []*Listener   // the loop's: those that are still open
	err     error         // of what stays
	overdue atomic.Bool   // what is still open is to be closed
	done    chan struct{} // closed when all of it holds
}

// Change listens as next says, of which it takes addresses, the Unix socket, the
// backlog and the options of sockets; passed listeners stay. What is new is opened
// before anything is closed: if something cannot be had nothing changes, and the
// error names it. Clients that have connected to an address that is given up are
// served still. The options hold for clients that are accepted from then on. It
// returns what was opened and what was closed. Between Start and Close; any
// goroutine except a loop's.
func (a *Acceptor) Change(next AcceptorOptions) (opened, closed []*Listener, err error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	if !a.started.Load() || a.closed.Load() || a.loop.Stopped() {
		return nil, nil, errAcceptorClosed
	}
	next.Backlog = orDefault(next.Backlog, backlogDefault)
	next.UnixMode = orDefault(next.UnixMode, unixModeDefault)
	have := a.Listeners()
	set, err := openListeners(&next, have)
	if err != nil {
		return nil, nil, err
	}
	gone := set.leaving(have)
	k := &listenChange{set: set, options: next, leaving: slices.Clone(gone), done: make(chan struct{})}
	a.pending.Store(k)
	a.loop.tryPost(&a.turn)
	select {
	case <-k.done:
	case <-time.After(leavingMost):
		k.overdue.Store(true)
		a.loop.tryPost(&a.turn) // queued already: it will see the flag
	}
	select {
	case <-k.done:
	case <-a.loop.ended:
		return nil, nil, errAcceptorClosed
	}
	for _, ln := range gone {
		ln.file.remove()
	}
	return set.opened, gone, k.err
}

// take makes a new set the acceptor's.
func (a *Acceptor) take(k *listenChange) {
	a.listeners.Store(&k.set.all)
	a.present = k
	for _, ln := range k.set.all {
		if slices.Contains(k.set.opened, ln) {
			a.attach(ln)
			continue
		}
		k.err = errors.Join(k.err, ln.adjust(&k.options))
	}
	for _, ln := range k.leaving {
		ln.leaving = true
		a.loop.Later(&ln.socket)
	}
	a.changed()
}

// adjust lets options hold for a listener that stays.
func (ln *Listener) adjust(o *AcceptorOptions) error {
	err := os.NewSyscallError("listen", unix.Listen(ln.fd, o.Backlog)) // again: for the backlog
	if err == nil && ln.Network == "tcp" {
		err = SetTCPOptions(ln.fd, o.KeepaliveMs, o.UserTimeoutMs)
	}
	if err != nil {
		return listenError(ln.Address, err)
	}
	return nil
}

// depart closes a listener that leaves.
func (a *Acceptor) depart(ln *Listener) {
	ln.socket.Close()
	k := a.present
	k.leaving = slices.DeleteFunc(k.leaving, func(other *Listener) bool { return other == ln })
	a.changed()
}

// hurry closes what leaves and is overdue.
func (a *Acceptor) hurry() {
	if k := a.present; k != nil && k.overdue.Load() {
		for _, ln := range slices.Clone(k.leaving) {
			a.depart(ln)
		}
	}
}

// changed ends a change when nothing is left to be closed.
func (a *Acceptor) changed() {
	k := a.present
	if len(k.leaving) > 0 {
		return
	}
	a.present = nil
	a.afterClosing(k.done)
}

// afterClosing closes done when the descriptors that were given up in this round are
// closed, which is between this one and the next.
func (a *Acceptor) afterClosing(done chan struct{}) {
	a.loop.Defer(func() { a.loop.Defer(func() { close(done) }) })
}
