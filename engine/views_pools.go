package engine

// What is to be seen of pools, databases and users, with PgBouncer's columns.

import (
	"cmp"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// balancesNot is PgBouncer's word for hosts that are tried in order.
const balancesNot = "disable"

// Pools shows every pool, by database and user. Any goroutine but a loop's.
func (e *Engine) Pools() []view.Pool {
	n, s := e.takeCensus(), e.settings.Load()
	var rows []view.Pool
	for _, p := range *e.registry.all.Load() {
		rows = append(rows, s.poolRow(p, n.of(p)))
	}
	slices.SortStableFunc(rows, func(a, b view.Pool) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.User, b.User))
	})
	return rows
}

func (s *settings) poolRow(p *pool, k *poolCensus) view.Pool {
	a := p.adm.Counts()
	return view.Pool{
		Database: p.name(), User: p.key.user,
		ClActive: k.clients - k.waiting, ClWaiting: k.waiting, ClActiveCancelReq: k.cancelsSent, ClWaitingCancelReq: k.cancelsUnsent,
		SvActive: k.servers[serverLinked], SvActiveCancel: k.canceling, SvBeingCanceled: k.servers[serverSettling],
		SvIdle: k.servers[serverIdle] - k.used, SvUsed: k.used, SvTested: k.sum(serverRecovering, serverTesting, serverClosing), SvLogin: k.connecting(),
		Maxwait: k.oldestWait / second, MaxwaitUs: k.oldestWait % second / us,
		PoolMode: string(modeName(p.mode)), LoadBalanceHosts: balancesNot,
		Entry: p.key.entry, Host: p.host().name, Size: a.Size, MaxSize: a.Max, MinIdle: s.poolLimits(p).PoolMinIdle,
		Pinned: int(p.pinned.n.Load()), Paused: a.Paused, OldestCheckoutMs: float64(k.oldestCheckout) / float64(ms),
	}
}

func modeName(m poolMode) configs.PoolMode {
	switch m {
	case modeSession:
		return configs.PoolModeSession
	case modeStatement:
		return configs.PoolModeStatement
	}
	return configs.PoolModeTransaction
}

// Databases shows the entries of the settings, and the names that clients of the
// entry for any have asked for. Any goroutine.
func (e *Engine) Databases() []view.Database {
	s, r := e.settings.Load(), e.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []view.Database
	for i := range s.cfg.Databases {
		d := &s.cfg.Databases[i]
		row := e.databaseRow(s, d, d.Name)
		if k := r.dbCaps[d.Name]; k != nil {
			row.CurrentConnections = k.Counts().Size
		}
		if k := r.dbCli[d.Name]; k != nil {
			row.CurrentClientConnections = int(k.used.Load())
		}
		rows = append(rows, row)
	}
	asked := map[string]*view.Database{}
	for _, p := range r.pools {
		if p.key.entry == configs.AnyDatabase && p.entry().DBName == "" {
			row := cached(asked, p.key.database, func() *view.Database {
				row := e.databaseRow(s, s.entry(p), p.key.database)
				return &row
			})
			row.CurrentConnections += p.adm.Counts().Size
			row.CurrentClientConnections += int(p.clients.Load())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		rows = append(rows, *asked[name])
	}
	return rows
}

// databaseRow is the row of a name that an entry stands for, but what is connected;
// the registry's mutex is held.
func (e *Engine) databaseRow(s *settings, d *configs.Database, name string) view.Database {
	r := e.registry
	limits := s.cfg.Effective(d, nil, nil)
	row := view.Database{
		Name: name, Database: d.ServerDatabase(name), PoolSize: limits.PoolMaxSize, MinPoolSize: limits.PoolMinIdle,
		ServerLifetime: int64(limits.PoolMaxLifetimeMs) / 1000, LoadBalanceHosts: optional(balancesNot),
		Paused:   number(e.adm.Paused() || r.pausedDatabases[name] != nil || r.pausedDatabases[d.Name] != nil),
		Disabled: number(r.refuses(d, name)), TargetSessionAttrs: string(d.TargetSessionAttrs),
	}
	h := d.Host()
	for _, p := range r.pools {
		if p.inDatabase(name) {
			b := p.backing.Load()
			h = b.host.target
			if cause := b.candidate.cause(); cause != nil && b.candidate.failedLately(reactor.Now()) {
				row.Failing = cause.Error()
			}
		}
	}
	host, port := splitHost(h)
	row.Host, row.Port = optional(host), port
	if d.User != "" {
		row.ForceUser = optional(d.User)
	}
	if d.PoolMode != "" {
		row.PoolMode = optional(string(d.PoolMode))
	}
	if d.MaxBackends != nil {
		row.MaxConnections = *d.MaxBackends
	}
	if d.MaxClients != nil {
		row.MaxClientConnections = *d.MaxClients
	}
	names := make([]string, 0, len(d.Hosts))
	for _, one := range d.Hosts {
		names = append(names, one.String())
	}
	row.Hosts = strings.Join(names, ",")
	return row
}

func optional(s string) *string { return &s }

// splitHost gives a host as PgBouncer has it: a name or a socket's directory, and the
// port.
func splitHost(h configs.Host) (host string, port int) {
	if h.Network == "unix" {
		port, _ = strconv.Atoi(strings.TrimPrefix(filepath.Ext(h.Address), "."))
		return filepath.Dir(h.Address), port
	}
	host, digits, _ := net.SplitHostPort(h.Address) // configs has checked it
	port, _ = strconv.Atoi(digits)
	return host, port
}

// Users shows those of the settings and those who have clients or backends, in the
// order of names. Any goroutine.
func (e *Engine) Users() []view.User {
	s, r := e.settings.Load(), e.registry
	by := map[string]*view.User{}
	row := func(name string) *view.User {
		return cached(by, name, func() *view.User { return s.userRow(name) })
	}
	for i := range s.cfg.Users {
		row(s.cfg.Users[i].Name)
	}
	for _, k := range r.traffic.sums() {
		u := row(k.tenant.User)
		u.Logins += k.total[trafficLogins]
		u.Refused += k.total[trafficRefused]
		u.Cancels += k.total[trafficCancels]
		u.Abrupt += k.total[trafficAbrupt]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, k := range r.usrCaps {
		row(name).CurrentConnections = k.Counts().Size
	}
	for name, k := range r.usrCli {
		row(name).CurrentClientConnections = int(k.used.Load())
	}
	rows := make([]view.User, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		rows = append(rows, *by[name])
	}
	return rows
}

// userRow is what the settings say of a user.
func (s *settings) userRow(name string) *view.User {
	row := &view.User{Name: name}
	u := s.cfg.User(name)
	if u == nil {
		return row
	}
	row.PoolSize = u.PoolMaxSize
	if u.PoolMode != "" {
		row.PoolMode = optional(string(u.PoolMode))
	}
	if u.MaxBackends != nil {
		row.MaxUserConnections = *u.MaxBackends
	}
	if u.MaxClients != nil {
		row.MaxUserClientConnections = *u.MaxClients
	}
	return row
}

// Lists shows how many there are of what the process remembers. Any goroutine but a
// loop's.
func (e *Engine) Lists() []view.Item {
	n, s, r := e.takeCensus(), e.settings.Load(), e.registry
	login := 0
	for state := range clientIdle {
		login += n.states[state]
	}
	used := e.clientCap.used.Load()
	k := &n.total
	r.mu.Lock()
	names, pending, users := 0, 0, len(r.usrCli)
	for _, h := range r.hosts {
		names += number(!h.fixed)
		pending += number(h.look.underWay())
	}
	r.mu.Unlock()
	return []view.Item{
		{List: "databases", Items: int64(len(s.cfg.Databases))},
		{List: "users", Items: int64(users)},
		{List: "peers"},
		{List: "pools", Items: int64(len(*r.all.Load()))},
		{List: "peer_pools"},
		{List: "free_clients", Items: max(e.clientCap.max.Load()-used, 0)},
		{List: "used_clients", Items: used},
		{List: "login_clients", Items: int64(login)},
		{List: "free_servers", Items: int64(k.servers[serverIdle])},
		{List: "used_servers", Items: int64(k.servers[serverLinked] + k.recovering() + k.connecting())},
		{List: "dns_names", Items: int64(names)},
		{List: "dns_zones"},
		{List: "dns_queries", Items: int64(pending)},
		{List: "dns_pending"},
		{List: "hosts", Items: int64(len(r.hostMetrics()))},
		{List: "routes", Items: int64(r.routes.Counts().Routes)},
		{List: "consoles", Items: int64(n.states[clientConsole])},
		{List: "waiting", Items: int64(e.adm.Waiting())},
	}
}

// Config shows every setting with its value, its default and where it comes from.
// Any goroutine.
func (e *Engine) Config() []view.Setting {
	s := e.settings.Load()
	var rows []view.Setting
	for _, v := range configs.Values(s.cfg) {
		row := view.Setting{Key: v.Path, Value: v.Text, Default: v.Default, Changeable: "yes", Origin: s.origin(v.Path)}
		if needsRestartFor(v.Option) {
			row.Changeable = "no"
		}
		rows = append(rows, row)
	}
	return rows
}
