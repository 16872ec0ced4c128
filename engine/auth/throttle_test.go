package auth

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestThrottleDelaysWhoFailsAgain(t *testing.T) {
	var throttle Throttle
	a := netip.MustParseAddr("192.0.2.1")
	now := int64(1)
	f := func(addr netip.Addr, want time.Duration) {
		t.Helper()
		if got := throttle.Failed(addr, now); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for range 3 {
		f(a, 0)
	}
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000} {
		f(a, want*time.Millisecond)
	}
	f(netip.MustParseAddr("192.0.2.2"), 0)
	f(netip.MustParseAddr("::ffff:192.0.2.1"), 5*time.Second)
	f(netip.Addr{}, 0)

	now += int64(time.Minute)
	f(a, 5*time.Second)
	now += int64(time.Minute) + 1
	f(a, 0) // a minute of quiet forgets
	for range 2 {
		f(a, 0)
	}
	f(a, 100*time.Millisecond)
	throttle.Succeeded(a)
	f(a, 0)
	for range 1000 { // never beyond the longest, whatever the count
		throttle.Failed(a, now)
	}
	f(a, 5*time.Second)
}

// TestThrottleTakesANetworkForOneAddress: the part of an IPv6 address that its owner
// can choose, and the zone, do not make it another.
func TestThrottleTakesANetworkForOneAddress(t *testing.T) {
	f := func(want bool, a, b string) {
		t.Helper()
		if got := network(netip.MustParseAddr(a)) == network(netip.MustParseAddr(b)); got != want {
			t.Errorf("%s and %s: %v", a, b, got)
		}
	}
	f(true, "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff")
	f(true, "fe80::1%eth0", "fe80::2%eth1")
	f(true, "192.0.2.1", "::ffff:192.0.2.1")
	f(false, "2001:db8:1:2::1", "2001:db8:1:3::1")
	f(false, "192.0.2.1", "192.0.2.2")
	if network(netip.Addr{}).IsValid() {
		t.Error("a Unix socket has become an address")
	}
}

// TestThrottleIsBounded: a storm from everywhere takes no more room than the table
// has, and a good login finds nothing to lock once all is clear.
func TestThrottleIsBounded(t *testing.T) {
	var throttle Throttle
	addr := netip.MustParseAddr("10.0.0.0")
	for range 3 * maxThrottled {
		addr = addr.Next()
		throttle.Failed(addr, 1)
		if n := throttle.table.len(); n > maxThrottled || throttle.failing.Load() != int64(n) {
			t.Fatalf("%d entries, %d counted", n, throttle.failing.Load())
		}
	}
	for range 3 * maxThrottled {
		throttle.Succeeded(addr)
		addr = addr.Prev()
	}
	if throttle.failing.Load() != 0 {
		t.Error("entries left")
	}
}

// TestRecentIsTheLastUsed against a model that keeps the order of all uses; what was
// removed keeps its place in it.
func TestRecentIsTheLastUsed(t *testing.T) {
	const size = 4
	rng := rand.New(rand.NewPCG(1, 1))
	r := recent[int, int]{size: size}
	removed := map[int]bool{}
	var used []int // last used last, without repeats
	use := func(k int) { used = append(slices.DeleteFunc(used, func(u int) bool { return u == k }), k) }
	for step := range 20_000 {
		k := rng.IntN(13)
		switch rng.IntN(9) {
		case 0:
			r.remove(k)
			removed[k] = true
			if _, ok := r.get(k); ok {
				t.Fatal("removed and there")
			}
		case 1, 2, 3:
			r.put(k, k+100)
			removed[k] = false
			use(k)
		default:
			if v, ok := r.get(k); ok {
				use(k)
				if v != k+100 {
					t.Fatal("a value of another key")
				}
			}
		}
		if r.len() > 2*size {
			t.Fatalf("%d entries", r.len())
		}
		for _, last := range used[max(0, len(used)-size):] {
			_, young := r.young[last]
			_, old := r.old[last]
			if young && old || (young || old) == removed[last] {
				t.Fatalf("step %d: %d, used among the last %d: young %v, old %v", step, last, size, young, old)
			}
		}
	}
}
