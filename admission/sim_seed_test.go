//go:build sim

package admission

import (
	"flag"
	"fmt"
	"testing"
)

var (
	simSeeds = flag.Int("seeds", 1000, "random seeds to run")
	simFirst = flag.Uint64("first", 1, "the first seed")
	simSeed  = flag.Uint64("seed", 0, "run this seed only, to replay a failure")
	simLong  = flag.Int("long", 1, "requests of each seed, as a multiple of the usual")
)

// swarm is what a seed chooses: also the probabilities differ from seed to seed, so that some runs are all of one kind
// of trouble and others are quiet.
type swarm struct {
	service, connect, think, patience int64
	timeout, cancel, vanish           float64
	dieBusy, dieIdle, sweep, look     float64
	keep                              int // idle places that sweeps leave
	refuse, giveUp                    float64
	admin                             float64
	until                             int64 // the operator's last act
}

func (w *world) chooseSwarm() {
	p := func(most float64) float64 {
		if w.rnd.IntN(2) == 0 {
			return 0
		}
		return w.rnd.Float64() * most
	}
	w.opt = swarm{
		service: w.upTo(40 * ms), connect: w.upTo(60 * ms), think: w.upTo(30 * ms), patience: w.upTo(300 * ms),
		timeout: p(.5), cancel: p(.3), vanish: p(.1),
		dieBusy: p(.2), dieIdle: p(.3), sweep: p(.3), look: p(.3), keep: w.rnd.IntN(3),
		refuse: p(.6), giveUp: p(.5), admin: p(1),
		until: w.now + 1500*ms,
	}
	w.park = []float64{1, .3, .1, .03, 0}[w.rnd.IntN(5)]
	w.delay = w.upTo(5 * ms)
}

// grow builds hosts, caps, pools, routes and clients at random.
func (w *world) grow(long int) {
	for range 1 + w.rnd.IntN(3) {
		w.addHost(1 + w.rnd.IntN(8))
	}
	for range w.rnd.IntN(3) {
		w.caps = append(w.caps, w.c.NewCap("", 1+w.rnd.IntN(5)))
	}
	for range 1 + w.rnd.IntN(4) {
		var db *Cap
		if len(w.caps) > 0 && w.rnd.IntN(2) == 0 {
			db = w.caps[w.rnd.IntN(len(w.caps))]
		}
		p := w.addPool(w.hosts[w.rnd.IntN(len(w.hosts))], db, 1+w.rnd.IntN(6))
		if db != nil {
			w.drew("cap")
		}
		for range 1 + w.rnd.IntN(4) {
			s := w.addRoute(p, w.someLimits())
			w.drew(fmt.Sprint("policy ", s.o.OnFull))
			w.drew(fmt.Sprint("weight ", s.o.Weight))
		}
		w.drew(fmt.Sprintf("%d routes in a pool", len(p.routes)))
	}
	for range 3 + w.rnd.IntN(30) {
		p := w.pools[w.rnd.IntN(len(w.pools))]
		s := p.routes[w.rnd.IntN(len(p.routes))]
		c := w.addClient(w.rnd.IntN(len(w.loops)), s, (1+w.rnd.IntN(10))*long)
		c.next()
	}
	w.drew(fmt.Sprintf("%d loops", len(w.loops)))
	w.drew(fmt.Sprintf("%d pools", len(w.pools)))
	w.drew(fmt.Sprintf("%d hosts", len(w.hosts)))
	w.drew(fmt.Sprintf("slack %d ms", w.slack/ms))
	for _, v := range w.loops {
		w.housekeep(v, 50*ms)
	}
	if w.opt.admin > 0 {
		w.operate()
	}
}

func (w *world) someLimits() RouteOptions {
	return RouteOptions{
		MaxInFlight: 1 + w.rnd.IntN(5), MaxWaiters: w.rnd.IntN(12), Weight: 1 + w.rnd.IntN(3),
		OnFull: Policy(w.rnd.IntN(3)),
	}
}

// housekeep ticks, sweeps and loses idle backends on one loop, for ever.
func (w *world) housekeep(v *vloop, every int64) {
	w.at(v.id, every, func() {
		w.c.Tick(v.id, w.now)
		w.c.Trim(v.id, w.now)
		for _, p := range w.pools {
			w.sweep(v, p)
		}
		w.housekeep(v, every)
	})
}

// sweep loses and closes some idle backends.
func (w *world) sweep(v *vloop, p *simPool) {
	p.EachIdle(v.id, func(pl *Place) bool {
		switch {
		case w.chance(w.opt.dieIdle * .2):
			delete(w.places, pl)
			w.c.Died(v.id, w.now, pl)
		case w.chance(w.opt.sweep*.2) && w.c.TakeSpare(v.id, w.now, pl, w.opt.keep):
			v.Close(pl)
		case w.chance(w.opt.look*.2) && w.c.SetAside(v.id, w.now, pl):
			w.at(v.id, w.upTo(w.opt.service), func() { w.looked(v, pl) })
		}
		return true
	})
}

// looked ends the look at a backend that was set aside.
func (w *world) looked(v *vloop, pl *Place) {
	if w.chance(w.opt.dieIdle) {
		w.closed(v.id, pl)
		return
	}
	since := pl.IdleSince
	w.c.PutBack(v.id, w.now, pl)
	if pl.state == placeIdle && pl.loop == int32(v.id) && pl.IdleSince != since && pl.IdleSince != w.now {
		fail("a backend that was put back rests with another age")
	}
}

// operate is the operator: one random act after another until w.opt.until; then everything is resumed.
func (w *world) operate() {
	loop := w.rnd.IntN(len(w.loops))
	w.at(loop, w.upTo(int64(float64(100*ms)/max(w.opt.admin, .05))), func() {
		if w.now < w.opt.until {
			w.act(loop)
			w.operate()
			return
		}
		w.resumeAll(loop)
	})
}

func (w *world) act(loop int) {
	p := w.pools[w.rnd.IntN(len(w.pools))]
	s := p.routes[w.rnd.IntN(len(p.routes))]
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	switch w.rnd.IntN(14) {
	case 0, 1:
		w.limit(s, loop)
	case 2:
		p.SetMaxSize(loop, w.now, 1+w.rnd.IntN(6))
	case 3:
		h.SetMax(w.c, loop, w.now, 1+w.rnd.IntN(8))
	case 4:
		s.r.Pause(loop, w.now)
	case 5:
		s.r.Resume(loop, w.now)
	case 6:
		p.Pause(loop, w.now)
	case 7:
		p.Resume(loop, w.now)
	case 8:
		if w.rnd.IntN(2) == 0 {
			w.c.Pause(loop, w.now)
		} else {
			w.c.Resume(loop, w.now)
		}
	case 9:
		if s.r.Forget() {
			w.renew(s, s.r)
			if w.rnd.IntN(2) == 0 {
				s.r.Hold(w.now)
			}
		}
	case 10:
		if w.rnd.IntN(2) == 0 {
			h.SetMaxConnects(w.c, loop, w.now, 1+w.rnd.IntN(4))
		} else {
			w.c.Warm(loop, w.now, p.Pool)
		}
	case 11:
		if len(w.caps) > 0 {
			w.caps[w.rnd.IntN(len(w.caps))].SetMax(w.c, loop, w.now, 1+w.rnd.IntN(5))
		}
	case 13:
		p.SetHost(loop, w.now, h)
		if len(w.hosts) > 1 {
			w.drew("host changed")
		}
	case 12:
		if w.rnd.IntN(2) == 0 {
			w.c.SetMaxWaiters(w.rnd.IntN(60))
			return
		}
		slack := w.rnd.Int64N(3) * ms
		w.slack = max(w.slack, slack)
		w.c.SetFIFOSlack(slack)
	}
}

// limit changes all limits of a route, or its bounds, or its weight.
func (w *world) limit(s *simRoute, loop int) {
	o := w.someLimits()
	switch w.rnd.IntN(4) {
	case 0:
		s.o.Weight = o.Weight
		s.r.SetWeight(o.Weight)
	case 1:
		s.o.MaxInFlight, s.o.MaxWaiters = o.MaxInFlight, o.MaxWaiters
		s.r.SetBounds(loop, w.now, o.MaxInFlight, o.MaxWaiters)
	default:
		s.o = o
		s.r.SetLimits(loop, w.now, o)
	}
}

func (w *world) resumeAll(loop int) {
	w.c.Resume(loop, w.now)
	for _, p := range w.pools {
		p.Resume(loop, w.now)
		for _, s := range p.routes {
			s.r.Resume(loop, w.now)
		}
	}
	w.opt.until = 0
}

func (w *world) clientsDone() bool {
	if w.opt.admin > 0 && w.opt.until != 0 {
		return false
	}
	for _, c := range w.clients {
		if c.state != clientDone {
			return false
		}
	}
	return true
}

// settled: nothing is in use and no mail travels.
func (w *world) settled() bool {
	for _, v := range w.loops {
		for _, box := range v.mail {
			if len(box) > 0 {
				return false
			}
		}
	}
	for _, p := range w.pools {
		if n := poolWord(p.word.v.Load()); n.used() > 0 {
			return false
		}
	}
	return true
}

// wind closes everything down and expects every counter at zero.
func (w *world) wind() {
	w.run(120_000*ms, "every client at its end", w.clientsDone)
	w.run(5_000*ms, "at rest", w.settled)
	w.opt.refuse, w.opt.dieIdle, w.opt.sweep, w.opt.look = 0, 0, 0, 0
	for _, v := range w.loops {
		w.at(v.id, 1, func() {
			for _, p := range w.pools {
				p.EachIdle(v.id, func(pl *Place) bool {
					if !w.c.TakeIdle(v.id, w.now, pl) {
						fail("an idle backend was promised to nobody and could not be taken")
					}
					v.Close(pl)
					return true
				})
			}
		})
	}
	w.run(5_000*ms, "closed", func() bool {
		for p := range w.places {
			if p.state != placeFree {
				return false
			}
		}
		return w.settled()
	})
	w.checkZero()
}

func (w *world) checkZero() {
	for _, r := range w.routes {
		if n := r.Counts(); n.InFlight != 0 || n.Waiting != 0 {
			fail("at the end a route has %d in flight, %d waiting", n.InFlight, n.Waiting)
		}
	}
	for _, p := range w.pools {
		if n := p.Counts(); n.Size != 0 || n.Used != 0 || n.Holders != 0 || n.Eligible != 0 || n.Connecting != 0 || n.Waiting != 0 || p.closing.Load() != 0 {
			fail("at the end a pool has %+v, %d closing", n, p.closing.Load())
		}
	}
	for _, b := range *w.c.budgets.Load() {
		if b.size != 0 || b.moves != 0 || b.waiters.Load() != 0 {
			fail("at the end a host or cap has %d places, %d moves, %d waiting pools", b.size, b.moves, b.waiters.Load())
		}
	}
	for _, h := range w.hosts {
		if h.connecting != 0 || h.queue.head != nil || h.warming != 0 {
			fail("at the end a host has %d connecting", h.connecting)
		}
	}
	if n := w.c.Waiting(); n != 0 {
		fail("at the end %d waiters are counted", n)
	}
	for i := range w.c.loops {
		if l := &w.c.loops[i]; l.made.Load() != l.spare.Load() {
			fail("at the end %d of %d waiters are free", l.spare.Load(), l.made.Load())
		}
	}
}

// simulate runs one seed and returns the violation it found, if any.
func simulate(seed uint64, long int) (w *world, broken any) {
	o := Options{MaxConnectsPerHost: 1 + int(seed%4), MaxWaiters: 40, FIFOSlack: int64(seed%3) * ms}
	o.Loops = 1 + int(seed*2654435761>>7%8)
	w = newWorld(seed, o)
	defer func() {
		if broken = recover(); broken == nil {
			w.close()
		} else if *simSeed != 0 {
			fmt.Print(w.dump())
		}
		simYield = nil
	}()
	w.chooseSwarm()
	w.grow(long)
	w.wind()
	w.drewOutcomes()
	return
}

// drewOutcomes notes how requests ended.
func (w *world) drewOutcomes() {
	for _, r := range w.routes {
		for o := range outcomes {
			if r.Count(o) > 0 {
				w.drew(fmt.Sprint("outcome ", o))
			}
		}
	}
	if w.park == 0 {
		w.drew("calls in one go")
	}
	if w.park == 1 {
		w.drew("calls in single steps")
	}
}

// wantDrawn fails the test if not one of many seeds came by something that it must show.
func wantDrawn(t *testing.T, drawn map[string]int) {
	t.Helper()
	want := []string{"cap", "slack 0 ms", "slack 1 ms", "slack 2 ms", "calls in one go", "calls in single steps", "host changed"}
	for i := range 8 {
		want = append(want, fmt.Sprintf("%d loops", i+1))
	}
	for i := range 4 {
		want = append(want, fmt.Sprintf("%d routes in a pool", i+1), fmt.Sprintf("%d pools", i+1))
	}
	for i := range 3 {
		want = append(want, fmt.Sprint("policy ", i), fmt.Sprint("weight ", i+1), fmt.Sprintf("%d hosts", i+1))
	}
	for o := range outcomes {
		if o != Drained { // the engine's
			want = append(want, fmt.Sprint("outcome ", o))
		}
	}
	for c := range Causes {
		want = append(want, Cause(c).String())
	}
	for _, what := range want {
		if drawn[what] == 0 {
			t.Errorf("no seed came by %q", what)
		}
	}
}

func TestRandomSeeds(t *testing.T) {
	first, n := *simFirst, *simSeeds
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	steps, drawn := 0, map[string]int{}
	for i := range n {
		seed := first + uint64(i)
		w, broken := simulate(seed, *simLong)
		steps += w.steps
		for _, what := range w.drawn {
			drawn[what]++
		}
		if broken != nil {
			t.Fatalf("seed %d: %v\nreplay: go test -tags sim ./admission -run TestRandomSeeds -args -seed=%d -long=%d", seed, broken, seed, *simLong)
		}
	}
	t.Logf("%d seeds, %d steps, came by %v", n, steps, drawn)
	if n >= 1000 {
		wantDrawn(t, drawn)
	}
}
