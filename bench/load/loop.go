package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop drives clients from one thread.
//
// State: its epoll set, a table of the conns in it, which events name by their slot, and conns whose socket could not connect
// yet. Owner: the goroutine that calls it, one at a time. Invariants: a slot is taken by a conn that is not gone, or in free,
// or in left until the events of this turn, which may name it, are dealt with; open counts the first; what is in retry is not
// in the epoll set.
type loop struct {
	epoll      int
	conns      []*conn
	free, left []int32
	open       int
	retry      []*conn

	began time.Time
	heard int64 // when something last came, or the run began

	events [256]unix.EpollEvent
	buf    [64 << 10]byte
}

// Silence is the longest time in which nothing comes from a server while something is owed, in every run: twice as long as a
// request may wait.
const Silence = 10 * time.Second

// Rank is what a load is to its run. Clients do not share the server's processors in earnest; here they do, and an answer
// that waits until its client runs again would be counted as a slow one.
type Rank int

const (
	// Measured runs before all else on the machine, if that is allowed (CAP_SYS_NICE); if not, latencies hold the generator's
	// own waits for a processor.
	Measured Rank = iota
	// Background runs after all else: what is measured beside it shall not wait for it, and its own latencies tell nothing.
	Background
	// Ordinary runs like everybody: for closed loops, whose speed depends on the order in which client and server run.
	Ordinary
)

// onThread runs f on a thread of its own, which ends with it, so that nothing else runs with its rank. It gives the CPU time
// that the thread has used.
func onThread(rank Rank, f func() error) (used time.Duration, err error) {
	processors()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it, waits are longer by up to 50 µs, in all runs alike
		rank.enter()
		before := threadTime()
		err = f()
		used = threadTime() - before
	}()
	<-done
	return used, err
}

// enter gives the calling thread its rank, as far as that is allowed.
func (r Rank) enter() {
	switch r {
	case Measured:
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	case Background:
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: 19}, 0)
	case Ordinary:
	}
}

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails for clocks that do not exist only
	return time.Duration(t.Nano())
}

// processors gives Go two more threads to run code with: a loop that waits holds one (see epollWait), and two loops would
// otherwise leave none on a machine with two processors, and so wait for each other.
var processors = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) })

// descriptors makes room for that many more sockets in this process.
func descriptors(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	need := uint64(n) + 100
	if need <= limit.Cur {
		return nil
	}
	limit.Cur, limit.Max = max(need, limit.Max), max(need, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d connections need more open files than are allowed: %w", n, err)
	}
	return nil
}

func newLoop() (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &loop{epoll: epoll, began: time.Now()}, nil
}

// restart begins the clock of a run.
func (l *loop) restart() { l.began, l.heard = time.Now(), 0 }

// now is the time since the run began, ns.
func (l *loop) now() int64 { return int64(time.Since(l.began)) }

// close closes every socket without a word, and the epoll set.
func (l *loop) close() {
	for _, c := range l.conns {
		if c != nil {
			l.remove(c)
		}
	}
	_ = unix.Close(l.epoll)
}

// connect begins a login. An error is one of this process; one of the server goes to h.
func (l *loop) connect(c *conn, h handler) error {
	fd, err := c.end.socket(l.open)
	if err != nil {
		return err
	}
	c.fd, c.phase, c.scan, c.auth, c.secure = fd, connecting, scanner{body: c.scan.body[:0]}, nil, nil
	c.out, c.failure, c.paused, c.asked, c.input = nil, c.failure[:0], false, 0, 0
	if n := len(l.free); n > 0 {
		c.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		c.slot, l.conns = int32(len(l.conns)), append(l.conns, nil)
	}
	l.conns[c.slot] = c
	l.open++
	return l.reach(c, h)
}

// reach connects the socket. One of a Unix socket whose server has not accepted enough others yet is tried again.
func (l *loop) reach(c *conn, h handler) error {
	err := unix.Connect(c.fd, c.end.address)
	switch {
	case err == nil, errors.Is(err, unix.EINPROGRESS):
		c.interest = unix.EPOLLOUT
		event := unix.EpollEvent{Events: c.interest, Fd: c.slot}
		return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &event)
	case errors.Is(err, unix.EAGAIN):
		l.retry = append(l.retry, c)
		return nil
	}
	return l.drop(c, err, h)
}

// connected sends the first message, or learns why that cannot be.
func (l *loop) connected(c *conn, h handler) error {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err != nil {
		return l.drop(c, err, h)
	}
	if c.end.tls {
		c.phase = asking
		l.send(c, sslRequest)
	} else {
		c.phase = login
		l.send(c, c.end.startup)
	}
	l.watch(c)
	return nil
}

// watch tells the kernel what a conn waits for, if that is not what it waited for before.
func (l *loop) watch(c *conn) {
	event := unix.EpollEvent{Fd: c.slot}
	if !c.paused {
		event.Events = unix.EPOLLIN
	}
	if len(c.out) > 0 || c.input > 0 {
		event.Events |= unix.EPOLLOUT
	}
	if event.Events == c.interest {
		return
	}
	c.interest = event.Events
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, c.fd, &event); err != nil {
		panic("BUG: a conn is not in its loop's epoll set: " + err.Error())
	}
}

// remove closes the socket, which takes it out of the epoll set.
func (l *loop) remove(c *conn) {
	if c.phase == shaking {
		c.secure.stop()
	}
	_ = unix.Close(c.fd)
	l.conns[c.slot] = nil
	l.left = append(l.left, c.slot)
	l.open--
	c.phase = gone
}

// poll is the longest wait of a turn: how soon a run sees that its context is done.
const poll = 50 * time.Millisecond

// turn waits at most that many ns for something to happen, and tells h. owed is how many clients wait for the server.
func (l *loop) turn(wait int64, owed int, h handler) error {
	wait = min(wait, int64(poll))
	if len(l.retry) > 0 {
		wait = min(wait, int64(time.Millisecond))
		if err := l.reachAgain(h); err != nil {
			return err
		}
	}
	n, err := epollWait(l.epoll, l.events[:], wait)
	if err != nil {
		return err
	}
	if n > 0 || owed == 0 {
		l.heard = l.now()
	} else if l.now()-l.heard > int64(Silence) {
		return fmt.Errorf("%d clients wait for an answer, and nothing has come for %v", owed, Silence)
	}
	for _, e := range l.events[:n] {
		c := l.conns[e.Fd]
		if c == nil {
			continue // it has gone in this turn
		}
		if err := l.event(c, e.Events, h); err != nil {
			return err
		}
	}
	l.free, l.left = append(l.free, l.left...), l.left[:0]
	return nil
}

func (l *loop) event(c *conn, events uint32, h handler) error {
	if c.phase == connecting {
		return l.connected(c, h)
	}
	if events&unix.EPOLLOUT != 0 {
		if err := l.flush(c, h); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT == 0 || c.phase == gone {
		return nil
	}
	switch {
	case c.phase == asking:
		return l.encrypt(c, h)
	case c.phase == shaking:
		return l.shake(c, h)
	case c.secure != nil:
		return l.drain(c, h) // of what crypto/tls has read, no event will tell
	}
	_, err := l.receive(c, l.buf[:], h)
	return err
}

func (l *loop) reachAgain(h handler) error {
	again := l.retry
	l.retry = nil
	for _, c := range again {
		if c.phase != connecting {
			continue
		}
		if err := l.reach(c, h); err != nil {
			return err
		}
	}
	return nil
}

// ended tells whether a run shall begin nothing new.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// epollWait is epoll_pwait2: its time-out is in ns, where that of epoll_wait would send each request up to 1 ms late. Go's
// scheduler is not told of the wait: it would take the processor away each time, in a thread that wakes up every 20 µs for
// that alone, and so use more CPU than the load. When it needs the goroutine, it sends a signal, which ends the wait.
func epollWait(epoll int, events []unix.EpollEvent, ns int64) (int, error) {
	timeout := unix.NsecToTimespec(max(ns, 0))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch {
	case errno == 0:
		return int(n), nil
	case errors.Is(errno, unix.EINTR):
		return 0, nil
	}
	return 0, fmt.Errorf("epoll_pwait2 (Linux 5.11): %w", errno)
}
