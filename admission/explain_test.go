package admission

import (
	"math/rand/v2"
	"testing"
)

// drawn is a rig of random limits that makes random calls.
type drawn struct {
	*rig
	rnd    *rand.Rand
	hosts  []*Host
	caps   []*Cap
	pools  []*Pool
	routes []*Route
}

func newDrawn(t *testing.T, seed uint64) *drawn {
	rnd := rand.New(rand.NewPCG(seed, 3))
	d := &drawn{rnd: rnd, rig: newRig(t, Options{Loops: 1 + rnd.IntN(3), MaxWaiters: 12, Seed: seed + 1}, 1+rnd.IntN(4), 1+rnd.IntN(6))}
	d.hosts, d.pools = []*Host{d.host}, []*Pool{d.pool}
	d.caps = []*Cap{d.c.NewCap("c", 1+rnd.IntN(3))}
	d.pools = append(d.pools, d.c.NewPool(PoolOptions{Host: d.host, User: d.caps[0], MaxSize: 1 + rnd.IntN(4)}))
	for range 4 {
		d.routes = append(d.routes, d.pools[rnd.IntN(2)].NewRoute(d.limits()))
	}
	return d
}

func (d *drawn) limits() RouteOptions {
	return RouteOptions{
		MaxInFlight: 1 + d.rnd.IntN(3), MaxWaiters: d.rnd.IntN(4), Weight: 1 + d.rnd.IntN(3), OnFull: Policy(d.rnd.IntN(3)),
	}
}

func (d *drawn) loop() int { return d.rnd.IntN(len(d.loops)) }

// act does anything but ask.
func (d *drawn) act() {
	i := d.loop()
	l, r, p := d.loops[i], d.routes[d.rnd.IntN(4)], d.pools[d.rnd.IntN(2)]
	d.now += d.rnd.Int64N(5)
	switch d.rnd.IntN(12) {
	case 0, 1, 2, 3:
		if n := len(l.linked); n > 0 {
			pl := l.linked[0]
			l.linked = l.linked[1:]
			d.c.Release(i, d.now, pl)
		}
	case 4, 5:
		d.opened(i)
	case 6:
		r.SetLimits(i, d.now, d.limits())
	case 7:
		r.setPaused(i, d.now, d.rnd.IntN(2) == 0)
	case 8:
		d.c.enter(i, d.now)
		p.setPaused(&d.c.loops[i], poolPaused, d.rnd.IntN(3) == 0)
		d.c.loops[i].settle(false)
	case 9:
		if n := len(l.linked); n > 0 {
			pl := l.linked[0]
			l.linked = l.linked[1:]
			d.c.Closed(i, d.now, pl)
		}
	case 10:
		d.c.SetMaxWaiters(d.rnd.IntN(12))
	case 11:
		p.SetMaxSize(i, d.now, 1+d.rnd.IntN(4))
	}
	d.deliver()
}

// What Explain tells is what Enter then does, and telling it changes nothing.
func TestExplainForetells(t *testing.T) {
	seen := map[Outlook]int{}
	for seed := range uint64(400) {
		d := newDrawn(t, seed)
		for range 60 {
			d.act()
			rt := d.routes[d.rnd.IntN(4)]
			before, pool, host := rt.Counts(), rt.pool.Counts(), d.host.Counts()
			o := rt.Explain(d.now)
			if rt.Counts() != before || rt.pool.Counts() != pool || d.host.Counts() != host {
				t.Fatalf("seed %d: a look changed something", seed)
			}
			if o.Before < 0 || o.Before > before.Waiting || o.Oldest != rt.OldestWait(d.now) {
				t.Fatalf("seed %d: %+v of %+v", seed, o, before)
			}
			d.compare(seed, rt, o)
			o.Before, o.Oldest = 0, 0
			seen[o]++
		}
	}
	for _, o := range []Outlook{
		{Runs: true, Cause: CausePool},
		{Runs: true, Opens: true, Cause: CauseConnect},
		{Cause: CauseRoute},
		{Cause: CausePool},
		{Cause: CauseHost},
		{Cause: CausePause},
		{Cause: CauseRoute, Sheds: true},
		{Verdict: RouteFull, Cause: CauseRoute},
		{Verdict: RouteFull, Cause: CausePause},
		{Verdict: ProcessFull},
	} {
		if seen[o] == 0 {
			t.Errorf("%+v was never seen, only %v", o, seen)
		}
	}
}

// compare lets a request meet what was foretold.
func (d *drawn) compare(seed uint64, rt *Route, o Outlook) {
	was, pool, shed, wasShed := rt.Counts(), rt.pool.Counts(), rt.Count(Shed), 0
	i := d.loop()
	w := d.c.NewWaiter(i)
	v := rt.Enter(i, d.now, w)
	is, now := rt.Counts(), rt.pool.Counts()
	if v != o.Verdict {
		d.t.Fatalf("seed %d: verdict %d, foretold %+v of %+v", seed, v, o, was)
	}
	if v != Pending {
		d.c.FreeWaiter(w)
		return
	}
	if runs := is.InFlight > was.InFlight; runs != o.Runs {
		d.t.Fatalf("seed %d: runs %v, foretold %+v of %+v in %+v", seed, runs, o, was, pool)
	}
	if opens := now.Connecting > pool.Connecting; opens != o.Opens {
		d.t.Fatalf("seed %d: opens %v, foretold %+v of %+v in %+v", seed, opens, o, was, pool)
	}
	if !o.Runs {
		d.now++
		spent := w.Spent(d.now)
		if spent[o.Cause] != 1 || is.Waiting-1 != o.Before {
			d.t.Fatalf("seed %d: waits for %v behind %d, foretold %+v", seed, spent, is.Waiting-1, o)
		}
	}
	d.deliver()
	if rt.Count(Shed) > shed {
		wasShed = 1
	}
	if o.Sheds != (wasShed == 1) {
		d.t.Fatalf("seed %d: shed %d, foretold %+v", seed, wasShed, o)
	}
}

func TestExplainOfAForgottenRoute(t *testing.T) {
	r := newRig(t, Options{Loops: 1, MaxWaiters: 100}, 1, 20)
	rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 5})
	rt.Forget()
	if o := rt.Explain(r.now); o.Verdict != RouteDead {
		t.Fatalf("%+v", o)
	}
}
