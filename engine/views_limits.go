package engine

// Every limit: what it is, how much of it is used, the most that ever was, and
// where its value comes from. And which setting it is that holds somewhere.

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/admission/routing"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// originUnknown is told of a setting when nobody told the engine where settings
// come from.
const originUnknown = "configuration"

// origin tells where a setting's value comes from, by its path: "set at run time",
// "default", "file x.yaml:3:5", "environment X" or "flag --x".
func (s *settings) origin(path string) string {
	switch {
	case s.changed[path]:
		return "set at run time"
	case s.origins == nil:
		return originUnknown
	}
	at := s.origins.Of(path)
	if at.Source == configs.SourceFile || at.Source == configs.SourceFlag {
		return at.Source.String() + " " + at.String()
	}
	return at.String()
}

// pathOf gives the path of the setting that decides a limit of capacity for a
// database, a user and a rule, by number: the most specific that has it.
func (s *settings) pathOf(key, database, user string, rule int) string {
	base, label := s.parts(rule)
	if label != nil && isSet(&label.set, key) {
		return labelPath(label.label, key)
	}
	if base >= 0 && base < len(s.cfg.Routes) && isSet(&s.cfg.Routes[base], key) {
		return routePath(base, key)
	}
	for i := range s.cfg.Users {
		if u := &s.cfg.Users[i]; u.Name == user && isSet(u, key) {
			return fmt.Sprintf("users[%d].%s", i, key)
		}
	}
	for i := range s.cfg.Databases {
		if d := &s.cfg.Databases[i]; d.Name == database && isSet(d, key) {
			return fmt.Sprintf("databases[%d].%s", i, key)
		}
	}
	return "capacity." + key
}

// isSet tells whether an entry of a list sets a limit.
func isSet(entry any, key string) bool {
	f := field(reflect.ValueOf(entry).Elem(), key)
	return f.IsValid() && !f.IsZero()
}

// ruleTitle names a rule: its name, or its place in the list; "" for none.
func (s *settings) ruleTitle(i int) string {
	base, _ := s.parts(i)
	switch {
	case base < 0 || base >= len(s.cfg.Routes):
		return ""
	case s.cfg.Routes[base].Name != "":
		return s.cfg.Routes[base].Name
	}
	return fmt.Sprintf("routes[%d]", base)
}

// Limits shows every limit, those of the process first. Any goroutine.
func (e *Engine) Limits() []view.Limit {
	s := e.settings.Load()
	return append(append(e.processLimits(s), e.registry.limitRows(s)...), e.routeLimitRows(s)...)
}

func (e *Engine) processLimits(s *settings) (rows []view.Limit) {
	add := func(name, of string, value, current, peak int64, path string) {
		rows = append(rows, view.Limit{Name: name, Of: of, Value: value, Current: current, Peak: peak, Origin: s.origin(path)})
	}
	c := s.cfg
	k := &e.clientCap
	add("max_clients", "", k.max.Load(), k.used.Load(), k.peak.Load(), "server.max_clients")
	add("max_unauthenticated", "", int64(e.server().MaxUnauthenticated), e.unauthenticated.Load(), e.peakUnknown.Load(),
		"server.max_unauthenticated")
	add("max_checkout_waiters", "", int64(c.Capacity.MaxCheckoutWaiters), int64(e.adm.Waiting()), int64(e.adm.PeakWaiting()),
		"capacity.max_checkout_waiters")
	add("max_buffer_memory", "", e.server().MaxBufferMemory, reactor.BufferBytes(), reactor.BufferPeak(), "server.max_buffer_memory")
	n := e.registry.routes.Counts()
	add("max_routes", "", int64(n.Max), int64(n.Routes), int64(n.Peak), "admission.max_routes")
	return rows
}

// limitRows are the limits of what the registry holds.
func (r *registry) limitRows(s *settings) (rows []view.Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(name, of string, value, current, peak int, path string) {
		rows = append(rows, view.Limit{Name: name, Of: of, Value: int64(value), Current: int64(current), Peak: int64(peak), Origin: s.origin(path)})
	}
	add("max_pools", "", s.cfg.Server.MaxPools, len(r.pools), r.peak, "server.max_pools")
	for _, name := range sortedNames(r.dbCli) {
		if k := r.dbCli[name]; k.max.Load() > 0 {
			add("max_clients", "database "+name, int(k.max.Load()), int(k.used.Load()), int(k.peak.Load()), s.databasePath(name, "max_clients"))
		}
	}
	for _, name := range sortedNames(r.usrCli) {
		if k := r.usrCli[name]; k.max.Load() > 0 {
			add("max_clients", "user "+name, int(k.max.Load()), int(k.used.Load()), int(k.peak.Load()), s.userPath(name, "max_clients"))
		}
	}
	for _, h := range r.sortedHosts() {
		n := h.adm.Counts()
		add("max_backends", "host "+h.name, n.Max, n.Size, n.Peak, "capacity.max_backends")
		add("max_connects_per_host", "host "+h.name, n.MaxConnects, n.Connecting, n.PeakConnects, "admission.max_connects_per_host")
	}
	for _, name := range sortedNames(r.dbCaps) {
		if n := r.dbCaps[name].Counts(); n.Max < noBackendCap {
			add("max_backends", "database "+name, n.Max, n.Size, n.Peak, s.databasePath(name, "max_backends"))
		}
	}
	for _, name := range sortedNames(r.usrCaps) {
		if n := r.usrCaps[name].Counts(); n.Max < noBackendCap {
			add("max_backends", "user "+name, n.Max, n.Size, n.Peak, s.userPath(name, "max_backends"))
		}
	}
	for _, p := range *r.all.Load() {
		n := p.adm.Counts()
		path := s.pathOf("pool_max_size", p.key.entry, p.key.user, -1)
		if s.poolLimits(p).PoolMaxSize > s.cfg.Capacity.MaxBackends {
			path = "capacity.max_backends"
		}
		add("pool_max_size", "pool "+p.title(), n.Max, n.Size, n.PeakSize, path)
	}
	return rows
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *registry) sortedHosts() (hosts []*host) {
	for _, h := range r.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *host) int { return strings.Compare(a.name, b.name) })
	return hosts
}

func (s *settings) databasePath(name, key string) string {
	i := slices.IndexFunc(s.cfg.Databases, func(d configs.Database) bool { return d.Name == name })
	return fmt.Sprintf("databases[%d].%s", i, key)
}

func (s *settings) userPath(name, key string) string {
	i := slices.IndexFunc(s.cfg.Users, func(u configs.User) bool { return u.Name == name })
	return fmt.Sprintf("users[%d].%s", i, key)
}

// routeLimitRows are the limits of routes: for each of the two the route that is
// fullest now, and the highest number that any route ever had.
func (e *Engine) routeLimitRows(s *settings) []view.Limit {
	inFlight := fullest{name: "max_route_in_flight", part: -1}
	waiters := fullest{name: "max_route_waiters", part: -1}
	t := e.registry.stats
	e.registry.routes.EachAfter(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		inFlight.peak, waiters.peak = t.peakInFlight, t.peakWaiting
	}, func(_ *pool, _ routing.Identity, rt *route) {
		n := rt.adm.Counts()
		inFlight.see(rt, n.InFlight, n.Limit, n.PeakInFlight)
		waiters.see(rt, n.Waiting, n.MaxWaiters, n.PeakWaiting)
	})
	return []view.Limit{inFlight.row(s), waiters.row(s)}
}

// fullest finds the route that is fullest.
type fullest struct {
	name                 string
	route                *route
	part                 float64
	current, limit, peak int
}

func (f *fullest) see(rt *route, current, limit, peak int) {
	f.peak = max(f.peak, peak)
	if k := part(current, limit); k > f.part {
		f.route, f.part, f.current, f.limit = rt, k, current, limit
	}
}

// row shows the fullest route; without any, what a new one would have.
func (f *fullest) row(s *settings) view.Limit {
	if f.route == nil {
		value := capacityValue(&s.cfg.Capacity, f.name).(int)
		return view.Limit{Name: f.name, Value: int64(value), Peak: int64(f.peak), Origin: s.origin("capacity." + f.name)}
	}
	p := f.route.pool
	path := s.pathOf(f.name, p.key.entry, p.key.user, s.currentRule(&f.route.id))
	return view.Limit{
		Name: f.name, Of: "route " + f.route.label, Value: int64(f.limit), Current: int64(f.current), Peak: int64(f.peak),
		Origin: s.origin(path),
	}
}
