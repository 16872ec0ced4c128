package backend

import (
	"errors"
	"sync"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func TestHostStateLife(t *testing.T) {
	var h HostState
	now := 1000 * ms
	if h.FailingFor(now) != 0 || h.RetryAt(now, 7) != now || h.ProbeDue(now) || h.Cause() != nil {
		t.Error("a host of which nothing is known is not healthy")
	}
	first, second := errors.New("refused"), errors.New("unreachable")
	h.Failed(now, first)
	h.Failed(now+400*ms, second)
	if got := h.FailingFor(now + 500*ms); got != 500*ms {
		t.Errorf("failing for %d ms, want 500", got/ms)
	}
	if h.Cause() != second {
		t.Errorf("cause %v, want the last one", h.Cause())
	}
	h.Succeeded(now + 4000*ms)
	if h.FailingFor(now+9000*ms) != 0 || h.Cause() != nil || h.RetryAt(now+9000*ms, 0) != now+9000*ms {
		t.Error("a success does not heal")
	}
	h.Failed(now+10000*ms, first)
	if got := h.FailingFor(now + 10001*ms); got != ms {
		t.Errorf("failing for %d ms after a success, want 1", got/ms)
	}
}

func TestHostStateFailsAtTimeZero(t *testing.T) {
	var h HostState
	h.Failed(0, errors.New("x"))
	if h.FailingFor(0) <= 0 {
		t.Error("a failure at time 0 was not noticed")
	}
}

// Retries begin quickly, double, and are never more than half a second apart,
// whatever the random number.
func TestHostStateRetryDelays(t *testing.T) {
	var h HostState
	now := 5000 * ms
	want := []int64{25, 50, 100, 200, 400, 500, 500}
	for round, longest := range want {
		h.Failed(now, errors.New("x"))
		for _, rnd := range []uint64{0, 1, 12345678901, 1<<64 - 1} {
			delay := h.RetryAt(now, rnd) - now
			if delay < longest*ms/2 || delay > longest*ms {
				t.Errorf("round %d, random %d: %d ms, want %d to %d", round+1, rnd, delay/ms, longest/2, longest)
			}
		}
		if got := h.RetryAt(now, 0) - now; got != longest*ms {
			t.Errorf("round %d: %d ms, want %d", round+1, got/ms, longest)
		}
		now = h.RetryAt(now, 0)
	}
	if at := h.RetryAt(now+9000*ms, 0); at != now+9000*ms {
		t.Error("a delay that is over is not over")
	}
}

func TestHostStateParallelFailuresAreOneRound(t *testing.T) {
	var h HostState
	now := 5000 * ms
	for range 8 {
		h.Failed(now, errors.New("x"))
	}
	if got := h.RetryAt(now, 0) - now; got != 25*ms {
		t.Errorf("after eight parallel failures %d ms, want 25", got/ms)
	}
}

func TestHostStateProbes(t *testing.T) {
	var h HostState
	now := 5000 * ms
	h.Failed(now, errors.New("x"))
	if h.ProbeDue(now + 499*ms) {
		t.Error("a probe less than half a second after the failure")
	}
	var wg sync.WaitGroup
	claims := make(chan bool, 8)
	for range 8 {
		wg.Go(func() { claims <- h.ProbeDue(now + 500*ms) })
	}
	wg.Wait()
	close(claims)
	claimed := 0
	for c := range claims {
		if c {
			claimed++
		}
	}
	if claimed != 1 {
		t.Errorf("%d loops claimed one probe", claimed)
	}
	h.Failed(now+600*ms, errors.New("x"))
	if h.ProbeDue(now + 999*ms) {
		t.Error("a second probe within half a second")
	}
	if !h.ProbeDue(now + 1000*ms) {
		t.Error("no probe after half a second")
	}
}

// Virtual clock: a host comes back after 10 s; whoever retries as told sees it
// within half a second.
func TestHostStateRecoveryIsNoticed(t *testing.T) {
	var h HostState
	up := 10_000 * ms
	now, attempts := ms, 0
	for {
		attempts++
		if now >= up {
			h.Succeeded(now)
			break
		}
		h.Failed(now, errors.New("x"))
		now = h.RetryAt(now, uint64(attempts)*7919)
	}
	if now-up > 500*ms || attempts > 60 {
		t.Errorf("noticed after %d ms, with %d attempts", (now-up)/ms, attempts)
	}
}

func TestLoginState(t *testing.T) {
	var s LoginState
	cause := errors.New("password authentication failed")
	if _, held := s.Held(0); held {
		t.Error("holds nothing yet")
	}
	s.Refused(1000*ms, cause)
	if got, held := s.Held(1499 * ms); !held || got != cause {
		t.Errorf("within half a second: %v %t", got, held)
	}
	if _, held := s.Held(1500 * ms); held {
		t.Error("held for more than half a second")
	}
	s.Refused(2000*ms, cause)
	s.Succeeded()
	if _, held := s.Held(2001 * ms); held {
		t.Error("held after a success")
	}
}
