package engine

// Settings that may change while the process runs, one generation at a time:
// limits, routes and their rules. Loops read the present one with one atomic
// load; what belongs to a generation is immutable.

import (
	"regexp"
	"slices"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/configs"
)

// settings is one generation.
type settings struct {
	generation uint32
	cfg        *configs.Config
	origins    *configs.Origins // of cfg; nil when nobody told
	table      *ruleTable
	changed    map[string]bool // paths of what was set at run time
	security   *security
}

// ruleTable is a Table that also knows which routes have settings of their own,
// by their labels. The Rule of an Identity of such a route is a number below -1
// that settings.rule understands.
type ruleTable struct {
	*routing.Table
	rules  int // of the configuration
	labels []labelled
}

// labelled are the settings of the routes under one label, what is set of them.
type labelled struct {
	label string
	set   configs.Route
}

// Identify is Table.Identify. On a client's choice, never per request.
func (t *ruleTable) Identify(k *routing.Key) routing.Identity {
	id := t.Table.Identify(k)
	id.Rule = t.indexOf(&id, id.Rule)
	return id
}

// indexOf gives the number of the rule of a route that rule i matches.
func (t *ruleTable) indexOf(id *routing.Identity, i int) int {
	if len(t.labels) == 0 {
		return i
	}
	label := id.Label()
	at := slices.IndexFunc(t.labels, func(l labelled) bool { return l.label == label })
	if at < 0 {
		return i
	}
	return -2 - (at*(t.rules+1) + i + 1)
}

// server are the present settings of the section server, of which some are as they
// were at the start: see unapplied.
func (e *Engine) server() *configs.Server { return &e.settings.Load().cfg.Server }

// newSettings prepares a checked configuration for use. labels are the settings
// of single routes, changed the paths of what was set at run time.
func newSettings(generation uint32, cfg *configs.Config, origins *configs.Origins, labels []labelled, changed map[string]bool) *settings {
	a := &cfg.Admission
	o := routing.Options{Key: partsOf(a.RouteKey), Replace: a.ApplicationNameReplace}
	if a.ApplicationNamePattern != "" {
		o.Pattern = regexp.MustCompile(a.ApplicationNamePattern) // configs has compiled it before
	}
	for i := range cfg.Routes {
		o.Rules = append(o.Rules, ruleOf(&cfg.Routes[i]))
	}
	return &settings{
		generation: generation, cfg: cfg, origins: origins, changed: changed,
		table: &ruleTable{Table: routing.NewTable(o), rules: len(cfg.Routes), labels: labels},
	}
}

func partsOf(names []string) (p routing.Parts) {
	for _, name := range names {
		part, _ := routing.PartNamed(name) // configs knows the same names
		p |= part
	}
	return p
}

func ruleOf(r *configs.Route) routing.Rule {
	rule := routing.Rule{
		Name: r.Name, Database: r.Match.Database, User: r.Match.User, Application: r.Match.ApplicationName,
		SplitBy: partsOf(r.SplitBy),
	}
	rule.Addrs, rule.Unix = r.Match.Addresses()
	for _, name := range r.Match.QueryClass {
		class, _ := routing.ClassNamed(name)
		rule.Classes |= class.Set()
	}
	return rule
}

// rule gives the entry of routes with this index, nil for none; for the number of
// a route with settings of its own, the entry with these in it.
func (s *settings) rule(i int) *configs.Route {
	base, label := s.parts(i)
	if label == nil {
		if base < 0 || base >= len(s.cfg.Routes) {
			return nil
		}
		return &s.cfg.Routes[base]
	}
	merged := configs.Route{Weight: 1, OnFull: configs.OnFullRejectNew}
	if base >= 0 && base < len(s.cfg.Routes) {
		merged = s.cfg.Routes[base]
	}
	overlay(&merged, &label.set)
	return &merged
}

// parts takes the number of a rule apart: the index of the entry of routes, -1
// for none, and the settings of the route's label, nil for none.
func (s *settings) parts(i int) (base int, label *labelled) {
	if i >= -1 {
		return i, nil
	}
	n := -2 - i
	at := n / (s.table.rules + 1)
	if at >= len(s.table.labels) {
		return -1, nil // of another generation
	}
	return n%(s.table.rules+1) - 1, &s.table.labels[at]
}

// currentRule gives the number of the rule that holds now for a live route, which
// may have been made under another configuration.
func (s *settings) currentRule(id *routing.Identity) int {
	i, _ := s.table.RuleIndex(id.RuleID) // -1 too where its rule is gone
	return s.table.indexOf(id, i)
}

// routeOptions are the limits of a route of p that rule i gives a name or limits
// to. Where clients of several users share a route, the pool's own user counts.
func (s *settings) routeOptions(p *pool, i int) admission.RouteOptions {
	rule := s.rule(i)
	limits := s.cfg.Effective(s.entry(p), s.cfg.User(p.key.user), rule)
	o := admission.RouteOptions{MaxInFlight: limits.MaxRouteInFlight, MaxWaiters: limits.MaxRouteWaiters, Weight: 1}
	if rule != nil {
		o.Weight = rule.Weight
		o.OnFull = policyOf(rule.OnFull)
	}
	return o
}

func policyOf(f configs.OnFull) admission.Policy {
	switch f {
	case configs.OnFullDropOldest:
		return admission.DropOldest
	case configs.OnFullDropRandom:
		return admission.DropRandom
	}
	return admission.RejectNew
}

// policyName is the word for a policy in settings and views.
func policyName(p admission.Policy) string {
	switch p {
	case admission.DropOldest:
		return string(configs.OnFullDropOldest)
	case admission.DropRandom:
		return string(configs.OnFullDropRandom)
	}
	return string(configs.OnFullRejectNew)
}

// entry gives the present form of the database entry that p was made of.
func (s *settings) entry(p *pool) *configs.Database {
	i := slices.IndexFunc(s.cfg.Databases, func(d configs.Database) bool { return d.Name == p.key.entry })
	if i < 0 {
		return p.entry()
	}
	return &s.cfg.Databases[i]
}

// poolLimits are the limits of a client of p's own user, on no particular route.
func (s *settings) poolLimits(p *pool) *configs.Capacity {
	limits := s.cfg.Effective(s.entry(p), s.cfg.User(p.key.user), nil)
	return &limits
}

// poolMaxSize is the largest size of a pool with these limits.
func (s *settings) poolMaxSize(limits *configs.Capacity) int {
	return min(limits.PoolMaxSize, s.cfg.Capacity.MaxBackends)
}

// databaseBackends and userBackends are the most backends of a database entry and
// of a user.
func (s *settings) databaseBackends(name string) int {
	for i := range s.cfg.Databases {
		if d := &s.cfg.Databases[i]; d.Name == name {
			return unbounded(d.MaxBackends, noBackendCap)
		}
	}
	return noBackendCap
}

func (s *settings) userBackends(name string) int {
	if u := s.cfg.User(name); u != nil {
		return unbounded(u.MaxBackends, noBackendCap)
	}
	return noBackendCap
}

// databaseClients and userClients are the most clients, 0 for no bound.
func (s *settings) databaseClients(name string) int {
	for i := range s.cfg.Databases {
		if d := &s.cfg.Databases[i]; d.Name == name {
			return unbounded(d.MaxClients, 0)
		}
	}
	return 0
}

func (s *settings) userClients(name string) int {
	if u := s.cfg.User(name); u != nil {
		return unbounded(u.MaxClients, 0)
	}
	return 0
}

// noBackendCap stands for no cap: more than any host allows.
const noBackendCap = 1 << 30

func unbounded(limit *int, none int) int {
	if limit == nil {
		return none
	}
	return *limit
}
