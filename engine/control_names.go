package engine

// Names that an operator gives: which database, route, rule or setting is meant,
// and which one was meant probably.

import (
	"fmt"
	"maps"
	"slices"

	"pgkinetic/admission/routing"
	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// unknownName is the error about a name that there is none of.
type unknownName struct {
	kind, name string
	nearest    string // of those that there are; empty: there are none
}

func unknown(kind, name string, known []string) error {
	slices.Sort(known)
	return &unknownName{kind, name, configs.Nearest(name, known)}
}

func (e *unknownName) Error() string {
	if e.nearest == "" {
		return fmt.Sprintf("no such %s: %q", e.kind, e.name)
	}
	return fmt.Sprintf("no such %s: %q; nearest: %q", e.kind, e.name, e.nearest)
}

// SQLState is by what the console tells clients.
func (e *unknownName) SQLState() string {
	if e.kind == "database" {
		return protocol.CodeInvalidCatalogName
	}
	return protocol.CodeUndefinedObject
}

// inDatabase tells whether p belongs to the database of that name: an entry's, or
// one that clients of the entry for all names ask for.
func (p *pool) inDatabase(name string) bool {
	return p.key.entry == name ||
		p.key.entry == configs.AnyDatabase && p.entry().DBName == "" && p.key.database == name
}

// checkDatabase answers why no database of that name can be paused: neither is there
// an entry for it, be it the one for all names, nor was there one for clients that
// are here still. The registry's mu is held.
func (e *Engine) checkDatabase(name string) error {
	r, cfg := e.registry, e.settings.Load().cfg
	entry := cfg.Database(name)
	switch {
	case e.isConsole(name):
		return consoleName(name)
	case entry != nil && entry.Name != name && entry.DBName != "":
		return fmt.Errorf("database %q shares its pools with every database of the entry %q: name that", name, entry.Name)
	case entry != nil || r.pausedDatabases[name] != nil:
		return nil
	}
	known := map[string]bool{}
	for i := range cfg.Databases {
		known[cfg.Databases[i].Name] = true
	}
	for k := range r.users {
		known[k.tenant.Database] = true
	}
	for n := range r.pausedDatabases {
		known[n] = true
	}
	if !known[name] {
		return unknown("database", name, slices.Collect(maps.Keys(known)))
	}
	return nil
}

// consoleName is the error about the console's name where a database of PostgreSQL
// is to be named.
func consoleName(name string) error {
	return fmt.Errorf("database %q is the console itself", name)
}

// named tells whether rt is meant by a rule's name or a label.
func (rt *route) named(name string) bool {
	return name == rt.label || name == rt.id.RuleName()
}

// routeNames gives every name that a route goes by: rules' and live routes'.
func (e *Engine) routeNames(s *settings) map[string]bool {
	names := map[string]bool{}
	for i := range s.cfg.Routes {
		if n := s.cfg.Routes[i].Name; n != "" {
			names[n] = true
		}
	}
	e.registry.routes.Each(func(_ *pool, _ routing.Identity, rt *route) {
		names[rt.label] = true
		if n := rt.id.RuleName(); n != "" {
			names[n] = true
		}
	})
	return names
}
