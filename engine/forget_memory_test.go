//go:build !race

package engine

import (
	"runtime"
	"testing"

	"pgkinetic/engine/reactor"
)

// TestShortLivedNamesMemory: names of databases and users that were asked for once leave nothing behind.
func TestShortLivedNamesMemory(t *testing.T) {
	const all = 10_000
	e := idleEngine(t, "--server.max-pools=2000")
	r, now := e.registry, reactor.Now()
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round := func(from, n int) {
		names(t, e, from, n)
		r.forget(now)
		now += poolGrace
		r.forget(now)
	}
	round(0, 1000) // everything that is allocated once, is
	before := live()
	for i := range all / 1000 {
		round(1000+i*1000, 1000)
	}
	grown := live() - before
	t.Logf("%d names: the heap has grown by %d KiB", all, grown>>10)
	if grown > 256<<10 { // a pool takes more than half a kilobyte
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	if n := len(r.pools) + len(r.users) + len(r.usrCaps) + len(r.usrCli) + len(*r.all.Load()); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
