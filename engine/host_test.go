package engine

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine/resolve"
)

func namedHost(t *testing.T, changed func(*host)) *host {
	t.Helper()
	n := &nameService{
		settings: func() *configs.Reaper { return &configs.Reaper{DNSMaxTTLMs: 15000} },
		log:      slog.New(slog.DiscardHandler), changed: changed, work: newBackground(),
	}
	return newHost(configs.Host{Network: "tcp", Address: "db.test:5432"}, nil, n)
}

// TestAddressesOfAName: where a name has several addresses and one does not answer, the next is tried; when all have been
// the host has failed. A further look-up goes on with the one that answers.
func TestAddressesOfAName(t *testing.T) {
	changes := 0
	h := namedHost(t, func(*host) { changes++ })
	learn := func(now int64, addrs ...string) *resolved {
		return h.learn(&resolve.Answer{Addresses: addrs}, "5432", now)
	}
	r := learn(1, "::1", "127.0.0.1")
	want := func(step, address string) {
		t.Helper()
		if got := h.address.Load().address(); got != address {
			t.Errorf("%s: %s, want %s", step, got, address)
		}
	}
	want("at first", "[::1]:5432")
	// Two attempts that had begun together.
	for range 2 {
		if !r.failed("[::1]:5432", 2, 3) {
			t.Error("the second address is not to be tried")
		}
	}
	want("after a failure", "127.0.0.1:5432")
	learn(4, "::1", "127.0.0.1")
	want("after a further look-up", "127.0.0.1:5432")
	r = h.address.Load()
	r.missed.Store(1)
	for range 2 {
		if r.failed("127.0.0.1:5432", 5, 6) {
			t.Error("all have been tried, but the host has not failed")
		}
	}
	want("after all have failed", "[::1]:5432")
	if !r.failed("[::1]:5432", 7, 8) {
		t.Error("there is no second round")
	}
	r.served()
	if r.failed("127.0.0.1:5432", 9, 10); r.missed.Load() != 1 {
		t.Error("a success does not begin anew")
	}
	if changes != 0 {
		t.Errorf("%d changes, none of the addresses has", changes)
	}
	if learn(11, "10.0.0.1"); changes != 1 {
		t.Errorf("%d changes, want 1", changes)
	}
	want("another address", "10.0.0.1:5432")
}

// TestHowLongAnswersHold: as long as the name server says, within bounds; and an answer outlives look-ups that fail.
func TestHowLongAnswersHold(t *testing.T) {
	h := namedHost(t, func(*host) {})
	now := 100_000 * ms
	f := func(a resolve.Answer, want int64) {
		t.Helper()
		a.Addresses = []string{"10.0.0.1"}
		h.learn(&a, "5432", now)
		if h.known(now+(want-1)*ms) == nil || h.known(now+want*ms) != nil {
			t.Errorf("%+v does not hold for %d ms", a, want)
		}
	}
	f(resolve.Answer{}, 15000)
	f(resolve.Answer{Timed: true, TTL: 7 * time.Second}, 7000)
	f(resolve.Answer{Timed: true, TTL: time.Hour}, 15000)
	f(resolve.Answer{Timed: true}, 1000)

	late := now + 1_000_000*ms
	h.lookupFailed(late, context.DeadlineExceeded)
	if r := h.known(late); r == nil || r.address() != "10.0.0.1:5432" || h.names.failed.Load() != 1 {
		t.Error("a failed look-up takes the last answer away")
	}
	if r := h.address.Load(); late < r.until.Load()-5000*ms || late >= r.until.Load() {
		t.Error("the next look-up is not in five seconds")
	}
}

// TestHalfAnAnswer: addresses that the name server could not tell are not gone.
func TestHalfAnAnswer(t *testing.T) {
	h := namedHost(t, func(*host) { t.Error("it has changed") })
	h.learn(&resolve.Answer{Addresses: []string{"10.0.0.1", "fd00::1"}}, "5432", 1)
	r := h.learn(&resolve.Answer{Addresses: []string{"10.0.0.1"}, Partial: true}, "5432", 2)
	if !slices.Equal(r.addrs, []string{"10.0.0.1:5432", "[fd00::1]:5432"}) {
		t.Errorf("%v", r.addrs)
	}
}

// TestAnswerAfterTheLastAddress: a host of which no address answers is looked up before the next attempt, but not more
// often than once a second.
func TestAnswerAfterTheLastAddress(t *testing.T) {
	h := namedHost(t, func(*host) {})
	h.learn(&resolve.Answer{Addresses: []string{"10.0.0.1"}}, "5432", 1)
	if h.missedAt("10.0.0.1:5432", 2, 500*ms) || h.known(500*ms) == nil {
		t.Error("a fresh answer is not used")
	}
	if h.missedAt("10.0.0.1:5432", 2, 1001*ms) || h.known(1001*ms) != nil {
		t.Error("an answer that was of no use is used on")
	}
}

// TestDownIsNoLastWord: what nobody has found out anew for long is not told, so that a process which nobody uses because it
// is not ready becomes ready again.
func TestDownIsNoLastWord(t *testing.T) {
	h, cfg := namedHost(t, nil), &configs.Config{}
	h.state.Failed(1000*ms, context.DeadlineExceeded)
	if !h.down(2000*ms, cfg) || !h.down(30_999*ms, cfg) || h.down(31_000*ms, cfg) {
		t.Error("a failure is not forgotten after half a minute")
	}
	cfg.Capacity.ConnectTimeoutMs = 20_000
	if !h.down(31_000*ms, cfg) || h.down(61_000*ms, cfg) {
		t.Error("a failure is forgotten before the next attempt has ended")
	}
}
