package admission

import (
	"math/rand/v2"
	"sync/atomic"
)

// State: the process's admission: its loops, hosts, caps and pools, and the number of its queued waiters.
// Owner: waiting and maxWaiters atomic; the lists by mu (budgets copied on write, for Tick); a loop's fields by that
// loop.
// Invariants: waiting = Σ over routes of their waiting, whenever the critical sections are free; lock order: mu, then a
// pool's, then a budget's; never two pools at once.

// Controller is the admission of one process.
type Controller struct {
	loops       []loop
	slack       atomic.Int64 // ns
	maxConnects int

	waiting    atomic.Int64
	peak       peak // of waiting
	maxWaiters atomic.Int64

	mu      mutex
	pools   map[*Pool]struct{}
	paused  bool
	since   int64 // ns, when the process was paused
	budgets atomic.Pointer[[]*budget]
}

// loop is what admission keeps for one event loop.
type loop struct {
	c      *Controller
	id     int32
	driver Driver
	now    int64 // of the last call that told the time

	todo  queue        // what the calls in progress still have to carry out, outside locks
	wakes []*Pool      // pools that were given a credit of a budget and have to be scheduled
	busy  bool         // settle is at work further up the stack
	marks []mark       // scratch of Tick
	dice  rand.PCG     // for DropRandom
	free  *Waiter      // free waiters
	made  atomic.Int64 // waiters allocated
	spare atomic.Int64 // waiters on the free list
}

// New makes a controller; bind each loop before its first call.
func New(o Options) *Controller {
	must(o.Loops >= 1 && o.Loops <= MaxLoops, "number of loops out of range")
	must(o.FIFOSlack >= 0 && o.MaxWaiters >= 0 && o.MaxConnectsPerHost >= 0, "negative option")
	if o.MaxConnectsPerHost == 0 {
		o.MaxConnectsPerHost = 8
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	c := &Controller{
		loops: make([]loop, o.Loops), maxConnects: o.MaxConnectsPerHost,
		pools: map[*Pool]struct{}{},
	}
	c.slack.Store(o.FIFOSlack)
	c.maxWaiters.Store(int64(o.MaxWaiters))
	c.budgets.Store(&[]*budget{})
	for i := range c.loops {
		c.loops[i].c, c.loops[i].id = c, int32(i)
		c.loops[i].dice.Seed(o.Seed, uint64(i))
	}
	return c
}

// Bind gives the driver of a loop, once, before that loop calls anything.
func (c *Controller) Bind(loop int, d Driver) { c.loops[loop].driver = d }

// Waiting is the number of queued waiters in the process. Any goroutine.
func (c *Controller) Waiting() int { return int(c.waiting.Load()) }

// PeakWaiting is the highest number of queued waiters that the process ever had. Any goroutine.
func (c *Controller) PeakWaiting() int { return c.peak.load() }

// SetFIFOSlack changes Options.FIFOSlack: ns by which a loop's own waiter may be younger than the route's oldest and
// still be served before it. Any goroutine.
func (c *Controller) SetFIFOSlack(ns int64) {
	must(ns >= 0, "negative slack")
	c.slack.Store(ns)
}

// EachPool calls f for the pools that exist when it is called; f may call anything. Any goroutine; allocates, so not
// for a hot path.
func (c *Controller) EachPool(f func(*Pool)) {
	c.mu.Lock()
	pools := make([]*Pool, 0, len(c.pools))
	for p := range c.pools {
		pools = append(pools, p)
	}
	c.mu.Unlock()
	for _, p := range pools {
		f(p)
	}
}

// SetMaxWaiters changes the bound of the process's queue; waiters beyond a lowered one stay. Any goroutine.
func (c *Controller) SetMaxWaiters(n int) { c.maxWaiters.Store(int64(n)) }

// Pause stops admission to all pools, also to those made later, until Resume.
func (c *Controller) Pause(loop int, now int64) { c.setPaused(loop, now, true) }

// Resume ends a pause of the process; pools and routes paused on their own stay paused.
func (c *Controller) Resume(loop int, now int64) { c.setPaused(loop, now, false) }

func (c *Controller) setPaused(loop int, now int64, paused bool) {
	l := c.enter(loop, now)
	c.mu.Lock()
	if paused && !c.paused {
		c.since = now
	}
	c.paused = paused
	for p := range c.pools {
		p.setPaused(l, processPaused, paused)
	}
	c.mu.Unlock()
	l.settle(false)
}

func (c *Controller) enter(id int, now int64) *loop {
	l := &c.loops[id]
	l.now = now
	return l
}

// reserveWaiter counts one more waiter in the process, or answers false.
func (c *Controller) reserveWaiter() bool {
	for {
		yield()
		n := c.waiting.Load()
		if n >= c.maxWaiters.Load() {
			return false
		}
		yield()
		if c.waiting.CompareAndSwap(n, n+1) {
			c.peak.note(int(n) + 1)
			return true
		}
	}
}

func (c *Controller) dropWaiter() {
	yield()
	c.waiting.Add(-1)
}

// Handle carries out a message that another loop (or this one) posted to loop's mailbox.
func (c *Controller) Handle(loop int, now int64, m *Message) {
	l := c.enter(loop, now)
	l.run(m)
	l.settle(false)
}

// settle carries out what the call left to do, until nothing is left. Inside Enter and TryRun a backend for a waiter of
// this loop comes by mailbox, so that the caller can note first that its request is pending.
func (l *loop) settle(mailLinks bool) {
	if l.busy {
		return
	}
	l.busy = true
	for {
		if m := l.todo.pop(); m != nil {
			switch {
			case m.to != l.id:
				if m.what == msgGive {
					m.moved = true
					l.driver.Detach(m.p)
				}
				yield()
				l.driver.Post(int(m.to), m)
			case mailLinks && m.what == msgGive:
				l.driver.Post(int(m.to), m)
			default:
				l.run(m)
			}
			continue
		}
		n := len(l.wakes)
		if n == 0 {
			break
		}
		p := l.wakes[n-1]
		l.wakes = l.wakes[:n-1]
		p.wake(l)
	}
	l.busy = false
}

// run carries out m, which is for this loop.
func (l *loop) run(m *Message) {
	switch m.what {
	case msgGive:
		l.arrive(m)
	case msgOpen:
		l.driver.Open(m.p)
	case msgAsk:
		l.answer(m)
	case msgHome:
		l.welcome(m.w)
	case msgEnd:
		l.shed(m.w)
	case msgClose:
		l.driver.Close(m.p)
	}
}

// arrive ends the way of a backend with a permit to its waiter: the waiter runs, or has left and the grant is given
// back here.
func (l *loop) arrive(m *Message) {
	w, p := m.w, m.p
	m.w = nil
	if m.moved {
		m.moved = false
		p.loop = l.id
		l.driver.Attach(p)
	}
	w.place = nil
	if w.state == waiterGone {
		l.finish(w)
		if !mutGoneNoReturn {
			l.release(p)
		}
		return
	}
	must(w.state == waiterGranted, "a grant arrived for a waiter that was not granted")
	w.Route.count(l.id, Admitted)
	w.told = true
	l.driver.Link(w, p)
	l.finish(w)
}

// shed tells this loop's engine that w was shed, unless w left meanwhile.
func (l *loop) shed(w *Waiter) {
	if w.state != waiterGone {
		w.Route.count(l.id, Shed)
		w.told = true
		l.driver.End(w, Shed)
	}
	l.recycle(w)
}
