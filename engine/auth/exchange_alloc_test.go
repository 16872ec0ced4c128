//go:build !race

package auth

import (
	"runtime"
	"testing"
)

// maxIdle bounds what an exchange that waits for its client keeps, in bytes, beside
// the strings of its Peer.
const maxIdle = 1024

// TestMemoryOfAnExchangeThatWaits: clients that were shown their salt and say no more.
func TestMemoryOfAnExchangeThatWaits(t *testing.T) {
	const n = 2000
	keys, peer, secret := NewKeys(), testPeer(true), parse(t, pencilSecret)
	first := initial(mechanismPlus, "p=tls-server-end-point,,n=,r=0123456789abcdefghijklmn")
	waiting := make([]*Exchange, n)
	dst := make([]byte, 0, 512)
	before := heap()
	for i := range waiting {
		x := NewExchange(Decision{Method: SCRAM}, peer, secret, keys)
		x.Start(dst)
		if _, _, refused := x.Receive('p', first, dst); refused != nil {
			t.Fatal(refused)
		}
		waiting[i] = x
	}
	each := (heap() - before) / n
	runtime.KeepAlive(waiting)
	t.Logf("%d bytes each", each)
	if each > maxIdle {
		t.Errorf("%d bytes each, above %d", each, maxIdle)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfDerivedVerifiers: the figure in the comment at maxDerived.
func TestMemoryOfDerivedVerifiers(t *testing.T) {
	keys := NewKeys()
	before := heap()
	for i := range maxDerived {
		keys.derived.put(key{byte(i), byte(i >> 8)}, &verifier{salt: make([]byte, saltLen)})
	}
	each := (heap() - before) / int64(keys.derived.len())
	runtime.KeepAlive(keys)
	t.Logf("%d bytes each", each)
	if each > 300 {
		t.Errorf("%d bytes each", each)
	}
}

// TestAllocOfAGoodLoginsThrottle: what a good login asks of the Throttle.
func TestAllocOfAGoodLoginsThrottle(t *testing.T) {
	var throttle Throttle
	addr := testPeer(false).Addr
	throttle.Failed(addr.Next(), 1)
	if n := testing.AllocsPerRun(100, func() { throttle.Succeeded(addr) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSCRAM is our side of a login by SCRAM against a stored secret.
func BenchmarkSCRAM(b *testing.B) {
	keys, peer, secret := NewKeys(), testPeer(false), parse(b, pencilSecret)
	first := initial(mechanism, "n,,n=,r=0123456789abcdefghijklmn")
	dst := make([]byte, 0, 512)
	for b.Loop() {
		x := NewExchange(Decision{Method: SCRAM}, peer, secret, keys)
		x.Start(dst)
		if _, _, refused := x.Receive('p', first, dst); refused != nil {
			b.Fatal(refused)
		}
		final := append([]byte("c=biws,r="), x.sasl.nonce...)
		final = append(final, (",p=" + encode64(make([]byte, 32)))...)
		if _, _, refused := x.Receive('p', final, dst); refused == nil || !refused.Wrong {
			b.Fatal(refused)
		}
	}
}

// BenchmarkDerive is what a helper does for a password that was never derived.
func BenchmarkDerive(b *testing.B) {
	for b.Loop() {
		derive("pencil", []byte("0123456789abcdef"), ourIterations)
	}
}
