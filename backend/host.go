package backend

import (
	"sync/atomic"
	"time"
)

// Times of the failure memory. All times in this file are monotonic
// nanoseconds, given by the caller.
const (
	retryFirst = int64(25 * time.Millisecond)
	retryMax   = int64(500 * time.Millisecond)
	probeEvery = int64(500 * time.Millisecond)
	loginHold  = int64(500 * time.Millisecond)
)

// HostState remembers whether one PostgreSQL host answers. The zero value is a
// host of which nothing bad is known. Any loop may call any method; all words
// are atomics and none of them guards another: a reader that sees a mix of two
// failures decides as it would have an instant earlier or later.
//
// since is the time of the first failure after the last success, 0 while
// healthy; rounds counts failures that were at least half a delay apart, so
// that eight connects failing together are one round; last is the time of the
// last failure, nextProbe the earliest time of the next probe.
type HostState struct {
	since     atomic.Int64
	last      atomic.Int64
	rounds    atomic.Int32
	nextProbe atomic.Int64
	cause     atomic.Pointer[error]
	answered  atomic.Bool
}

// Failed records a connect that failed at now because of the host: no answer,
// or a HostFault.
func (h *HostState) Failed(now int64, cause error) {
	h.cause.Store(&cause)
	rounds := h.rounds.Load()
	if rounds == 0 || now-h.last.Load() >= delayAfter(rounds)/2 {
		h.rounds.CompareAndSwap(rounds, rounds+1)
	}
	h.last.Store(now)
	if h.since.CompareAndSwap(0, max(now, 1)) {
		h.nextProbe.Store(now + probeEvery)
	}
}

// FailedLately says whether the host has failed since it last answered, and not
// longer than memory ago.
func (h *HostState) FailedLately(now, memory int64) bool {
	return h.since.Load() != 0 && now-h.last.Load() < memory
}

// DueAt returns when the delay after the last failure is over, 0 for a healthy
// host. Of several hosts it is the turn of the one that is due first.
func (h *HostState) DueAt() int64 {
	if h.since.Load() == 0 {
		return 0
	}
	return h.last.Load() + delayAfter(h.rounds.Load())
}

// Succeeded records that a login came to an end that shows the host in order:
// also a refusal that is a LoginFault.
func (h *HostState) Succeeded(int64) {
	if !h.answered.Load() {
		h.answered.Store(true)
	}
	h.Forget()
}

// Answered says whether there was ever a success.
func (h *HostState) Answered() bool { return h.answered.Load() }

// Forget makes h a host of which nothing bad is known.
func (h *HostState) Forget() {
	if h.since.Load() == 0 && h.cause.Load() == nil {
		return
	}
	h.since.Store(0)
	h.rounds.Store(0)
	h.cause.Store(nil)
}

// FailingFor returns for how long the host has failed, 0 while it is healthy.
func (h *HostState) FailingFor(now int64) int64 {
	since := h.since.Load()
	if since == 0 {
		return 0
	}
	return max(now-since, 1)
}

// RetryAt returns when the next connect may be tried: now for a healthy host,
// else after a delay that doubles from 25 ms to 500 ms, shortened at random by
// up to a half so that retries do not march in step. rnd is any random number.
func (h *HostState) RetryAt(now int64, rnd uint64) int64 {
	if h.since.Load() == 0 {
		return now
	}
	delay := delayAfter(h.rounds.Load())
	delay -= int64(rnd % uint64(delay/2+1))
	return max(now, h.last.Load()+delay)
}

// Cause returns why the last connect failed, nil while the host is healthy.
func (h *HostState) Cause() error {
	if c := h.cause.Load(); c != nil {
		return *c
	}
	return nil
}

// ProbeDue claims the probe of a failing host: true for one caller per 500 ms,
// who must then try one connect; always false while the host is healthy.
func (h *HostState) ProbeDue(now int64) bool {
	if h.since.Load() == 0 {
		return false
	}
	next := h.nextProbe.Load()
	return now >= next && h.nextProbe.CompareAndSwap(next, now+probeEvery)
}

func delayAfter(rounds int32) int64 {
	delay := retryFirst
	for ; rounds > 1 && delay < retryMax; rounds-- {
		delay *= 2
	}
	return min(delay, retryMax)
}

// LoginState remembers that PostgreSQL refused the login of one pool, for half
// a second: a queue of waiters gets the cause at once instead of becoming a
// storm of logins. What is older is not told to anybody, since it may have been
// put right; the logins that then start together are bounded by
// max_connects_per_host. The zero value holds nothing. Any loop may call any
// method.
type LoginState struct {
	refusal atomic.Pointer[refusal]
}

type refusal struct {
	until int64
	cause error
}

// Refused records a LoginFault at now.
func (s *LoginState) Refused(now int64, cause error) {
	s.refusal.Store(&refusal{until: now + loginHold, cause: cause})
}

// Succeeded forgets the refusal.
func (s *LoginState) Succeeded() { s.refusal.Store(nil) }

// Held returns the cause while a refusal holds: fail with it, try no login.
func (s *LoginState) Held(now int64) (cause error, held bool) {
	r := s.refusal.Load()
	if r == nil || now >= r.until {
		return nil, false
	}
	return r.cause, true
}
