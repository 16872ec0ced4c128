package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// load is a number of sessions that send the same query: open loop, at times that were fixed beforehand and whatever the
// answers do, or closed loop, each session again as soon as it has its answer. One thread with an epoll set of its own does
// it all: some 10 µs of CPU for a request, and no wait for a scheduler between its time and its being sent.
//
// Owner: the goroutine that calls open or closed. Invariant: a session is in free exactly when no request is under way on
// it; busy counts the others.
type load struct {
	query    []byte
	epoll    int
	sessions []*session
	free     []*session // a ring: the one that has rested longest is next
	first, n int
	busy     int
	rank     rank
	heard    int64 // when the last answer came, or the first request after a time without any was sent

	began  time.Time
	result *tally
	again  int // closed loop: requests still to be sent

	events [256]unix.EpollEvent
	buf    [16 << 10]byte
}

// tally is what became of the requests of one run. Times are ns; latencies count from the time at which the request should
// have been sent, so that a request which the generator sends late is not counted as fast.
type tally struct {
	span     int64   // of the schedule, or of the run in a closed loop
	served   []int64 // latencies
	refused  []int64 // latencies
	within   int     // served before the span had ended
	late     []int64 // how long after their time requests were sent
	refusals []int64 // open loop: when each refusal came
}

// rank is what a load is to its run. Clients do not share the pooler's processors in earnest; here they do, and an answer that
// waits until its client runs again would be counted as a slow one.
type rank int

const (
	measured   rank = iota // an open loop runs before all else on the machine, if that is allowed
	background             // runs after all else: its latencies count for nothing, and what is measured shall not wait for it
)

// silence is the longest time without an answer while requests are under way: twice as long as any of them may wait.
const silence = 10 * time.Second

func newLoad(p *pooler.Pooler, application, query string, sessions int) (*load, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &load{query: pgwire.Query(query), epoll: epoll}
	for i := range sessions {
		s, err := openSession(p.Port, application)
		if err != nil {
			l.close()
			return nil, err
		}
		l.sessions = append(l.sessions, s)
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, s.fd, &event); err != nil {
			l.close()
			return nil, err
		}
	}
	l.free, l.n = slices.Clone(l.sessions), sessions
	return l, nil
}

func (l *load) close() {
	for _, s := range l.sessions {
		s.close()
	}
	_ = unix.Close(l.epoll)
}

// poisson gives times in ns, with exponential gaps, from 0 to the span.
func poisson(seed uint64, perSecond float64, span time.Duration) (at []int64) {
	r := rand.New(rand.NewPCG(seed, seed))
	for t := 0.0; ; {
		t += r.ExpFloat64() / perSecond
		if t >= span.Seconds() {
			return at
		}
		at = append(at, int64(t*1e9))
	}
}

// open sends a request at each of the times, in ns from now, in order; one for which no session is free waits for the next
// one, on its own account. It returns when all are answered.
func (l *load) open(at []int64, span time.Duration) (*tally, error) {
	t := &tally{span: int64(span), late: make([]int64, 0, len(at)), refusals: make([]int64, 0, len(at))}
	failed := make(chan error)
	go func() {
		l.begin(t, len(at)) // its thread ends with this goroutine, so that nothing else runs with its rank
		l.rank.enter()
		failed <- l.sendAt(at)
	}()
	if err := <-failed; err != nil {
		return nil, err
	}
	return t, nil
}

func (l *load) sendAt(at []int64) error {
	for len(at) > 0 || l.busy > 0 {
		now := l.now()
		for len(at) > 0 && at[0] <= now && l.n > 0 {
			if err := l.send(l.take(), at[0]); err != nil {
				return err
			}
			now = l.now()
			l.result.late = append(l.result.late, now-at[0])
			at = at[1:]
		}
		wait := int64(silence)
		if len(at) > 0 && l.n > 0 {
			wait = at[0] - now
		}
		if err := l.turn(wait); err != nil {
			return err
		}
	}
	return nil
}

// enter gives the calling thread its rank. Without the right to run before all else (CAP_SYS_NICE), latencies hold the
// generator's own waits for a processor.
func (r rank) enter() {
	attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if r == background {
		attr = &unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: 19}
	}
	_ = unix.SchedSetAttr(0, attr, 0)
}

// closed sends a number of requests over a number of the sessions, each one after the other.
func (l *load) closed(requests, sessions int) (*tally, error) {
	l.begin(&tally{}, requests)
	defer runtime.UnlockOSThread()
	sessions = min(requests, sessions, l.n)
	l.again = requests - sessions
	for range sessions {
		if err := l.send(l.take(), l.now()); err != nil {
			return nil, err
		}
	}
	for l.busy > 0 {
		if err := l.turn(int64(silence)); err != nil {
			return nil, err
		}
	}
	l.result.span = l.now()
	return l.result, nil
}

// begin starts the load's clock, and takes the thread for this goroutine, with timers that are not put off to save power.
func (l *load) begin(t *tally, requests int) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it, latencies are longer by up to 50 µs, in all runs alike
	t.served, t.refused = make([]int64, 0, requests), make([]int64, 0, requests)
	l.result, l.again = t, 0
	l.began = time.Now()
}

func (l *load) now() int64 { return int64(time.Since(l.began)) }

func (l *load) take() *session {
	s := l.free[l.first]
	l.first = (l.first + 1) % len(l.free)
	l.n--
	return s
}

func (l *load) rest(s *session) {
	l.free[(l.first+l.n)%len(l.free)] = s
	l.n++
}

func (l *load) send(s *session, due int64) error {
	s.due, s.failure = due, s.failure[:0]
	if l.busy++; l.busy == 1 {
		l.heard = l.now()
	}
	return s.send(l.query)
}

// turn waits at most that many ns for answers and takes them in.
func (l *load) turn(wait int64) error {
	n, err := epollWait(l.epoll, l.events[:], wait)
	if err != nil {
		return err
	}
	if n == 0 && l.busy > 0 && l.now()-l.heard > int64(silence) {
		return fmt.Errorf("%d requests are not answered within %v", l.busy, silence)
	}
	for _, e := range l.events[:n] {
		s := l.sessions[e.Fd]
		ready, err := s.receive(l.buf[:])
		if err != nil {
			return err
		}
		if ready {
			if err := l.answered(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *load) answered(s *session) error {
	now := l.now()
	l.heard = now
	t := l.result
	switch {
	case len(s.failure) == 0:
		t.served = append(t.served, now-s.due)
		if now < t.span {
			t.within++
		}
	case s.refused():
		t.refused = append(t.refused, now-s.due)
		if t.span > 0 {
			t.refusals = append(t.refusals, now)
		}
	default:
		return s.err()
	}
	l.busy--
	if l.again > 0 {
		l.again--
		return l.send(s, now)
	}
	l.rest(s)
	return nil
}

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

// goodput is how many requests a second were served while the load was offered.
func (t *tally) goodput() float64 { return float64(t.within) * 1e9 / float64(t.span) }

// longestGap is the longest time within the span without a refusal.
func (t *tally) longestGap() time.Duration {
	last, gap := int64(0), int64(0)
	for _, at := range append(slices.Clone(t.refusals), t.span) {
		gap = max(gap, min(at, t.span)-last)
		last = max(last, min(at, t.span))
	}
	return time.Duration(gap)
}

// quantile gives the q-th part of the values in order, as time; 0 without any. It sorts them.
func quantile(ns []int64, q float64) time.Duration {
	if len(ns) == 0 {
		return 0
	}
	slices.Sort(ns)
	return time.Duration(ns[min(int(q*float64(len(ns))), len(ns)-1)])
}
