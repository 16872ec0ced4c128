package engine

// Pools and what clients share of them.
//
// A pool is (database entry, database name, user that logs in to PostgreSQL);
// it is found once per client login, never per query. userPool is a client
// user's view of a pool: the limits that hold for it.
//
// registry is guarded by a mutex taken at client logins only.

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/auth/lookup"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

type poolMode uint8

const (
	modeTransaction poolMode = iota
	modeSession
	modeStatement
)

func modeOf(m configs.PoolMode) poolMode {
	switch m {
	case configs.PoolModeSession:
		return modeSession
	case configs.PoolModeStatement:
		return modeStatement
	}
	return modeTransaction
}

// beginFlags are what opens a block.
const beginFlags = sqllex.Begin

type poolKey struct {
	entry          string // name of the database entry
	database, user string // as PostgreSQL knows them
	mode           poolMode
}

type pool struct {
	key         poolKey
	mode        poolMode
	adm         *admission.Pool
	limits      atomic.Pointer[configs.Capacity] // for a client of the pool's own user, on no particular route
	renewing    sync.Mutex
	backing     atomic.Pointer[backing]
	rechecked   atomic.Int64 // ns, when its host's role was last looked at because of a server's answer
	servers     atomic.Int32 // all that are made and not closed yet
	logins      backend.LoginState
	verdicts    session.Verdicts
	snapshot    atomic.Pointer[backend.Snapshot] // what a backend reported last: nil until the first login
	clean       []byte                           // the Query that cleans a dirty server
	cleanAll    bool                             // clean is DISCARD ALL
	resetAlways bool
	resetQuery  string // reset_query, of which the three above were made
	pinned      pinned
	known       knownStatements
	clients     atomic.Int64 // those that found it and are not gone; it rises under the registry's mutex only
	standing    atomic.Int32 // a standing
	lonely      atomic.Int64 // ns, since when it has no client, as sweeps see it; 0: it has some
	ahead       ahead
	checking    atomic.Bool  // one of its servers is asked whether it answers
	asked       atomic.Int32 // servers that are: idle, but for the question
}

// userPool is a pool as the clients see it that logged in to one database as one
// user.
type userPool struct {
	pool    *pool
	tenant  routing.Tenant
	clients []*clientCap // caps that a client of it counts in

	generation uint32                    // of limits; these two under the registry's mutex
	limits     map[int]*configs.Capacity // by the index of the rule, -1 for none
}

// clientCap bounds logged-in clients (max_clients of process, database, user).
type clientCap struct {
	used, peak atomic.Int64
	max        atomic.Int64 // 0: none
	asked      int64        // ns, when a login last asked for it; under the registry's mutex
}

// full tells whether there is no room, without taking any.
func (k *clientCap) full() bool {
	most := k.max.Load()
	return most > 0 && k.used.Load() >= most
}

func (k *clientCap) take() bool {
	n, most := k.used.Add(1), k.max.Load()
	if most > 0 && n > most {
		k.used.Add(-1)
		return false
	}
	raise(&k.peak, n)
	return true
}

type userPoolKey struct {
	pool   *pool
	tenant routing.Tenant
}

type registry struct {
	mu      sync.Mutex
	eng     *Engine
	hosts   map[configs.Host]*host
	pools   map[poolKey]*pool
	users   map[userPoolKey]*userPool
	dbCaps  map[string]*admission.Cap // by entry
	usrCaps map[string]*admission.Cap // by the user of a pool
	dbCli   map[string]*clientCap     // by entry
	usrCli  map[string]*clientCap     // by the user of a client
	pruned  int64                     // ns, when usrCli was last pruned
	peak    int                       // the most pools that there ever were
	all     atomic.Pointer[[]*pool]   // for sweeps, in order of creation
	routes  *routing.Directory[*pool, *route]
	lookups map[string]*lookup.Lookup // by entry; nil once they are closed
	stats   *statsTable
	traffic *trafficTable

	pausedDatabases, pausedRoutes map[string]*pause // control_pause.go
	disabled                      map[string]bool   // control_disable.go
}

func newRegistry(e *Engine, loops int) *registry {
	r := &registry{
		eng: e, hosts: map[configs.Host]*host{}, pools: map[poolKey]*pool{}, users: map[userPoolKey]*userPool{},
		dbCaps: map[string]*admission.Cap{}, usrCaps: map[string]*admission.Cap{},
		dbCli: map[string]*clientCap{}, usrCli: map[string]*clientCap{}, lookups: map[string]*lookup.Lookup{},
		pausedDatabases: map[string]*pause{}, pausedRoutes: map[string]*pause{}, disabled: map[string]bool{},
	}
	r.all.Store(&[]*pool{})
	r.stats, r.traffic = newStatsTable(loops), newTrafficTable(loops)
	r.routes = routing.NewDirectory(routing.DirectoryOptions[*pool, *route]{
		Max: e.settings.Load().cfg.Admission.MaxRoutes, MaxPerPool: admission.MaxRoutes - 1,
		Make:     func(p *pool, id routing.Identity) *route { return r.bornRoute(r.newRoute(p, id)) },
		Overflow: func(p *pool) *route { return r.bornRoute(r.newOverflow(p)) },
		Names:    (*pool).names,
		Weigh:    func(rt *route, weight int) { rt.adm.SetWeight(weight) },
		Forget:   func(rt *route) bool { return !rt.adm.Counts().Paused && rt.adm.Forget() },
		Used:     (*route).wasUsed,
		Gone:     func(rt *route) { r.stats.bury(rt, reactor.Now(), rt.counts()) },
	})
	return r
}

// find gives the pool for a client that asked for database as user, which counts
// in pool.clients from then on; nil with an error for the client when there is
// none to be had.
func (r *registry) find(database, user string) (*userPool, closeReason, *protocol.ErrorFields) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.eng.settings.Load() // inside, so that a change of settings sees what is made under older ones
	cfg := s.cfg
	entry := cfg.Database(database)
	if entry == nil {
		return nil, reasonLoginRefused, loginError(protocol.CodeInvalidCatalogName,
			fmt.Sprintf("database %q does not exist", database))
	}
	if r.refuses(entry, database) {
		return nil, reasonDisabled, disabledError(database)
	}
	usr := cfg.User(user)
	key := poolKey{
		entry: entry.Name, database: entry.ServerDatabase(database), user: entry.ServerUser(user),
		mode: modeOf(cfg.PoolMode(entry, usr)),
	}
	p := r.pools[key]
	if p == nil {
		if len(r.pools) >= cfg.Server.MaxPools && !r.dropUnused() {
			e := loginError(protocol.CodeTooManyConnections, fmt.Sprintf("too many pools (max_pools = %d)", cfg.Server.MaxPools))
			return nil, reasonTooManyPools, e
		}
		p = r.newPool(s, key, entry)
	}
	p.clients.Add(1)
	uk := userPoolKey{p, routing.Tenant{Database: database, User: user}}
	up := r.users[uk]
	if up == nil {
		up = &userPool{pool: p, tenant: uk.tenant, clients: r.clientCaps(s, entry.Name, user)}
		if len(r.users) < maxUserPools {
			r.users[uk] = up
		}
	}
	up.clients[len(up.clients)-1].asked = reactor.Now()
	return up, reasonNone, nil
}

// limitsOf gives the limits of a client of up on the routes of a rule.
func (r *registry) limitsOf(s *settings, up *userPool, rule int) *configs.Capacity {
	r.mu.Lock()
	defer r.mu.Unlock()
	if up.generation != s.generation || up.limits == nil {
		up.generation, up.limits = s.generation, map[int]*configs.Capacity{}
	}
	return cached(up.limits, rule, func() *configs.Capacity {
		limits := s.cfg.Effective(s.entry(up.pool), s.cfg.User(up.tenant.User), s.rule(rule))
		return &limits
	})
}

// maxUserPools bounds the shared views; beyond it a client gets one of its own.
const maxUserPools = 10000

func newClientCap(most int) *clientCap {
	k := &clientCap{}
	k.max.Store(int64(most))
	return k
}

func cached[K comparable, V any](m map[K]*V, k K, make func() *V) *V {
	v := m[k]
	if v == nil {
		v = make()
		m[k] = v
	}
	return v
}

// newPool makes a pool. It counts in a cap of its entry and in one of its user
// from the beginning, whether they have a bound or not.
func (r *registry) newPool(s *settings, key poolKey, entry *configs.Database) *pool {
	cfg, adm := s.cfg, r.eng.adm
	newCap := func(name string, most int) *admission.Cap {
		k := adm.NewCap(name, most)
		k.SetMaxMoves(cfg.Admission.MaxConnectsPerHost)
		return k
	}
	b := r.newBacking(cfg, key, entry)
	limits := cfg.Effective(entry, cfg.User(key.user), nil)
	p := &pool{
		key: key, mode: key.mode,
		adm: adm.NewPool(admission.PoolOptions{
			Host: b.host.adm, MaxSize: s.poolMaxSize(&limits),
			Database: cached(r.dbCaps, entry.Name, func() *admission.Cap {
				return newCap("database "+entry.Name, s.databaseBackends(entry.Name))
			}),
			User: cached(r.usrCaps, key.user, func() *admission.Cap { return newCap("user "+key.user, s.userBackends(key.user)) }),
		}),
	}
	p.backing.Store(b)
	p.standing.Store(int32(standingOf(cfg, key)))
	p.limits.Store(&limits)
	p.setReset(limits.ResetQuery)
	p.adm.Owner = p
	if r.holdsPool(p) {
		p.adm.Hold(reactor.Now())
	}
	r.pools[key] = p
	r.peak = max(r.peak, len(r.pools))
	all := append(append([]*pool(nil), *r.all.Load()...), p)
	r.all.Store(&all)
	return p
}

// host gives the host of that address. Under the mutex.
func (r *registry) host(cfg *configs.Config, target configs.Host) *host {
	return cached(r.hosts, target, func() *host {
		k := r.eng.adm.NewHost(target.String(), cfg.Capacity.MaxBackends)
		k.InitConnects(cfg.Admission.MaxConnectsPerHost)
		return newHost(target, k, r.eng.names)
	})
}

func (r *registry) loginConfig(d *configs.Database, key poolKey) backend.LoginConfig {
	c := backend.LoginConfig{
		User: key.user, Database: key.database,
		Credentials: r.eng.settings.Load().security.credentials(d, key.user),
	}
	for _, name := range sortedKeys(d.StartupParameters) {
		c.Params = append(c.Params, protocol.Param{Name: name, Value: d.StartupParameters[name]})
	}
	return c
}

func (p *pool) setReset(q string) {
	p.resetQuery = q
	sql := "DISCARD ALL"
	p.cleanAll = true
	switch q {
	case configs.ResetSmart, "":
	case configs.ResetDiscard:
		p.resetAlways = true
	default:
		p.resetAlways = true
		p.cleanAll = false
		sql = q
	}
	p.clean = protocol.AppendQuery(nil, sql)
}

// learn keeps what a fresh backend reported for the logins of clients.
func (p *pool) learn(params *backend.Params) {
	prev := p.snapshot.Load()
	if next := params.Snapshot(prev); next != prev {
		p.snapshot.Store(next)
	}
}

// reported keeps what an idle backend reports of itself (a reload, a promotion),
// so that new clients are told what holds now.
func (p *pool) reported(name, value []byte) {
	for {
		prev := p.snapshot.Load()
		if prev == nil {
			return
		}
		next := prev.With(name, value)
		if next == prev || p.snapshot.CompareAndSwap(prev, next) {
			return
		}
	}
}

// unavailable tells why a new request cannot be served at all: PostgreSQL has
// refused this pool's login a moment ago, or its hosts have failed for longer than
// a request would wait; probes then find out when one is back.
func (p *pool) unavailable(now int64) *protocol.ErrorFields {
	cause, failed := p.logins.Held(now)
	if !failed {
		cause, failed = p.backing.Load().failFast(now, p.failLimit(), p.failMemory())
	}
	if !failed || p.live() > 0 { // what lives still serves
		return nil
	}
	if p.adm.Counts().Paused { // what was found out before may be outdated by the time of RESUME
		return nil
	}
	e := backend.AnswerOf(cause)
	e.Severity = "ERROR"
	return &e
}

// failLimit is how long a request waits for a host that does not answer.
func (p *pool) failLimit() int64 {
	l := p.limits.Load()
	return int64(min(l.CheckoutTimeoutMs, l.ConnectTimeoutMs)) * ms
}

// failMemory is for how long a failure is news: probes find out whether it lasts, each within
// connect_timeout_ms. Where there are none, because the pool is new, an old failure
// tells nothing.
func (p *pool) failMemory() int64 {
	return int64(p.limits.Load().ConnectTimeoutMs)*ms + failNews
}

// failNews is what probes may be late.
const failNews = 1500 * ms

// checkoutLimitMs is how long a request waits: the checkout time-out, less while
// nothing but a connect can serve it, and no other host or address is left to try. A pool that has no backend because others
// have all of the host's places waits as any other does.
func (p *pool) checkoutLimitMs(l *configs.Capacity) int64 {
	n, b := int64(l.CheckoutTimeoutMs), p.backing.Load()
	if p.live() == 0 && (p.adm.Counts().Connecting > 0 && b.single() || b.cause() != nil) {
		n = min(n, int64(l.ConnectTimeoutMs))
	}
	return n
}

// live is the number of backends that are connected.
func (p *pool) live() int {
	c := p.adm.Counts()
	return c.Size - c.Connecting - c.Closing
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
