package auth

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxThrottled bounds the table of addresses that have failed.
	maxThrottled = 4096
	// freeFailures are answered at once.
	freeFailures = 3
	// forgetAfter: so long after its last failure an address is as good as new.
	forgetAfter = time.Minute
	firstDelay  = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// Throttle slows down whoever guesses: it says how long the answer to a failed
// login is held back. A good login is never delayed, so that somebody who shares
// an address with a guesser loses nothing. Safe for all goroutines; its mutex is
// held for a few instructions, and a good login takes it only while some address
// is failing. The zero value is ready.
//
// Invariants: failing is the number of entries of table, stored under the lock.
type Throttle struct {
	failing atomic.Int64
	mu      sync.Mutex
	table   recent[netip.Addr, failures]
}

// failures of one address: how many, and when the last one was.
type failures struct {
	n    int
	last int64
}

// Failed notes a failed login from addr at now (nanoseconds of any monotonic
// clock, one for all calls) and returns how long its answer is to wait: nothing
// for the first three, then 100 ms, twice that, and so on, 5 s at most. A minute
// without a failure makes an address new again. All of an IPv6 /64 counts as one
// address; the invalid address, of Unix sockets, as one too.
func (t *Throttle) Failed(addr netip.Addr, now int64) time.Duration {
	addr = network(addr)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.size = maxThrottled / 2
	f, _ := t.table.get(addr)
	if now-f.last > int64(forgetAfter) {
		f.n = 0
	}
	f.n++
	f.last = now
	t.table.put(addr, f)
	t.failing.Store(int64(t.table.len()))
	delay, doublings := firstDelay, f.n-freeFailures-1
	if doublings < 0 {
		return 0
	}
	for ; doublings > 0 && delay < longestWait; doublings-- {
		delay *= 2
	}
	return min(delay, longestWait)
}

// Succeeded notes a good login from addr, which clears it.
func (t *Throttle) Succeeded(addr netip.Addr) {
	if t.failing.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.remove(network(addr))
	t.failing.Store(int64(t.table.len()))
}

// network is what counts as one address.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // fails for no IPv6 address, and drops the zone
	return prefix.Addr()
}
