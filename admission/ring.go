package admission

// State: the eligible routes of a pool in deficit round robin. Every request costs one, so the deficit of a round is
// the weight and what is left of it is the credit.
// Owner: the pool's critical section.
// Invariants: exactly the eligible routes are in the ring; a route outside has no credit (an idle route earns none);
// every operation is O(1), whatever the number of routes.

type ring struct {
	head *Route
	n    int
}

// add appends r behind everybody: it is served after each other eligible route had its round.
func (g *ring) add(r *Route) {
	if g.head == nil {
		r.ringNext, r.ringPrev = r, r
		g.head = r
	} else {
		last := g.head.ringPrev
		r.ringNext, r.ringPrev = g.head, last
		last.ringNext, g.head.ringPrev = r, r
	}
	g.n++
}

func (g *ring) remove(r *Route) {
	if r.ringNext == r {
		g.head = nil
	} else {
		if g.head == r {
			g.head = r.ringNext
		}
		r.ringPrev.ringNext, r.ringNext.ringPrev = r.ringNext, r.ringPrev
	}
	r.ringNext, r.ringPrev, r.credit = nil, nil, 0
	g.n--
}

// charge picks the route to serve next and takes the cost of one request from its credit.
func (g *ring) charge() *Route {
	r := g.head
	if r.credit == 0 {
		r.credit = r.weight
	}
	r.credit--
	if r.credit == 0 {
		g.head = r.ringNext
	}
	return r
}
