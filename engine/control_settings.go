package engine

// A change of settings while the process runs: SET of a limit or of a route's
// setting, and a reload. Each makes a new generation. What exists survives with
// its counts; only numbers change: first the new generation is published, so that
// what is made from then on is made with it, then everything that exists is told.
//
// Owner: Engine.operating lets one change in at a time.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/backend"
	"pgkinetic/configs"
)

// SetLimit changes a setting of capacity or admission, such as
// "capacity.max_route_in_flight", until the next reload. value is written as in a
// flag; what a database, a user or a rule sets for itself goes on to hold there.
// Requests in flight are not touched; what was raised wakes whoever waits for it.
// A wrong value is told in the words of the settings file. Any goroutine but a
// loop's.
func (e *Engine) SetLimit(name, value string) error {
	return e.change(func(s *settings) (*settings, error) {
		parsed, err := parseLimit(s.cfg, name, value)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(settable(), name) {
			return nil, fmt.Errorf("%s holds for a pool from its beginning to its end: change the settings and restart", name)
		}
		cfg := *s.cfg
		section, key, _ := strings.Cut(name, ".")
		if section == "capacity" {
			assign(&cfg.Capacity, &parsed.Capacity, key)
		} else {
			assign(&cfg.Admission, &parsed.Admission, key)
		}
		if need := configs.DescriptorsNeeded(&cfg); need > configs.DescriptorsNeeded(s.cfg) {
			e.log.Warn("the new limit needs more file descriptors than the settings have asked for", "needed", need)
		}
		return newSettings(s.generation+1, &cfg, s.origins, s.table.labels, s.with(name)), nil
	})
}

// change makes what next gives the present settings, unless that is an error.
func (e *Engine) change(next func(s *settings) (*settings, error)) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	if !e.started.Load() {
		return ErrNotRunning
	}
	present := e.settings.Load()
	s, err := next(present)
	if err != nil {
		return err
	}
	if s.security == nil {
		s.security = present.security
	}
	return e.apply(s)
}

// with gives what was set at run time, one more included.
func (s *settings) with(path string) map[string]bool {
	changed := maps.Clone(s.changed)
	if changed == nil {
		changed = map[string]bool{}
	}
	changed[path] = true
	return changed
}

// SetRoute changes a setting of the rule with a name, for all its routes, or of
// the routes under one label, until the next reload: weight, on_full, or a limit
// or time-out that a rule may set. Otherwise as SetLimit.
func (e *Engine) SetRoute(name, setting, value string) error {
	return e.change(func(s *settings) (*settings, error) {
		parsed, err := parseRouteSetting(name, setting, value)
		if err != nil {
			return nil, err
		}
		for i := range s.cfg.Routes {
			if s.cfg.Routes[i].Name == name {
				cfg := *s.cfg
				cfg.Routes = slices.Clone(cfg.Routes)
				assign(&cfg.Routes[i], parsed, setting)
				return newSettings(s.generation+1, &cfg, s.origins, s.table.labels, s.with(routePath(i, setting))), nil
			}
		}
		labels, err := e.relabel(s, name, setting, parsed)
		if err != nil {
			return nil, err
		}
		return newSettings(s.generation+1, s.cfg, s.origins, labels, s.with(labelPath(name, setting))), nil
	})
}

func routePath(i int, key string) string { return fmt.Sprintf("routes[%d].%s", i, key) }

func labelPath(label, key string) string { return label + " " + key }

// relabel gives the settings of single routes with one more in it.
func (e *Engine) relabel(s *settings, label, setting string, parsed *configs.Route) ([]labelled, error) {
	live, shared := false, false
	e.registry.routes.Each(func(_ *pool, id routing.Identity, rt *route) {
		if rt.label == label {
			live, shared = true, shared || id.Overflow()
		}
	})
	labels := slices.Clone(s.table.labels)
	at := slices.IndexFunc(labels, func(l labelled) bool { return l.label == label })
	switch {
	case shared:
		return nil, fmt.Errorf("%q is what routes share for which there is no room, each with its own limits: raise admission.max_routes or set capacity", label)
	case at < 0 && !live:
		return nil, unknown("route", label, slices.Collect(maps.Keys(e.routeNames(s))))
	case at < 0 && len(labels) >= maxLabels:
		return nil, fmt.Errorf("%d routes have settings of their own already: write a rule", len(labels))
	case at < 0:
		at = len(labels)
		labels = append(labels, labelled{label: label})
	}
	assign(&labels[at].set, parsed, setting)
	return labels, nil
}

// Reload replaces the whole configuration, which configs has checked; origins
// tells where its values came from and may be nil. The files of auth and tls are
// read anew, for logins and handshakes from now on; if one is not good nothing
// changes, and the error is a ProblemsError. So it is if an address cannot be
// listened on. Everything set at run time is given up
// for it. Limits, databases' and users' limits, admission and routes hold at once,
// as with SetLimit; the notices name what differs and does not, and are logged.
// The process's file descriptors are the caller's matter. Any goroutine but a
// loop's.
func (e *Engine) Reload(cfg *configs.Config, origins *configs.Origins) (notices []Notice, err error) {
	err = e.change(func(s *settings) (*settings, error) {
		security, err := newSecurity(cfg, origins)
		if err == nil {
			err = e.relisten(cfg) // the last that may fail
		}
		if err != nil {
			return nil, err
		}
		notices = e.unapplied(s.cfg, cfg)
		next := newSettings(s.generation+1, cfg, origins, nil, nil)
		next.security = security
		return next, nil
	})
	for _, n := range notices {
		e.log.Warn("reloaded, but not all of it holds now", "setting", n.Setting, "effect", n.Effect)
	}
	return notices, err
}

// apply makes s the present generation.
func (e *Engine) apply(s *settings) error {
	r, c := e.registry, s.cfg
	e.settings.Store(s)
	e.adm.SetFIFOSlack(int64(c.Admission.FifoSlackMs) * ms)
	e.adm.SetMaxWaiters(c.Capacity.MaxCheckoutWaiters)
	r.routes.SetMax(c.Admission.MaxRoutes)
	r.applyLookups(s)
	r.stand(s)
	outdated := r.rehost(s)
	if err := each(e, r.applyLimits(s), func(w *worker, change func(*worker)) { change(w) }); err != nil {
		return err
	}
	if err := each(e, outdated, func(w *worker, p *pool) { p.follow(w) }); err != nil {
		return err
	}
	e.retire(outdated)
	var routes []*route
	r.routes.Each(func(_ *pool, _ routing.Identity, rt *route) { routes = append(routes, rt) })
	if err := each(e, routes, func(w *worker, rt *route) { rt.relimit(w, s) }); err != nil {
		return err
	}
	e.walk(func(w *worker) { w.adm.Trim(w.id, w.now()) }, (*client).resettle)
	e.log.Info("settings changed", "generation", s.generation)
	return nil
}

// applyLimits gives what is to be done on a loop so that hosts, caps and pools
// know their new limits, and tells those of clients.
func (r *registry) applyLimits(s *settings) (changes []func(*worker)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := s.cfg
	do := func(f func(*worker)) { changes = append(changes, f) }
	for _, h := range r.hosts {
		do(func(w *worker) {
			h.adm.SetMax(w.adm, w.id, w.now(), c.Capacity.MaxBackends)
			h.adm.SetMaxConnects(w.adm, w.id, w.now(), c.Admission.MaxConnectsPerHost)
		})
	}
	backends := func(k *admission.Cap, most int) {
		do(func(w *worker) {
			k.SetMaxMoves(c.Admission.MaxConnectsPerHost)
			k.SetMax(w.adm, w.id, w.now(), most)
		})
	}
	for name, k := range r.dbCaps {
		backends(k, s.databaseBackends(name))
	}
	for name, k := range r.usrCaps {
		backends(k, s.userBackends(name))
	}
	for _, p := range r.pools {
		do(func(w *worker) {
			limits := s.poolLimits(p)
			p.limits.Store(limits)
			p.adm.SetMaxSize(w.id, w.now(), s.poolMaxSize(limits))
		})
		if stored := s.security.stored(s.entry(p), p.key.user); stored != (backend.Stored{}) { // else what was looked up stays
			p.backing.Load().login.Credentials.Set(stored)
		}
	}
	r.eng.clientCap.max.Store(int64(c.Server.MaxClients))
	for name, k := range r.dbCli {
		k.max.Store(int64(s.databaseClients(name)))
	}
	for name, k := range r.usrCli {
		k.max.Store(int64(s.userClients(name)))
	}
	return changes
}

// relimit tells a live route its limits under s.
func (rt *route) relimit(w *worker, s *settings) {
	o := s.routeOptions(rt.pool, s.currentRule(&rt.id))
	if rt.id.Overflow() { // its weight is the directory's business
		rt.adm.SetBounds(w.id, w.now(), o.MaxInFlight, o.MaxWaiters)
		return
	}
	rt.adm.SetLimits(w.id, w.now(), o)
}

// resettle lets new settings hold for a client that is there: one that does
// nothing is told at once, the others with their next request.
func (c *client) resettle() {
	switch c.state {
	case clientIdle, clientSkipping:
		_, c.limits = c.identify(c.w.eng.settings.Load(), c.presentClass())
		c.armTimer()
	case clientLinked:
		if c.pins != 0 && c.srv.tracker.Idle() && !c.srv.fresh {
			c.refresh()
			c.armTimer()
		}
	case clientClosing, clientGone:
	default:
		c.armTimer()
	}
}

// refresh is for a client that keeps its backend and rests: it makes no choice any
// more, so its limits follow the settings here. Its route, in which its permit was
// taken, stays.
func (c *client) refresh() {
	s := c.w.eng.settings.Load()
	if c.generation == s.generation {
		return
	}
	class := c.presentClass()
	_, c.limits = c.identify(s, class)
	c.generation = s.generation
	c.choices = append(c.choices[:0], choice{class, c.route, c.limits})
}

// presentClass is the class of c's present or last request.
func (c *client) presentClass() routing.Class {
	for _, k := range c.choices {
		if k.route == c.route {
			return k.class
		}
	}
	return routing.ClassDefault
}
