package routing

import (
	"strings"
	"sync"
)

// State: a Directory: the routes of all pools.
// Owner: the mutex, whichever goroutine calls.
// Invariants, whenever the mutex is free: routes holds each ordinary entry once, at most max of them unless max was
// lowered meanwhile, those of a rule's only route in a pool aside; all holds these and the overflow entries, each at its own index; an ordinary entry is in the list of
// its pool and of its tenant; over holds the tenants with more than share routes; a pool or tenant without entries is not
// kept. made − forgotten = len(all).
// What a client chose is looked up in Go maps only, whose hash has a random seed in each process, so nobody can choose
// names that collide.

const (
	maxShares    = 16 // a tenant may always have one of so many parts of Max
	recycleTries = 8  // routes that one Intern may try to forget in each of two places
	sweepChunk   = 64 // routes that are tried before the mutex is given to others
	maxWeight    = 16 // of an overflow route
)

// Tenant is whom a route is counted for.
type Tenant struct{ Database, User string }

// DirectoryOptions say how much a Directory holds and what it does with routes.
//
// Make, Overflow, Names, Forget, Used and Gone are called inside the Directory's mutex: they must be quick and must not call the
// Directory. Weigh is called outside, one call at a time for each route, and may call anything.
type DirectoryOptions[P, R comparable] struct {
	// Max is how many routes there are at most (admission.max_routes), overflow routes not counted; at least 1.
	Max int
	// MaxPerPool bounds the routes of one pool; beyond it they share the pool's overflow route. 0: none.
	MaxPerPool int
	// Make makes the route of a pool and identity.
	Make func(P, Identity) R
	// Overflow makes the route that the rest of a pool shares, of weight 1.
	Overflow func(P) R
	// Names tells database and user of a pool, for its overflow route's identity. nil: those of its first tenant.
	Names func(P) Tenant
	// Weigh tells a new weight of an overflow route: the number of distinct identities in it, 1 to 16.
	Weigh func(R, int)
	// Forget tries to kill a route and tells whether it is dead. It must refuse a route that somebody uses, or that must
	// be kept for what was done to it (a paused one). A dead route stays dead.
	Forget func(R) bool
	// Used tells whether a route was used since it was asked last: then a sweep keeps it, unless it is an overflow route,
	// whose clients are to look for routes of their own from time to time. nil: only Intern counts.
	Used func(R) bool
	// Gone hears of each route that is dead and no longer in the Directory: the place to add its counters up.
	Gone func(R)
}

// Directory keeps the routes of all pools. Every method may be called from any goroutine, except from the callbacks that
// DirectoryOptions excludes. P and R are what the caller calls a pool and a route: pointers, usually.
type Directory[P, R comparable] struct {
	o DirectoryOptions[P, R]

	mu      sync.Mutex
	max     int
	share   int // routes that a tenant may always have: a sixteenth of max
	routes  map[routeKey[P]]*entry[P, R]
	pools   map[P]*poolRoutes[P, R]
	tenants map[Tenant]*tenant[P, R]
	all     []*entry[P, R]
	over    []*tenant[P, R]
	turn    int    // which of over gives next
	next    int    // index in all that a sweep looks at next
	pass    uint64 // sweeps that are complete

	ordinary        int // entries that are no overflow routes
	peak            int // highest ordinary
	made, forgotten uint64
}

// routeKey is what an ordinary route is found by.
type routeKey[P comparable] struct {
	pool   P
	ruleID string
	key    Key
}

func keyOf[P comparable](pool P, id *Identity) routeKey[P] {
	return routeKey[P]{pool, id.RuleID, id.Key}
}

// NewDirectory makes an empty one. It panics if an option is out of range.
func NewDirectory[P, R comparable](o DirectoryOptions[P, R]) *Directory[P, R] {
	d := &Directory[P, R]{
		o:       o,
		routes:  map[routeKey[P]]*entry[P, R]{},
		pools:   map[P]*poolRoutes[P, R]{},
		tenants: map[Tenant]*tenant[P, R]{},
	}
	d.SetMax(o.Max)
	return d
}

// Intern gives the route of id in pool, and makes it if there is room: at most Max routes, and once more than half of
// them are used at most a sixteenth for each tenant. A tenant that is at its bound recycles its least recently interned
// route that Forget accepts. A full directory takes one from a tenant above its sixteenth, else from the tenant that asks:
// never from another one at or below its own. Where nothing can be had, the answer is the pool's overflow route. The one
// route that a rule with a name makes in a pool always has room, or its limit would not be what the rule says; there are no
// more of these than rules in each pool.
//
// An existing route is found without allocation. id and tenant may lie in the caller's buffer: what is kept is copied.
// The route may be dead by the time the caller uses it: then Replace.
func (d *Directory[P, R]) Intern(pool P, id Identity, tenant Tenant) R {
	d.mu.Lock()
	return d.intern(pool, id, tenant)
}

// Replace is Intern for a caller that found the route it had, dead, to be so. If another caller replaced it before, the
// answer is that one's.
func (d *Directory[P, R]) Replace(pool P, id Identity, tenant Tenant, dead R) R {
	d.mu.Lock()
	// Whoever the Directory itself killed is no longer in it; this is for routes that died in another way.
	if e := d.routes[keyOf(pool, &id)]; e != nil && e.route == dead {
		d.forget(e)
	}
	if p := d.pools[pool]; p != nil && p.overflow != nil && p.overflow.route == dead {
		d.forget(p.overflow)
	}
	return d.intern(pool, id, tenant)
}

// intern is entered with the mutex held and gives it back.
func (d *Directory[P, R]) intern(pool P, id Identity, who Tenant) R {
	if e := d.routes[keyOf(pool, &id)]; e != nil {
		e.stamp = d.pass
		e.tenant.routes.touch(e)
		d.mu.Unlock()
		return e.route
	}
	var e *entry[P, R]
	if id.whole() || d.makeRoom(pool, who) {
		e = d.add(pool, &id, who)
	} else {
		e = d.join(pool, &id, who)
	}
	route, shared := e.route, e.pool.overflow
	if shared != nil {
		d.weigh(shared)
	}
	d.mu.Unlock()
	return route
}

// makeRoom tells whether who may have one more route in pool, after it recycled what it could.
func (d *Directory[P, R]) makeRoom(pool P, who Tenant) bool {
	if p := d.pools[pool]; p != nil && d.o.MaxPerPool > 0 && p.routes.n >= d.o.MaxPerPool {
		return false
	}
	if d.hasRoom(who) {
		return true
	}
	if d.ordinary >= d.max && d.count(who) < d.share {
		for range recycleTries {
			if len(d.over) == 0 {
				break
			}
			d.turn = (d.turn + 1) % len(d.over)
			if d.recycle(d.over[d.turn]) && d.hasRoom(who) {
				return true
			}
		}
	}
	for range recycleTries {
		t := d.tenants[who]
		if t == nil {
			break
		}
		// A tenant at its bound swaps one of its routes for another; a directory above a lowered Max shrinks first.
		if d.recycle(t) && d.ordinary < d.max {
			return true
		}
	}
	return false
}

func (d *Directory[P, R]) hasRoom(who Tenant) bool {
	return d.ordinary < d.max && (2*d.ordinary <= d.max || d.count(who) < d.share)
}

// count is how many routes who has.
func (d *Directory[P, R]) count(who Tenant) int {
	if t := d.tenants[who]; t != nil {
		return t.routes.n
	}
	return 0
}

// add makes the route of id.
func (d *Directory[P, R]) add(pool P, id *Identity, who Tenant) *entry[P, R] {
	p := d.poolOf(pool)
	if p.overflow != nil {
		p.overflow.shared.leave(id)
	}
	e := &entry[P, R]{pool: p, tenant: d.tenantOf(who), id: id.clone()}
	d.routes[keyOf(pool, &e.id)] = e
	e.route = d.o.Make(pool, e.id)
	p.routes.push(e)
	e.tenant.routes.push(e)
	d.recount(e.tenant)
	d.ordinary++
	d.peak = max(d.peak, d.ordinary)
	d.enter(e)
	return e
}

// join puts id into the overflow route of pool.
func (d *Directory[P, R]) join(pool P, id *Identity, who Tenant) *entry[P, R] {
	p := d.poolOf(pool)
	if p.overflow == nil {
		if d.o.Names != nil {
			who = d.o.Names(pool)
		}
		shared := OverflowIdentity(who)
		shared = shared.clone()
		p.overflow = &entry[P, R]{pool: p, id: shared, route: d.o.Overflow(pool), shared: &overflow{told: 1}}
		d.enter(p.overflow)
	}
	p.overflow.stamp = d.pass
	p.overflow.shared.join(id)
	return p.overflow
}

// weigh tells the weight of an overflow route if it changed. It gives the mutex back meanwhile: whoever changes the weight
// again then leaves it to this call, so that weights are told one at a time and the last one last.
func (d *Directory[P, R]) weigh(e *entry[P, R]) {
	o := e.shared
	if o.telling {
		return
	}
	o.telling = true
	for o.told != o.weight() {
		o.told = o.weight()
		w := o.told
		d.mu.Unlock()
		d.o.Weigh(e.route, w)
		d.mu.Lock()
	}
	o.telling = false
}

func (d *Directory[P, R]) poolOf(pool P) *poolRoutes[P, R] {
	p := d.pools[pool]
	if p == nil {
		p = &poolRoutes[P, R]{pool: pool, routes: list[P, R]{by: byPool}}
		d.pools[pool] = p
	}
	return p
}

func (d *Directory[P, R]) tenantOf(who Tenant) *tenant[P, R] {
	t := d.tenants[who]
	if t == nil {
		t = &tenant[P, R]{
			name:   Tenant{strings.Clone(who.Database), strings.Clone(who.User)},
			routes: list[P, R]{by: byTenant}, overAt: notOver,
		}
		d.tenants[t.name] = t
	}
	return t
}

func (id *Identity) clone() Identity {
	c := *id
	c.RuleID = strings.Clone(c.RuleID)
	c.Key.Database = strings.Clone(c.Key.Database)
	c.Key.User = strings.Clone(c.Key.User)
	c.Key.Application = strings.Clone(c.Key.Application)
	return c
}

// SetMax changes Max. Lowering forgets nothing at once: until enough routes are gone there is no room for new ones. It
// looks at every tenant.
func (d *Directory[P, R]) SetMax(n int) {
	if n < 1 {
		panic("routing: a directory needs room for one route")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.max, d.share = n, max(1, n/maxShares)
	for _, t := range d.tenants {
		d.recount(t)
	}
}

// Each calls f for every route that was there at one moment, overflow routes included, in no order. f runs outside the
// mutex and may call the Directory; a route may be dead and gone when f sees it. The Identity's Rule is the index at the
// time the route was made: after a reload, ask Table.RuleIndex.
func (d *Directory[P, R]) Each(f func(P, Identity, R)) { d.EachAfter(func() {}, f) }

// EachAfter is Each that calls first inside the mutex, at the moment whose routes f sees: no Gone comes between. If Gone
// adds the counters of a dead route to a sum and first reads the sum, then that and the counters of the routes which f
// sees are everything, each once, and no total ever falls. first must not call the Directory.
func (d *Directory[P, R]) EachAfter(first func(), f func(P, Identity, R)) {
	d.mu.Lock()
	all := append([]*entry[P, R](nil), d.all...)
	first()
	d.mu.Unlock()
	for _, e := range all {
		f(e.pool.pool, e.id, e.route)
	}
}

// Counts are a Directory's numbers.
type Counts struct {
	Routes, Overflows int    // there now: ordinary and overflow routes
	Max               int    // bound of Routes
	Peak              int    // highest Routes so far
	Made, Forgotten   uint64 // so far, of both kinds
}

// Counts reads the numbers at one moment.
func (d *Directory[P, R]) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Counts{
		Routes: d.ordinary, Overflows: len(d.all) - d.ordinary, Max: d.max, Peak: d.peak,
		Made: d.made, Forgotten: d.forgotten,
	}
}
