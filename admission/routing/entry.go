package routing

// State: what a Directory holds: entries, in lists by pool and by tenant; the identities in an overflow route.
// Owner: the Directory's mutex; pool, id and route of an entry never change once it is in the Directory, so a snapshot
// may read them outside.
// Invariants: an entry is at all[index]; an ordinary one has a tenant and is in two lists, an overflow entry has shared
// and is in none; a tenant's list is in the order of the last Intern, except that a route in use goes to its end when
// somebody tries to recycle it; a tenant is at over[overAt] if and only if it has more than share routes.

// entry is a route with what it is found by.
type entry[P, R comparable] struct {
	pool   *poolRoutes[P, R]
	id     Identity
	route  R
	tenant *tenant[P, R] // nil for an overflow route
	shared *overflow     // nil for an ordinary route
	stamp  uint64        // sweeps that were complete when it was last interned
	index  int           // in all
	links  [lists]struct{ next, prev *entry[P, R] }
}

// poolRoutes are the routes of a pool.
type poolRoutes[P, R comparable] struct {
	pool     P
	routes   list[P, R]
	overflow *entry[P, R]
}

// tenant holds the routes that are counted for a Tenant, least recently interned first.
type tenant[P, R comparable] struct {
	name   Tenant
	routes list[P, R]
	overAt int // index in over
}

const notOver = -1

const (
	byPool = iota
	byTenant
	lists
)

// list is a doubly linked list of entries through links[by].
type list[P, R comparable] struct {
	by         int
	n          int
	head, tail *entry[P, R]
}

func (l *list[P, R]) push(e *entry[P, R]) {
	e.links[l.by].prev = l.tail
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.links[l.by].next = e
	}
	l.tail = e
	l.n++
}

func (l *list[P, R]) remove(e *entry[P, R]) {
	link := &e.links[l.by]
	if link.prev == nil {
		l.head = link.next
	} else {
		link.prev.links[l.by].next = link.next
	}
	if link.next == nil {
		l.tail = link.prev
	} else {
		link.next.links[l.by].prev = link.prev
	}
	link.next, link.prev = nil, nil
	l.n--
}

// touch moves e to the end.
func (l *list[P, R]) touch(e *entry[P, R]) {
	if l.tail != e {
		l.remove(e)
		l.push(e)
	}
}

// overflow are the identities that share a pool's overflow route. It knows as many as count for the weight; an identity
// leaves when it gets a route of its own, and with the overflow route itself: nobody tells when a client is gone.
type overflow struct {
	known   []Identity // at most maxWeight, each once
	told    int        // weight that the caller knows
	telling bool       // a call of Weigh is under way
}

func (o *overflow) weight() int { return max(1, len(o.known)) }

func (o *overflow) find(id *Identity) int {
	for i := range o.known {
		if o.known[i].same(id) {
			return i
		}
	}
	return -1
}

// same compares what a Directory tells routes apart by.
func (id *Identity) same(other *Identity) bool {
	return id.RuleID == other.RuleID && id.Key == other.Key
}

func (o *overflow) join(id *Identity) {
	if len(o.known) < maxWeight && o.find(id) < 0 {
		o.known = append(o.known, id.clone())
	}
}

func (o *overflow) leave(id *Identity) {
	if i := o.find(id); i >= 0 {
		last := len(o.known) - 1
		o.known[i], o.known[last] = o.known[last], Identity{}
		o.known = o.known[:last]
	}
}
