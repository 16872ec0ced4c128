package engine

// EXPLAIN ADMISSION: what a request would meet if it came now. It makes no route
// and no pool, and opens nothing.

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol/sqllex"
)

// Decision is how a request fares.
type Decision string

// The decisions.
const (
	DecisionRun    Decision = "run"
	DecisionWait   Decision = "wait"
	DecisionRefuse Decision = "refuse"
)

// Explanation tells where a request belongs, what holds there, and what happens.
type Explanation struct {
	Pool        string // entry/database/user
	PoolExists  bool
	Route       string // label
	RouteExists bool   // else it is what the route would be
	Rule        string // its name or place in the list; empty: none matches
	Class       string
	Limits      []ExplainedLimit

	Decision Decision
	Opens    bool   // a backend is opened for it
	Cause    string // of a wait: route, pool, host, connect, pause
	Limit    string // of a refusal: the limit that is reached; empty when the cause is another
	Reason   string // the same in words
	Before   int    // waiters of the route before it
	// ExpectedWaitMs is estimated from the rate at which the route drains; -1 when
	// that is not known, or the wait is for something else.
	ExpectedWaitMs int64
}

// ExplainedLimit is a limit that holds for the request, and where it comes from.
type ExplainedLimit struct{ Name, Value, Origin string }

// explaining is the work on one Explanation.
type explaining struct {
	Explanation
	eng    *Engine
	s      *settings
	entry  *configs.Database
	key    poolKey
	tenant routing.Tenant
	id     routing.Identity
	pool   *pool
	route  *route
	held   bool // a route of that name is paused
	now    int64
}

// Explain tells in rows what a request would meet now: see Foresee. Any goroutine.
func (e *Engine) Explain(q view.Request) ([]view.Explained, error) {
	x, err := e.Foresee(q)
	if err != nil {
		return nil, err
	}
	return x.rows(), nil
}

func (x *Explanation) rows() []view.Explained {
	rows := []view.Explained{
		{Item: "pool", Value: x.Pool},
		{Item: "pool_exists", Value: fmt.Sprint(x.PoolExists)},
		{Item: "route", Value: x.Route},
		{Item: "route_exists", Value: fmt.Sprint(x.RouteExists)},
		{Item: "rule", Value: x.Rule},
		{Item: "query_class", Value: x.Class},
		{Item: "decision", Value: string(x.Decision)},
		{Item: "reason", Value: x.Reason},
		{Item: "opens_backend", Value: fmt.Sprint(x.Opens)},
		{Item: "waits_for", Value: x.Cause},
		{Item: "full", Value: x.Limit},
		{Item: "waiting_before", Value: fmt.Sprint(x.Before)},
	}
	expected := "" // not known
	if x.ExpectedWaitMs >= 0 {
		expected = fmt.Sprint(x.ExpectedWaitMs)
	}
	rows = append(rows, view.Explained{Item: "expected_wait_ms", Value: expected})
	for _, l := range x.Limits {
		rows = append(rows, view.Explained{Item: l.Name, Value: l.Value, From: l.Origin})
	}
	return rows
}

// Foresee tells what a request would meet now. The error names what is unknown.
// Any goroutine.
func (e *Engine) Foresee(q view.Request) (Explanation, error) {
	x := &explaining{eng: e, s: e.settings.Load(), now: reactor.Now(), tenant: routing.Tenant{Database: q.Database, User: q.User}}
	x.ExpectedWaitMs = -1
	if err := x.findPool(); err != nil {
		return Explanation{}, err
	}
	var addr netip.Addr
	if q.ClientAddr != "" {
		a, err := netip.ParseAddr(q.ClientAddr)
		if err != nil {
			return Explanation{}, fmt.Errorf("client_addr %q is no address: write it without port; nothing stands for a Unix socket", q.ClientAddr)
		}
		addr = routing.ClientAddr(a)
	}
	k := routing.Key{
		Database: q.Database, User: q.User, Application: x.s.table.Normalize(q.ApplicationName), Addr: addr, Class: x.classOf(q.Query),
	}
	x.id = x.s.table.Identify(&k)
	x.Class, x.Rule = k.Class.String(), x.s.ruleTitle(x.id.Rule)
	x.findRoute()
	x.limits()
	x.decide()
	return x.Explanation, nil
}

func (x *explaining) findPool() error {
	cfg := x.s.cfg
	x.entry = cfg.Database(x.tenant.Database)
	if x.entry == nil {
		var names []string
		for i := range cfg.Databases {
			names = append(names, cfg.Databases[i].Name)
		}
		return unknown("database", x.tenant.Database, names)
	}
	x.key = poolKey{
		entry: x.entry.Name, database: x.entry.ServerDatabase(x.tenant.Database), user: x.entry.ServerUser(x.tenant.User),
		mode: modeOf(cfg.PoolMode(x.entry, cfg.User(x.tenant.User))),
	}
	r := x.eng.registry
	r.mu.Lock()
	x.pool = r.pools[x.key]
	r.mu.Unlock()
	x.Pool, x.PoolExists = x.key.entry+"/"+x.key.database+"/"+x.key.user, x.pool != nil
	return nil
}

// classOf is what client.classOf would find, if the text is a request of its own.
func (x *explaining) classOf(query string) routing.Class {
	switch {
	case !x.s.table.UsesClass() || query == "":
		return routing.ClassDefault
	case x.key.mode == modeSession:
		return routing.ClassSession
	}
	return routing.Class(sqllex.Scan([]byte(query)).Class)
}

// findRoute looks for the route among those that exist.
func (x *explaining) findRoute() {
	x.Route = x.id.Label()
	r := x.eng.registry
	var paused map[string]*pause
	r.routes.EachAfter(func() { paused = maps.Clone(r.pausedRoutes) }, func(p *pool, id routing.Identity, rt *route) {
		if p == x.pool && id.RuleID == x.id.RuleID && id.Key == x.id.Key {
			x.route = rt
		}
	})
	x.RouteExists = x.route != nil
	x.held = (&route{label: x.Route, id: x.id}).heldBy(paused)
}

// limits lists what holds for this request. A route and a pool are limited as
// their own user says; the rest as the client's does.
func (x *explaining) limits() {
	for _, o := range configs.Options() {
		if o.Section != "capacity" {
			continue
		}
		user := x.tenant.User
		path := ""
		switch o.Key {
		case "max_backends", "max_checkout_waiters":
			path = o.Path() // the host's and the process's
		case "max_route_in_flight", "max_route_waiters", "pool_max_size":
			user = x.key.user
		}
		if path == "" {
			path = x.s.pathOf(o.Key, x.entry.Name, user, x.id.Rule)
		}
		c := x.s.cfg.Effective(x.entry, x.s.cfg.User(user), x.s.rule(x.id.Rule))
		x.limit(o.Key, capacityValue(&c, o.Key), x.s.origin(path))
	}
	weight, policy := 1, configs.OnFullRejectNew
	if rule := x.s.rule(x.id.Rule); rule != nil {
		weight, policy = rule.Weight, rule.OnFull
	}
	x.limit("weight", weight, x.ruleOrigin("weight"))
	x.limit("on_full", policy, x.ruleOrigin("on_full"))
}

func (x *explaining) limit(name string, value any, origin string) {
	x.Limits = append(x.Limits, ExplainedLimit{name, fmt.Sprint(value), origin})
}

// ruleOrigin tells where a setting comes from that only rules have.
func (x *explaining) ruleOrigin(key string) string {
	base, label := x.s.parts(x.id.Rule)
	switch {
	case label != nil && isSet(&label.set, key):
		return x.s.origin(labelPath(label.label, key))
	case base < 0:
		return configs.SourceDefault.String()
	}
	return x.s.origin(routePath(base, key))
}

// decide tells what happens.
func (x *explaining) decide() {
	switch e := x.eng; {
	case e.draining.Load():
		x.refuse("", "the process is draining")
	case x.pool == nil:
		x.decideWithoutPool()
	case x.unavailable():
	case x.route != nil:
		x.outlook(x.route.adm.Explain(x.now))
	default:
		x.outlook(x.pool.adm.Explain(x.now, x.s.routeOptions(x.pool, x.id.Rule)))
	}
}

func (x *explaining) refuse(limit, reason string) {
	x.Decision, x.Limit, x.Reason = DecisionRefuse, limit, reason
}

func (x *explaining) wait(cause admission.Cause, reason string) {
	x.Decision, x.Cause, x.Reason = DecisionWait, cause.String(), reason
}

// unavailable is pool.unavailable.
func (x *explaining) unavailable() bool {
	e := x.pool.unavailable(x.now)
	if e == nil {
		return false
	}
	x.refuse("", e.Message)
	return true
}

// decideWithoutPool: the request would be the first of its pool.
func (x *explaining) decideWithoutPool() {
	r := x.eng.registry
	r.mu.Lock()
	pools, dropped := len(r.pools), x.unusedPool()
	b := x.wouldBack()
	would := &pool{key: x.key}
	would.backing.Store(b)
	paused := x.eng.adm.Paused() || r.holdsPool(would)
	full := capFull(r.dbCaps[x.key.entry]) || capFull(r.usrCaps[x.key.user])
	r.mu.Unlock()
	if b.candidate != nil {
		n := b.host.adm.Counts()
		full = full || n.Size >= n.Max
		limits := x.s.cfg.Effective(x.entry, x.s.cfg.User(x.key.user), nil)
		would.limits.Store(&limits)
		if cause, fail := b.failFast(x.now, would.failLimit(), would.failMemory()); fail && !paused && !x.held {
			x.refuse("", backend.AnswerOf(cause).Message)
			return
		}
	}
	switch {
	case pools >= x.s.cfg.Server.MaxPools && !dropped:
		x.refuse("max_pools", fmt.Sprintf("there are %d pools, and none that nobody uses", pools))
	case paused || x.held:
		x.wait(admission.CausePause, "paused")
	case full:
		x.wait(admission.CauseHost, "the host, the database or the user has no backend to spare")
	default:
		x.runs(true)
	}
}

// wouldBack is what the pool's servers would be made of, as far as its hosts are
// known. The registry's mutex is held.
func (x *explaining) wouldBack() *backing {
	b := &backing{entry: x.entry}
	for _, target := range x.entry.HostList() {
		h := x.eng.registry.hosts[target]
		if h == nil {
			return b // nobody has tried it yet
		}
		b.hosts = append(b.hosts, &candidate{host: h})
	}
	b.candidate, b.lenient = b.choose(x.now)
	return b
}

func capFull(k *admission.Cap) bool {
	if k == nil {
		return false
	}
	n := k.Counts()
	return n.Size >= n.Max
}

// unusedPool tells whether a pool could be dropped for a new one. The registry's
// mutex is held.
func (x *explaining) unusedPool() bool {
	return slices.ContainsFunc(*x.eng.registry.all.Load(), func(p *pool) bool {
		return p.clients.Load() == 0 && p.adm.Counts().Size == 0
	})
}

func (x *explaining) runs(opens bool) {
	x.Decision, x.Opens, x.ExpectedWaitMs, x.Reason = DecisionRun, opens, 0, "a backend is free"
	if opens {
		x.Cause, x.ExpectedWaitMs, x.Reason = admission.CauseConnect.String(), -1, "a backend is opened for it"
	}
}

// outlook words what admission foresees.
func (x *explaining) outlook(o admission.Outlook) {
	x.Before = o.Before
	switch {
	case x.route == nil && x.held && o.Verdict != admission.ProcessFull:
		x.wait(admission.CausePause, "paused")
	case o.Runs:
		x.runs(o.Opens)
	case o.Verdict == admission.ProcessFull:
		x.refuse("max_checkout_waiters", "the process's queue is full")
	case o.Verdict == admission.RouteFull:
		x.refuse("max_route_waiters", "the route's queue is full")
	default:
		x.wait(o.Cause, waitReasons[o.Cause])
		if o.Sheds {
			x.Reason += "; a waiter of the route gives its place to it"
		}
		if o.Cause != admission.CausePause {
			x.expect()
		}
	}
}

var waitReasons = [admission.Causes]string{
	admission.CauseRoute:   "the route's requests in flight are at their limit",
	admission.CausePool:    "all backends of the pool are in use, or others are before it",
	admission.CauseHost:    "the host, the database or the user has no backend to spare",
	admission.CauseConnect: "a backend is being opened",
	admission.CausePause:   "paused",
}

// expect estimates the wait from the rate at which the route drains.
func (x *explaining) expect() {
	if x.route == nil {
		return
	}
	begun := int64(x.route.adm.Count(admission.Admitted))
	if rate := x.route.rate.measure(x.now, begun); rate > 0 {
		x.ExpectedWaitMs = int64(x.Before+1) * 1000 / rate
	}
}
