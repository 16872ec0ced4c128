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
	table      *routing.Table
}

// newSettings prepares a checked configuration for use.
func newSettings(generation uint32, cfg *configs.Config) *settings {
	a := &cfg.Admission
	o := routing.Options{Key: partsOf(a.RouteKey), Replace: a.ApplicationNameReplace}
	if a.ApplicationNamePattern != "" {
		o.Pattern = regexp.MustCompile(a.ApplicationNamePattern) // configs has compiled it before
	}
	for i := range cfg.Routes {
		o.Rules = append(o.Rules, ruleOf(&cfg.Routes[i]))
	}
	return &settings{generation: generation, cfg: cfg, table: routing.NewTable(o)}
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

// rule gives the entry of routes with this index, nil for none.
func (s *settings) rule(i int) *configs.Route {
	if i < 0 || i >= len(s.cfg.Routes) {
		return nil
	}
	return &s.cfg.Routes[i]
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

// entry gives the present form of the database entry that p was made of.
func (s *settings) entry(p *pool) *configs.Database {
	i := slices.IndexFunc(s.cfg.Databases, func(d configs.Database) bool { return d.Name == p.entry.Name })
	if i < 0 {
		return p.entry
	}
	return &s.cfg.Databases[i]
}
