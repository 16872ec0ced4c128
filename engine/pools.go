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
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/configs"
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
	entry          *configs.Database
	database, user string
	mode           poolMode
}

type pool struct {
	key         poolKey
	entry       *configs.Database
	mode        poolMode
	host        *host
	adm         *admission.Pool
	route       *admission.Route
	limits      *configs.Capacity // for a client of the pool's own user
	loginConfig backend.LoginConfig
	logins      backend.LoginState
	verdicts    session.Verdicts
	snapshot    atomic.Pointer[backend.Snapshot] // what a backend reported last: nil until the first login
	clean       []byte                           // the Query that cleans a dirty server
	cleanAll    bool                             // clean is DISCARD ALL
	resetAlways bool
	drainRate   atomic.Int64 // requests served per second, for the hint of a refusal
	rateAt      atomic.Int64
	served      atomic.Int64
	clients     atomic.Int64 // those that found it and are not gone; it rises under the registry's mutex only
}

// userPool is a pool as one client user sees it.
type userPool struct {
	pool    *pool
	limits  *configs.Capacity
	user    string
	clients []*clientCap // caps that a client of it counts in
}

// clientCap bounds logged-in clients (max_clients of process, database, user).
type clientCap struct {
	used atomic.Int64
	max  int64 // 0: none
}

func (k *clientCap) take() bool {
	if n := k.used.Add(1); k.max > 0 && n > k.max {
		k.used.Add(-1)
		return false
	}
	return true
}

type userPoolKey struct {
	pool *pool
	user string
}

type registry struct {
	mu      sync.Mutex
	eng     *Engine
	hosts   map[configs.Host]*host
	pools   map[poolKey]*pool
	users   map[userPoolKey]*userPool
	dbCaps  map[*configs.Database]*admission.Cap
	usrCaps map[string]*admission.Cap
	dbCli   map[*configs.Database]*clientCap
	usrCli  map[string]*clientCap
	all     atomic.Pointer[[]*pool] // for sweeps, in order of creation
}

func newRegistry(e *Engine) *registry {
	r := &registry{
		eng: e, hosts: map[configs.Host]*host{}, pools: map[poolKey]*pool{}, users: map[userPoolKey]*userPool{},
		dbCaps: map[*configs.Database]*admission.Cap{}, usrCaps: map[string]*admission.Cap{},
		dbCli: map[*configs.Database]*clientCap{}, usrCli: map[string]*clientCap{},
	}
	r.all.Store(&[]*pool{})
	return r
}

// find gives the pool for a client that asked for database as user, which counts
// in pool.clients from then on; nil with an error for the client when there is
// none to be had.
func (r *registry) find(database, user string) (*userPool, closeReason, *protocol.ErrorFields) {
	cfg := r.eng.cfg
	entry := cfg.Database(database)
	if entry == nil {
		return nil, reasonLoginRefused, loginError(protocol.CodeInvalidCatalogName,
			fmt.Sprintf("database %q does not exist", database))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	usr := cfg.User(user)
	key := poolKey{
		entry: entry, database: entry.ServerDatabase(database), user: entry.ServerUser(user),
		mode: modeOf(cfg.PoolMode(entry, usr)),
	}
	p := r.pools[key]
	if p == nil {
		if len(r.pools) >= cfg.Server.MaxPools && !r.dropUnused() {
			e := loginError(protocol.CodeTooManyConnections, fmt.Sprintf("too many pools (max_pools = %d)", cfg.Server.MaxPools))
			return nil, reasonTooManyPools, e
		}
		p = r.newPool(key)
	}
	p.clients.Add(1)
	uk := userPoolKey{p, user}
	up := r.users[uk]
	if up == nil {
		limits := cfg.Effective(entry, usr, nil)
		up = &userPool{pool: p, limits: &limits, user: user, clients: r.clientCaps(entry, usr)}
		if len(r.users) < maxUserPools {
			r.users[uk] = up
		}
	}
	return up, reasonNone, nil
}

// dropUnused makes room for new pools: those without a client and without a
// backend are forgotten, so that names which were asked for once, and may not
// even exist, do not use up max_pools for ever.
func (r *registry) dropUnused() (dropped bool) {
	for key, p := range r.pools {
		if p.clients.Load() == 0 && r.eng.adm.Drop(p.adm) {
			delete(r.pools, key)
			dropped = true
		}
	}
	if !dropped {
		return false
	}
	maps.DeleteFunc(r.users, func(k userPoolKey, _ *userPool) bool { return r.pools[k.pool.key] != k.pool })
	all := slices.DeleteFunc(slices.Clone(*r.all.Load()), func(p *pool) bool { return r.pools[p.key] != p })
	r.all.Store(&all)
	return true
}

// maxUserPools bounds the shared views; beyond it a client gets one of its own.
const maxUserPools = 10000

func (r *registry) clientCaps(d *configs.Database, u *configs.User) []*clientCap {
	caps := []*clientCap{&r.eng.clientCap}
	if d.MaxClients != nil {
		caps = append(caps, cached(r.dbCli, d, func() *clientCap { return &clientCap{max: int64(*d.MaxClients)} }))
	}
	if u != nil && u.MaxClients != nil {
		caps = append(caps, cached(r.usrCli, u.Name, func() *clientCap { return &clientCap{max: int64(*u.MaxClients)} }))
	}
	return caps
}

func cached[K comparable, V any](m map[K]*V, k K, make func() *V) *V {
	v := m[k]
	if v == nil {
		v = make()
		m[k] = v
	}
	return v
}

func (r *registry) newPool(key poolKey) *pool {
	cfg, adm := r.eng.cfg, r.eng.adm
	entry := key.entry
	poolUser := cfg.User(key.user)
	limits := cfg.Effective(entry, poolUser, nil)
	h := cached(r.hosts, entry.Host(), func() *host {
		return newHost(entry.Host(), adm.NewHost(entry.Host().String(), cfg.Capacity.MaxBackends))
	})
	o := admission.PoolOptions{Host: h.adm, MaxSize: min(limits.PoolMaxSize, cfg.Capacity.MaxBackends)}
	if entry.MaxBackends != nil {
		o.Database = cached(r.dbCaps, entry, func() *admission.Cap { return adm.NewCap("database "+entry.Name, *entry.MaxBackends) })
	}
	if poolUser != nil && poolUser.MaxBackends != nil {
		o.User = cached(r.usrCaps, poolUser.Name, func() *admission.Cap { return adm.NewCap("user "+poolUser.Name, *poolUser.MaxBackends) })
	}
	p := &pool{
		key: key, entry: entry, mode: key.mode, host: h, limits: &limits, adm: adm.NewPool(o),
		loginConfig: loginConfig(entry, key),
	}
	p.route = p.adm.NewRoute(admission.RouteOptions{
		MaxInFlight: limits.MaxRouteInFlight, MaxWaiters: limits.MaxRouteWaiters, Weight: 1,
	})
	p.setReset(limits.ResetQuery)
	p.adm.Owner = p
	r.pools[key] = p
	all := append(append([]*pool(nil), *r.all.Load()...), p)
	r.all.Store(&all)
	return p
}

func loginConfig(d *configs.Database, key poolKey) backend.LoginConfig {
	c := backend.LoginConfig{User: key.user, Database: key.database, Keys: &backend.KeyCache{}}
	c.Password = d.Password.Reveal()
	c.HasPassword = c.Password != ""
	for _, name := range sortedKeys(d.StartupParameters) {
		c.Params = append(c.Params, protocol.Param{Name: name, Value: d.StartupParameters[name]})
	}
	return c
}

func (p *pool) setReset(q string) {
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
// refused this pool's login a moment ago, or its host has failed for longer than
// a request would wait; then one probe runs and the others get the cause.
func (p *pool) unavailable(now int64) *protocol.ErrorFields {
	cause, failed := p.logins.Held(now)
	if !failed {
		cause, failed = p.host.state.FailFast(now, p.failLimit())
		failed = failed && !p.host.state.ProbeDue(now)
	}
	if !failed || p.live() > 0 { // what lives still serves
		return nil
	}
	e := backend.AnswerOf(cause)
	e.Severity = "ERROR"
	return &e
}

// failLimit is how long a request waits for a host that does not answer.
func (p *pool) failLimit() int64 {
	return int64(min(p.limits.CheckoutTimeoutMs, p.limits.ConnectTimeoutMs)) * ms
}

// checkoutLimitMs is how long a request waits: the checkout time-out, less while
// the host does not answer.
func (p *pool) checkoutLimitMs(l *configs.Capacity) int64 {
	n := int64(l.CheckoutTimeoutMs)
	if p.live() == 0 {
		n = min(n, int64(l.ConnectTimeoutMs))
	}
	return n
}

// checkoutError words the end of a wait, and tells as what it counts for a login.
func (p *pool) checkoutError(waited int64, connecting bool) (closeReason, *protocol.ErrorFields) {
	if cause := p.host.state.Cause(); cause != nil && p.live() == 0 {
		e := backend.AnswerOf(cause)
		e.Severity = "ERROR"
		return reasonConnectFailed, &e
	}
	if connecting && p.live() == 0 {
		return reasonConnectTimeout, &protocol.ErrorFields{
			Severity: "ERROR", Code: protocol.CodeConnectionFailure,
			Message: fmt.Sprintf("no connection to PostgreSQL at %s after %d ms", p.host.name, waited/ms),
		}
	}
	return reasonOverload, p.overloadError(fmt.Sprintf("checkout timed out after %d ms; %s", waited/ms, p.poolFigures()))
}

// routeDetail gives the figures of the pool's route.
func (p *pool) routeDetail() string {
	r := p.route.Counts()
	return fmt.Sprintf("route %s/%s: %d of %d in flight, %d of %d waiting; %s",
		p.key.database, p.key.user, r.InFlight, r.Limit, r.Waiting, r.MaxWaiters, p.poolFigures())
}

// poolFigures names the pool and says how full it is.
func (p *pool) poolFigures() string {
	a := p.adm.Counts()
	return fmt.Sprintf("pool %s/%s: %d of %d backends, %d in use, %d waiting",
		p.key.database, p.key.user, a.Size, a.Max, a.Used, p.route.Counts().Waiting)
}

// retryAfterMs estimates when a retry may find room: the queue before it divided
// by the rate at which the pool serves, with a jitter of a quarter.
func (p *pool) retryAfterMs() int {
	waiting := p.route.Counts().Waiting
	rate := max(p.drainRate.Load(), 1)
	est := min(max((int64(waiting)+1)*1000/rate, 10), int64(p.limits.CheckoutTimeoutMs))
	return int(est + rand.Int64N(est/4+1))
}

// live is the number of backends that are connected.
func (p *pool) live() int {
	c := p.adm.Counts()
	return c.Size - c.Connecting - c.Closing
}

// rateTau is how far back the served rate looks.
const rateTau = 5

// measureRate keeps the rate at which the pool serves; called by each worker's
// sweep, it counts once a second.
func (p *pool) measureRate(now int64) {
	last := p.rateAt.Load()
	if now-last < 900*ms || !p.rateAt.CompareAndSwap(last, now) {
		return
	}
	served := int64(p.route.Count(admission.Admitted))
	rate := (served - p.served.Swap(served)) * 1000 * ms / (now - last)
	old := p.drainRate.Load()
	p.drainRate.Store(old + (rate-old)/rateTau + 1)
}

// processFull is the refusal of a request that finds the process's queue full.
func (e *Engine) processFull(p *pool) *protocol.ErrorFields {
	f := p.overloadError("process queue full")
	f.Detail = fmt.Sprintf("process: %d waiting of %d; %s", e.adm.Waiting(), e.cfg.Capacity.MaxCheckoutWaiters, f.Detail)
	return f
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
