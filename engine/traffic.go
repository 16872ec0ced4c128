package engine

// What clients send, get and wait for, summed by the database and user that they
// have asked for.
//
// State: a tally per tenant, in it the sums of each loop that has had a client of
// the tenant; and of the clients that have not logged in, one per loop
// (worker.strangers).
// Owner: a traffic has one writer, its loop; anybody may read it. The table and
// what is beside the loops' parts in a tally (clients, retired, periods) are
// guarded by the table's mutex, which is entered when a client logs in or leaves.
//
// Invariants:
//   - tallies are bounded: when there are too many, those without a client make
//     room, and are summed under "other" from then on; without such a one the
//     newcomer counts under "other" of its database, or of all. What was counted is
//     never forgotten, so the sums never fall
//   - a tally with a client stays; who counts in one is a client of it

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"pgkinetic/admission/routing"
)

const (
	// talliesMax bounds the tenants that are told apart, and once more the databases
	// under which the others are.
	talliesMax = 2048
	// tenantLabels bounds the tenants that metrics tell apart.
	tenantLabels = 200
)

// The sums of traffic.
const (
	trafficAssigned     = iota // servers given to a client
	trafficXacts               // query cycles that ended idle
	trafficQueries             // query cycles answered
	trafficReceived            // bytes from clients
	trafficSent                // bytes to clients
	trafficXactTime            // ns, from a transaction's first message to its last ReadyForQuery
	trafficQueryTime           // ns, from the first message of a cycle to its ReadyForQuery
	trafficWaitTime            // ns, in queues
	trafficParses              // of clients
	trafficServerParses        // sent to servers
	trafficBinds
	trafficLogins
	trafficRefused // logins that were not let in
	trafficCancels // CancelRequests that named a client
	trafficAbrupt  // clients that have gone without Terminate
	trafficSums
)

// traffic is what one loop has counted: two cache lines, as no other loop writes there.
type traffic struct {
	sums  [trafficSums]counter
	tally *tally // whose it is; nil: of strangers
}

func (t *traffic) inc(sum int)           { t.sums[sum].inc() }
func (t *traffic) add(sum int, n uint64) { t.sums[sum].add(n) }

// trafficTotals are the sums of several loops at one moment.
type trafficTotals [trafficSums]uint64

func (n *trafficTotals) add(t *traffic) {
	for i := range n {
		n[i] += t.sums[i].v.Load()
	}
}

func (n *trafficTotals) plus(m *trafficTotals) {
	for i := range n {
		n[i] += m[i]
	}
}

type tally struct {
	tenant  routing.Tenant
	order   int // in which tallies were made
	label   bool
	clients int
	loops   []atomic.Pointer[traffic] // made by the loop
	retired trafficTotals             // of tallies that made room
	periods [2]trafficTotals          // at the ends of the last two periods, the newer one last
}

// on gives the sums of a loop, to that loop.
func (k *tally) on(loop int) *traffic {
	t := k.loops[loop].Load()
	if t == nil {
		t = &traffic{tally: k}
		k.loops[loop].Store(t)
	}
	return t
}

// totals sums what all loops have counted; the table's mutex is held.
func (k *tally) totals() trafficTotals {
	n := k.retired
	for i := range k.loops {
		if t := k.loops[i].Load(); t != nil {
			n.add(t)
		}
	}
	return n
}

type trafficTable struct {
	mu      sync.Mutex
	loops   int
	made    int
	labels  int // tallies that metrics tell apart
	tallies map[routing.Tenant]*tally
	other   *tally
	ended   int // periods
}

func newTrafficTable(loops int) *trafficTable {
	t := &trafficTable{loops: loops, tallies: map[routing.Tenant]*tally{}}
	t.other = t.make(routing.Tenant{Database: otherLabel, User: otherLabel})
	return t
}

func (t *trafficTable) make(tenant routing.Tenant) *tally {
	t.made++
	return &tally{tenant: tenant, order: t.made, loops: make([]atomic.Pointer[traffic], t.loops)}
}

// join counts a client of a tenant in and gives the tally that it counts in.
func (t *trafficTable) join(tenant routing.Tenant) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.find(tenant)
	k.clients++
	return k
}

func (t *trafficTable) find(tenant routing.Tenant) *tally {
	if k := t.tallies[tenant]; k != nil {
		return k
	}
	if len(t.tallies) >= talliesMax {
		t.makeRoom()
	}
	if len(t.tallies) >= talliesMax {
		tenant.User = otherLabel
	}
	if k := t.tallies[tenant]; k != nil {
		return k
	}
	if len(t.tallies) >= 2*talliesMax {
		return t.other
	}
	k := t.make(tenant)
	if t.labels < tenantLabels {
		k.label = true
		t.labels++
	}
	t.tallies[tenant] = k
	return k
}

// makeRoom sums the tallies without clients under "other".
func (t *trafficTable) makeRoom() {
	for tenant, k := range t.tallies {
		if k.clients > 0 {
			continue
		}
		n := k.totals()
		t.other.retired.plus(&n)
		for i := range k.periods {
			t.other.periods[i].plus(&k.periods[i])
		}
		if k.label {
			t.labels--
		}
		delete(t.tallies, tenant)
	}
}

// leave counts a client out.
func (t *trafficTable) leave(k *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.clients--
}

// refused counts a login that did not come so far as to be somebody's client: with
// its tenant if that is known, as whoever knocks may give any name.
func (t *trafficTable) refused(tenant routing.Tenant, loop int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.tallies[tenant]
	if k == nil {
		k = t.other
	}
	k.on(loop).inc(trafficRefused)
}

// tallySum is a tally at one moment.
type tallySum struct {
	tenant routing.Tenant
	label  bool
	total  trafficTotals
	period trafficTotals // over the last full one; zero before there is any
}

// sums reads all tallies, in the order of their making. Any goroutine.
func (t *trafficTable) sums() []tallySum {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*tally, 0, len(t.tallies)+1)
	for _, k := range t.tallies {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *tally) int { return cmp.Compare(a.order, b.order) })
	out := make([]tallySum, 0, len(all)+1)
	for _, k := range append(all, t.other) {
		s := tallySum{tenant: k.tenant, label: k.label, total: k.totals()}
		if k == t.other && s.total == (trafficTotals{}) {
			continue
		}
		if t.ended >= 2 {
			for i := range s.period {
				s.period[i] = k.periods[1][i] - k.periods[0][i]
			}
		}
		out = append(out, s)
	}
	return out
}

// endPeriod ends a period of averages. The first one ends with the start.
func (t *trafficTable) endPeriod() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	for _, k := range t.tallies {
		k.endPeriod()
	}
	t.other.endPeriod()
}

func (k *tally) endPeriod() { k.periods = [2]trafficTotals{k.periods[1], k.totals()} }
