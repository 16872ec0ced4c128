package admission

import "testing"

// rig drives a controller in one goroutine: a loop's mailbox is carried out when the test says so.
type rig struct {
	t     testing.TB
	c     *Controller
	host  *Host
	pool  *Pool
	now   int64
	loops []*rigLoop
	order []any // owners in the order of their links
	posts int   // messages so far
}

// rigLoop is the driver of one loop of a rig and records what admission does.
type rigLoop struct {
	r        *rig
	id       int
	mail     queue
	linked   []*Place // places of ended waits, in order
	owners   []any    // their waiters' owners
	opening  []*Place
	closing  []*Place
	ended    []any
	attached map[*Place]bool
	silent   bool // record nothing (allocation tests, benchmarks)
}

func newRig(t testing.TB, o Options, poolMax, hostMax int) *rig {
	r := &rig{t: t, c: New(o), now: 1e9}
	for i := range o.Loops {
		l := &rigLoop{r: r, id: i, attached: map[*Place]bool{}}
		r.loops = append(r.loops, l)
		r.c.Bind(i, l)
	}
	r.host = r.c.NewHost("h", hostMax)
	r.pool = r.c.NewPool(PoolOptions{Host: r.host, MaxSize: poolMax})
	return r
}

func (l *rigLoop) Post(to int, m *Message) {
	l.r.posts++
	l.r.loops[to].mail.push(m)
}

func (l *rigLoop) Open(p *Place)   { l.opening = append(l.opening, p) }
func (l *rigLoop) Detach(p *Place) { delete(l.attached, p) }
func (l *rigLoop) Attach(p *Place) { l.attached[p] = true }
func (l *rigLoop) Close(p *Place)  { l.closing = append(l.closing, p) }

func (l *rigLoop) Link(w *Waiter, p *Place) {
	if l.silent {
		l.linked = append(l.linked[:0], p)
		return
	}
	if !l.attached[p] || p.Loop() != l.id {
		l.r.t.Fatalf("linked to a backend that is not on loop %d", l.id)
	}
	l.linked = append(l.linked, p)
	l.owners = append(l.owners, w.Owner)
	l.r.order = append(l.r.order, w.Owner)
}

func (l *rigLoop) End(w *Waiter, o Outcome) {
	if o != Shed {
		l.r.t.Fatalf("ended with outcome %d", o)
	}
	l.ended = append(l.ended, w.Owner)
}

// deliver carries out all mail until none is left.
func (r *rig) deliver() {
	for again := true; again; {
		again = false
		for i, l := range r.loops {
			if m := l.mail.pop(); m != nil {
				r.c.Handle(i, r.now, m)
				again = true
			}
		}
	}
}

// opened finishes every connect in progress on loop.
func (r *rig) opened(loop int) {
	l := r.loops[loop]
	for len(l.opening) > 0 {
		p := l.opening[0]
		l.opening = l.opening[1:]
		l.attached[p] = true
		r.c.Opened(loop, r.now, p)
	}
	r.deliver()
}

// enter lets owner ask for admission by the slow path.
func (r *rig) enter(rt *Route, loop int, owner any) (*Waiter, Verdict) {
	w := r.c.NewWaiter(loop)
	w.Owner = owner
	v := rt.Enter(loop, r.now, w)
	r.deliver()
	return w, v
}

// request takes a permit as the engine does and returns the backend, or nil when the request waits or was refused.
func (r *rig) request(rt *Route, loop int, owner any) (*Place, *Waiter, Verdict) {
	if p := rt.TryRun(loop); p != nil {
		return p, nil, Pending
	}
	w, v := r.enter(rt, loop, owner)
	return nil, w, v
}

// fill opens n idle backends on loop.
func (r *rig) fill(rt *Route, loop, n int) {
	for i := range n {
		if _, v := r.enter(rt, loop, i); v != Pending {
			r.t.Fatalf("request %d of %d was not admitted: %d", i, n, v)
		}
		r.deliver()
	}
	r.opened(loop)
	l := r.loops[loop]
	for _, p := range l.linked {
		r.c.Release(loop, r.now, p)
	}
	l.linked, l.owners = l.linked[:0], l.owners[:0]
	r.deliver()
}

func (r *rig) wantCounts(rt *Route, inFlight, waiting int) {
	r.t.Helper()
	if n := rt.Counts(); n.InFlight != inFlight || n.Waiting != waiting {
		r.t.Fatalf("in flight %d, waiting %d; want %d, %d", n.InFlight, n.Waiting, inFlight, waiting)
	}
}

func (r *rig) wantPool(size, used int) {
	r.t.Helper()
	if n := r.pool.Counts(); n.Size != size || n.Used != used {
		r.t.Fatalf("pool size %d, used %d; want %d, %d", n.Size, n.Used, size, used)
	}
}
