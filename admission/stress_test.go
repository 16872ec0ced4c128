//go:build !sim

package admission

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// The stress runs loops as real goroutines, so that the race detector sees the memory that the simulator's coroutines
// share in turns. What it can check is coarse: everything ends, and every count returns to zero.

type stress struct {
	c      *Controller
	routes []*Route
	loops  []*stressLoop
	active atomic.Int64 // requests asked for and not ended
	asking atomic.Int64 // loops that still make requests
}

// stressLoop is one loop; everything but the mailbox is its goroutine's own.
type stressLoop struct {
	s       *stress
	id      int
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
	l.forget(w)
	l.running = append(l.running, p)
}

func (l *stressLoop) End(w *Waiter, _ Outcome) {
	l.forget(w)
	l.s.active.Add(-1)
}

func (l *stressLoop) Open(p *Place)  { l.opening = append(l.opening, p) }
func (l *stressLoop) Close(p *Place) { l.closing = append(l.closing, p) }
func (l *stressLoop) Detach(*Place)  {}
func (l *stressLoop) Attach(*Place)  {}

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
	r := l.s.routes[l.rnd.IntN(len(l.s.routes))]
	l.s.active.Add(1)
	if p := r.TryRun(l.id); p != nil {
		l.running = append(l.running, p)
		return
	}
	w := l.s.c.NewWaiter(l.id)
	l.pending = append(l.pending, w)
	if r.Enter(l.id, now, w) != Pending {
		l.forget(w)
		l.s.c.FreeWaiter(w)
		l.s.active.Add(-1)
	}
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
		l.forget(w)
		l.s.active.Add(-1)
		l.s.c.Leave(l.id, now, w, TimedOut)
	}
	if l.rnd.IntN(50) == 0 {
		r := l.s.routes[l.rnd.IntN(len(l.s.routes))]
		r.SetLimits(l.id, now, RouteOptions{MaxInFlight: 1 + l.rnd.IntN(6), MaxWaiters: l.rnd.IntN(20), OnFull: Policy(l.rnd.IntN(3))})
	}
}

// quiet: nothing of this loop is under way.
func (l *stressLoop) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mail)+len(l.opening)+len(l.closing)+len(l.running)+len(l.pending) > 0 {
		return false
	}
	for _, r := range l.s.routes {
		if !r.pool.Drained() {
			return false
		}
	}
	return true
}

func TestStressOnRealGoroutines(t *testing.T) {
	const loops, requests = 4, 4000
	s := &stress{c: New(Options{Loops: loops, MaxWaiters: 60, FIFOSlack: 1e6})}
	s.asking.Store(loops)
	h, database := s.c.NewHost("h", 6), s.c.NewCap("d", 5)
	for i := range 2 {
		p := s.c.NewPool(PoolOptions{Host: h, Database: database, MaxSize: 3 + i})
		for range 2 {
			s.routes = append(s.routes, p.NewRoute(RouteOptions{MaxInFlight: 3, MaxWaiters: 10}))
		}
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
		idle += r.pool.Counts().Size
	}
	if n := h.Counts(); n.Size != idle/2 || n.Connecting != 0 || n.Moves != 0 {
		t.Errorf("host: %+v, pools have %d places", n, idle/2)
	}
	if s.c.Waiting() != 0 {
		t.Errorf("%d waiters", s.c.Waiting())
	}
}
