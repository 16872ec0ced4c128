package engine

// Routes: which one a request belongs to, and what holds on it.
//
// A route is one group of requests of one pool with limits, a queue and a
// counter of its own. A client keeps, for each class of request it has sent, a
// choice: its route and its limits there; it looks for them anew only when the
// settings or its application_name have changed, or when the route has been
// forgotten meanwhile. So no query looks anything up.
//
// Owner: routes by the directory (a mutex, entered when a client makes a choice);
// a client's choices by its worker; the rate's fields are atomics.

import (
	"strings"
	"sync/atomic"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/configs"
)

type route struct {
	pool  *pool
	adm   *admission.Route
	id    routing.Identity
	label string
	stats *routeStats // shared by the routes under the label
	rate  drainRate
	seen  uint64 // requests that had come when the directory asked last; its mutex
}

// wasUsed tells whether requests have come since it was asked last; the directory
// calls it.
func (rt *route) wasUsed() bool {
	n := rt.adm.Count(admission.Admitted) + rt.adm.Count(admission.Rejected)
	used := n != rt.seen
	rt.seen = n
	return used
}

// choice is what a client has found out about its requests of one class.
type choice struct {
	class  routing.Class
	route  *route
	limits *configs.Capacity // this client's on that route
}

// choose makes c's route and limits those of a class of request.
func (c *client) choose(class routing.Class) {
	s := c.w.eng.settings.Load()
	if c.generation != s.generation {
		c.generation = s.generation
		c.choices = c.choices[:0]
	}
	for i := range c.choices {
		if k := &c.choices[i]; k.class == class {
			c.route, c.limits = k.route, k.limits
			return
		}
	}
	id, limits := c.identify(s, class)
	c.route, c.limits = c.w.eng.registry.routes.Intern(c.up.pool, id, c.up.tenant), limits
	c.choices = append(c.choices, choice{class, c.route, limits})
}

// chooseAnew replaces c's route, which has been forgotten.
func (c *client) chooseAnew() {
	for i := range c.choices {
		if k := &c.choices[i]; k.route == c.route {
			id, limits := c.identify(c.w.eng.settings.Load(), k.class)
			k.route, k.limits = c.w.eng.registry.routes.Replace(c.up.pool, id, c.up.tenant, k.route), limits
			c.route, c.limits = k.route, k.limits
			return
		}
	}
}

// identify gives the route that c's requests of a class belong to, and c's limits
// on it. It interns nothing.
func (c *client) identify(s *settings, class routing.Class) (routing.Identity, *configs.Capacity) {
	key := routing.Key{
		Database: c.up.tenant.Database, User: c.up.tenant.User,
		Application: s.table.Normalize(c.application()), Addr: c.peer, Class: class,
	}
	id := s.table.Identify(&key)
	return id, c.w.eng.registry.limitsOf(s, c.up, id.Rule)
}

// application is the client's application_name as far as it is known.
func (c *client) application() (name string) {
	switch {
	case c.prof != nil:
		name, _ = c.prof.Get("application_name")
	case c.judge != nil:
		name, _ = c.judge.Asked("application_name")
	}
	if c.up.pool.entry().ApplicationNameAddHost { // for PostgreSQL only: rules and routes know the client's own name
		name = strings.TrimSuffix(name, c.hostSuffix())
	}
	return name
}

// forgetChoices: what c's routes depend on has changed.
func (c *client) forgetChoices() { c.choices = c.choices[:0] }

// newRoute makes the route of an identity; the directory calls it, inside its
// mutex. The rule is found anew: the settings may have changed since the identity
// was, and whoever changes them looks at all routes afterwards.
func (r *registry) newRoute(p *pool, id routing.Identity) *route {
	s := r.eng.settings.Load()
	return r.makeRoute(p, id, s.routeOptions(p, s.currentRule(&id)))
}

// newOverflow makes the route that keys share for which there is no room.
func (r *registry) newOverflow(p *pool) *route {
	id := routing.OverflowIdentity(p.names())
	return r.makeRoute(p, id, r.eng.settings.Load().routeOptions(p, id.Rule))
}

// names gives a pool's own database and user.
func (p *pool) names() routing.Tenant {
	return routing.Tenant{Database: p.key.database, User: p.key.user}
}

func (r *registry) makeRoute(p *pool, id routing.Identity, o admission.RouteOptions) *route {
	label := id.Label()
	rt := &route{pool: p, adm: p.adm.NewRoute(o), id: id, label: label, stats: r.stats.join(label)}
	rt.adm.Owner = rt
	return rt
}

// counts is how its requests have fared so far.
func (rt *route) counts() (n [outcomes]uint64) {
	for o := range n {
		n[o] = rt.adm.Count(admission.Outcome(o))
	}
	return n
}

// drainRate is how many requests a route begins per second, measured when
// somebody has to be told when to come back.
type drainRate struct {
	at, begun, perSecond atomic.Int64
}

const (
	rateMin   = 200 * ms  // a measurement takes at least this long
	rateStale = 2000 * ms // and one that is older than this starts anew
)

// measure returns the present rate, 0 when it is not known.
func (d *drainRate) measure(now, begun int64) int64 {
	at := d.at.Load()
	age := now - at
	if at != 0 && age < rateMin || !d.at.CompareAndSwap(at, now) {
		return d.perSecond.Load()
	}
	before := d.begun.Swap(begun)
	switch {
	case at == 0 || age > rateStale:
		d.perSecond.Store(0)
	default:
		d.perSecond.Store(max((begun-before)*1000*ms/age, 1))
	}
	return d.perSecond.Load()
}

// retryAfterMs estimates when a retry may find room: the queue before it divided
// by the rate at which the route drains or, until that is known, as long as the
// oldest waiter has been waiting.
func (rt *route) retryAfterMs(now int64) int64 {
	waiting := int64(rt.adm.Counts().Waiting)
	if rate := rt.rate.measure(now, int64(rt.adm.Count(admission.Admitted))); rate > 0 {
		return (waiting + 1) * 1000 / rate
	}
	return rt.adm.OldestWait(now) / ms
}
