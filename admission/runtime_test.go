package admission

import "testing"

// TestHeldFromTheBeginning: what is made while it is paused admits nobody until it is resumed, and waiters stand still.
func TestHeldFromTheBeginning(t *testing.T) {
	for _, held := range []string{"route", "pool"} {
		t.Run(held, func(t *testing.T) {
			r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 2, 2)
			rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 2, MaxWaiters: 2})
			if held == "route" {
				rt.Hold(r.now)
			} else {
				r.pool.Hold(r.now)
			}
			w, v := r.enter(rt, 0, "a")
			if v != Pending {
				t.Fatalf("verdict %d", v)
			}
			r.wantCounts(rt, 0, 1)
			r.now += 5e6
			if still, total, since := w.Paused(r.now); !still || total != 5e6 || since != r.now-5e6 {
				t.Errorf("stands still %v, for %d ns since %d", still, total, since)
			}
			if held == "route" {
				rt.Resume(0, r.now)
			} else {
				r.pool.Resume(0, r.now)
			}
			r.opened(0)
			r.wantCounts(rt, 1, 0)
			if n := len(r.loops[0].linked); n != 1 {
				t.Errorf("%d linked after the resume", n)
			}
		})
	}
}

// TestBoundsKeepTheWeight: SetBounds raises and wakes; weight and policy stay.
func TestBoundsKeepTheWeight(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 2, 2)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 2, Weight: 3, OnFull: DropOldest})
	r.enter(rt, 0, "a")
	r.enter(rt, 0, "b")
	r.wantCounts(rt, 1, 1)
	rt.SetBounds(0, r.now, 2, 5)
	r.wantCounts(rt, 2, 0)
	weight, policy := rt.Share()
	if n := rt.Counts(); weight != 3 || policy != DropOldest || n.Limit != 2 || n.MaxWaiters != 5 {
		t.Errorf("weight %d, policy %d, %+v", weight, policy, n)
	}
}

// TestExplainWithoutRoute: a route that does not exist meets what its first request would, and leaves no trace.
func TestExplainWithoutRoute(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 2, 1)
	o := RouteOptions{MaxInFlight: 1, MaxWaiters: 1}
	if got := r.pool.Explain(r.now, o); !got.Runs || !got.Opens || got.Cause != CauseConnect {
		t.Errorf("empty pool: %+v", got)
	}
	rt := r.pool.NewRoute(o)
	r.fill(rt, 0, 1)
	if got := r.pool.Explain(r.now, o); !got.Runs || got.Opens {
		t.Errorf("an idle backend: %+v", got)
	}
	r.request(rt, 0, "a")
	if got := r.pool.Explain(r.now, o); got.Runs || got.Cause != CauseHost || got.Verdict != Pending {
		t.Errorf("a full host: %+v", got)
	}
	r.pool.Hold(r.now)
	if got := r.pool.Explain(r.now, o); got.Runs || got.Cause != CausePause {
		t.Errorf("a paused pool: %+v", got)
	}
	n := 0
	r.pool.EachRoute(func(*Route) { n++ })
	if n != 1 {
		t.Errorf("%d routes, want the one that was made", n)
	}
}

// TestDropCap: a cap is kept while a pool counts in it.
func TestDropCap(t *testing.T) {
	r := newRig(t, Options{Loops: 1}, 1, 1)
	k := r.c.NewCap("user a", 5)
	p := r.c.NewPool(PoolOptions{Host: r.host, User: k, MaxSize: 1})
	before := len(*r.c.budgets.Load())
	if r.c.DropCap(k) {
		t.Error("dropped in use")
	}
	if !r.c.Drop(p) || !r.c.DropCap(k) || len(*r.c.budgets.Load()) != before-1 {
		t.Error("not dropped")
	}
}

// TestFirstConnects: what is set before the first pool holds from the first connect, and the most is kept.
func TestFirstConnects(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 4, 4)
	r.host.InitConnects(2)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 4})
	for i := range 4 {
		r.enter(rt, 0, i)
	}
	if n := r.host.Counts(); n.Connecting != 2 || n.MaxConnects != 2 || len(r.loops[0].opening) != 2 {
		t.Errorf("%+v, %d opening", n, len(r.loops[0].opening))
	}
	r.opened(0)
	if n := r.host.Counts(); n.Connecting != 0 || n.PeakConnects != 2 {
		t.Errorf("afterwards %+v", n)
	}
}

// BenchmarkOpenWithCaps: what it costs a new backend to count in a database's and a user's cap beside its host.
func BenchmarkOpenWithCaps(b *testing.B) {
	for _, caps := range []string{"host", "host_database_user"} {
		b.Run(caps, func(b *testing.B) {
			r := newRig(b, Options{Loops: 1, MaxWaiters: 10}, 1, 10)
			if caps != "host" {
				r.pool = r.c.NewPool(PoolOptions{
					Host: r.host, MaxSize: 1, Database: r.c.NewCap("d", 1<<20), User: r.c.NewCap("u", 1<<20),
				})
			}
			rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1})
			r.loops[0].silent = true
			for b.Loop() {
				w := r.c.NewWaiter(0)
				rt.Enter(0, r.now, w)
				p := r.loops[0].opening[0]
				r.loops[0].opening = r.loops[0].opening[:0]
				r.c.Opened(0, r.now, p)
				r.c.Release(0, r.now, p)
				r.c.TakeIdle(0, r.now, p)
				r.c.Closed(0, r.now, p)
			}
		})
	}
}
