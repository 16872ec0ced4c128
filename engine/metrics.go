package engine

// What metrics tell: everything of one scrape, from the loops' counters, which they
// are not asked for, and one census.

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/engine/reactor"
)

// poolLabels bounds the pools that metrics tell apart.
const poolLabels = 200

// Metrics gives everything that metrics tell but reloads and lines of the log, which
// are not the engine's. Any goroutine but a loop's.
func (e *Engine) Metrics() *view.Metrics {
	now, n, t := reactor.Now(), e.takeCensus(), e.Totals()
	m := &view.Metrics{
		Routes: e.routeMetrics(now), Health: e.Health(), Limits: e.outerLimits(), Hosts: e.registry.hostMetrics(),
		Pools: e.poolMetrics(n), Traffic: e.trafficMetrics(), Loops: e.loopMetrics(now),
		Evictions: counts(t.Evictions), Timeouts: counts(t.Timeouts), Pins: counts(t.Pins), Pinned: counts(t.Pinned),
		PreparedEvents: counts(t.Prepared), Closed: counts(t.Closed),
		Handshakes: counts2(t.TLSHandshakes), AuthAttempts: counts2(t.AuthAttempts),
		BytesIn: t.BytesFromClients, BytesOut: t.BytesToClients, ServerBytesIn: t.BytesFromServers, ServerBytesOut: t.BytesToServers,
		Logins: t.ClientLogins, ServerLogins: t.ServerLogins, ClientsTotal: e.accepted(), AcceptPaused: t.AcceptPaused,
		Moves: t.Moves, Cancels: t.CancelRequests, ConnectsFailed: t.ConnectsFailed, BufferBytes: t.BufferBytes, SlowQueries: t.SlowQueries,
		SQLStates: e.sqlStates(), HostChanges: e.hostChanges.Load(),
		Lookups: []view.Count{{Label: "found", N: e.names.found.Load()}, {Label: "failed", N: e.names.failed.Load()}},
	}
	for state := range clientGone {
		m.Clients = append(m.Clients, view.Count{Label: state.String(), N: uint64(n.states[state])})
	}
	m.Prepared = []view.Count{
		{Label: "client", N: uint64(n.total.clientStatements)},
		{Label: "server", N: uint64(n.total.serverCopies)},
		{Label: "texts", N: uint64(e.statements.Len())},
	}
	for kind, name := range bufferNames {
		m.BufferLimits = append(m.BufferLimits, view.Count{Label: name, N: e.count(func(c *counters) *counter { return &c.buffersFull[kind] })})
	}
	for _, r := range e.recoveryCounts() {
		m.Recoveries = append(m.Recoveries, view.Count2{Label: r.Trigger, Second: r.Outcome, N: r.Count})
	}
	return m
}

// count sums one counter of all loops.
func (e *Engine) count(of func(*counters) *counter) (n uint64) {
	for _, w := range e.workers {
		n += of(&w.stats).v.Load()
	}
	return n
}

// counts puts a map into the order of its names.
func counts[N uint64 | int64](of map[string]N) []view.Count {
	all := make([]view.Count, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, view.Count{Label: name, N: uint64(of[name])})
	}
	return all
}

func counts2(of map[string]map[string]uint64) (all []view.Count2) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for _, k := range counts(of[name]) {
			all = append(all, view.Count2{Label: name, Second: k.Label, N: k.N})
		}
	}
	return all
}

func (e *Engine) accepted() uint64 {
	if e.acceptor == nil {
		return 0
	}
	return e.acceptor.Accepted()
}

func (e *Engine) sqlStates() (all []view.Count) {
	for k, one := range e.faultSums() {
		if !k.ours {
			all = append(all, view.Count{Label: string(k.code[:]), N: one.count})
		}
	}
	slices.SortFunc(all, func(a, b view.Count) int { return cmp.Compare(a.Label, b.Label) })
	return all
}

func (e *Engine) routeMetrics(now int64) (all []view.RouteMetrics) {
	sums := e.sums(now)
	all = make([]view.RouteMetrics, 0, len(sums))
	for _, k := range sums {
		r := view.RouteMetrics{
			Route: k.stats.label, InFlight: k.inFlight, Waiting: k.waiting, LimitInFlight: k.limit, LimitWaiters: k.maxWaiters,
			SaturationInFlight: k.fullInFlight, SaturationWaiters: k.fullWaiters,
			QueryMs: k.took(durationQuery), TransactionMs: k.took(durationXact),
		}
		r.Events = make([]view.Count, 0, outcomes)
		for o := admission.Queued; int(o) < outcomes; o++ {
			r.Events = append(r.Events, view.Count{Label: outcomeNames[o], N: k.counts[o]})
		}
		for cause, h := range k.byCause() {
			if h.Total() > 0 {
				r.Waits = append(r.Waits, view.CauseHistogram{Cause: admission.Cause(cause).String(), Histogram: h})
			}
		}
		all = append(all, r)
	}
	return all
}

// outerLimits are the limits of the process and of hosts.
func (e *Engine) outerLimits() []view.Limit {
	s := e.settings.Load()
	return slices.DeleteFunc(append(e.processLimits(s), e.registry.limitRows(s)...), func(l view.Limit) bool {
		return l.Of != "" && !strings.HasPrefix(l.Of, "host ")
	})
}

func (r *registry) hostMetrics() (all []view.HostMetrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, cfg := reactor.Now(), r.eng.settings.Load().cfg
	for _, h := range r.sortedHosts() {
		all = append(all, view.HostMetrics{Host: h.name, Down: h.down(now, cfg)})
	}
	return all
}

func (e *Engine) poolMetrics(n *census) []view.PoolMetrics {
	by := map[tenantNames]*view.PoolMetrics{}
	for _, p := range *e.registry.all.Load() {
		key := tenantNames{p.name(), p.key.user}
		if by[key] == nil && len(by) >= poolLabels {
			key = tenantNames{otherLabel, otherLabel}
		}
		k, a := n.of(p), p.adm.Counts()
		m := cached(by, key, func() *view.PoolMetrics { return &view.PoolMetrics{Database: key.database, User: key.user} })
		m.Active += k.servers[serverLinked]
		m.Idle += k.servers[serverIdle]
		m.Connecting += k.connecting()
		m.Recovering += k.recovering()
		m.MaxSize += a.Max
		m.Waiting += a.Waiting
		m.OldestCheckoutMs = max(m.OldestCheckoutMs, float64(k.oldestCheckout)/float64(ms))
	}
	all := make([]view.PoolMetrics, 0, len(by))
	for _, m := range by {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b view.PoolMetrics) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.User, b.User))
	})
	return all
}

func (e *Engine) trafficMetrics() (all []view.TrafficMetrics) {
	other := view.TrafficMetrics{Database: otherLabel, User: otherLabel}
	any := false
	for _, k := range e.registry.traffic.sums() {
		t := view.TrafficMetrics{
			Database: k.tenant.Database, User: k.tenant.User, Queries: k.total[trafficQueries], Transactions: k.total[trafficXacts],
			Logins: k.total[trafficLogins], Refused: k.total[trafficRefused], Cancels: k.total[trafficCancels], Abrupt: k.total[trafficAbrupt],
		}
		if k.label && (t.Database != otherLabel || t.User != otherLabel) { // else somebody is called so
			all = append(all, t)
			continue
		}
		any = true
		other.Queries += t.Queries
		other.Transactions += t.Transactions
		other.Logins += t.Logins
		other.Refused += t.Refused
		other.Cancels += t.Cancels
		other.Abrupt += t.Abrupt
	}
	slices.SortFunc(all, func(a, b view.TrafficMetrics) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.User, b.User))
	})
	if any {
		all = append(all, other)
	}
	return all
}

func (e *Engine) loopMetrics(now int64) (all []view.LoopMetrics) {
	busy := e.busy(now)
	for i, w := range e.workers {
		all = append(all, view.LoopMetrics{
			Loop: i, BusyRatio: busy[i], Clients: int(w.stats.clientsOpen.Load()), Servers: int(w.stats.serversOpen.Load()),
		})
	}
	return all
}
