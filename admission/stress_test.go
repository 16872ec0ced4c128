//go:build !sim

package admission

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// The stress runs loops as real goroutines, so that the race detector sees the memory that the simulator's coroutines
// share in turns. What it can check is coarse: everything ends, and every count returns to zero.

type stress struct {
	c      *Controller
	host   *Host
	keys   []atomic.Pointer[Route] // what a request's key stands for now: forgotten routes are replaced
	mu     sync.Mutex
	routes []*Route // all that ever were
	loops  []*stressLoop
	active atomic.Int64 // requests asked for and not ended
	asking atomic.Int64 // loops that still make requests
}

// stressLoop is one loop; everything but the mailbox is its goroutine's own.
type stressLoop struct {
	s       *stress
	id      int
	now     int64
	rnd     *rand.Rand
	mu      sync.Mutex
	mail    []*Message
	running []*Place
	opening []*Place
	closing []*Place
	pending []*Waiter
}

func (l *stressLoop) Post(to int, m *Message) {
	box := l.s.loops[to]
	box.mu.Lock()
	box.mail = append(box.mail, m)
	box.mu.Unlock()
}

func (l *stressLoop) Link(w *Waiter, p *Place) {
	l.account(w)
	l.forget(w)
	l.running = append(l.running, p)
}

func (l *stressLoop) End(w *Waiter, _ Outcome) {
	l.account(w)
	l.forget(w)
	l.s.active.Add(-1)
}

func (l *stressLoop) Open(p *Place)  { l.opening = append(l.opening, p) }
func (l *stressLoop) Close(p *Place) { l.closing = append(l.closing, p) }
func (l *stressLoop) Detach(*Place)  {}
func (l *stressLoop) Attach(*Place)  {}

// account reads what w spent while other loops may move it on.
func (l *stressLoop) account(w *Waiter) {
	sum := int64(0)
	for _, n := range w.Spent(l.now) {
		sum += n
	}
	if _, paused, _ := w.Paused(l.now); sum != l.now-w.Since || paused > sum {
		panic("the account of a wait does not add up")
	}
}

func (l *stressLoop) forget(w *Waiter) {
	for i, x := range l.pending {
		if x == w {
			l.pending[i] = l.pending[len(l.pending)-1]
			l.pending = l.pending[:len(l.pending)-1]
			return
		}
	}
	panic("a waiter ended twice")
}

func (l *stressLoop) run(requests int) {
	for n := 0; ; n++ {
		now := int64(n) * 1e5
		l.now = now
		l.deliver(now)
		if requests > 0 && len(l.running)+len(l.pending) < 12 {
			l.ask(now)
			if requests--; requests == 0 {
				l.s.asking.Add(-1)
			}
		}
		l.work(now, n)
		if l.s.asking.Load() == 0 && l.s.active.Load() == 0 && l.quiet() {
			return
		}
		if l.s.asking.Load() == 0 && n%256 == 0 {
			l.s.resume(l.id, now)
		}
		if n%64 == 0 {
			l.s.c.Tick(l.id, now)
			runtime.Gosched()
		}
	}
}

func (l *stressLoop) deliver(now int64) {
	l.mu.Lock()
	mail := l.mail
	l.mail = nil
	l.mu.Unlock()
	for _, m := range mail {
		l.s.c.Handle(l.id, now, m)
	}
}

func (l *stressLoop) ask(now int64) {
	key := &l.s.keys[l.rnd.IntN(len(l.s.keys))]
	r := key.Load()
	l.s.active.Add(1)
	if p := r.TryRun(l.id); p != nil {
		l.running = append(l.running, p)
		return
	}
	w := l.s.c.NewWaiter(l.id)
	l.pending = append(l.pending, w)
	v := r.Enter(l.id, now, w)
	if v == Pending {
		return
	}
	l.forget(w)
	l.s.c.FreeWaiter(w)
	l.s.active.Add(-1)
	if v == RouteDead {
		l.s.renew(key, r)
	}
}

// renew replaces a forgotten route.
func (s *stress) renew(key *atomic.Pointer[Route], dead *Route) {
	r := dead.pool.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 10})
	s.mu.Lock()
	s.routes = append(s.routes, r)
	s.mu.Unlock()
	key.CompareAndSwap(dead, r)
}

func (l *stressLoop) work(now int64, n int) {
	if k := len(l.opening); k > 0 {
		p := l.opening[k-1]
		l.opening = l.opening[:k-1]
		if n%7 == 0 {
			if l.s.c.Failed(l.id, now, p) {
				l.s.c.Retry(l.id, now, p)
			}
		} else {
			l.s.c.Opened(l.id, now, p)
		}
	}
	if k := len(l.closing); k > 0 {
		p := l.closing[k-1]
		l.closing = l.closing[:k-1]
		l.s.c.Closed(l.id, now, p)
	}
	if k := len(l.running); k > 0 && l.rnd.IntN(2) == 0 {
		p := l.running[0]
		l.running = append(l.running[:0], l.running[1:]...)
		l.s.active.Add(-1)
		if l.rnd.IntN(20) == 0 {
			l.s.c.Closed(l.id, now, p)
		} else {
			l.s.c.Release(l.id, now, p)
		}
	}
	if k := len(l.pending); k > 0 && l.rnd.IntN(10) == 0 {
		w := l.pending[l.rnd.IntN(k)]
		l.account(w)
		l.forget(w)
		l.s.active.Add(-1)
		l.s.c.Leave(l.id, now, w, TimedOut)
	}
	if l.rnd.IntN(50) == 0 {
		l.operate(now)
	}
}

// operate is an operator's work, from any loop.
func (l *stressLoop) operate(now int64) {
	s := l.s
	key := &s.keys[l.rnd.IntN(len(s.keys))]
	r := key.Load()
	switch l.rnd.IntN(9) {
	case 0:
		r.Pause(l.id, now)
		r.pool.Pause(l.id, now)
	case 1:
		s.c.Pause(l.id, now)
		s.c.Resume(l.id, now)
	case 2, 3:
		s.resume(l.id, now)
	case 4:
		if r.Forget() {
			s.renew(key, r)
		}
	case 5:
		s.host.SetMax(s.c, l.id, now, 2+l.rnd.IntN(6))
		s.c.Trim(l.id, now)
	case 6:
		r.SetWeight(1 + l.rnd.IntN(5))
		s.c.SetFIFOSlack(l.rnd.Int64N(2e6))
		r.pool.EachRoute(func(r *Route) { r.Explain(now) })
	default:
		r.SetLimits(l.id, now, RouteOptions{MaxInFlight: 1 + l.rnd.IntN(6), MaxWaiters: l.rnd.IntN(20), OnFull: Policy(l.rnd.IntN(3))})
	}
}

func (s *stress) resume(loop int, now int64) {
	s.mu.Lock()
	routes := slices.Clone(s.routes)
	s.mu.Unlock()
	for _, r := range routes {
		r.Resume(loop, now)
		r.pool.Resume(loop, now)
	}
}

// quiet: nothing of this loop is under way.
func (l *stressLoop) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mail)+len(l.opening)+len(l.closing)+len(l.running)+len(l.pending) > 0 {
		return false
	}
	for i := range l.s.keys {
		if !l.s.keys[i].Load().pool.Drained() {
			return false
		}
	}
	return true
}

func TestStressOnRealGoroutines(t *testing.T) {
	const loops, requests = 4, 4000
	s := &stress{c: New(Options{Loops: loops, MaxWaiters: 60, FIFOSlack: 1e6}), keys: make([]atomic.Pointer[Route], 16)}
	s.asking.Store(loops)
	h, database := s.c.NewHost("h", 6), s.c.NewCap("d", 5)
	s.host = h
	var pools []*Pool
	for i := range s.keys {
		if i%8 == 0 {
			pools = append(pools, s.c.NewPool(PoolOptions{Host: h, Database: database, MaxSize: 3 + i%5}))
		}
		r := pools[i/8].NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 10, Weight: 1 + i%3})
		s.keys[i].Store(r)
		s.routes = append(s.routes, r)
	}
	for i := range loops {
		l := &stressLoop{s: s, id: i, rnd: rand.New(rand.NewPCG(uint64(i), 1))}
		s.loops = append(s.loops, l)
		s.c.Bind(i, l)
	}
	var wg sync.WaitGroup
	for _, l := range s.loops {
		wg.Go(func() { l.run(requests) })
	}
	wg.Wait()
	idle := 0
	for _, r := range s.routes {
		if n := r.Counts(); n.InFlight != 0 || n.Waiting != 0 {
			t.Errorf("route: %+v", n)
		}
	}
	for _, p := range pools {
		idle += p.Counts().Size
	}
	if n := h.Counts(); n.Size != idle || n.Connecting != 0 || n.Moves != 0 {
		t.Errorf("host: %+v, pools have %d places", n, idle)
	}
	if s.c.Waiting() != 0 {
		t.Errorf("%d waiters", s.c.Waiting())
	}
}
