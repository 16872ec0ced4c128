//go:build sim

package admission

// checkWords runs after every step, also in the middle of calls: what the words alone must never show.
func (w *world) checkWords() {
	for _, r := range w.routes {
		now, was := routeWord(r.word.v.Load()), routeWord(w.last[&r.word])
		w.last[&r.word] = uint64(now)
		if now.inFlight() > now.limit() && now.inFlight() > was.inFlight() {
			fail("in flight %d rose above the limit %d", now.inFlight(), now.limit())
		}
		if n := int(r.maxWaiters.Load()); now.waiting() > n && now.waiting() > was.waiting() {
			fail("waiting %d rose above the limit %d", now.waiting(), n)
		}
		if now.dead() && !was.dead() && (now.inFlight() != 0 || now.waiting() != 0) {
			fail("a route in use was forgotten")
		}
		if now.dead() && now.inFlight()+now.waiting() > 0 {
			fail("a forgotten route admitted a request")
		}
	}
	for _, p := range w.pools {
		now, was := poolWord(p.word.v.Load()), poolWord(w.last[&p.word])
		w.last[&p.word] = uint64(now)
		if now.size() > int(p.max.Load()) && now.size() > was.size() {
			fail("pool size %d rose above its maximum %d", now.size(), p.max.Load())
		}
		if now.used() > now.size() {
			fail("used %d is above size %d: a backend was taken twice", now.used(), now.size())
		}
		p.drained = now.paused() && (p.drained || now.used() == 0)
	}
	for _, b := range *w.c.budgets.Load() {
		if b.size > b.max && b.size > w.lastCap[b] {
			fail("%d places of a host or cap rose above its maximum %d", b.size, b.max)
		}
		w.lastCap[b] = b.size
		w.capPeak[b] = max(w.capPeak[b], b.size)
	}
}

// checkAll runs whenever no loop is inside a call: words against lists, and nobody forgotten.
func (w *world) checkAll() {
	waiting := 0
	permits := map[*Route]int{}
	use := map[*Pool]int{}
	for p := range w.places {
		switch p.state {
		case placeUsed:
			use[p.pool]++
			if p.route != nil {
				permits[p.route]++
			}
		case placeClosing:
			use[p.pool]++
		}
	}
	for _, p := range w.pools {
		w.checkPool(p.Pool, use[p.Pool], permits)
		waiting += int(p.queued.Load())
	}
	for _, r := range w.routes {
		w.checkRoute(r, permits[r])
	}
	if n := w.c.Waiting(); n != waiting {
		fail("the process counts %d waiters, its queues hold %d", n, waiting)
	}
	w.checkBudgets()
	w.checkWaits()
}

func (w *world) checkRoute(r *Route, permits int) {
	n := routeWord(r.word.v.Load())
	if n.inFlight() != permits {
		fail("in flight %d, but %d permits are out", n.inFlight(), permits)
	}
	walked, local := 0, 0
	for x := r.fifo.head; x != nil; x = x.links[byRoute].next {
		if x.state != waiterQueued {
			fail("a waiter in the queue is not queued")
		}
		walked++
	}
	for i := range r.local {
		for x := r.local[i].head; x != nil; x = x.links[byLoop].next {
			local++
		}
	}
	if n.waiting() != walked || walked != r.fifo.n || walked != local {
		fail("waiting %d, but the queues hold %d, %d, %d", n.waiting(), walked, r.fifo.n, local)
	}
	if r.policy() == DropRandom && len(r.slots) != walked {
		fail("%d slots for %d waiters", len(r.slots), walked)
	}
	if n.eligible() != (r.ringNext != nil) {
		fail("a route is eligible: %v, but in the ring: %v", n.eligible(), r.ringNext != nil)
	}
}

func (w *world) checkPool(p *Pool, use int, permits map[*Route]int) {
	n := poolWord(p.word.v.Load())
	idle := 0
	for i := range p.idle {
		walked := 0
		for x := p.idle[i].head; x != nil; x = x.next {
			if x.state != placeIdle || int(x.loop) != i || w.places[x] != i {
				fail("a backend in an idle list is not idle and on that loop's poller")
			}
			walked++
		}
		if int(p.idle[i].n) != walked || int(p.idle[i].published.Load()) != walked {
			fail("an idle list of %d counts %d and publishes %d", walked, p.idle[i].n, p.idle[i].published.Load())
		}
		idle += walked
	}
	if got := idle + use + int(p.reserved.Load()); n.size() != got {
		fail("size %d, but %d places: %d idle, %d in use, %d reserved", n.size(), got, idle, use, p.reserved.Load())
	}
	if idle != n.size()-n.used()+p.claims.n {
		fail("%d idle, size %d, used %d, claims %d", idle, n.size(), n.used(), p.claims.n)
	}
	if n.holders() != p.claims.n+p.openings.n {
		fail("holders %d, but %d claims and %d openings", n.holders(), p.claims.n, p.openings.n)
	}
	if n.eligible() != p.ring.n {
		fail("eligible %d, but %d routes in the ring", n.eligible(), p.ring.n)
	}
	for x := p.claims.head; x != nil; x = x.links[byRoute].next {
		permits[x.Route]++
	}
	for x := p.openings.head; x != nil; x = x.links[byRoute].next {
		permits[x.Route]++
		if x.place == nil || x.place.holder != x || x.place.loop != x.loop {
			fail("an opening and its place do not know each other")
		}
	}
	listed := false
	for _, s := range p.home.all {
		listed = listed || s.where != nil
		if s.credit != 0 {
			fail("a credit was kept")
		}
	}
	onHosts := p.home.held
	for _, s := range p.former {
		onHosts += s.held
		if s.where != nil || s.credit != 0 {
			fail("a pool waits for a place of a host that it has left")
		}
		if s.held == 0 || !s.past || s.host == p.home.host {
			fail("a host that a pool has left is remembered for nothing: %d places", s.held)
		}
	}
	if onHosts != n.size() || p.home.past {
		fail("size %d, but %d places counted on its hosts", n.size(), onHosts)
	}
	if p.openings.n > 0 && n.hasIdle() {
		fail("an idle backend while a holder waits for a connect")
	}
	if n.serves() && n.hasIdle() {
		fail("an idle backend while a waiter is eligible and nothing is under way for it")
	}
	if n.serves() && n.size() < int(p.max.Load()) && !listed {
		fail("an eligible waiter while the pool may open a backend")
	}
}

func (w *world) checkBudgets() {
	for _, b := range *w.c.budgets.Load() {
		size, listed := 0, 0
		for _, s := range b.stakes {
			size += s.held
			if s.where != nil {
				listed++
			}
		}
		if size != b.size {
			fail("a host or cap counts %d places, its pools have %d", b.size, size)
		}
		if listed != int(b.waiters.Load()) {
			fail("a host or cap counts %d waiting pools of %d", b.waiters.Load(), listed)
		}
		if listed > 0 && b.size < b.max {
			fail("a pool waits for a place of a host or cap that has one")
		}
		for _, s := range b.stakes {
			if p := poolWord(s.pool.word.v.Load()); b.size-b.moves > b.max && s.held > int(s.closing.Load()) && !p.asked() {
				fail("a host or cap has %d places of %d, %d of them closing, and a pool is not asked to give", b.size, b.max, b.moves)
			}
		}
		if b.moves < 0 || b.moves > b.size {
			fail("%d moves of %d places", b.moves, b.size)
		}
	}
	for _, h := range w.hosts {
		connecting := 0
		for p := range w.places {
			if p.state != placeFree && p.home.host == h && p.state == placeConnecting {
				connecting++
			}
		}
		// A place whose Open still travels is not known here yet.
		if connecting > h.connecting || h.connecting > h.maxConnects && h.connecting > w.lastConnecting[h] {
			fail("%d connect slots of %d, %d in use", h.connecting, h.maxConnects, connecting)
		}
		w.lastConnecting[h] = h.connecting
		if h.queue.head != nil && h.connecting < h.maxConnects {
			fail("a connect waits for a slot that is free")
		}
	}
}
