package routing

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

// fake is a route: how many use it, −1 when it is dead.
type fake struct {
	pool     int
	id       Identity
	overflow bool
	users    atomic.Int32
	weight   atomic.Int32
	gone     atomic.Bool
}

func (f *fake) use() bool {
	for {
		n := f.users.Load()
		if n < 0 {
			return false
		}
		if f.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *fake) leave()       { f.users.Add(-1) }
func (f *fake) forget() bool { return f.users.CompareAndSwap(0, -1) || f.users.Load() < 0 }

// fakeOptions make fakes and record nothing.
func fakeOptions(most int) DirectoryOptions[int, *fake] {
	made := func(pool int, id Identity, overflow bool) *fake {
		f := &fake{pool: pool, id: id, overflow: overflow}
		f.weight.Store(1)
		return f
	}
	return DirectoryOptions[int, *fake]{
		Max:      most,
		Make:     func(pool int, id Identity) *fake { return made(pool, id, false) },
		Overflow: func(pool int) *fake { return made(pool, Identity{}, true) },
		Weigh:    func(f *fake, w int) { f.weight.Store(int32(w)) },
		Forget:   (*fake).forget,
		Gone: func(f *fake) {
			if f.gone.Swap(true) {
				panic("a route is gone twice")
			}
		},
	}
}

// place is what a route is found by, in words that the Directory does not use.
type place struct {
	pool int
	name string
}

// model is a second, slow Directory: it follows what the real one does and knows what it may do.
type model struct {
	t       *testing.T
	d       *Directory[int, *fake]
	max     int
	perPool int
	live    map[place]*fake
	owner   map[*fake]Tenant
	order   map[Tenant][]*fake // least recently interned first
	shared  map[int]*fake      // overflow routes by pool
	inside  map[int]map[string]bool
	crowded map[int]bool // an overflow route that had more identities than it counts
	stamp   map[*fake]int
	passes  int

	tried, refused []*fake // by Forget since the last step began
	gone           []*fake
	made           int
	makes, forgets int // since the beginning
}

func newModel(t *testing.T, most, perPool int) *model {
	m := &model{
		t: t, max: most, perPool: perPool, live: map[place]*fake{}, owner: map[*fake]Tenant{}, order: map[Tenant][]*fake{},
		shared: map[int]*fake{}, inside: map[int]map[string]bool{}, crowded: map[int]bool{}, stamp: map[*fake]int{},
	}
	o := fakeOptions(most)
	o.MaxPerPool = perPool
	make1, over := o.Make, o.Overflow
	o.Make = func(pool int, id Identity) *fake { m.made++; m.makes++; return make1(pool, id) }
	o.Overflow = func(pool int) *fake {
		if m.shared[pool] != nil {
			t.Fatalf("pool %d gets a second overflow route", pool)
		}
		m.makes++
		return over(pool)
	}
	o.Forget = func(f *fake) bool {
		m.tried = append(m.tried, f)
		ok := f.forget()
		if !ok {
			m.refused = append(m.refused, f)
		}
		return ok
	}
	o.Gone = func(f *fake) { m.gone = append(m.gone, f); m.forgets++ }
	m.d = NewDirectory(o)
	return m
}

func (m *model) share() int { return max(1, m.max/16) }

func (m *model) inPool(pool int) (n int) {
	for at := range m.live {
		if at.pool == pool {
			n++
		}
	}
	return n
}

func (m *model) begin() { m.tried, m.refused, m.gone, m.made = nil, nil, nil, 0 }

// drop removes a route that is gone.
func (m *model) drop(f *fake) {
	if f.overflow {
		delete(m.shared, f.pool)
		delete(m.inside, f.pool)
		delete(m.crowded, f.pool)
		return
	}
	delete(m.live, place{f.pool, f.id.Key.Application})
	who := m.owner[f]
	m.order[who] = slices.DeleteFunc(m.order[who], func(o *fake) bool { return o == f })
}

func (m *model) touch(f *fake) {
	who := m.owner[f]
	m.order[who] = append(slices.DeleteFunc(m.order[who], func(o *fake) bool { return o == f }), f)
}

// intern does one Intern and judges it.
func (m *model) intern(pool int, name string, who Tenant) *fake {
	m.begin()
	id := Identity{Rule: len(name) % 3, Key: Key{Application: name}}
	at := place{pool, name}
	total, own, known := len(m.live), len(m.order[who]), m.live[at]
	got := m.d.Intern(pool, id, who)
	if known != nil {
		if got != known || len(m.tried) > 0 || m.made > 0 {
			m.t.Fatalf("intern of a known route: %p for %p, tried %d, made %d", got, known, len(m.tried), m.made)
		}
		m.touch(got)
		m.stamp[got] = m.passes
		return got
	}
	crowd := m.perPool > 0 && m.inPool(pool) >= m.perPool
	room := !crowd && total < m.max && (2*total <= m.max || own < m.share())
	if (room || crowd) && len(m.tried) > 0 {
		m.t.Fatalf("%d routes tried although there is room, or no way to have any", len(m.tried))
	}
	m.judgeRecycling(total, own, who)
	switch {
	case got.overflow && m.made == 0:
		m.judgeOverflow(got, pool, name, room, crowd, who)
	case !got.overflow && m.made == 1:
		if crowd || !room && len(m.gone) == 0 || len(m.live) >= m.max {
			m.t.Fatalf("a new route without room: %d of %d, tenant %d of %d", total, m.max, own, m.share())
		}
		if got.id != id {
			m.t.Fatalf("made with %+v for %+v", got.id, id)
		}
		m.live[at], m.owner[got], m.order[who] = got, who, append(m.order[who], got)
		delete(m.inside[pool], name)
	default:
		m.t.Fatalf("made %d, overflow %v", m.made, got.overflow)
	}
	m.stamp[got] = m.passes
	m.judgeWeight(pool)
	return got
}

// judgeRecycling follows the tries of one Intern: whose turn it may have been, and that it was that tenant's oldest.
func (m *model) judgeRecycling(total, own int, who Tenant) {
	if len(m.tried) > 2*recycleTries {
		m.t.Fatalf("%d tries", len(m.tried))
	}
	for _, f := range m.tried {
		victim := m.owner[f]
		switch {
		case f.overflow:
			m.t.Fatal("an overflow route was recycled")
		case victim != who && (total < m.max || own >= m.share() || len(m.order[victim]) <= m.share()):
			m.t.Fatalf("%v lost a route to %v: %d of %d, it has %d, the other %d, share %d",
				victim, who, total, m.max, len(m.order[victim]), own, m.share())
		case m.order[victim][0] != f:
			m.t.Fatal("not the least recently interned route was tried")
		}
		if slices.Contains(m.refused, f) && f.users.Load() > 0 {
			m.touch(f)
		} else {
			m.drop(f)
		}
	}
}

func (m *model) judgeOverflow(got *fake, pool int, name string, room, crowd bool, who Tenant) {
	// Who is refused has tried all that it may try, and the directory may have shrunk below a lowered bound only so far.
	own := len(m.order[who])
	if room || !crowd && own > 0 && len(m.tried) < min(own, recycleTries) {
		m.t.Fatalf("overflow although there is room: tried %d of %d", len(m.tried), own)
	}
	if known := m.shared[pool]; known != nil && known != got || got.pool != pool {
		m.t.Fatal("not the pool's overflow route")
	}
	if m.shared[pool] == nil {
		m.shared[pool], m.inside[pool] = got, map[string]bool{}
	}
	m.inside[pool][name] = true
	m.crowded[pool] = m.crowded[pool] || len(m.inside[pool]) > maxWeight
}

func (m *model) judgeWeight(pool int) {
	f := m.shared[pool]
	if f == nil {
		return
	}
	w := int(f.weight.Load())
	if want := max(1, len(m.inside[pool])); w < 1 || w > maxWeight || w > want || !m.crowded[pool] && w != want {
		m.t.Fatalf("overflow route of weight %d holds %d", w, want)
	}
}

// sweep does one Sweep that sees everything.
func (m *model) sweep() {
	m.begin()
	want := map[*fake]bool{}
	all := slices.AppendSeq(slices.Collect(maps.Values(m.live)), maps.Values(m.shared))
	for _, f := range all {
		if m.stamp[f]+2 <= m.passes && f.users.Load() <= 0 {
			want[f] = true
		}
	}
	m.d.Sweep(len(all) + 1)
	m.passes++
	if len(m.gone) != len(want) {
		m.t.Fatalf("%d routes gone, want %d", len(m.gone), len(want))
	}
	for _, f := range m.gone {
		if !want[f] {
			m.t.Fatal("a route is gone that was interned not long ago or is in use")
		}
		m.drop(f)
	}
}

func (m *model) dropPool(pool int) {
	m.begin()
	busy := false
	for at, f := range m.live {
		busy = busy || at.pool == pool && f.users.Load() > 0
	}
	if f := m.shared[pool]; f != nil {
		busy = busy || f.users.Load() > 0
	}
	if got := m.d.DropPool(pool); got == busy {
		m.t.Fatalf("DropPool: %v, in use: %v", got, busy)
	}
	for _, f := range m.gone {
		if f.pool != pool {
			m.t.Fatal("another pool's route is gone")
		}
		m.drop(f)
	}
	// Those in use were tried once and went to the end of their pool's list, which no tenant's order depends on.
	for at, f := range m.live {
		if at.pool == pool && f.users.Load() <= 0 {
			m.t.Fatal("a route that nobody uses was left")
		}
	}
}

// compare holds the Directory against the model and its own rules.
func (m *model) compare() {
	m.t.Helper()
	c := m.d.Counts()
	if c.Routes != len(m.live) || c.Overflows != len(m.shared) || c.Max != m.max ||
		c.Made != uint64(m.makes) || c.Forgotten != uint64(m.forgets) || c.Peak < c.Routes {
		m.t.Fatalf("counts %+v, model %d and %d, made %d, gone %d", c, len(m.live), len(m.shared), m.makes, m.forgets)
	}
	seen := 0
	m.d.Each(func(pool int, id Identity, f *fake) {
		seen++
		known := m.live[place{pool, id.Key.Application}]
		if id.Overflow() {
			known = m.shared[pool]
		}
		if known != f {
			m.t.Fatalf("Each shows a route that is not there: %+v", id)
		}
	})
	if seen != len(m.live)+len(m.shared) {
		m.t.Fatalf("Each shows %d routes", seen)
	}
	if err := m.d.check(); err != nil {
		m.t.Fatal(err)
	}
}

// check tells which of the invariants of directory.go and entry.go does not hold.
func (d *Directory[P, R]) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ordinary, pools, tenants := 0, map[P]int{}, map[*tenant[P, R]]int{}
	for i, e := range d.all {
		switch {
		case e.index != i || d.pools[e.pool.pool] != e.pool || (e.shared == nil) != (e.tenant != nil):
			return fmt.Errorf("entry %d at %d", e.index, i)
		case e.shared != nil && (e.pool.overflow != e || len(e.shared.known) > maxWeight || e.shared.telling || e.shared.told != e.shared.weight()):
			return fmt.Errorf("overflow entry %d: %+v", i, *e.shared)
		case e.shared == nil:
			ordinary++
			pools[e.pool.pool]++
			tenants[e.tenant]++
			if d.routes[keyOf(e.pool.pool, &e.id)] != e || d.tenants[e.tenant.name] != e.tenant {
				return fmt.Errorf("entry %d is not found", i)
			}
		}
	}
	if ordinary != d.ordinary || ordinary != len(d.routes) || len(d.all) != int(d.made-d.forgotten) || len(tenants) != len(d.tenants) {
		return fmt.Errorf("%d entries, ordinary %d, in the map %d, tenants %d", len(d.all), d.ordinary, len(d.routes), len(d.tenants))
	}
	for at, p := range d.pools {
		if p.routes.length() != pools[at] || p.routes.n != pools[at] || pools[at] == 0 && p.overflow == nil {
			return fmt.Errorf("pool %v holds %d of %d", at, p.routes.n, pools[at])
		}
	}
	over := 0
	for t, n := range tenants {
		if t.routes.length() != n || t.routes.n != n || (t.overAt != notOver) != (n > d.share) {
			return fmt.Errorf("tenant %v has %d of %d, over at %d", t.name, t.routes.n, n, t.overAt)
		}
		if t.overAt != notOver {
			over++
			if d.over[t.overAt] != t {
				return fmt.Errorf("tenant %v is not at %d", t.name, t.overAt)
			}
		}
	}
	if over != len(d.over) {
		return fmt.Errorf("%d tenants above their share, listed %d", over, len(d.over))
	}
	return nil
}

func (l *list[P, R]) length() (n int) {
	var last *entry[P, R]
	for e := l.head; e != nil; e = e.links[l.by].next {
		if e.links[l.by].prev != last {
			return -1
		}
		last = e
		n++
	}
	if last != l.tail {
		return -1
	}
	return n
}

// TestDirectoryAgainstModel: random calls, with routes that are in use more or less often, few or many tenants, pools and
// names, and bounds that move.
func TestDirectoryAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	perPool := []int{0, 0, 0, 5}[rng.IntN(4)]
	m := newModel(t, 1+rng.IntN(200), perPool)
	pools, tenants, names := 1+rng.IntN(4), 1+rng.IntN(30), 2+rng.IntN(400)
	busy, flood := rng.Float64(), rng.IntN(3) == 0
	var used []*fake
	for range 1000 {
		switch n := rng.IntN(100); {
		case n < 80:
			tenant := rng.IntN(tenants)
			if flood && rng.IntN(2) == 0 {
				tenant = 0
			}
			// Tenants share names now and then: a named rule's route belongs to who made it.
			name := fmt.Sprintf("%d/%d", tenant%7, rng.IntN(names))
			f := m.intern(rng.IntN(pools), name, Tenant{"db", fmt.Sprint(tenant)})
			if rng.Float64() < busy && f.use() {
				used = append(used, f)
			}
		case n < 92:
			if len(used) > 0 {
				i := rng.IntN(len(used))
				used[i].leave()
				used = slices.Delete(used, i, i+1)
			}
		case n < 96:
			m.sweep()
		case n < 98:
			m.dropPool(rng.IntN(pools))
		default:
			m.max = 1 + rng.IntN(200)
			m.d.SetMax(m.max)
		}
		if rng.IntN(20) == 0 {
			m.compare()
		}
	}
	for _, f := range used {
		f.leave()
	}
	for range 3 {
		m.sweep()
	}
	m.compare()
	if c := m.d.Counts(); c.Routes != 0 || c.Overflows != 0 || len(m.d.pools) != 0 || len(m.d.tenants) != 0 || len(m.d.over) != 0 {
		t.Fatalf("after three sweeps without use: %+v", c)
	}
}
