package engine

// What is to be seen of admission: by label, by route. Any goroutine may look;
// it costs the loops nothing but the moment in which the directory's list is
// copied.
//
// A label's sums are what its routes that are gone have counted and what its live
// routes count now, read so that every route is in exactly one of the two
// (Directory.EachAfter): no sum ever falls, and nothing is counted twice.

import (
	"slices"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

var outcomeNames = [outcomes]string{
	admission.Admitted: "admitted", admission.Queued: "queued", admission.Rejected: "rejected",
	admission.TimedOut: "timed_out", admission.Canceled: "canceled", admission.Disconnected: "disconnected",
	admission.Shed: "shed", admission.Drained: "drained",
}

// labelSum is what is known of one label at one moment.
type labelSum struct {
	stats                     *routeStats
	routes                    int
	counts                    [outcomes]uint64
	inFlight, limit           int
	waiting, maxWaiters       int
	fullInFlight, fullWaiters float64
	oldest                    int64
	otherByCause              *[admission.Causes]view.Histogram // only of "other": read at the same moment
	otherWhole                view.Histogram
	otherTook                 [durationKinds]view.Histogram
}

// sums reads all labels at one moment, in the order of their names.
func (e *Engine) sums(now int64) []*labelSum {
	r := e.registry
	by := map[*routeStats]*labelSum{}
	r.routes.EachAfter(func() { r.stats.start(by) }, func(_ *pool, _ routing.Identity, rt *route) {
		by[rt.stats].add(rt, now)
	})
	var all []*labelSum
	for _, s := range by {
		if s.stats != r.stats.other || s.routes > 0 || s.counts != [outcomes]uint64{} {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *labelSum) int { return strings.Compare(a.stats.label, b.stats.label) })
	return all
}

// start begins the sum of every label with what its routes that are gone have
// counted. The waits under "other" are read here: a label that makes room later
// adds its own to them.
func (t *statsTable) start(by map[*routeStats]*labelSum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	for _, s := range t.labels {
		by[s] = s.start()
	}
	k := t.other.start()
	causes := t.other.byCause()
	k.otherByCause, k.otherWhole = &causes, t.other.wholeWaits()
	for kind := range k.otherTook {
		k.otherTook[kind] = t.other.took(kind)
	}
	by[t.other] = k
}

func (s *routeStats) start() *labelSum {
	k := &labelSum{stats: s}
	for o := range k.counts {
		k.counts[o] = s.retired[o].Load()
	}
	return k
}

// add takes a live route into its label's sum.
func (k *labelSum) add(rt *route, now int64) {
	n := rt.adm.Counts()
	k.routes++
	for o := range k.counts {
		k.counts[o] += rt.adm.Count(admission.Outcome(o))
	}
	k.inFlight += n.InFlight
	k.limit += n.Limit
	k.waiting += n.Waiting
	k.maxWaiters += n.MaxWaiters
	k.fullInFlight = max(k.fullInFlight, part(n.InFlight, n.Limit))
	k.fullWaiters = max(k.fullWaiters, part(n.Waiting, n.MaxWaiters))
	k.oldest = max(k.oldest, rt.adm.OldestWait(now))
}

// part is n of most; nothing of nothing is nothing.
func part(n, most int) float64 {
	if most == 0 {
		return min(float64(n), 1)
	}
	return float64(n) / float64(most)
}

func (k *labelSum) byCause() [admission.Causes]view.Histogram {
	if k.otherByCause != nil {
		return *k.otherByCause
	}
	return k.stats.byCause()
}

func (k *labelSum) whole() view.Histogram {
	if k.otherByCause != nil {
		return k.otherWhole
	}
	return k.stats.wholeWaits()
}

func (k *labelSum) took(kind int) view.Histogram {
	if k.otherByCause != nil {
		return k.otherTook[kind]
	}
	return k.stats.took(kind)
}

// Backpressure shows every label, in the order of their names. Any goroutine.
func (e *Engine) Backpressure() []view.Backpressure {
	var rows []view.Backpressure
	for _, k := range e.sums(reactor.Now()) {
		waits := k.whole()
		rows = append(rows, view.Backpressure{
			Route:    k.stats.label,
			InFlight: k.inFlight, MaxInFlight: k.limit, Waiting: k.waiting, MaxWaiters: k.maxWaiters,
			Admitted: k.counts[admission.Admitted], Queued: k.counts[admission.Queued],
			Rejected: k.counts[admission.Rejected], TimedOut: k.counts[admission.TimedOut],
			Canceled: k.counts[admission.Canceled], Disconnected: k.counts[admission.Disconnected],
			Shed: k.counts[admission.Shed], Drained: k.counts[admission.Drained],
			WaitP50Ms: waits.BoundedMs(0.50), WaitP99Ms: waits.BoundedMs(0.99),
			OldestWaitMs: float64(k.oldest) / float64(ms),
		})
	}
	return rows
}

// Routes shows every route that there is, in the order of labels, pools and
// addresses. Any goroutine.
func (e *Engine) Routes() []view.Route {
	s := e.settings.Load()
	var rows []view.Route
	e.registry.routes.Each(func(p *pool, id routing.Identity, rt *route) { rows = append(rows, s.routeRow(p, &id, rt)) })
	slices.SortFunc(rows, func(a, b view.Route) int {
		return strings.Compare(a.Route+"\x00"+a.Pool+"\x00"+a.ClientAddr, b.Route+"\x00"+b.Pool+"\x00"+b.ClientAddr)
	})
	return rows
}

func (s *settings) routeRow(p *pool, id *routing.Identity, rt *route) view.Route {
	n := rt.adm.Counts()
	weight, policy := rt.adm.Share()
	i := s.currentRule(id)
	l := s.cfg.Effective(s.entry(p), s.cfg.User(p.key.user), s.rule(i))
	row := view.Route{
		Route: rt.label, Pool: p.title(), Database: id.Key.Database, User: id.Key.User,
		ApplicationName: id.Key.Application, QueryClass: id.Key.Class.String(), Rule: s.ruleTitle(i),
		Overflow: id.Overflow(), Weight: weight, OnFull: policyName(policy), Paused: n.Paused,
		InFlight: n.InFlight, MaxInFlight: n.Limit, PeakInFlight: n.PeakInFlight,
		Waiting: n.Waiting, MaxWaiters: n.MaxWaiters, PeakWaiting: n.PeakWaiting,
		CheckoutTimeoutMs: int64(l.CheckoutTimeoutMs), QueryTimeoutMs: int64(l.QueryTimeoutMs),
		TransactionTimeoutMs: int64(l.TransactionTimeoutMs), IdleClientTimeoutMs: int64(l.IdleClientTimeoutMs),
		IdleTransactionTimeoutMs: int64(l.IdleTransactionTimeoutMs), OverloadErrorCode: l.OverloadErrorCode,
	}
	if id.Key.Addr.IsValid() {
		row.ClientAddr = id.Key.Addr.String()
	}
	return row
}

// name is the database as clients of the pool ask for it: the entry's name, or of an
// entry for any what PostgreSQL has it as.
func (p *pool) name() string {
	if p.key.entry == configs.AnyDatabase {
		return p.key.database
	}
	return p.key.entry
}

// title names a pool in views.
func (p *pool) title() string { return p.key.entry + "/" + p.key.database + "/" + p.key.user }
