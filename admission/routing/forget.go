package routing

// How routes leave a Directory. The state is described in directory.go.

// Sweep forgets routes that nobody has interned or used since the sweep before last and that Forget accepts. A sweep is one
// pass over all routes; a call goes on with it for at most budget of them, tells whether it is complete, and gives the mutex
// to others in between. An overflow route that is forgotten lets the clients in it look for routes of their own.
func (d *Directory[P, R]) Sweep(budget int) (complete bool) {
	for budget > 0 {
		if !d.sweepSome(min(budget, sweepChunk)) {
			return true
		}
		budget -= sweepChunk
	}
	return false
}

// sweepSome looks at n routes and tells whether the pass goes on.
func (d *Directory[P, R]) sweepSome(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; n > 0 && d.next < len(d.all); n-- {
		e := d.all[d.next]
		// Use does not keep an overflow route: with it, who is in there would stay for ever.
		if e.shared == nil && d.o.Used != nil && d.o.Used(e.route) {
			e.stamp = d.pass
		}
		// A route that is forgotten leaves its index to another one.
		if e.stamp+2 > d.pass || !d.forget(e) {
			d.next++
		}
	}
	if d.next < len(d.all) {
		return true
	}
	d.next = 0
	d.pass++
	return false
}

// DropPool forgets all routes of a pool and tells whether it holds none any more. Those that Forget accepts are forgotten
// even if others are not. The caller sees to it that nobody interns in the pool meanwhile.
func (d *Directory[P, R]) DropPool(pool P) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	tries := 0
	if p := d.pools[pool]; p != nil {
		tries = p.routes.n
	}
	for i := range tries {
		p := d.pools[pool]
		if p == nil || p.routes.n == 0 {
			break
		}
		if e := p.routes.head; !d.forget(e) {
			p.routes.touch(e)
		}
		if i%sweepChunk == sweepChunk-1 {
			d.mu.Unlock()
			d.mu.Lock()
		}
	}
	if p := d.pools[pool]; p != nil && p.overflow != nil {
		d.forget(p.overflow)
	}
	return d.pools[pool] == nil
}

// recycle forgets the least recently interned route of t. One that is in use goes to the end of the list, so that the next
// try meets another.
func (d *Directory[P, R]) recycle(t *tenant[P, R]) bool {
	e := t.routes.head
	if !d.forget(e) {
		t.routes.touch(e)
		return false
	}
	return true
}

// forget removes e if its route is dead or can be killed.
func (d *Directory[P, R]) forget(e *entry[P, R]) bool {
	if !d.o.Forget(e.route) {
		return false
	}
	p := e.pool
	if e.shared != nil {
		p.overflow = nil
	} else {
		delete(d.routes, keyOf(p.pool, &e.id))
		p.routes.remove(e)
		e.tenant.routes.remove(e)
		d.recount(e.tenant)
		d.ordinary--
	}
	if p.routes.n == 0 && p.overflow == nil {
		delete(d.pools, p.pool)
	}
	last := len(d.all) - 1
	moved := d.all[last]
	d.all[e.index], moved.index = moved, e.index
	d.all[last] = nil
	d.all = d.all[:last]
	d.forgotten++
	d.o.Gone(e.route)
	return true
}

// enter puts a new entry among all.
func (d *Directory[P, R]) enter(e *entry[P, R]) {
	e.stamp = d.pass
	e.index = len(d.all)
	d.all = append(d.all, e)
	d.made++
}

// recount puts t into over or takes it out, after its routes or the share changed, and drops it when it has none.
func (d *Directory[P, R]) recount(t *tenant[P, R]) {
	switch over := t.routes.n > d.share; {
	case over && t.overAt == notOver:
		t.overAt = len(d.over)
		d.over = append(d.over, t)
	case !over && t.overAt != notOver:
		last := len(d.over) - 1
		moved := d.over[last]
		d.over[t.overAt], moved.overAt = moved, t.overAt
		d.over[last] = nil
		d.over = d.over[:last]
		t.overAt = notOver
	}
	if t.routes.n == 0 {
		delete(d.tenants, t.name)
	}
}
