package configs

import (
	"slices"
	"strings"
)

// maxCombinations bounds the pairs of database and user entries for which one rule is compared with their settings.
const maxCombinations = 10_000

// ruleFacts is what holds for the requests of a rule over all pairs of database and user entries that it may match.
type ruleFacts struct {
	pairs, session int // how many there are, and how many of them are in session mode
	largestPool    int
	sessionPool    int // the largest pool in session mode
	longestConnect int
	longestQuery   int // query_timeout_ms, where a shorter transaction_timeout_ms ends the query first
	transaction    int // that transaction_timeout_ms
	mostWaiters    int
	e              Capacity // of one pair; what the rule itself sets is the same in all of them
}

// route tells what in a rule has no effect.
func (w *warner) route(i int) {
	r, level := &w.config.Routes[i], entryAt(sectionRoutes, i)
	w.pinnedParts(level, r)
	w.longNames(level, r)
	for j := range i {
		if covers(&w.config.Routes[j].Match, &r.Match) {
			w.warn(level, "%s never matches: %s before it matches all of its requests", level, entryAt(sectionRoutes, j))
			return
		}
	}
	databases := w.databasesOf(&r.Match)
	if len(databases) == 0 {
		w.warn(level+".match.database", "%s never matches: no entry of databases is for any of its names", level)
		return
	}
	users := w.usersOf(&r.Match)
	if len(databases)*len(users) > maxCombinations {
		return
	}
	facts := w.facts(r, databases, users)
	w.routeLimits(level, &facts)
	w.routeTimes(level, &facts)
	w.routeQueue(level, r, &facts)
	w.routeClasses(level, r, &facts)
}

func (w *warner) facts(r *Route, databases []*Database, users []*User) ruleFacts {
	var f ruleFacts
	for _, db := range databases {
		for _, u := range users {
			f.e = w.config.Effective(db, u, r)
			f.pairs++
			f.largestPool = max(f.largestPool, f.e.PoolMaxSize)
			f.longestConnect = max(f.longestConnect, f.e.ConnectTimeoutMs)
			f.mostWaiters = max(f.mostWaiters, f.e.MaxRouteWaiters)
			if f.e.TransactionTimeoutMs > 0 && f.e.QueryTimeoutMs > f.e.TransactionTimeoutMs {
				f.longestQuery, f.transaction = f.e.QueryTimeoutMs, f.e.TransactionTimeoutMs
			}
			if w.config.PoolMode(db, u) == PoolModeSession {
				f.session++
				f.sessionPool = max(f.sessionPool, f.e.PoolMaxSize)
			}
		}
	}
	return f
}

func (w *warner) routeLimits(level string, f *ruleFacts) {
	at, limit := level+".max_route_in_flight", f.e.MaxRouteInFlight
	if !w.origins.Set(at) {
		return
	}
	if limit > f.largestPool {
		w.warn(at, "max_route_in_flight %d is above pool_max_size %d: no more than %d requests of a pool run at the same time", limit, f.largestPool, f.largestPool)
	}
	if limit < f.sessionPool {
		w.warn(at, "max_route_in_flight %d is below pool_max_size %d in session mode, where each client holds a permit until it leaves: the route never fills the pool", limit, f.sessionPool)
	}
}

func (w *warner) routeTimes(level string, f *ruleFacts) {
	if at := level + ".checkout_timeout_ms"; w.origins.Set(at) && f.e.CheckoutTimeoutMs < f.longestConnect {
		w.warn(at, "checkout_timeout_ms %d is below connect_timeout_ms %d: a request gives up before its connect does", f.e.CheckoutTimeoutMs, f.longestConnect)
	}
	if f.longestQuery > 0 && w.concerns(level, "query_timeout_ms", "transaction_timeout_ms") {
		at := firstSet(w.where(level, "query_timeout_ms"), w.where(level, "transaction_timeout_ms"))
		w.warn(at, "query_timeout_ms %d is above transaction_timeout_ms %d, which ends the query first", f.longestQuery, f.transaction)
	}
}

func (w *warner) routeQueue(level string, r *Route, f *ruleFacts) {
	w.waiters(level, &f.e)
	if r.OnFull != OnFullRejectNew && f.mostWaiters == 0 {
		w.warn(level+".on_full", "on_full %s drops nobody: max_route_waiters is 0, so nobody waits", r.OnFull)
	}
}

// routeClasses compares query_class with the modes of the pools: in session mode a request shows no other class than session.
func (w *warner) routeClasses(level string, r *Route, f *ruleFacts) {
	classes := r.Match.QueryClass
	if len(classes) == 0 {
		return
	}
	session := slices.Contains(classes, "session")
	switch at := level + ".match.query_class"; {
	case f.session == f.pairs && !session:
		w.warn(at, "no request has query_class %s: its pools are in session mode, where the class is always session", quoteAll(classes))
	case f.session == 0 && session && len(classes) == 1:
		w.warn(at, "query_class \"session\" never matches: none of its pools is in session mode")
	}
}

// pinnedParts tells parts of split_by that the match leaves only one value.
func (w *warner) pinnedParts(level string, r *Route) {
	for _, part := range r.SplitBy {
		if r.Match.pins(part) {
			w.warn(level+".split_by", "split_by %s keeps nothing apart: match.%s leaves it one value", part, part)
		}
	}
}

// longNames tells a rule whose application names are all longer than any that a request can have.
func (w *warner) longNames(level string, r *Route) {
	names := r.Match.ApplicationName
	if len(names) > 0 && !slices.ContainsFunc(names, func(p string) bool { return len(p)-strings.Count(p, "*") <= maxName }) {
		w.warn(level+".match.application_name", "%s never matches: application names are cut to %d bytes, as in PostgreSQL", level, maxName)
	}
}

// pins reports whether only one value of a part fits the match.
func (m *RouteMatch) pins(part string) bool {
	switch part {
	case "database":
		return len(m.Database) == 1 && !isGlob(m.Database[0])
	case "user":
		return len(m.User) == 1 && !isGlob(m.User[0])
	case "application_name":
		return len(m.ApplicationName) == 1 && !isGlob(m.ApplicationName[0])
	case "client_addr":
		prefixes, _ := m.Addresses()
		return len(m.ClientAddr) == 1 && (len(prefixes) == 0 || prefixes[0].IsSingleIP())
	default:
		return len(m.QueryClass) == 1
	}
}

// databasesOf returns the entries that a rule's requests may belong to. The entry for any name is one of them unless
// every name of the rule has an entry of its own.
func (w *warner) databasesOf(m *RouteMatch) []*Database {
	var found []*Database
	for i := range w.config.Databases {
		db := &w.config.Databases[i]
		if db.Name == AnyDatabase {
			if !allNamed(m.Database, func(name string) bool { return w.config.Database(name) != db }) {
				found = append(found, db)
			}
		} else if anyCovers(m.Database, db.Name) {
			found = append(found, db)
		}
	}
	return found
}

// usersOf returns the user entries that a rule's requests may belong to, and nil for a user without an entry.
func (w *warner) usersOf(m *RouteMatch) []*User {
	var found []*User
	for i := range w.config.Users {
		if u := &w.config.Users[i]; anyCovers(m.User, u.Name) {
			found = append(found, u)
		}
	}
	if !allNamed(m.User, func(name string) bool { return w.config.User(name) != nil }) {
		found = append(found, nil)
	}
	return found
}

// allNamed reports whether the patterns fit no other names than those which have an entry.
func allNamed(patterns []string, hasEntry func(string) bool) bool {
	return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return isGlob(p) || !hasEntry(p) })
}

// covers reports whether a match fits every request that another one fits, as far as comparing text by text shows.
func covers(m, other *RouteMatch) bool {
	return listCovers(m.Database, other.Database, globCovers) && listCovers(m.User, other.User, globCovers) &&
		listCovers(m.ApplicationName, other.ApplicationName, globCovers) &&
		listCovers(m.QueryClass, other.QueryClass, func(a, b string) bool { return a == b }) &&
		listCovers(m.ClientAddr, other.ClientAddr, addrCovers)
}

// listCovers reports whether each text of other is covered by one of list. No texts fit everything, as "*" does.
func listCovers(list, other []string, one func(a, b string) bool) bool {
	if len(list) == 0 {
		return true
	}
	if len(other) == 0 {
		other = []string{"*"}
	}
	for _, b := range other {
		if !slices.ContainsFunc(list, func(a string) bool { return one(a, b) }) {
			return false
		}
	}
	return true
}

func addrCovers(a, b string) bool {
	if a == unixClients || b == unixClients {
		return a == b
	}
	block, errA := parseClientAddr(a)
	inner, errB := parseClientAddr(b)
	return errA == nil && errB == nil && block.Bits() <= inner.Bits() && block.Contains(inner.Addr())
}
