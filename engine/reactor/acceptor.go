package reactor

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

// State: Acceptor owns the listeners, a spare descriptor and its place in the
// order of the loops. Owner: the first of the loops, where the listeners live;
// Start, Change, Pause, Resume, Close, Listeners and the counters are for any goroutine.
//
// Invariants:
//   - a listener is edge-triggered: unless accept said EAGAIN, it is on the ready
//     list, or accepting is paused, or waits for nextTurn, and what ends that puts
//     it there
//   - spare is an open descriptor, or -1 when even that one could not be had
//   - an accepted descriptor is handed to exactly one loop or closed
//   - what an accepted socket has of options it has from its listener: accepting
//     sets none

const (
	acceptsPerTurn  = 4           // a loop; the clients that are there wait for them
	stormBacklog    = 64          // more in a TCP backlog are a storm
	stormPace       = 1_000_000   // nanoseconds between two turns during one
	stallNanos      = 100_000_000 // pause after running out of descriptors
	backlogDefault  = 4096
	unixModeDefault = fs.FileMode(0o777)
)

// AcceptorOptions say where to listen and whom to tell.
type AcceptorOptions struct {
	Passed        []int       // descriptors of listening sockets, see takeOver
	Addresses     []string    // "host:port", "[IPv6]:port", "*:port"; port 0: any
	UnixDir       string      // "" for none; a leading @: abstract
	UnixPort      int         // in the socket's name; 0: the first TCP listener's
	UnixMode      fs.FileMode // 0: 0777
	Backlog       int         // 0: 4096
	KeepaliveMs   int         // of accepted TCP sockets, see SetTCPOptions
	UserTimeoutMs int

	// Loops are the loops that get the sockets: the one with the fewest. The first
	// accepts them.
	Loops []*Loop
	// OnAccept is called on that loop; FD of c belongs to it then, and so does c.
	OnAccept func(l *Loop, c *Accepted)
	// Admit, if set, is asked on the first loop for every socket; false
	// closes it unseen.
	Admit func() bool
	// Crowded, if set, is asked on the first loop before each turn: while it is true
	// nothing is accepted, and clients wait in the backlog.
	Crowded func() bool
	// OnStall, if set, is called on the first loop each time accepting
	// pauses because of err.
	OnStall func(err error)
	// OnFailure is called on the first loop when it cannot register a listener.
	OnFailure func(err error)
}

// Accepted is one new client socket: non-blocking, close-on-exec, TCP options
// set.
type Accepted struct {
	message  Message
	onAccept func(*Loop, *Accepted)

	FD       int
	Unix     bool
	Peer     netip.AddrPort // the zero value for a Unix socket
	Listener *Listener
}

// Acceptor accepts clients on the first loop and hands them to the loops.
type Acceptor struct {
	opts       AcceptorOptions
	loop       *Loop
	listeners  atomic.Pointer[[]*Listener] // replaced on the loop
	present    *listenChange               // what is being changed
	pending    atomic.Pointer[listenChange]
	changing   sync.Mutex // held by Change and Close
	registered bool
	leaving    bool
	spare      int
	stalled    bool
	nextTurn   int64 // before this time nothing is accepted
	resumeAt   reaper.Timer
	next       int // where the look for the least loaded loop begins

	turn    Message // there is something to do on the loop: start, resume, close
	started atomic.Bool
	closed  atomic.Bool
	closing sync.Once
	left    chan struct{} // closed when the listeners have left the loop

	paused     atomic.Bool
	accepted   atomic.Uint64
	refused    atomic.Uint64
	stallCount atomic.Uint64
}

// Listen opens all listeners, or none and returns an error that names the
// address and the remedy. Clients queue in the backlog until Start.
func Listen(opts AcceptorOptions) (*Acceptor, error) {
	opts.Backlog = orDefault(opts.Backlog, backlogDefault)
	opts.UnixMode = orDefault(opts.UnixMode, unixModeDefault)
	a := &Acceptor{opts: opts, spare: -1, left: make(chan struct{})}
	a.turn.Kind, a.turn.Ref = kindAcceptor, a
	a.resumeAt.Handler = (*stallEnd)(a)
	passed, err := takeOver(opts.Passed, opts.Backlog)
	if err != nil {
		return nil, err
	}
	set, err := openListeners(&opts, passed)
	if err != nil {
		closeListeners(passed)
		return nil, err
	}
	a.listeners.Store(&set.all)
	a.refillSpare()
	return a, nil
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Start accepts until Close, once the first loop runs. It must be called at most
// once.
func (a *Acceptor) Start() {
	a.loop = a.opts.Loops[0]
	a.started.Store(true)
	a.loop.tryPost(&a.turn)
}

// Close stops accepting, closes the listeners, removes the Unix socket's file
// and waits until that is done. Any goroutine except a loop's; idempotent. If it
// was started, its first loop must run or have run.
func (a *Acceptor) Close() {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.closing.Do(func() {
		a.closed.Store(true)
		if a.started.Load() {
			a.loop.tryPost(&a.turn)
			select {
			case <-a.left:
			case <-a.loop.ended:
			}
		}
		for _, ln := range a.Listeners() {
			if !a.registered {
				_ = unix.Close(ln.fd)
			}
			ln.file.remove()
		}
		if a.spare >= 0 {
			_ = unix.Close(a.spare)
		}
	})
}

// onTurn does on the loop what another goroutine has asked for.
func (a *Acceptor) onTurn() {
	if a.closed.Load() {
		a.leave()
		return
	}
	if !a.registered {
		a.register()
	}
	if k := a.pending.Swap(nil); k != nil {
		a.take(k)
	}
	a.hurry()
	a.acceptLater()
}

func (a *Acceptor) register() {
	a.registered = true
	for _, ln := range a.Listeners() {
		a.attach(ln)
	}
}

func (a *Acceptor) attach(ln *Listener) {
	ln.acceptor = a
	ln.socket = Socket{handler: ln, fd: int32(ln.fd), flags: flagUnix | flagListener}
	if err := a.loop.Attach(&ln.socket); err != nil {
		_ = unix.Close(ln.fd)
		if a.opts.OnFailure != nil {
			a.opts.OnFailure(fmt.Errorf("acceptor: %w", err))
		}
	}
}

// leave takes the listeners out of the loop. What asks for a turn may do so again
// after Close.
func (a *Acceptor) leave() {
	if a.leaving {
		return
	}
	a.leaving = true
	a.loop.wheel.Cancel(&a.resumeAt)
	for _, ln := range a.Listeners() {
		ln.socket.Close()
	}
	a.afterClosing(a.left)
}

// OnReady implements Handler: it accepts a bounded number of clients. In a storm
// the others wait in the backlog, so that the clients that are being served keep
// their latency: what a login costs here and in PostgreSQL comes on top of them.
func (ln *Listener) OnReady(s *Socket, _ Events) {
	a := ln.acceptor
	if a.loop.now < a.nextTurn {
		return // acceptLater follows
	}
	if a.opts.Crowded != nil && a.opts.Crowded() {
		a.acceptSoon()
		return
	}
	for range acceptsPerTurn * len(a.opts.Loops) {
		if a.stalled || a.paused.Load() && !ln.leaving {
			return
		}
		fd, peer, err := accept(int(s.fd))
		switch {
		case err == nil:
			a.hand(ln, fd, peer)
		case err == unix.EAGAIN:
			if ln.leaving {
				a.depart(ln)
			}
			return
		case ofOneClient(err):
		default:
			a.stall(ln, err)
			return
		}
	}
	if ln.backlog() <= stormBacklog {
		s.loop.Later(s)
		return
	}
	a.acceptSoon()
}

// acceptSoon accepts nothing before the time of a storm's next turn.
func (a *Acceptor) acceptSoon() {
	a.nextTurn = a.loop.now + stormPace
	a.loop.soon(a.nextTurn, a.acceptLater)
}

// backlog is the number of clients that wait to be accepted: 0 for a Unix socket,
// of which the kernel does not tell it.
func (ln *Listener) backlog() int {
	if ln.Network == "unix" {
		return 0
	}
	info, err := unix.GetsockoptTCPInfo(int(ln.socket.fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return int(info.Unacked) // what it means for a listening socket, see tcp_get_info in the kernel
}

// ofOneClient reports whether an error of accept concerns only the connection
// that would have been accepted (accept(2): network errors that are already
// pending are passed on), so that the next one may go well.
func ofOneClient(err error) bool {
	switch err {
	case unix.EINTR, unix.ECONNABORTED, unix.EPERM, unix.EPROTO, unix.ENOPROTOOPT, unix.EOPNOTSUPP,
		unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENONET, unix.ETIMEDOUT:
		return true
	}
	return false
}

// hand gives a new socket to the loop with the fewest.
func (a *Acceptor) hand(ln *Listener, fd int, peer netip.AddrPort) {
	if a.opts.Admit != nil && !a.opts.Admit() {
		a.refused.Add(1)
		_ = unix.Close(fd)
		return
	}
	c := &Accepted{onAccept: a.opts.OnAccept, FD: fd, Unix: ln.Network == "unix", Peer: peer, Listener: ln}
	a.accepted.Add(1)
	l := a.leastLoaded()
	if l == a.loop {
		a.opts.OnAccept(l, c)
		return
	}
	l.incoming.Add(1)
	c.message.Kind, c.message.Ref = kindAccepted, c
	l.Post(&c.message)
}

// leastLoaded returns the running loop with the fewest sockets, those on their
// way included; equals take turns. One runs: the one that this is called on.
func (a *Acceptor) leastLoaded() *Loop {
	var best *Loop
	var bestLoad int64
	for i := range a.opts.Loops {
		l := a.opts.Loops[(a.next+i)%len(a.opts.Loops)]
		if l.Stopped() {
			continue
		}
		if load := l.sockets.Load() + l.incoming.Load(); best == nil || load < bestLoad {
			best, bestLoad = l, load
		}
	}
	a.next++
	return best
}

// stall answers "out of descriptors" (or memory): without a pause accept would
// fail again and again for the same client. The spare descriptor turns that
// client away, so that it need not hang in the backlog.
func (a *Acceptor) stall(ln *Listener, err error) {
	if a.spare >= 0 {
		_ = unix.Close(a.spare)
		a.spare = -1
		if fd, _, err := accept(ln.fd); err == nil {
			_ = unix.Close(fd)
			a.refused.Add(1)
		}
		a.refillSpare()
	}
	a.stalled = true
	a.stallCount.Add(1)
	a.loop.wheel.Schedule(&a.resumeAt, a.loop.now+stallNanos)
	if a.opts.OnStall != nil {
		a.opts.OnStall(os.NewSyscallError("accept4", err))
	}
}

func (a *Acceptor) refillSpare() {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1 // the next pause tries again
	}
	a.spare = fd
}

// stallEnd is the acceptor as the handler of its timer.
type stallEnd Acceptor

// Fire ends a pause.
func (e *stallEnd) Fire(int64) int64 {
	a := (*Acceptor)(e)
	a.stalled = false
	if a.spare < 0 {
		a.refillSpare()
	}
	a.acceptLater()
	return 0
}

// acceptLater looks at every backlog anew.
func (a *Acceptor) acceptLater() {
	for _, ln := range a.Listeners() {
		a.loop.Later(&ln.socket)
	}
	if a.present != nil {
		for _, ln := range a.present.leaving {
			a.loop.Later(&ln.socket)
		}
	}
}

// Pause leaves new clients in the backlog. Any goroutine.
func (a *Acceptor) Pause() { a.paused.Store(true) }

// Resume accepts again. Any goroutine.
func (a *Acceptor) Resume() {
	a.paused.Store(false)
	if a.started.Load() {
		a.loop.tryPost(&a.turn) // queued already: it will see the flag
	}
}

// Listeners returns the present listeners, with the ports that the system gave. The
// slice does not change. Any goroutine.
func (a *Acceptor) Listeners() []*Listener { return *a.listeners.Load() }

// AcceptPaused returns how often accepting paused for want of descriptors or
// memory. Any goroutine.
func (a *Acceptor) AcceptPaused() uint64 { return a.stallCount.Load() }

// Accepted returns the number of sockets handed to loops. Any goroutine.
func (a *Acceptor) Accepted() uint64 { return a.accepted.Load() }

// Refused returns the number of sockets closed unseen: no descriptor left, or not
// admitted. Any goroutine.
func (a *Acceptor) Refused() uint64 { return a.refused.Load() }

// String names the acceptor's first listener, for messages.
func (ln *Listener) String() string { return ln.Network + " " + strconv.Quote(ln.Address) }
