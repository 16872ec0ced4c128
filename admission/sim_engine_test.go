//go:build sim

package admission

// The virtual engine: clients that ask for backends, backends that connect, serve, fail and die, and an operator that
// reloads, pauses and sweeps. It keeps its own account of who runs where and fails on any call that contradicts it.

type clientState uint8

const (
	clientIdle clientState = iota
	clientPending
	clientRunning
	clientDone
)

// client is one client of the virtual engine; it lives on one loop.
type client struct {
	w     *world
	loop  int
	slot  *simRoute
	state clientState
	asks  int // requests it still makes
	think int64
	epoch int // number of the request, so that timers of an earlier one do nothing
	wait  *Waiter
	since int64
	place *Place
	tally tally
}

// simRoute is a route key: the route that stands for it changes when it is forgotten.
type simRoute struct {
	pool *simPool
	r    *Route
	o    RouteOptions
}

type simPool struct {
	*Pool
	routes  []*simRoute
	drained bool // was seen paused and drained, and not resumed since
}

// backend is the engine's side of a place.
type backend struct{ client *client }

const detached = -1 // place of w.places: on no loop's poller

func (w *world) addHost(max int) *Host {
	h := w.c.NewHost("", max)
	w.hosts = append(w.hosts, h)
	return h
}

func (w *world) addPool(h *Host, db *Cap, size int) *simPool {
	p := &simPool{Pool: w.c.NewPool(PoolOptions{Host: h, Database: db, MaxSize: size})}
	w.pools = append(w.pools, p)
	return p
}

func (w *world) addRoute(p *simPool, o RouteOptions) *simRoute {
	s := &simRoute{pool: p, o: o, r: p.NewRoute(o)}
	w.routes = append(w.routes, s.r)
	p.routes = append(p.routes, s)
	return s
}

// renew interns the key anew after dead was forgotten.
func (w *world) renew(s *simRoute, dead *Route) {
	r := s.pool.NewRoute(s.o)
	w.routes = append(w.routes, r)
	if s.r == dead {
		s.r = r
		return
	}
	r.Forget() // another loop was faster
}

func (w *world) addClient(loop int, s *simRoute, asks int) *client {
	c := &client{w: w, loop: loop, slot: s, asks: asks}
	w.clients = append(w.clients, c)
	return c
}

// ask makes one request.
func (c *client) ask() {
	w := c.w
	c.asks--
	c.epoch++
	c.since = w.now
	for {
		r := c.slot.r
		if p := r.TryRun(c.loop); p != nil {
			c.run(p)
			return
		}
		x := w.c.NewWaiter(c.loop)
		x.Owner = c
		c.state, c.wait, c.tally = clientPending, x, tally{}
		v := r.Enter(c.loop, w.now, x)
		if v == Pending {
			c.troubles()
			return
		}
		c.state, c.wait = clientIdle, nil
		w.c.FreeWaiter(x)
		if v != RouteDead {
			c.next()
			return
		}
		w.renew(c.slot, r)
	}
}

// troubles decides what becomes of a pending client other than being served.
func (c *client) troubles() {
	w, o := c.w, &c.w.opt
	switch {
	case w.chance(o.timeout):
		c.later(w.upTo(o.patience), func() { c.leave(TimedOut) })
	case w.chance(o.cancel):
		c.later(w.upTo(o.service), func() { c.leave(Canceled) })
	case w.chance(o.vanish):
		c.later(w.upTo(o.service), func() {
			c.leave(Disconnected)
			c.state = clientDone
		})
	}
}

// later runs f after d if the client is still pending with the same request.
func (c *client) later(d int64, f func()) {
	epoch := c.epoch
	c.w.at(c.loop, d, func() {
		if c.state == clientPending && c.epoch == epoch {
			f()
		}
	})
}

func (c *client) leave(o Outcome) {
	x := c.wait
	c.w.checkSpent(c, x, c.w.now)
	c.state, c.wait = clientIdle, nil
	c.w.c.Leave(c.loop, c.w.now, x, o)
	c.next()
}

// next makes the client ask again after a while, or ends it.
func (c *client) next() {
	if c.asks == 0 {
		c.state = clientDone
		return
	}
	epoch := c.epoch
	think := c.think
	if think == 0 {
		think = c.w.opt.think
	}
	c.w.at(c.loop, c.w.upTo(think), func() {
		if c.state == clientIdle && c.epoch == epoch {
			c.ask()
		}
	})
}

// run is a request at work on p.
func (c *client) run(p *Place) {
	w := c.w
	b := p.Owner.(*backend)
	if b.client != nil {
		fail("a backend was given to two requests")
	}
	if at, ok := w.places[p]; !ok || at != c.loop {
		fail("a request runs on a backend of another loop")
	}
	if c.slot.pool.drained && poolWord(c.slot.pool.word.v.Load()).paused() {
		fail("a request ran in a paused and drained pool")
	}
	b.client = c
	c.state, c.place, c.wait = clientRunning, p, nil
	w.at(c.loop, w.upTo(w.opt.service), func() { c.finish(p, b) })
}

// finish ends a request: its backend is given back, or dies with it; the client may have gone before.
func (c *client) finish(p *Place, b *backend) {
	w := c.w
	b.client = nil
	c.place = nil
	c.state = clientIdle
	if w.chance(w.opt.dieBusy) {
		w.at(c.loop, w.upTo(w.opt.service), func() { w.closed(c.loop, p) })
		c.next()
		return
	}
	if w.chance(w.opt.vanish) {
		c.state = clientDone
		w.at(c.loop, w.upTo(w.opt.service), func() { w.c.Release(c.loop, w.now, p) }) // recovery
		return
	}
	w.c.Release(c.loop, w.now, p)
	c.next()
}

func (w *world) closed(loop int, p *Place) {
	delete(w.places, p)
	w.c.Closed(loop, w.now, p)
}

// The Driver of a virtual loop.

func (v *vloop) Post(to int, m *Message) {
	w := v.w
	box := &w.loops[to].mail[v.id]
	at := w.now + w.rnd.Int64N(max(w.delay, 1))
	if n := len(*box); n > 0 {
		at = max(at, (*box)[n-1].at)
	}
	*box = append(*box, letter{at, m})
}

func (v *vloop) Link(x *Waiter, p *Place) {
	c := x.Owner.(*client)
	if c.state != clientPending || c.wait != x || c.loop != v.id {
		fail("a waiter that had ended was linked")
	}
	v.w.watchWaiter(c, x)
	v.w.checkSpent(c, x, v.w.now)
	c.run(p)
}

func (v *vloop) End(x *Waiter, o Outcome) {
	c := x.Owner.(*client)
	if c.state != clientPending || c.wait != x || c.loop != v.id || o != Shed {
		fail("a waiter that had ended was ended again")
	}
	v.w.checkSpent(c, x, v.w.now)
	c.state, c.wait = clientIdle, nil
	c.next()
}

func (v *vloop) Open(p *Place) {
	w := v.w
	if _, known := w.places[p]; known && p.Owner != nil || p.Loop() != v.id {
		fail("a live backend was opened, or on the wrong loop")
	}
	w.places[p] = detached
	w.opens++
	p.Owner = &backend{}
	w.at(v.id, w.upTo(w.opt.connect), func() {
		if w.chance(w.opt.refuse) {
			v.failed(p)
			return
		}
		w.places[p] = v.id
		w.c.Opened(v.id, w.now, p)
	})
}

// failed is a refused connect: a kept place is tried again, or given up and its holder told.
func (v *vloop) failed(p *Place) {
	w := v.w
	if !w.c.Failed(v.id, w.now, p) {
		return
	}
	w.at(v.id, w.upTo(w.opt.connect), func() {
		if !w.chance(w.opt.giveUp) {
			w.c.Retry(v.id, w.now, p)
			return
		}
		holder := p.Holder()
		w.c.GiveUp(v.id, w.now, p)
		if holder != nil {
			c := holder.Owner.(*client)
			if c.state == clientPending && c.wait == holder {
				c.leave(TimedOut)
			}
		}
	})
}

func (v *vloop) Detach(p *Place) {
	if v.w.places[p] != v.id {
		fail("detached a backend that was not on this loop")
	}
	v.w.places[p] = detached
}

func (v *vloop) Attach(p *Place) {
	if v.w.places[p] != detached {
		fail("attached a backend that was on a loop")
	}
	v.w.places[p] = v.id
}

func (v *vloop) Close(p *Place) {
	w := v.w
	if w.places[p] != v.id || p.Owner.(*backend).client != nil {
		fail("closed a backend that was in use")
	}
	w.at(v.id, w.upTo(w.opt.service), func() { w.closed(v.id, p) })
}
