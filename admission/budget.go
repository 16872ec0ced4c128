package admission

import "sync/atomic"

// State: a budget: a number of places that several pools share (a host's, a database's, a user's), and the pools that
// were refused one.
// Owner: its mutex, entered when a place is opened or freed or a limit changes, never by a request that finds an idle
// backend. Lock order: a pool's critical section, then one budget's.
// Invariants, whenever mu is free: size = Σ over stakes of the pool's places counted here, plus credits; a pool waits
// here only while size ≥ max; waiters = pools in want and starve. A freed place goes to the first waiting pool as a
// credit, without ever being free for others to snatch; a pool that has no use for its credit passes it on.

type budget struct {
	mu        mutex
	size, max int
	peak      int // of size
	moves     int // places being closed for the sake of this budget
	maxMoves  int
	share     int // places that each pool with demand may count on, as of the last evaluation
	floor     int // places above which a pool gives: the share, or 0 when there are more pools than places
	keep      int // places that a pool keeps for a while although they rest: an equal part
	need      int // places that waiting pools could use, as of the last evaluation, less the reclaimed
	stakes    []*stake
	want      stakeList // pools that were refused a place, oldest first
	starve    stakeList // those below their share for too long: they go first
	waiters   atomic.Int32
	evaluated atomic.Int64 // ns
}

// Host is one PostgreSQL host: the places that all its pools share, and its connect slots.
type Host struct {
	budget
	name           string
	connecting     int
	warming        int // of these, the ones that nobody waits for
	peakConnecting int
	maxConnects    int
	queue          placeList
}

// Cap is a bound on the places of all pools of one database entry or of one user.
type Cap struct {
	budget
	name string
}

// NewHost makes a host whose pools together have at most maxBackends places. Any goroutine.
func (c *Controller) NewHost(name string, maxBackends int) *Host {
	must(maxBackends >= 1, "a host without places")
	h := &Host{name: name, maxConnects: c.maxConnects}
	c.addBudget(&h.budget, maxBackends)
	return h
}

// NewCap makes a cap of max places for a database entry or a user. Any goroutine.
func (c *Controller) NewCap(name string, max int) *Cap {
	must(max >= 1, "a cap without places")
	k := &Cap{name: name}
	c.addBudget(&k.budget, max)
	return k
}

func (c *Controller) addBudget(b *budget, max int) {
	b.max, b.share, b.floor, b.keep, b.maxMoves = max, max, max, max, c.maxConnects
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(append([]*budget{}, *c.budgets.Load()...), b)
	c.budgets.Store(&all)
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Name is the cap's name.
func (k *Cap) Name() string { return k.name }

// HostCounts is what a host, or a cap, holds.
type HostCounts struct {
	Size, Max    int // places, and their limit
	Peak         int // the highest size that there ever was
	Connecting   int // connects in progress, at most MaxConnects; a host's only
	PeakConnects int // the most that there ever were
	MaxConnects  int
	Moves        int // places being closed for another pool
	WaitingPools int // pools that wait for a place
}

// Counts reads h's numbers. Any goroutine; enters the host's mutex.
func (h *Host) Counts() HostCounts {
	n := h.budget.counts()
	h.mu.Lock()
	defer h.mu.Unlock()
	n.Connecting, n.PeakConnects, n.MaxConnects = h.connecting, h.peakConnecting, h.maxConnects
	return n
}

// Counts reads k's numbers. Any goroutine.
func (k *Cap) Counts() HostCounts { return k.budget.counts() }

func (b *budget) counts() HostCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return HostCounts{Size: b.size, Max: b.max, Peak: b.peak, Moves: b.moves, WaitingPools: int(b.waiters.Load())}
}

// SetMax changes the host's limit while its places are in use: raising lets waiting pools open, a lowered one is
// reached as places are released, and by Trim.
func (h *Host) SetMax(c *Controller, loop int, now int64, max int) {
	c.setMax(&h.budget, loop, now, max)
}

// SetMax changes the cap while its places are in use, as Host.SetMax does.
func (k *Cap) SetMax(c *Controller, loop int, now int64, max int) {
	c.setMax(&k.budget, loop, now, max)
}

// SetMaxConnects changes the number of logins in progress, and of moves between pools.
func (h *Host) SetMaxConnects(c *Controller, loop int, now int64, n int) {
	must(n >= 1, "a host without connects")
	l := c.enter(loop, now)
	h.mu.Lock()
	h.maxConnects, h.maxMoves = n, n
	h.beginNext(l)
	h.mu.Unlock()
	l.settle(false)
}

func (c *Controller) setMax(b *budget, loop int, now int64, max int) {
	must(max >= 1, "a limit without places")
	l := c.enter(loop, now)
	b.mu.Lock()
	b.max = max
	for b.size < b.max && !mutRaiseNoKick {
		s := b.next(now)
		if s == nil {
			break
		}
		b.grow()
		s.credit++
		l.wakes = append(l.wakes, s.pool)
	}
	b.askAll()
	b.mu.Unlock()
	l.settle(false)
}
