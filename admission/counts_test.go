package admission

import (
	"slices"
	"testing"
)

func TestPeaksStayAfterTheRush(t *testing.T) {
	r := newRig(t, Options{Loops: 2, MaxWaiters: 100}, 3, 2)
	database := r.c.NewCap("d", 5)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 7})
	r.c.NewPool(PoolOptions{Host: r.host, Database: database, MaxSize: 1})
	for i := range 6 {
		r.enter(rt, i%2, i) // two run, four wait
	}
	for i := range 2 {
		r.opened(i)
	}
	for r.now = 0; r.now < 20; r.now++ {
		for i, l := range r.loops {
			if len(l.linked) > 0 {
				p := l.linked[0]
				l.linked = l.linked[1:]
				r.c.Closed(i, r.now, p)
				r.opened(0)
				r.opened(1)
			}
		}
	}
	n := rt.Counts()
	if n.InFlight != 0 || n.Waiting != 0 || n.PeakInFlight != 2 || n.PeakWaiting != 4 {
		t.Errorf("route: %+v", n)
	}
	if p := r.pool.Counts(); p.Size != 0 || p.PeakSize != 2 {
		t.Errorf("pool: %+v", p)
	}
	if h := r.host.Counts(); h.Size != 0 || h.Peak != 2 {
		t.Errorf("host: %+v", h)
	}
	if k := database.Counts(); k.Peak != 0 {
		t.Errorf("cap: %+v", k)
	}
	if r.c.Waiting() != 0 || r.c.PeakWaiting() != 4 {
		t.Errorf("process: %d waiting, peak %d", r.c.Waiting(), r.c.PeakWaiting())
	}
}

func TestFastPathRaisesThePeak(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 3, 3)
	filler := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 7})
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 7})
	r.fill(filler, 0, 3)
	a, b := rt.TryRun(0), rt.TryRun(0)
	r.c.Release(0, r.now, a)
	r.c.Release(0, r.now, b)
	r.c.Release(0, r.now, rt.TryRun(0))
	if n := rt.Counts(); n.PeakInFlight != 2 || n.PeakWaiting != 0 {
		t.Fatalf("%+v", n)
	}
}

func TestEachPoolAndEachRoute(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 3, 3)
	second := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 1})
	dropped := r.c.NewPool(PoolOptions{Host: r.host, MaxSize: 1})
	r.c.Drop(dropped)
	var want []*Route
	for range 3 {
		want = append(want, r.pool.NewRoute(RouteOptions{MaxInFlight: 1}))
	}
	r.pool.NewRoute(RouteOptions{MaxInFlight: 1}).Forget()
	var pools []*Pool
	r.c.EachPool(func(p *Pool) {
		pools = append(pools, p)
		p.NewRoute(RouteOptions{MaxInFlight: 1}) // may call anything
	})
	if len(pools) != 2 || !slices.Contains(pools, r.pool) || !slices.Contains(pools, second) {
		t.Fatalf("%d pools", len(pools))
	}
	seen := map[*Route]bool{}
	r.pool.EachRoute(func(rt *Route) {
		seen[rt] = true
		rt.Forget()
	})
	if len(seen) != 4 || !seen[want[0]] || !seen[want[1]] || !seen[want[2]] {
		t.Fatalf("%d routes", len(seen))
	}
	r.pool.EachRoute(func(*Route) { t.Fatal("a forgotten route is listed") })
}
