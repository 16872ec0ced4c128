package admission

// What an operator's change needs beside SetLimits, SetMaxSize, SetMax, Pause and Resume: things that are made while
// something is paused or after a setting has changed, and looks at what a new route would meet. Nothing here lets
// anybody run, so, unlike those, it takes no loop.

// Hold pauses p as Pause does. Any goroutine; for a pool that is made while what it belongs to is paused, before its
// first request. now is in ns.
func (p *Pool) Hold(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setBit(poolPaused, true)
	p.now = max(p.now, now)
	p.pauses.set(true, p.now)
}

// Hold pauses r as Pause does. Any goroutine; for a route that is made while what it belongs to is paused, before its
// first request. now is in ns.
func (r *Route) Hold(now int64) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeRoute(r, func(w routeWord) routeWord { return w | routePaused })
	p.now = max(p.now, now)
	r.pauses.set(true, p.now, &p.pauses)
}

// SetWeight changes r's share of the pool, from 1 to MaxWeight. It wakes nobody: who is eligible stays so. Any
// goroutine.
func (r *Route) SetWeight(n int) {
	must(n >= 1 && n <= MaxWeight, "weight out of range")
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.setWeight(n)
}

// Share is r's weight and what happens when its queue is full. Any goroutine; enters the pool's critical section.
func (r *Route) Share() (weight int, onFull Policy) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return int(r.weight), r.policy()
}

// Explain tells what the first request of a route of p with limits o would meet if it came now, in ns: as
// Route.Explain does, without the route. Any goroutine; enters the pool's critical section.
func (p *Pool) Explain(now int64, o RouteOptions) Outlook {
	o = o.checked()
	r := &Route{pool: p}
	r.maxWaiters.Store(int32(o.MaxWaiters))
	r.onFull.Store(uint32(o.OnFull))
	r.word.v.Store(uint64(routeWord(0).withLimit(o.MaxInFlight)))
	return r.Explain(now)
}

// InitConnects sets, for a host that no pool uses yet, what SetMaxConnects changes later.
func (h *Host) InitConnects(n int) {
	must(n >= 1, "a host without connects")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maxConnects, h.maxMoves = n, n
}

// SetMaxMoves changes how many places of the cap may be moved between pools at the same time. Any goroutine.
func (k *Cap) SetMaxMoves(n int) {
	must(n >= 1, "a cap without moves")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.maxMoves = n
}

// DropCap forgets a cap that no pool counts in, and answers whether it did. The caller sees to it that no pool is made
// with it meanwhile. Any goroutine.
func (c *Controller) DropCap(k *Cap) bool { return c.dropBudget(&k.budget) }

func (c *Controller) dropBudget(k *budget) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.mu.Lock()
	used := len(k.stakes) > 0
	k.mu.Unlock()
	if used {
		return false
	}
	old := *c.budgets.Load()
	kept := make([]*budget, 0, len(old))
	for _, b := range old {
		if b != k {
			kept = append(kept, b)
		}
	}
	c.budgets.Store(&kept)
	return true
}

// Paused tells whether the process is paused. Any goroutine.
func (c *Controller) Paused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused
}
