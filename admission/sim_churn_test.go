//go:build sim

package admission

import (
	"math/rand/v2"
	"testing"
)

// churn is millions of requests in one goroutine, without yield points and without checks on the way: what a tiny error
// per request would add up to.
type churn struct {
	c      *Controller
	rnd    *rand.Rand
	now    int64
	loops  []*churnLoop
	routes []*Route
}

type churnLoop struct {
	x       *churn
	id      int
	mail    queue
	running []*Place
	pending []*Waiter
	opening []*Place
	closing []*Place
}

func (l *churnLoop) Post(to int, m *Message)  { l.x.loops[to].mail.push(m) }
func (l *churnLoop) Open(p *Place)            { l.opening = append(l.opening, p) }
func (l *churnLoop) Close(p *Place)           { l.closing = append(l.closing, p) }
func (l *churnLoop) Detach(*Place)            {}
func (l *churnLoop) Attach(*Place)            {}
func (l *churnLoop) End(w *Waiter, _ Outcome) { l.drop(w) }
func (l *churnLoop) Link(w *Waiter, p *Place) { l.drop(w); l.running = append(l.running, p) }
func (l *churnLoop) some(n int) (k int)       { return l.x.rnd.IntN(n) }
func (l *churnLoop) busy() bool {
	return len(l.running)+len(l.pending)+len(l.opening)+len(l.closing) > 0 || l.mail.first != nil
}

func take[T any](all *[]T, k int) (v T) {
	s := *all
	v = s[k]
	s[k] = s[len(s)-1]
	*all = s[:len(s)-1]
	return v
}

func (l *churnLoop) drop(w *Waiter) {
	for k, p := range l.pending {
		if p == w {
			take(&l.pending, k)
			return
		}
	}
	panic("a waiter ended twice")
}

// newChurn makes two pools on one host that is too small for both, each with a route of 8 and 4 and another.
func newChurn(loops int) *churn {
	x := &churn{rnd: rand.New(rand.NewPCG(11, 1)), c: New(Options{Loops: loops, MaxWaiters: 14, FIFOSlack: 2 * ms, Seed: 1}), now: 1e9}
	h, k := x.c.NewHost("", 14), x.c.NewCap("", 9)
	for range 2 {
		p := x.c.NewPool(PoolOptions{Host: h, Database: k, MaxSize: 10})
		k = nil
		x.routes = append(x.routes, p.NewRoute(RouteOptions{MaxInFlight: 8, MaxWaiters: 4}), p.NewRoute(RouteOptions{MaxInFlight: 4, MaxWaiters: 3}))
	}
	for i := range loops {
		l := &churnLoop{x: x, id: i}
		x.loops = append(x.loops, l)
		x.c.Bind(i, l)
	}
	return x
}

// turn lets one loop do one thing.
func (x *churn) turn(asks bool) {
	l := x.loops[x.rnd.IntN(len(x.loops))]
	x.now += x.rnd.Int64N(ms / 4)
	for l.mail.first != nil && l.some(4) > 0 {
		x.c.Handle(l.id, x.now, l.mail.pop())
	}
	switch n := l.some(16); {
	case n < 8 && asks && len(l.pending) < 12:
		l.ask(x.routes[l.some(len(x.routes))])
	case n < 12 && len(l.running) > 0:
		p := take(&l.running, l.some(len(l.running)))
		if l.some(40) == 0 {
			x.c.Closed(l.id, x.now, p)
			return
		}
		x.c.Release(l.id, x.now, p)
	case n == 12 && len(l.pending) > 0:
		w := take(&l.pending, l.some(len(l.pending)))
		x.c.Leave(l.id, x.now, w, []Outcome{TimedOut, Canceled, Disconnected, Drained}[l.some(4)])
	case n == 13 && len(l.opening) > 0:
		l.opened(take(&l.opening, l.some(len(l.opening))))
	case n == 14 && len(l.closing) > 0:
		x.c.Closed(l.id, x.now, take(&l.closing, 0))
	case n == 15 && l.some(8) == 0:
		x.c.Tick(l.id, x.now)
		x.c.Trim(l.id, x.now)
	case n == 15 && asks && l.some(50) == 0:
		x.operate(l)
	}
}

func (l *churnLoop) ask(r *Route) {
	if p := r.TryRun(l.id); p != nil {
		l.running = append(l.running, p)
		return
	}
	w := l.x.c.NewWaiter(l.id)
	l.pending = append(l.pending, w)
	if r.Enter(l.id, l.x.now, w) != Pending {
		l.drop(w)
		l.x.c.FreeWaiter(w)
	}
}

func (l *churnLoop) opened(p *Place) {
	switch c, now := l.x.c, l.x.now; {
	case l.some(10) > 0:
		c.Opened(l.id, now, p)
	case c.Failed(l.id, now, p):
		if l.some(4) == 0 {
			c.GiveUp(l.id, now, p)
		} else {
			c.Retry(l.id, now, p)
		}
	}
}

// operate changes limits and pauses, and undoes it at another time.
func (x *churn) operate(l *churnLoop) {
	r := x.routes[l.some(len(x.routes))]
	switch l.some(5) {
	case 0:
		r.Pause(l.id, x.now)
	case 1, 2:
		r.Resume(l.id, x.now)
	default:
		r.SetLimits(l.id, x.now, RouteOptions{
			MaxInFlight: 1 + l.some(8), MaxWaiters: 1 + l.some(4), Weight: 1 + l.some(3), OnFull: Policy(l.some(3)),
		})
	}
}

// settle ends everything that is under way, with the limits of the beginning.
func (x *churn) settle(t *testing.T) {
	for i, r := range x.routes {
		r.Resume(0, x.now)
		r.SetLimits(0, x.now, RouteOptions{MaxInFlight: 8 - 4*(i%2), MaxWaiters: 4 - i%2})
	}
	for range 1_000_000 {
		x.turn(false)
		busy := false
		for _, l := range x.loops {
			busy = busy || l.busy()
		}
		if !busy {
			x.now += 50 * ms
			x.c.Tick(0, x.now) // finds that nobody waits for a place of the host any more
			return
		}
	}
	t.Fatal("it does not come to rest")
}

func (x *churn) ended() (n uint64, by [outcomes]uint64) {
	for _, r := range x.routes {
		for o := range outcomes {
			by[o] += r.Count(o)
		}
	}
	for o, k := range by {
		if Outcome(o) != Queued {
			n += k
		}
	}
	return n, by
}

// Ten million admissions, refusals, time-outs, cancels, disconnects and sheddings (with 10 000 seeds and more; fewer with fewer)
// leave every gauge at zero, and 8 + 4 places usable.
func TestMillionsOfEndsLeaveEveryGaugeAtZero(t *testing.T) {
	want := min(uint64(*simSeeds)*1000, 10_000_000)
	x := newChurn(3)
	var by [outcomes]uint64
	for n := uint64(0); n < want; n, by = x.ended() {
		for range 1000 {
			x.turn(true)
		}
	}
	x.settle(t)
	for o, n := range by {
		if n < want/1000 {
			t.Errorf("only %d of %d ended as outcome %d", n, want, o)
		}
	}
	t.Logf("ends by outcome: %v", by)
	x.checkRest(t)
	x.checkUsable(t)
}

// checkRest: nothing is counted but the idle backends.
func (x *churn) checkRest(t *testing.T) {
	t.Helper()
	size := 0
	for i, r := range x.routes {
		if n := r.Counts(); n.InFlight != 0 || n.Waiting != 0 || n.Paused {
			t.Errorf("route %d: %+v", i, n)
		}
		p := r.pool.Counts()
		if p.Used != 0 || p.Holders != 0 || p.Eligible != 0 || p.Connecting != 0 || p.Closing != 0 || p.Waiting != 0 {
			t.Errorf("pool of route %d: %+v", i, p)
		}
		if i%2 == 0 {
			size += p.Size
		}
	}
	h := x.routes[0].pool.home.host.Counts()
	if h.Size != size || h.Connecting != 0 || h.Moves != 0 || h.WaitingPools != 0 {
		t.Errorf("host: %+v with %d places", h, size)
	}
	if x.c.Waiting() != 0 {
		t.Errorf("%d waiters", x.c.Waiting())
	}
	for i := range x.c.loops {
		if l := &x.c.loops[i]; l.made.Load() != l.spare.Load() {
			t.Errorf("%d of %d waiters of loop %d are free", l.spare.Load(), l.made.Load(), i)
		}
	}
}

// closeIdle closes all backends.
func (x *churn) closeIdle(t *testing.T) {
	for i, l := range x.loops {
		x.c.EachPool(func(p *Pool) {
			p.EachIdle(i, func(pl *Place) bool {
				if x.c.TakeIdle(i, x.now, pl) {
					l.closing = append(l.closing, pl)
				}
				return true
			})
		})
	}
	x.settle(t)
	if n := x.routes[0].pool.home.host.Counts(); n.Size != 0 {
		t.Errorf("the empty host: %+v", n)
	}
}

// checkUsable: of thirteen requests of each route of 8 + 4 exactly one is refused.
func (x *churn) checkUsable(t *testing.T) {
	t.Helper()
	for _, r := range []*Route{x.routes[0], x.routes[2]} {
		x.closeIdle(t)
		rejected := r.Count(Rejected)
		for i := range 13 {
			x.loops[i%len(x.loops)].ask(r)
		}
		if n := r.Counts(); n.InFlight != 8 || n.Waiting != 4 || r.Count(Rejected) != rejected+1 {
			t.Errorf("after thirteen requests: %+v, %d refused", n, r.Count(Rejected)-rejected)
		}
		x.settle(t)
		x.checkRest(t)
	}
}
