package engine

// Pools that nobody uses are forgotten, with what was counted under their names, so
// that names which were asked for once, and may not even exist, use up neither
// max_pools nor memory.
//
// State: pool.standing and pool.lonely. Owner: standing is set by a change of
// settings, lonely by the first loop's sweeps; any loop reads them.
// Invariant: a pool is dropped only under the registry's mutex, when it has no
// client, no route in use, no waiter and no place; from then on no place can be
// opened in it.

import (
	"maps"
	"slices"

	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

const (
	// poolGrace is how long a pool without clients is remembered, and with it what
	// pool_min_idle keeps open in it.
	poolGrace = 600_000 * ms
	// forgetInterval is the time between two looks for what may be forgotten.
	forgetInterval = 10_000 * ms
)

// standing is what the settings say of a pool as such.
type standing int32

const (
	asAskedFor standing = iota // clients make it, and it goes with them
	permanent                  // its entry alone names it: database and login
	removed                    // its entry is gone, or leads elsewhere: nobody comes to it any more
)

// standingOf gives it for a pool.
func standingOf(cfg *configs.Config, key poolKey) standing {
	entry := entryNamed(cfg, key.entry)
	if entry == nil || !leadsTo(cfg, entry, key) {
		return removed
	}
	if own, ok := ownPool(cfg, entry); ok && own == key {
		return permanent
	}
	return asAskedFor
}

// leadsTo tells whether a client may come to that pool by the entry.
func leadsTo(cfg *configs.Config, entry *configs.Database, key poolKey) bool {
	asked := entry.Name
	if asked == configs.AnyDatabase {
		asked = key.database // unless all names lead to one database
	}
	if entry.ServerDatabase(asked) != key.database || entry.ServerUser(key.user) != key.user {
		return false
	}
	if entry.DBName == "" && cfg.Database(asked) != entry { // by now the name has an entry of its own
		return false
	}
	return modeOf(cfg.PoolMode(entry, nil)) == key.mode ||
		slices.ContainsFunc(cfg.Users, func(u configs.User) bool { return u.PoolMode != "" && modeOf(u.PoolMode) == key.mode })
}

// ownPool is the pool that an entry names by itself, if it does.
func ownPool(cfg *configs.Config, entry *configs.Database) (key poolKey, ok bool) {
	if entry.User == "" || entry.Name == configs.AnyDatabase {
		return key, false
	}
	return poolKey{
		entry: entry.Name, database: entry.ServerDatabase(entry.Name), user: entry.User, mode: modeOf(cfg.PoolMode(entry, nil)),
	}, true
}

func entryNamed(cfg *configs.Config, name string) *configs.Database {
	i := slices.IndexFunc(cfg.Databases, func(d configs.Database) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &cfg.Databases[i]
}

// stand tells the pools where they stand under s, and makes the permanent ones for
// which backends are to be kept although no client has come yet.
func (r *registry) stand(s *settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pools {
		p.standing.Store(int32(standingOf(s.cfg, p.key)))
	}
	for i := range s.cfg.Databases {
		entry := &s.cfg.Databases[i]
		limits := s.cfg.Effective(entry, s.cfg.User(entry.User), nil)
		key, ok := ownPool(s.cfg, entry)
		if limits.PoolMinIdle == 0 || !ok {
			continue
		}
		if r.pools[key] == nil && len(r.pools) < s.cfg.Server.MaxPools {
			r.newPool(s, key, entry)
		}
	}
}

// forget drops the pools that have been of no use for poolGrace; those of entries
// that are gone, at once.
func (r *registry) forget(now int64) {
	due := false
	for _, p := range *r.all.Load() {
		p.notice(now)
		due = due || p.forgettable(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if due {
		r.drop(func(p *pool) bool { return p.forgettable(now) })
	}
	r.pruneUsers(now, poolGrace)
	r.dropHosts()
}

// notice keeps the time since when p has no client.
func (p *pool) notice(now int64) {
	switch {
	case p.clients.Load() > 0:
		p.lonely.Store(0)
	case p.lonely.Load() == 0:
		p.lonely.Store(now)
	}
}

// deserted: no client has been there for poolGrace.
func (p *pool) deserted(now int64) bool {
	since := p.lonely.Load()
	return since != 0 && now-since >= poolGrace
}

func (p *pool) forgettable(now int64) bool {
	if p.clients.Load() > 0 {
		return false
	}
	return standing(p.standing.Load()) == removed || p.deserted(now) && !p.keptWarm()
}

// keptWarm: backends are kept in it although no client has come, or comes any more.
func (p *pool) keptWarm() bool {
	return standing(p.standing.Load()) == permanent && p.limits.Load().PoolMinIdle > 0
}

// abandoned: its entry is gone, and so are its clients.
func (p *pool) abandoned() bool {
	return standing(p.standing.Load()) == removed && p.clients.Load() == 0
}

// drop forgets the pools for which due holds and that have no client and no backend.
// Under the mutex.
func (r *registry) drop(due func(*pool) bool) (dropped bool) {
	for key, p := range r.pools {
		if due(p) && p.clients.Load() == 0 && r.routes.DropPool(p) && r.eng.adm.Drop(p.adm) {
			delete(r.pools, key)
			dropped = true
		}
	}
	if !dropped {
		return false
	}
	maps.DeleteFunc(r.users, func(k userPoolKey, _ *userPool) bool { return r.pools[k.pool.key] != k.pool })
	for name, k := range r.usrCaps {
		if r.eng.adm.DropCap(k) {
			delete(r.usrCaps, name)
		}
	}
	for name, k := range r.dbCaps {
		if entryNamed(r.eng.settings.Load().cfg, name) == nil && r.eng.adm.DropCap(k) {
			delete(r.dbCaps, name)
			delete(r.dbCli, name)
		}
	}
	all := slices.DeleteFunc(slices.Clone(*r.all.Load()), func(p *pool) bool { return r.pools[p.key] != p })
	r.all.Store(&all)
	return true
}

// dropUnused makes room for new pools.
func (r *registry) dropUnused() bool {
	return r.drop(func(p *pool) bool { return !p.keptWarm() })
}

// pruneUsers forgets the counts of users who have no client, at most once in
// userGrace. A login that has asked for one a moment ago, which is the least age, is
// just about to count in it. Under the mutex.
func (r *registry) pruneUsers(now, age int64) {
	if now-r.pruned < userGrace {
		return
	}
	r.pruned = now
	for name, k := range r.usrCli {
		if k.used.Load() == 0 && now-k.asked >= age {
			delete(r.usrCli, name)
		}
	}
	maps.DeleteFunc(r.users, func(k userPoolKey, _ *userPool) bool { return r.usrCli[k.tenant.User] == nil })
}

const userGrace = 1000 * ms

// clientCaps gives what a client counts in: the process, its database, its user,
// the last two also while they have no bound, since they may be given one.
func (r *registry) clientCaps(s *settings, entry, user string) []*clientCap {
	if len(r.usrCli) >= maxUserPools {
		r.pruneUsers(reactor.Now(), userGrace)
	}
	return []*clientCap{
		&r.eng.clientCap,
		cached(r.dbCli, entry, func() *clientCap { return newClientCap(s.databaseClients(entry)) }),
		cached(r.usrCli, user, func() *clientCap { return newClientCap(s.userClients(user)) }),
	}
}
