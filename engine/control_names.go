package engine

// Names that an operator gives: which database, route, rule or setting is meant,
// and which one was meant probably.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgkinetic/admission/routing"
	"pgkinetic/configs"
)

// unknown words an error about a name that there is none of.
func unknown(kind, name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("no such %s: %q", kind, name)
	}
	return fmt.Errorf("no such %s: %q; nearest: %q", kind, name, nearest(name, known))
}

// nearest gives the known name with the fewest letters to change, the first of
// several in order.
func nearest(name string, known []string) (best string) {
	least := -1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if n := edits(name, k); least < 0 || n < least {
			best, least = k, n
		}
	}
	return best
}

// edits counts the bytes to insert, delete or replace that make b of a, of names
// cut to a sensible length. Upper and lower case are the same.
func edits(a, b string) int {
	const longest = 128
	a, b = strings.ToLower(a[:min(len(a), longest)]), strings.ToLower(b[:min(len(b), longest)])
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above[j+1]+1, row[j]+1)
		}
		above = row
	}
	return above[len(b)]
}

// inDatabase tells whether p belongs to the database of that name: an entry's, or
// one that clients of the entry for all names ask for.
func (p *pool) inDatabase(name string) bool {
	return p.key.entry == name ||
		p.key.entry == configs.AnyDatabase && p.entry.DBName == "" && p.key.database == name
}

// checkDatabase answers why there is no database of that name to pause. r.mu is
// held.
func (r *registry) checkDatabase(s *settings, name string) error {
	known := map[string]bool{}
	for i := range s.cfg.Databases {
		known[s.cfg.Databases[i].Name] = true
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
	if d := s.cfg.Database(name); d != nil && d.Name == configs.AnyDatabase && name != d.Name && d.DBName != "" {
		return fmt.Errorf("database %q shares its pools with every database of the entry %q: pause that", name, d.Name)
	}
	return nil
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
