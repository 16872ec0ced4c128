package reactor

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

// State: Loop owns its poller, its table of sockets, its ready list, its free
// chunks, its wheel and everything that hangs on a registered socket. Owner: the
// goroutine inside Run; the exceptions are Post, Wake, Stop, Stopped, Sockets,
// Slept (atomics, any goroutine).
//
// Invariants:
//   - table[fd] is the socket registered with the poller under that descriptor,
//     or nil; an event without a socket, or of an earlier registration, is ignored
//   - a descriptor that a socket gave up by Close stays open until the batch in
//     which that happened is over: its number cannot come back before
//   - the loop sleeps only when nothing is left to do (mail, ready sockets, due
//     timers, deferred functions): it announces its sleep, then looks at the mailbox once more; who
//     posts looks at the announcement after the message is in
//   - timers pending implies that the timerfd is armed before the loop sleeps
//
// One round: a batch of events, a turn (mail, timers, ready sockets), then what
// must not happen inside a batch (Defer, sending what was Put, closing descriptors). Why it yields
// before it sleeps, with figures: docs/design/0004-own-poll-loop.md.

const (
	// ScratchBytes is the size of a loop's read buffer.
	ScratchBytes = 64 << 10

	readyPerTurn  = 256
	tableMin      = 64
	wheelInterval = reaper.Tick * time.Nanosecond
	// idleTicksMax: a second without a pending timer disarms the timerfd.
	idleTicksMax = int(time.Second / wheelInterval)
	// scheduleEvery is below the 10 ms after which the runtime preempts.
	scheduleEvery = 6_000_000
)

// LoopOptions are a loop's callbacks.
type LoopOptions struct {
	// OnMessage is called on the loop for every posted message.
	OnMessage func(m *Message)
	// OnFailure is called on Run's goroutine when the loop stops for another
	// reason than Stop: a panic in a handler (err carries its stack) or a failing
	// poller. All sockets of the loop are closed by then.
	OnFailure func(l *Loop, err error)
	// Ring sends the writes of a round in one system call by io_uring, if the
	// kernel lets us (see Loop.RingError).
	Ring bool
}

// Loop is one event loop on one goroutine. Everything reachable from it belongs
// to it, except Post, Wake, Stop, Stopped, Sockets and Slept.
type Loop struct {
	// ID is the number given to NewLoop.
	ID int

	opts    LoopOptions
	poller  *poller
	wakeFD  int
	timerFD int

	now     int64
	table   []*Socket
	lastGen int32
	ready   []*Socket // in order; nil where a socket left the list
	scratch []byte
	outbox  *outbox
	records *records
	vectors vectors
	chunks  freeChunks

	wheel      *reaper.Wheel
	timerArmed bool
	timersDue  bool
	idleTicks  int

	after   []func()
	soonAt  int64 // 0: nothing is to be done soon
	soonDo  func()
	closing []int32
	failure error
	ringErr error

	hasSpare   bool
	scheduled  int64 // when the goroutine last gave up its turn
	yieldScore int   // how often a yield found events of late
	sleeps     int
	sleeping   atomic.Bool // blocked, or about to: posting must wake it
	asleep     int64       // when it went to sleep, until the next callback has booked that; else 0

	mail     mailbox
	stopping atomic.Bool
	stopped  atomic.Bool
	ended    chan struct{} // closed when everything of the loop is
	sockets  atomic.Int64
	incoming atomic.Int64 // handed over by an acceptor, not yet taken
	slept    atomic.Int64
}

// NewLoop makes a loop; it does nothing until Run. A loop that will not be used
// after all is released by Stop and then Run.
func NewLoop(id int, opts LoopOptions) (*Loop, error) {
	poller, err := openPoller()
	if err != nil {
		return nil, fmt.Errorf("loop %d: %w", id, err)
	}
	l := &Loop{
		ID: id, opts: opts, poller: poller, wakeFD: -1, timerFD: -1,
		now: Now(), table: make([]*Socket, tableMin), scratch: make([]byte, ScratchBytes), outbox: new(outbox), records: newRecords(), ended: make(chan struct{}),
	}
	l.wheel = reaper.NewWheel(l.now)
	if opts.Ring {
		l.outbox.ring, l.ringErr = openRing()
	}
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
	if err = l.poller.add(l.wakeFD, 0, false); err != nil {
		return err
	}
	if l.timerFD, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	return l.poller.add(l.timerFD, 0, false)
}

func (l *Loop) closeDescriptors() error {
	if l.timerFD >= 0 {
		_ = unix.Close(l.timerFD)
		l.timerFD = -1
	}
	if r := l.outbox.ring; r != nil {
		r.close()
		l.outbox.ring = nil
	}
	return l.poller.close()
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
	l.armTimer() // timers from before Run; mail is looked at in any case
	for !l.stopping.Load() {
		n, err := l.next()
		if err != nil {
			return fmt.Errorf("loop %d: %w", l.ID, err)
		}
		l.serve(l.poller.events[:n])
		l.turn()
		l.afterBatch()
	}
	if l.failure != nil {
		return fmt.Errorf("loop %d: %w", l.ID, l.failure)
	}
	return nil
}

// serve serves a batch of events, those first that tell of a peer which has gone:
// what another event of the batch sets going must not begin work for it.
func (l *Loop) serve(events []unix.EpollEvent) {
	gone := 0
	for i := range events {
		if ev := &events[i]; ev.Events&goneEvents != 0 {
			gone++
			l.onEvent(ev)
		}
	}
	if gone == len(events) {
		return
	}
	for i := range events {
		if ev := &events[i]; ev.Events&goneEvents == 0 {
			l.onEvent(ev)
		}
	}
}

// next gives the next batch of events. A loop that has work left looks without
// waiting. A loop that found events by yielding lately yields and looks before
// it sleeps: on a busy machine the others then produce the next events in its
// place, and a sleep, a wake-up and a small batch are saved; on an idle one the
// yield finds nothing and is soon left out. Before it sleeps it tells those who
// post messages, and looks at its mailbox once more.
func (l *Loop) next() (n int, err error) {
	if l.hasWork() {
		return l.poller.look()
	}
	if l.yieldWorks() {
		yield()
		n, err = l.poller.look()
		l.scoreYield(n > 0)
		if n > 0 || err != nil || l.mail.waiting() {
			return n, err
		}
	}
	if l.hasSpare {
		l.letSchedule()
	}
	l.sleeping.Store(true)
	if l.mail.waiting() || l.stopping.Load() {
		l.sleeping.Store(false)
		return 0, nil
	}
	if l.asleep == 0 {
		l.asleep = Now()
	}
	if l.soonAt == 0 {
		n, err = l.poller.wait(forEver)
	} else {
		n, err = l.poller.wait(1)
	}
	l.sleeping.Store(false)
	return n, err
}

// HasSpare tells the loop, before Run, that the runtime has a processor more than
// there are loops: then no other goroutine waits for the one of a loop that sleeps.
func (l *Loop) HasSpare() { l.hasSpare = true }

// letSchedule gives the goroutine's turn up now and then before a sleep. Without it
// the runtime finds one goroutine running for more than 10 ms: its monitor takes the
// processor from under the sleep, and for a while looks every 20 us whether there is
// more to do. A loop that does not sleep need not care; nor must one without a spare
// processor, which other goroutines would get only after the monitor's 10 ms.
func (l *Loop) letSchedule() {
	if l.now-l.scheduled >= scheduleEvery {
		l.scheduled = l.now
		runtime.Gosched()
	}
}

const (
	yieldScoreMax = 8
	yieldProbe    = 16 // sleeps after which a loop that has given it up tries a yield again
)

func (l *Loop) yieldWorks() bool {
	if l.yieldScore > 0 {
		return true
	}
	l.sleeps++
	return l.sleeps%yieldProbe == 0
}

func (l *Loop) scoreYield(found bool) {
	if found {
		l.yieldScore = min(l.yieldScore+1, yieldScoreMax)
	} else {
		l.yieldScore = max(l.yieldScore-1, 0)
	}
}

// hasWork tells whether something waits that no event will tell of.
func (l *Loop) hasWork() bool {
	return l.mail.waiting() || l.timersDue || len(l.ready) > 0 || len(l.after) > 0
}

// onEvent serves one event of a batch.
func (l *Loop) onEvent(ev *unix.EpollEvent) {
	if l.stopping.Load() {
		return
	}
	l.begin()
	switch fd := int(ev.Fd); {
	case fd < len(l.table) && l.table[fd] != nil:
		if s := l.table[fd]; s.generation == ev.Pad {
			l.dispatch(s, ev.Events)
		}
	case fd == l.timerFD:
		l.tick()
	}
}

// begin is called before each callback of a round: it reads the clock, and what was
// put waits for the callbacks that are there no longer than outboxTime.
func (l *Loop) begin() {
	l.now = Now()
	if l.asleep != 0 {
		l.slept.Store(l.slept.Load() + l.now - l.asleep)
		l.asleep = 0
	}
	if l.outbox.n > 0 && l.now-l.outbox.since > outboxTime {
		l.outbox.flush()
	}
}

// turn does what no event tells of: mail, timers, ready sockets, each a bounded
// number.
func (l *Loop) turn() {
	if l.soonAt != 0 {
		if l.now = Now(); l.now >= l.soonAt {
			l.soonAt = 0
			l.soonDo()
		}
	}
	if !l.hasWork() {
		l.armTimer()
		return
	}
	for range messagesPerTurn {
		m := l.mail.pop()
		if m == nil || l.stopping.Load() {
			break
		}
		l.begin()
		l.deliver(m)
	}
	l.begin()
	if l.timersDue {
		l.timersDue = l.wheel.Advance(l.now)
	}
	l.runReady()
	l.armTimer()
}

func (l *Loop) deliver(m *Message) {
	switch m.Kind {
	case kindAccepted:
		l.incoming.Add(-1)
		c := m.Ref.(*Accepted)
		c.onAccept(l, c)
	case kindAcceptor:
		m.Ref.(*Acceptor).onTurn()
	case kindHandshake:
		m.Ref.(*handshake).onTurn()
	default:
		l.opts.OnMessage(m)
	}
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
		l.begin()
		s.notify(Readable)
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
}

// soon runs fn on the loop when at has come, to about a millisecond. There is one
// such function at a time.
func (l *Loop) soon(at int64, fn func()) { l.soonAt, l.soonDo = at, fn }

// Defer runs fn on the loop after the current batch of events, when all
// descriptors closed in it are about to be closed. For rare things: it may
// allocate. Loop only.
func (l *Loop) Defer(fn func()) {
	l.after = append(l.after, fn)
}

// afterBatch runs between two batches: no event of the last one can name a
// descriptor that is closed here.
func (l *Loop) afterBatch() {
	if len(l.after) > 0 {
		fns := l.after
		l.after = nil
		for _, fn := range fns {
			fn()
		}
	}
	if l.outbox.n > 0 {
		l.outbox.flush()
	}
	if len(l.closing) > 0 {
		l.closeQueued()
	}
}

// Wake makes the loop run a turn, from any goroutine.
func (l *Loop) Wake() { writeWake(l.wakeFD) }

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
	if !l.outbox.flushing { // else a handler's panic has ended a flush
		l.outbox.flush()
	}
	l.closeQueued()
	_ = l.closeDescriptors()
	close(l.ended)
}

// Now returns the monotonic time in nanoseconds, read once per callback. Loop
// only; see the package function Now for other goroutines.
func (l *Loop) Now() int64 { return l.now }

// Scratch returns the loop's one read buffer, ScratchBytes long. Its content is
// valid until the callback returns. Loop only.
func (l *Loop) Scratch() []byte { return l.scratch }

// RingError tells why a loop that was to have io_uring has none; nil if it has
// one or was not to.
func (l *Loop) RingError() error { return l.ringErr }

// Sockets returns the number of sockets registered with the loop. Any goroutine.
func (l *Loop) Sockets() int { return int(l.sockets.Load()) }

// Slept returns for how long the loop has slept since the start, in nanoseconds;
// of a sleep that lasts nothing. Time in which it lets others run is not in it. Any
// goroutine.
func (l *Loop) Slept() int64 { return l.slept.Load() }

// Stopped reports whether Run has ended. Any goroutine.
func (l *Loop) Stopped() bool { return l.stopped.Load() }
