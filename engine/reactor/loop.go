package reactor

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/panjf2000/gnet/v2/pkg/queue"
	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

// State: Loop owns its poller, its table of sockets, its ready list, its free
// chunks, its wheel and everything that hangs on a registered socket. Owner: the
// goroutine inside Run; the exceptions are Post, Wake, Stop, Stopped, Sockets,
// Busy (atomics, any goroutine).
//
// Invariants:
//   - table[fd] is the socket registered with the poller under that descriptor,
//     or nil; an event without a socket is ignored
//   - a descriptor that a socket gave up by Close stays open until the batch in
//     which that happened is over: its number cannot come back before
//   - something to do (mail, ready sockets, due timers) implies that a wake-up
//     is under way or turn is running
//   - timers pending implies that the timerfd is armed, as soon as the callback
//     that scheduled them has returned
//
// The poller has no hook before or after a batch. Work that need not wait for
// the end of a batch runs in turn, on an eventfd of the loop's own: a wake-up by
// Poller.Trigger allocates a node and a task each time, a write to an eventfd
// does not. What must run after the batch (closing descriptors, Defer) uses
// Trigger, once per batch.

const (
	// ScratchBytes is the size of a loop's read buffer.
	ScratchBytes = 64 << 10

	readyPerTurn  = 256
	tableMin      = 64
	wheelInterval = reaper.Tick * time.Nanosecond
	// idleTicksMax: a second without a pending timer disarms the timerfd.
	idleTicksMax = int(time.Second / wheelInterval)
	// busySample: one callback in so many is timed for Busy. A prime, so that it
	// does not keep step with a repeating pattern of events.
	busySample = 13
)

// LoopOptions are a loop's callbacks.
type LoopOptions struct {
	// OnMessage is called on the loop for every posted message.
	OnMessage func(m *Message)
	// OnFailure is called on Run's goroutine when the loop stops for another
	// reason than Stop: a panic in a handler (err carries its stack) or a failing
	// poller. All sockets of the loop are closed by then.
	OnFailure func(l *Loop, err error)
}

// Loop is one event loop on one goroutine. Everything reachable from it belongs
// to it, except Post, Wake, Stop, Stopped, Sockets and Busy.
type Loop struct {
	// ID is the number given to NewLoop.
	ID int

	opts    LoopOptions
	poller  *netpoll.Poller
	wakeFD  int
	timerFD int

	now     int64
	table   []*Socket
	ready   []*Socket // in order; nil where a socket left the list
	scratch []byte
	vectors vectors
	chunks  freeChunks

	wheel      *reaper.Wheel
	timerArmed bool
	timersDue  bool
	idleTicks  int
	sample     int

	inTurn   bool // turn looks at all work before it returns: no wake-up needed
	woken    bool // a wake-up of the loop's own is under way
	afterSet bool // the after-batch task is queued
	after    []func()
	closing  []int32
	runAfter queue.Func
	failure  error

	mail     mailbox
	stopping atomic.Bool
	stopped  atomic.Bool
	sockets  atomic.Int64
	incoming atomic.Int64 // handed over by an acceptor, not yet taken
	busy     atomic.Int64
}

// NewLoop makes a loop; it does nothing until Run. A loop that will not be used
// after all is released by Stop and then Run.
func NewLoop(id int, opts LoopOptions) (*Loop, error) {
	poller, err := netpoll.OpenPoller()
	if err != nil {
		return nil, fmt.Errorf("loop %d: %w", id, err)
	}
	l := &Loop{
		ID: id, opts: opts, poller: poller, wakeFD: -1, timerFD: -1,
		now: Now(), table: make([]*Socket, tableMin), scratch: make([]byte, ScratchBytes),
	}
	l.wheel = reaper.NewWheel(l.now)
	l.runAfter = func(any) error { return l.afterBatch() }
	if err := l.openDescriptors(); err != nil {
		_ = l.closeDescriptors()
		return nil, fmt.Errorf("loop %d: %w", id, err)
	}
	return l, nil
}

func (l *Loop) openDescriptors() (err error) {
	if l.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	// Wake may be called at any time from anywhere, so the descriptor must live
	// as long as the loop can be reached: else the write would go to whoever got
	// its number.
	runtime.AddCleanup(l, func(fd int) { _ = unix.Close(fd) }, l.wakeFD)
	if err = l.poller.AddRead(&netpoll.PollAttachment{FD: l.wakeFD}, true); err != nil {
		return err
	}
	if l.timerFD, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	return l.poller.AddRead(&netpoll.PollAttachment{FD: l.timerFD}, true)
}

func (l *Loop) closeDescriptors() error {
	if l.timerFD >= 0 {
		_ = unix.Close(l.timerFD)
		l.timerFD = -1
	}
	return l.poller.Close()
}

// Run runs the loop until Stop took effect, then closes every socket that is
// still registered. It returns nil after Stop, else the error that was given to
// OnFailure. It must be called once.
func (l *Loop) Run() error {
	err := l.poll()
	l.teardown()
	if err != nil && l.opts.OnFailure != nil {
		l.opts.OnFailure(l, err)
	}
	return err
}

func (l *Loop) poll() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("loop %d: panic: %v\n%s", l.ID, p, debug.Stack())
		}
	}()
	l.Wake() // mail, timers and ready sockets from before Run
	err = l.poller.Polling(l.onEvent)
	switch {
	case l.failure != nil:
		return fmt.Errorf("loop %d: %w", l.ID, l.failure)
	case l.stopping.Load():
		return nil
	}
	return fmt.Errorf("loop %d: poller ended: %w", l.ID, err)
}

// onEvent is the poller's callback: one event of a batch. Leaving with
// ErrEngineShutdown drops the rest of the batch.
func (l *Loop) onEvent(fd int, ev netpoll.IOEvent, _ netpoll.IOFlags) error {
	l.now = Now()
	switch {
	case fd < len(l.table) && l.table[fd] != nil:
		l.dispatch(l.table[fd], ev)
	case fd == l.wakeFD:
		l.turn()
	case fd == l.timerFD:
		l.tick()
	}
	if !l.timerArmed && l.wheel.Len() > 0 {
		l.armTimer()
	}
	if l.sample++; l.sample == busySample {
		l.sample = 0
		l.busy.Add((Now() - l.now) * busySample)
	}
	if l.stopping.Load() {
		return gneterrors.ErrEngineShutdown
	}
	return nil
}

// turn does what was left for "once more": mail, timers, ready sockets, each a
// bounded number.
func (l *Loop) turn() {
	l.woken = false
	l.inTurn = true
	for range messagesPerTurn {
		m := l.mail.pop()
		if m == nil {
			break
		}
		l.deliver(m)
	}
	if l.timersDue {
		l.timersDue = l.wheel.Advance(l.now)
	}
	l.runReady()
	l.inTurn = false
	if l.mail.inbox != nil || l.timersDue || len(l.ready) > 0 {
		l.wakeSelf()
	}
}

func (l *Loop) deliver(m *Message) {
	if m.Kind == kindAccepted {
		l.incoming.Add(-1)
		c := m.Ref.(*Accepted)
		c.onAccept(l, c)
		return
	}
	l.opts.OnMessage(m)
}

// runReady serves the sockets that were on the list when it began; those that
// join meanwhile wait for the next turn.
func (l *Loop) runReady() {
	n := min(len(l.ready), readyPerTurn)
	for i := range n {
		s := l.ready[i]
		if s == nil {
			continue
		}
		l.ready[i] = nil
		s.ready = 0
		s.handler.OnReady(s, Readable)
	}
	rest := copy(l.ready, l.ready[n:])
	clear(l.ready[rest:])
	l.ready = l.ready[:rest]
	for i, s := range l.ready {
		if s != nil {
			s.ready = int32(i) + 1
		}
	}
}

// Later puts s on the ready list: its handler gets OnReady(s, Readable) once
// more in a later turn. Idempotent; forgotten when the socket leaves the loop.
// Loop only.
func (l *Loop) Later(s *Socket) {
	if s.ready != 0 || !s.Alive() || s.loop != l {
		return
	}
	l.ready = append(l.ready, s)
	s.ready = int32(len(l.ready))
	l.wakeSelf()
}

// Defer runs fn on the loop after the current batch of events, when all
// descriptors closed in it are about to be closed. For rare things: it may
// allocate. Loop only.
func (l *Loop) Defer(fn func()) {
	l.after = append(l.after, fn)
	l.queueAfter()
}

func (l *Loop) queueAfter() {
	if l.afterSet {
		return
	}
	l.afterSet = true
	if err := l.poller.Trigger(queue.HighPriority, l.runAfter, nil); err != nil {
		l.fail(err)
	}
}

// afterBatch is a task of the poller: it runs between two batches.
func (l *Loop) afterBatch() error {
	l.now = Now()
	l.afterSet = false
	fns := l.after
	l.after = nil
	for _, fn := range fns {
		fn()
	}
	l.closeQueued()
	if l.stopping.Load() {
		return gneterrors.ErrEngineShutdown
	}
	return nil
}

// Wake makes the loop run a turn, from any goroutine.
func (l *Loop) Wake() { writeWake(l.wakeFD) }

func (l *Loop) wakeSelf() {
	if l.inTurn || l.woken {
		return
	}
	l.woken = true
	writeWake(l.wakeFD)
}

// Stop makes Run return, from any goroutine. The loop's remaining sockets are
// closed; unfinished work of the loop is dropped.
func (l *Loop) Stop() {
	l.stopping.Store(true)
	l.Wake()
}

// fail stops the loop with an error that is not a handler's. Loop only.
func (l *Loop) fail(err error) {
	l.failure = err
	l.Stop()
}

func (l *Loop) teardown() {
	l.stopping.Store(true)
	l.stopped.Store(true)
	l.afterSet = true // nobody runs tasks any more: closeQueued below
	for _, s := range l.table {
		if s != nil {
			s.Close()
		}
	}
	for m := l.mail.pop(); m != nil; m = l.mail.pop() {
		if m.Kind == kindAccepted {
			_ = unix.Close(m.Ref.(*Accepted).FD)
		}
	}
	l.closeQueued()
	_ = l.closeDescriptors()
}

// Now returns the monotonic time in nanoseconds, read once per callback. Loop
// only; see the package function Now for other goroutines.
func (l *Loop) Now() int64 { return l.now }

// Scratch returns the loop's one read buffer, ScratchBytes long. Its content is
// valid until the callback returns. Loop only.
func (l *Loop) Scratch() []byte { return l.scratch }

// Sockets returns the number of sockets registered with the loop. Any goroutine.
func (l *Loop) Sockets() int { return int(l.sockets.Load()) }

// Busy returns the time spent in callbacks since the start, in nanoseconds,
// estimated from a sample of them. What the kernel needs to wait for and report
// events is not in it. Any goroutine.
func (l *Loop) Busy() int64 { return l.busy.Load() }

// Stopped reports whether Run has ended. Any goroutine.
func (l *Loop) Stopped() bool { return l.stopped.Load() }
