package admission

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

func BenchmarkTryRunRelease(b *testing.B) {
	r := newRig(b, Options{Loops: 1, MaxWaiters: 10}, 4, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
	r.fill(rt, 0, 4)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.c.Release(0, 1, rt.TryRun(0))
	}
}

// Each goroutine is a loop of its own with idle backends of its own; all share the two words.
func BenchmarkTryRunReleaseParallel(b *testing.B) {
	const loops = 8
	r := newRig(b, Options{Loops: loops, MaxWaiters: 10, MaxConnectsPerHost: 100}, loops*2, 100)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: loops * 2, MaxWaiters: 4})
	for i := range loops {
		for range 2 {
			r.enter(rt, i, nil)
		}
	}
	for i := range loops {
		r.opened(i)
	}
	for i := range loops {
		for _, p := range r.loops[i].linked {
			r.c.Release(i, 1, p)
		}
	}
	var next atomic.Int32
	var once sync.Once
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		loop := int(next.Add(1)-1) % loops
		for pb.Next() {
			p := rt.TryRun(loop)
			if p == nil {
				once.Do(func() { b.Error("the fast path was left") })
				return
			}
			r.c.Release(loop, 1, p)
		}
	})
}

func BenchmarkRefusal(b *testing.B) {
	r := newRig(b, Options{Loops: 1, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 1})
	r.fill(rt, 0, 1)
	rt.TryRun(0)
	r.enter(rt, 0, nil)
	w := r.c.NewWaiter(0)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if rt.TryRun(0) != nil || rt.Enter(0, 1, w) != RouteFull {
			b.Fatal("not refused")
		}
	}
}

// One waiter is queued, and a release hands it the backend on the same loop.
func BenchmarkEnqueueGrant(b *testing.B) {
	r := newRig(b, Options{Loops: 1, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.loops[0].silent = true
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		w := r.c.NewWaiter(0)
		if rt.TryRun(0) != nil || rt.Enter(0, 1, w) != Pending {
			b.Fatal("not queued")
		}
		r.c.Release(0, 1, p)
		p = r.loops[0].linked[0]
	}
}

// The same when the waiter sits on the other loop and the backend has to move.
func BenchmarkEnqueueGrantAcrossLoops(b *testing.B) {
	r := newRig(b, Options{Loops: 2, MaxWaiters: 10}, 1, 10)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
	r.fill(rt, 0, 1)
	p := rt.TryRun(0)
	r.loops[0].silent, r.loops[1].silent = true, true
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		from, to := i%2, 1-i%2
		w := r.c.NewWaiter(to)
		if rt.Enter(to, 1, w) != Pending {
			b.Fatal("not queued")
		}
		r.c.Release(from, 1, p)
		r.deliver()
		p = r.loops[to].linked[0]
	}
}

// A grant among 600 eligible routes costs what it costs with one, but for the cache: 600 routes do not fit the nearest.
func BenchmarkGrantAmongRoutes(b *testing.B) {
	for _, n := range []int{1, 600} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := newRig(b, Options{Loops: 1, MaxWaiters: 1 << 20}, 1, 10)
			routes := make([]*Route, n)
			for i := range routes {
				routes[i] = r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 4})
			}
			r.fill(routes[0], 0, 1)
			p := routes[0].TryRun(0)
			for _, rt := range routes {
				r.enter(rt, 0, nil)
			}
			r.loops[0].silent = true
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if routes[i%n].Enter(0, 1, r.c.NewWaiter(0)) != Pending {
					b.Fatal("not queued")
				}
				r.c.Release(0, 1, p)
				p = r.loops[0].linked[0]
			}
		})
	}
}
