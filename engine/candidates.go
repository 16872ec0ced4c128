package engine

// The hosts of a database entry as one pool sees them, and which of them is its
// present one.
//
// A pool stays with its present host while that serves. When it ceases to (it does
// not answer, or does not satisfy target_session_attrs any more), the first of the
// list that is not known to have failed lately is next, else the one whose turn it
// is by its delays; the attempts to connect that are made anyway tell whether it
// does, and watch.go.
//
// Owner: which host is the present one is a part of pool.backing, changed under
// pool.renewing; admission's word for it follows (pool.follow). A candidate's role
// is made of atomics: any loop.
//
// Invariant: once nobody is between a change of the backing and follow, admission
// reserves places on the host of the present backing.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// hostMemory is how long a failure keeps a host behind those of which nothing bad
// is known.
const hostMemory = 30000 * ms

// candidate is one host of an entry.
type candidate struct {
	host *host
	role backend.HostState // of this pool's: whether the host satisfies target_session_attrs

	watched atomic.Int64 // when it was last looked at for its role
}

// candidates makes those of an entry, if they are not among those known; the
// registry's mutex is held.
func (r *registry) candidates(cfg *configs.Config, entry *configs.Database, known []*candidate) (all []*candidate) {
	for _, target := range entry.HostList() {
		h := r.host(cfg, target)
		if i := slices.IndexFunc(known, func(c *candidate) bool { return c.host == h }); i >= 0 {
			all = append(all, known[i])
		} else {
			all = append(all, &candidate{host: h})
		}
	}
	return all
}

// newBacking is what the servers of a pool of entry are made of, on the host that
// is next; the registry's mutex is held.
func (r *registry) newBacking(cfg *configs.Config, key poolKey, entry *configs.Database) *backing {
	b := &backing{entry: entry, hosts: r.candidates(cfg, entry, nil), login: r.loginConfig(entry, key), era: &era{}}
	b.candidate, b.lenient = b.choose(reactor.Now())
	return b
}

// changed is what b is after a reload that gave its entry other settings. The
// present host stays if it is still among the hosts, and the era, if that and what a server is
// opened with are the same. The registry's mutex is held.
func (r *registry) changed(cfg *configs.Config, key poolKey, b *backing, entry *configs.Database) *backing {
	was := b.entry
	next := &backing{entry: entry, candidate: b.candidate, lenient: b.lenient, login: r.loginConfig(entry, key), era: b.era}
	if was.PasswordFile == entry.PasswordFile {
		next.login.Credentials = b.login.Credentials // with what clients have shown, and what was looked up
	}
	roles := was.TargetSessionAttrs == entry.TargetSessionAttrs
	if roles {
		next.hosts = r.candidates(cfg, entry, b.hosts)
	} else {
		next.hosts = r.candidates(cfg, entry, nil)
	}
	stays := slices.Contains(next.hosts, b.candidate)
	if !stays {
		next.candidate, next.lenient = next.choose(reactor.Now())
	}
	if !stays || was.ConnectQuery != entry.ConnectQuery || !maps.Equal(was.StartupParameters, entry.StartupParameters) {
		next.era = &era{}
	}
	return next
}

// rehost tells the pools how s changes their entries, and gives those whose servers
// are outdated by that.
func (r *registry) rehost(s *settings) (outdated []*pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pools {
		entry := s.entry(p)
		if entry == p.entry() {
			continue
		}
		p.renew(func(b *backing) *backing {
			next := r.changed(s.cfg, p.key, b, entry)
			if next.era != b.era {
				outdated = append(outdated, p)
			}
			return next
		})
	}
	return outdated
}

// dropHosts forgets the hosts that no entry names and no server is at. The
// registry's mutex is held.
func (r *registry) dropHosts() {
	named := map[*host]bool{}
	cfg := r.eng.settings.Load().cfg
	for i := range cfg.Databases {
		for _, target := range cfg.Databases[i].HostList() {
			named[r.hosts[target]] = true
		}
	}
	for _, p := range r.pools {
		for _, c := range p.backing.Load().hosts {
			named[c.host] = true
		}
	}
	for target, h := range r.hosts {
		if !named[h] && r.eng.adm.DropHost(h.adm) {
			delete(r.hosts, target)
		}
	}
}

func (c *candidate) failedLately(now int64) bool {
	return c.host.state.FailedLately(now, hostMemory) || c.role.FailedLately(now, hostMemory)
}

func (c *candidate) failingFor(now int64) int64 {
	return max(c.host.state.FailingFor(now), c.role.FailingFor(now))
}

// retryAt is when the next connect may be tried.
func (c *candidate) retryAt(now int64, rnd uint64) int64 {
	return max(c.host.state.RetryAt(now, rnd), c.role.RetryAt(now, rnd))
}

func (c *candidate) dueAt() int64 { return max(c.host.state.DueAt(), c.role.DueAt()) }

func (c *candidate) cause() error {
	if cause := c.host.state.Cause(); cause != nil {
		return cause
	}
	return c.role.Cause()
}

// forgetFailures makes c a host of which nothing bad is known.
func (c *candidate) forgetFailures() {
	c.host.state.Forget()
	c.role.Forget()
}

// attrs is what a server has to satisfy; any where no preferred one was to be had.
func (b *backing) attrs() configs.SessionAttrs {
	if b.lenient {
		return configs.SessionAny
	}
	return b.entry.TargetSessionAttrs
}

// choose gives the host that is next. lenient: a preference of the entry is not to
// be fulfilled at present.
func (b *backing) choose(now int64) (next *candidate, lenient bool) {
	for _, c := range b.hosts {
		if !c.failedLately(now) {
			return c, false
		}
	}
	if b.entry.TargetSessionAttrs == configs.SessionPreferStandby {
		for _, c := range b.hosts {
			if !c.host.state.FailedLately(now, hostMemory) {
				return c, true
			}
		}
	}
	next = b.hosts[0]
	for _, c := range b.hosts[1:] {
		if c.dueAt() < next.dueAt() {
			next = c
		}
	}
	return next, false
}

// on is a new backing like b on another host.
func (b *backing) on(next *candidate, lenient bool) *backing {
	return &backing{entry: b.entry, hosts: b.hosts, candidate: next, lenient: lenient, login: b.login, era: &era{}}
}

// again is a new backing that says the same.
func (b *backing) again() *backing { return b.on(b.candidate, b.lenient) }

// single tells whether there is one address to try and no other.
func (b *backing) single() bool {
	r := b.host.address.Load()
	return len(b.hosts) == 1 && (r == nil || len(r.addrs) == 1)
}

// failFast tells whether every host has failed for longer than limit, and why. What
// nobody has found out anew for as long as memory is not told to anybody.
func (b *backing) failFast(now, limit, memory int64) (cause error, fail bool) {
	lately := func(c *candidate) bool {
		return c.host.state.FailedLately(now, memory) || c.role.FailedLately(now, memory)
	}
	if !b.down(now, limit) || !slices.ContainsFunc(b.hosts, lately) {
		return nil, false
	}
	cause = b.cause()
	return cause, cause != nil
}

// down tells whether every host has failed for longer than limit.
func (b *backing) down(now, limit int64) bool {
	for _, c := range b.hosts {
		if c.failingFor(now) <= limit {
			return false
		}
	}
	return true
}

// cause is why there is no server, as far as that is known: nil while some host is
// not known to fail.
func (b *backing) cause() error {
	causes := make(causesError, 0, len(b.hosts))
	for _, c := range b.hosts {
		cause := c.cause()
		if cause == nil {
			return nil
		}
		causes = append(causes, cause)
	}
	if len(causes) == 1 {
		return causes[0]
	}
	return causes
}

// causesError is why none of several hosts can be used. Its SQLSTATE is 08006,
// whatever those of the causes are.
type causesError []error

func (e causesError) Error() string {
	texts := make([]string, len(e))
	for i, cause := range e {
		texts[i] = cause.Error()
	}
	return "no host of the database can be used: " + strings.Join(texts, "; ")
}

// hostFailed is called when the present host of p, by what a server of b has found
// out, is of no use: the next one is chosen, servers of the old one end as after
// RECONNECT. An unfit host is left in any case, and its servers with it; one that
// does not answer keeps p as long as p has servers there that may serve.
func (p *pool) hostFailed(w *worker, b *backing, unfit bool) {
	now := w.now()
	if !unfit && (hasNoRoom(b.host.state.Cause()) || b.live.Load() > 0 && b.host.state.FailingFor(now) <= p.failLimit()) {
		return
	}
	if next := p.moveOn(b, now, unfit); next != nil {
		p.moved(w, b.host, next.host, fmt.Sprint(b.candidate.cause()))
	}
}

// moved: the present host is another one, so servers of the former end.
func (p *pool) moved(w *worker, from, to *host, why string) {
	p.follow(w)
	w.eng.retire([]*pool{p})
	w.eng.hostChanges.Add(1)
	w.log.Warn("servers of a pool are opened on another host", "database", p.key.database, "user", p.key.user,
		"host", to.name, "before", from.name, "cause", why)
}

// moveOn makes the host that is next the present one; nil: there is none better, or
// somebody has changed it since the time of b, for this reason or another.
func (p *pool) moveOn(b *backing, now int64, unfit bool) *backing {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	present := p.backing.Load()
	if present.era != b.era {
		return nil
	}
	next, lenient := present.choose(now)
	if next == present.candidate && lenient == present.lenient && (!unfit || present.live.Load() == 0) {
		return nil // the next attempt, after its delay, is made there
	}
	moved := present.on(next, lenient)
	p.backing.Store(moved)
	return moved
}

// follow makes admission open places on the present host. Whoever comes last sees
// the last change.
func (p *pool) follow(w *worker) {
	for {
		b := p.backing.Load()
		p.adm.SetHost(w.id, w.now(), b.host.adm)
		if p.backing.Load() == b {
			return
		}
	}
}

// reconsider is RECONNECT of p: its servers are made anew, on the first host of
// the list that has not failed lately.
func (p *pool) reconsider(w *worker) {
	p.renew(func(b *backing) *backing { return b.on(b.choose(w.now())) })
	p.host().forgetAddress()
	p.follow(w)
}

// probe lets a server be opened ahead on a host that has failed, if its time has
// come: so it is found out that the host is back without a client that waits for
// it, and clients need not be made to wait to find out.
func (p *pool) probe(w *worker, now int64) {
	b := p.backing.Load()
	if b.failingFor(now) == 0 || p.live() > 0 {
		return
	}
	if b.host.state.ProbeDue(now) || p.clients.Load() > 0 && b.role.ProbeDue(now) { // a role concerns this pool alone
		w.openAhead(p, now)
	}
}

// probeHosts does so for all pools.
func (w *worker) probeHosts(now int64) {
	for _, p := range *w.eng.registry.all.Load() {
		p.probe(w, now)
	}
}

// isUnfit tells whether the host answers, but not as target_session_attrs wants.
func isUnfit(cause error) bool {
	var role *backend.RoleError
	return errors.As(cause, &role)
}

// hasNoRoom tells whether the host answers, but lets nobody more in: saturation is
// no reason to leave it.
func hasNoRoom(cause error) bool {
	var refused *backend.RefusedError
	return errors.As(cause, &refused) && strings.HasPrefix(refused.Fields.Code, "53")
}

// forgetFailures lets pools that were paused try their hosts as if nothing had
// failed: during the pause nobody did.
func forgetFailures(pools []*pool) {
	for _, p := range pools {
		for _, c := range p.backing.Load().hosts {
			c.forgetFailures()
		}
		p.logins.Succeeded()
	}
}
