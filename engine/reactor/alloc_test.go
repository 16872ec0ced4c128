//go:build !race

package reactor

import (
	"runtime"
	"testing"
	"time"
)

// mallocs counts the process's allocations while fn runs.
func mallocs(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// background is what the runtime itself may allocate meanwhile.
const background = 50

func TestEchoDoesNotAlloc(t *testing.T) {
	const rounds = 10_000
	for _, network := range networks {
		e := newEchoBench(t, startLoop(t), network)
		e.round(t)
		if n := mallocs(func() {
			for range rounds {
				e.round(t)
			}
		}); n > background {
			t.Errorf("%s: %d allocations in %d round trips", network, n, rounds)
		}
	}
}

func TestNamesDoNotAlloc(t *testing.T) {
	fd, _ := pair(t, "tcp")
	l := startLoop(t)
	e := &echo{limit: 64}
	on(t, l, func() {
		if err := l.Add(&e.Socket, fd, false, e); err != nil {
			t.Error(err)
			return
		}
		const rounds = 1000
		if n := mallocs(func() {
			for range rounds {
				e.Local()
				e.Peer()
			}
		}); n > background {
			t.Errorf("%d allocations for %d names", n, 2*rounds)
		}
	})
}

func TestMailboxDoesNotAlloc(t *testing.T) {
	const rounds = 10_000
	p := newPingPong(t)
	p.rounds(10)
	if n := mallocs(func() { p.rounds(rounds) }); n > background {
		t.Errorf("%d allocations in %d round trips", n, rounds)
	}
}

// TestMoveDoesNotAlloc: once per round trip the echo's socket goes to the other
// loop.
func TestMoveDoesNotAlloc(t *testing.T) {
	const rounds = 1000
	a, b := startLoop(t), startLoop(t)
	fd, _ := pair(t, "tcp")
	s := add(t, a, fd, false, handlerFunc(func(*Socket, Events) {}))
	on(t, b, func() {}) // both loops know the descriptor's number afterwards
	on(t, a, func() {
		s.Detach()
		if n := mallocs(func() {
			for range rounds {
				if err := a.Attach(s); err != nil {
					t.Error(err)
				}
				a.Later(s)
				s.Detach()
			}
		}); n > background {
			t.Errorf("%d allocations in %d moves", n, rounds)
		}
		_ = a.Attach(s)
	})
}

func TestTimersAndChunksDoNotAlloc(t *testing.T) {
	const rounds = 100
	l := startLoop(t)
	ticks := make(chan struct{})
	timer := newTimer(counter(func(now int64) int64 {
		var c Chain
		c.Append(l, l.Scratch())
		c.Contiguous(l, ContiguousMax)
		c.Release(l)
		ticks <- struct{}{}
		return now + int64(time.Millisecond)
	}))
	on(t, l, func() { l.Wheel().Schedule(timer, l.Now()) })
	<-ticks
	n := mallocs(func() {
		for range rounds {
			<-ticks
		}
	})
	done := begin(l, func() { l.Wheel().Cancel(timer) })
	for stopped := false; !stopped; {
		select {
		case <-ticks:
		case <-done:
			stopped = true
		}
	}
	if n > background {
		t.Errorf("%d allocations in %d ticks", n, rounds)
	}
}

type counter func(now int64) int64

func (c counter) Fire(now int64) int64 { return c(now) }
