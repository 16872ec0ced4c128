package reactor

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

// numbered is a message that knows its sender and its place.
type numbered struct {
	Message
	sender, number int
}

// TestMailboxKeepsEachSendersOrder: senders post without waiting, so the mailbox
// turns empty and non-empty all the time; a lost wake-up would end in a timeout.
func TestMailboxKeepsEachSendersOrder(t *testing.T) {
	const senders, each = 4, 5000
	got := make([]int, senders)
	all := make(chan struct{})
	total := 0
	l := startLoopWith(t, LoopOptions{OnMessage: func(m *Message) {
		n := m.Ref.(*numbered)
		if n.number != got[n.sender] {
			t.Errorf("sender %d: message %d, want %d", n.sender, n.number, got[n.sender])
		}
		got[n.sender]++
		if total++; total == senders*each {
			close(all)
		}
	}})
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			messages := make([]numbered, each)
			for i := range messages {
				m := &messages[i]
				m.sender, m.number, m.Ref = sender, i, m
				l.Post(&m.Message)
			}
		})
	}
	wg.Wait()
	await(t, all, "all messages")
}

// TestMailboxWakesUp passes one message to and fro between two loops.
func TestMailboxWakesUp(t *testing.T) {
	const rounds = 5000
	var loops [2]*Loop
	done := make(chan struct{})
	var m Message
	for i := range loops {
		loops[i] = startLoopWith(t, LoopOptions{OnMessage: func(m *Message) {
			if m.Queued() {
				t.Error("a message is queued while it is being handled")
			}
			if m.Arg++; m.Arg == rounds {
				close(done)
				return
			}
			loops[1-i].Post(m)
		}})
	}
	loops[0].Post(&m)
	await(t, done, "the message to go to and fro")
}

// TestMailboxIsBoundedPerTurn: a message that posts itself again must not keep
// sockets waiting.
func TestMailboxIsBoundedPerTurn(t *testing.T) {
	var stop atomic.Bool
	handled := 0
	var l *Loop
	l = startLoopWith(t, LoopOptions{OnMessage: func(m *Message) {
		if m.Ref != nil {
			onCall(m)
			return
		}
		handled++
		if !stop.Load() {
			l.Post(m)
		}
	}})
	var busy Message
	l.Post(&busy)
	fd, peer := pair(t, "tcp")
	e := &echo{limit: 1 << 20}
	on(t, l, func() {
		if err := l.Add(&e.Socket, fd, false, e); err != nil {
			t.Error(err)
		}
	})
	sent := writePattern(peer, 1000)
	readPattern(t, peer, 1000, 100)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	stop.Store(true)
	on(t, l, func() {
		if handled == 0 {
			t.Error("the busy message was never handled")
		}
	})
}

func TestPostOfAQueuedMessagePanics(t *testing.T) {
	l, err := NewLoop(0, LoopOptions{OnMessage: func(*Message) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		l.Stop()
		if err := l.Run(); err != nil {
			t.Error(err)
		}
	}()
	var m Message
	l.Post(&m)
	if !m.Queued() {
		t.Error("not queued after Post")
	}
	l.Post(&m)
}

// TestPanicStopsTheLoopLoudly: OnFailure is called, with the place of the panic,
// and the sockets are closed.
func TestPanicStopsTheLoopLoudly(t *testing.T) {
	failed := make(chan error, 1)
	l, err := NewLoop(3, LoopOptions{OnMessage: onCall, OnFailure: func(l *Loop, err error) {
		if !l.Stopped() || l.Sockets() != 0 {
			t.Errorf("stopped %v with %d sockets", l.Stopped(), l.Sockets())
		}
		failed <- err
	}})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- l.Run() }()
	fd, peer := pair(t, "tcp")
	add(t, l, fd, false, handlerFunc(func(*Socket, Events) {
		panic("a handler's mistake")
	}))
	err = await(t, failed, "OnFailure")
	for _, want := range []string{"loop 3", "a handler's mistake", "loop_test.go"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if got := await(t, ran, "Run"); !errors.Is(got, err) {
		t.Errorf("Run returned %v, OnFailure got %v", got, err)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %v", err)
	}
}

func TestStopClosesSocketsAndLeavesNoDescriptor(t *testing.T) {
	before := openDescriptors(t)
	l, err := NewLoop(0, LoopOptions{OnMessage: onCall})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- l.Run() }()
	fd, peer := pair(t, "tcp")
	s := add(t, l, fd, false, handlerFunc(func(*Socket, Events) {}))
	l.Stop()
	if err := await(t, ran, "Run"); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %v", err)
	}
	_ = peer.Close()
	if s.Alive() || s.FD() != -1 {
		t.Error("a socket outlived its loop")
	}
	if err := l.Add(new(Socket), 0, false, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Add on a stopped loop: %v", err)
	}
	// The eventfd lives as long as the loop can be reached; it is the only one.
	if after := openDescriptors(t); after > before+1 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	l.Wake() // harmless
}

func TestStopBeforeRun(t *testing.T) {
	l, err := NewLoop(0, LoopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.Stop()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestLaterAndDefer: Later runs a handler once however often it was asked for,
// in a later turn; a socket that left the loop meanwhile is forgotten; Defer
// runs after the batch and before the descriptors closed in it are closed.
func TestLaterAndDefer(t *testing.T) {
	l := startLoop(t)
	var calls []string
	var kept, gone *Socket
	named := func(name string) Handler {
		return handlerFunc(func(_ *Socket, ev Events) {
			if ev == Readable { // not the first event, which is Writable
				calls = append(calls, name)
			}
		})
	}
	fd1, _ := pair(t, "tcp")
	fd2, _ := pair(t, "tcp")
	kept, gone = add(t, l, fd1, false, named("kept")), add(t, l, fd2, false, named("gone"))
	done := make(chan struct{})
	on(t, l, func() {
		l.Later(gone)
		l.Later(kept)
		l.Later(kept)
		gone.Close()
		l.Later(gone)
		l.Defer(func() {
			calls = append(calls, "after")
			if !descriptorOpen(fd2) {
				t.Error("a descriptor was closed before the end of the batch")
			}
			close(done)
		})
	})
	await(t, done, "Defer")
	settle(t, l)
	on(t, l, func() {
		slices.Sort(calls)
		if !slices.Equal(calls, []string{"after", "kept"}) {
			t.Errorf("calls: %v", calls)
		}
	})
	if descriptorOpen(fd2) {
		t.Error("the descriptor is still open")
	}
}

// TestDeferInsideDefer: what a deferred function defers runs although nothing else happens to the loop.
func TestDeferInsideDefer(t *testing.T) {
	l := startLoop(t)
	done := make(chan struct{})
	left := 100
	var again func()
	again = func() {
		if left--; left == 0 {
			close(done)
			return
		}
		l.Defer(again)
	}
	begin(l, func() { l.Defer(again) })
	await(t, done, "the last deferred function")
}

// TestReadyListIsBoundedAndFair: a socket that always asks for more does not
// keep the others or the mailbox waiting.
func TestReadyListIsBoundedAndFair(t *testing.T) {
	l := startLoop(t)
	const sockets = readyPerTurn + 10
	counts := make([]int, sockets)
	all := make(chan struct{})
	served := 0
	for i := range sockets {
		fd, _ := pair(t, "unix")
		add(t, l, fd, true, handlerFunc(func(s *Socket, _ Events) {
			if counts[i]++; counts[i] == 3 {
				if served++; served == sockets {
					close(all)
				}
			}
			if served < sockets {
				l.Later(s)
			}
		}))
	}
	on(t, l, func() {
		for _, s := range l.table {
			if s != nil {
				l.Later(s)
			}
		}
	})
	await(t, all, "every socket to be served three times")
	on(t, l, func() {
		if spread := slices.Max(counts) - slices.Min(counts); spread > 2 {
			t.Errorf("one socket was served %d times more than another", spread)
		}
	})
}

// bell is a timer that reports its time.
type bell struct {
	ch  chan int64
	now func() int64
}

func (r bell) Fire(now int64) int64 {
	if now != r.now() {
		r.ch <- -1
	}
	r.ch <- now
	return 0
}

func TestTimersFire(t *testing.T) {
	l := startLoop(t)
	w := l.Wheel()
	r := bell{make(chan int64, 4), l.Now}
	var at int64
	on(t, l, func() {
		timer := newTimer(r)
		at = l.Now() + (30 * time.Millisecond).Nanoseconds()
		w.Schedule(timer, at)
	})
	if got := await(t, r.ch, "the timer"); got < at {
		t.Errorf("fired at %d, before its deadline %d", got, at)
	}
}

// TestManyTimersOfOneTick: more than one Advance looks at.
func TestManyTimersOfOneTick(t *testing.T) {
	const timers = 5000
	l := startLoop(t)
	r := bell{make(chan int64, timers), l.Now}
	on(t, l, func() {
		at := l.Now() + 1
		for range timers {
			l.Wheel().Schedule(newTimer(r), at)
		}
	})
	for range timers {
		if await(t, r.ch, "all timers") < 0 {
			t.Fatal("a timer was told another time than the loop's")
		}
	}
}

// TestTimerfdIsDisarmedAfterASecondOfNothing drives the ticks by hand.
func TestTimerfdIsDisarmedAfterASecondOfNothing(t *testing.T) {
	l, err := NewLoop(0, LoopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		l.Stop()
		_ = l.Run()
	}()
	timer := newTimer(bell{make(chan int64, 1), l.Now})
	l.wheel.Schedule(timer, l.now+1)
	l.armTimer()
	if !timerRuns(t, l) {
		t.Fatal("not armed")
	}
	for i := range idleTicksMax {
		if !l.timerArmed || !timerRuns(t, l) {
			t.Fatalf("disarmed after %d ticks", i)
		}
		l.now += 10_000_000
		l.tick()
	}
	if l.timerArmed || timerRuns(t, l) {
		t.Fatal("still armed after a second of nothing")
	}
}

// TestTimerFromBeforeRun: a loop that nothing else happens to fires a timer that
// was scheduled before it ran.
func TestTimerFromBeforeRun(t *testing.T) {
	l, err := NewLoop(0, LoopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fired := make(chan struct{})
	var timer reaper.Timer
	timer.Init(fireOnce(fired))
	l.Wheel().Schedule(&timer, Now())
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	await(t, fired, "the timer")
	l.Stop()
	if err := await(t, ended, "the end of the loop"); err != nil {
		t.Error(err)
	}
}

type fireOnce chan struct{}

func (f fireOnce) Fire(int64) int64 { close(f); return 0 }

// TestEventOfAnEarlierRegistration does not reach the socket that has the number
// now.
func TestEventOfAnEarlierRegistration(t *testing.T) {
	l := startLoop(t)
	fd, _ := pair(t, "tcp")
	var seen []Events
	s := add(t, l, fd, false, handlerFunc(func(_ *Socket, ev Events) { seen = append(seen, ev) }))
	on(t, l, func() {
		old := s.generation
		s.Detach()
		if err := l.Attach(s); err != nil {
			t.Error(err)
		}
		seen = nil
		l.serve([]unix.EpollEvent{{Fd: int32(fd), Pad: old, Events: unix.EPOLLRDHUP | unix.EPOLLIN}})
		if len(seen) > 0 {
			t.Errorf("told of %v", seen)
		}
		l.serve([]unix.EpollEvent{{Fd: int32(fd), Pad: s.generation, Events: unix.EPOLLIN}})
		if len(seen) != 1 || seen[0] != Readable {
			t.Errorf("told of %v, want one that is readable", seen)
		}
	})
}

// TestSlept: a loop that works does not sleep, one that waits does.
func TestSlept(t *testing.T) {
	l := startLoop(t)
	on(t, l, func() {})
	time.Sleep(30 * time.Millisecond)
	var slept, later int64
	on(t, l, func() { slept = l.Slept() })
	if slept < int64(25*time.Millisecond) {
		t.Errorf("slept %d ns of 30 ms", slept)
	}
	on(t, l, func() {
		for end := Now() + int64(30*time.Millisecond); Now() < end; {
		}
		later = l.Slept()
	})
	if later-slept > int64(20*time.Millisecond) {
		t.Errorf("slept %d ns while it worked", later-slept)
	}
}
