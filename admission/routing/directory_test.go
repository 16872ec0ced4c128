package routing

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

func named(application string) Identity {
	return Identity{Rule: -1, Key: Key{Database: "db", User: "user", Application: application}}
}

// TestRuleIsNoPartOfIdentity: rules that a reload moved keep their routes.
func TestRuleIsNoPartOfIdentity(t *testing.T) {
	o := fakeOptions(1)
	d := NewDirectory(o)
	who := Tenant{"db", "user"}
	id := Identity{Rule: 3, RuleID: "api"}
	first := d.Intern(1, id, who)
	if first.id.Rule != 3 {
		t.Errorf("made with rule %d", first.id.Rule)
	}
	first.use()
	id.Rule = 0
	if d.Intern(1, id, who) != first {
		t.Error("the index of the rule made another route")
	}
	id.RuleID, id.Key.Application = "other", "w"
	shared := d.Intern(1, id, who)
	id.Rule = 5
	if d.Intern(1, id, who) != shared || !shared.overflow || shared.weight.Load() != 1 {
		t.Errorf("one identity counts as %d in the overflow route", shared.weight.Load())
	}
	id.Key.Application = "x"
	if d.Intern(1, id, who); shared.weight.Load() != 2 {
		t.Errorf("two identities count as %d", shared.weight.Load())
	}
}

// TestRecyclingGoesAround: whatever is in use at the front, of the tenant or of the tenants, the next Intern looks further.
func TestRecyclingGoesAround(t *testing.T) {
	const most = 160
	d := NewDirectory(fakeOptions(most))
	fill := func(user string, n int, use bool) {
		for i := range n {
			if f := d.Intern(1, named(fmt.Sprint(user, i)), Tenant{"db", user}); use {
				f.use()
			}
		}
	}
	fill("busy", 60, true)
	fill("idle", 21, false) // more than half now
	for i := range (most - 81) / 10 {
		fill(fmt.Sprint("small", i), 10, true)
	}
	fill("last", 9, true)
	if c := d.Counts(); c.Routes != most {
		t.Fatalf("%d routes, want a full directory", c.Routes)
	}
	// Two tenants are above their ten: one in use altogether, one not at all.
	for i := range 11 {
		if f := d.Intern(1, named(fmt.Sprint("new", i)), Tenant{"db", fmt.Sprint("new", i)}); f.overflow {
			t.Fatalf("newcomer %d found no room", i)
		}
	}
	if f := d.Intern(1, named("late"), Tenant{"db", "late"}); !f.overflow {
		t.Error("a newcomer took from a tenant at its share, or a route in use")
	}

	// One tenant at its bound, only its newest route is idle: found after enough calls.
	d = NewDirectory(fakeOptions(16 * 20))
	fill("other", 161, true)
	fill("own", 19, true)
	idle := d.Intern(1, named("idle"), Tenant{"db", "own"})
	calls := 0
	for ; !idle.gone.Load(); calls++ {
		if calls > 20/recycleTries {
			t.Fatalf("no room after %d calls", calls)
		}
		d.Intern(1, named("newcomer"), Tenant{"db", "own"})
	}
}

// TestFloodPushesNobodyOut: a flood of names, by one tenant or by many, with routes that are in use or not, leaves other
// tenants' routes alone as long as they are not above their share, and leaves room for their new ones.
func TestFloodPushesNobodyOut(t *testing.T) {
	for _, flooders := range []int{1, 7, 40} {
		for _, use := range []bool{false, true} {
			const most = 320
			d := NewDirectory(fakeOptions(most))
			victim := Tenant{"db", "victim"}
			var kept []*fake
			for i := range 10 {
				kept = append(kept, d.Intern(1, named(fmt.Sprint("v", i)), victim))
			}
			for i := range 20_000 {
				f := d.Intern(1+i%3, named(fmt.Sprint("flood", i)), Tenant{"db", fmt.Sprint("flooder", i%flooders)})
				if use {
					f.use()
				}
			}
			if slices.ContainsFunc(kept, func(f *fake) bool { return f.gone.Load() }) {
				t.Errorf("%d flooders, in use %v: a route was pushed out", flooders, use)
			}
			for i := range 10 {
				f := d.Intern(1, named(fmt.Sprint("more", i)), victim)
				if flooders == 1 && f.overflow {
					t.Errorf("%d flooders, in use %v: no room for route %d of a tenant below its share", flooders, use, 10+i)
				}
			}
			if c := d.Counts(); c.Routes > most || c.Peak > most || c.Overflows > 3 {
				t.Errorf("%+v", c)
			}
		}
	}
}

func TestReplace(t *testing.T) {
	d := NewDirectory(fakeOptions(1))
	who := Tenant{"db", "user"}
	first := d.Intern(1, named("a"), who)
	if d.Replace(1, named("a"), who, first) == first || !first.gone.Load() {
		t.Error("an idle route that its caller calls dead is killed and replaced")
	}
	first = d.Intern(1, named("a"), who)
	first.use()
	if d.Replace(1, named("a"), who, first) != first {
		t.Error("a route in use was replaced")
	}
	first.leave()
	first.forget()
	second := d.Replace(1, named("a"), who, first)
	if second == first || second.overflow || !first.gone.Load() {
		t.Error("a dead route was not replaced")
	}
	if d.Replace(1, named("a"), who, first) != second || second.gone.Load() {
		t.Error("the second to find it dead got something else than the first")
	}
	second.use()
	shared := d.Intern(1, named("b"), who)
	shared.forget()
	if f := d.Replace(1, named("b"), who, shared); f == shared || !f.overflow || !shared.gone.Load() {
		t.Error("a dead overflow route was not replaced")
	}
	if c := d.Counts(); c.Made-c.Forgotten != uint64(c.Routes+c.Overflows) || c.Routes != 1 || c.Overflows != 1 {
		t.Errorf("%+v", c)
	}
	second.leave()
	if f := d.Intern(1, named("b"), who); f.overflow {
		t.Error("a tenant at its bound does not recycle its own route")
	}
	if err := d.check(); err != nil {
		t.Error(err)
	}
}

// TestLeavingTheOverflow: an overflow route that nobody joins is forgotten at a moment when nobody is in flight there, also if
// it is used, and who was in it finds room elsewhere.
func TestLeavingTheOverflow(t *testing.T) {
	o := fakeOptions(1)
	o.Used = func(f *fake) bool { return f.overflow } // by clients that have found it once
	d := NewDirectory(o)
	who := Tenant{"db", "user"}
	own := d.Intern(1, named("a"), who)
	own.use()
	shared := d.Intern(1, named("b"), who)
	own.leave()
	for range 3 {
		d.Sweep(100)
	}
	if !own.gone.Load() || !shared.gone.Load() {
		t.Fatalf("after three sweeps: %+v", d.Counts())
	}
	if f := d.Replace(1, named("b"), who, shared); f.overflow {
		t.Error("still in the overflow")
	}
}

// TestNamedRuleHasRoom: a flood of names does not put what a rule with a name matches into the overflow, where its limit would
// not hold; kept apart by what clients choose, its routes are bounded like others.
func TestNamedRuleHasRoom(t *testing.T) {
	d := NewDirectory(fakeOptions(16))
	who := Tenant{"db", "user"}
	for i := range 100 {
		d.Intern(1, named(fmt.Sprint(i)), who).use()
	}
	api := Identity{Rule: 0, RuleID: "api"}
	f := d.Intern(1, api, who)
	if f.overflow {
		t.Fatal("the route of a named rule is in the overflow")
	}
	if split := d.Intern(1, Identity{Rule: 0, RuleID: "api", Key: Key{Application: "a"}}, who); !split.overflow {
		t.Error("a part of a named rule has room in a full directory")
	}
	if d.Intern(1, api, who) != f {
		t.Error("another route for the same rule")
	}
	if err := d.check(); err != nil {
		t.Error(err)
	}
}

// TestSweepKeepsWhatIsUsed: a route that its clients have found once and use all the time stays, without being interned again.
func TestSweepKeepsWhatIsUsed(t *testing.T) {
	o := fakeOptions(100)
	busy := map[*fake]bool{}
	o.Used = func(f *fake) bool { return busy[f] }
	d := NewDirectory(o)
	who := Tenant{"db", "user"}
	used, unused := d.Intern(1, named("a"), who), d.Intern(1, named("b"), who)
	busy[used] = true
	for range 5 {
		if !d.Sweep(100) {
			t.Fatal("a sweep of two routes is not complete")
		}
	}
	if used.gone.Load() || !unused.gone.Load() {
		t.Errorf("used gone: %v, unused gone: %v", used.gone.Load(), unused.gone.Load())
	}
	busy[used] = false
	for range 3 {
		d.Sweep(100)
	}
	if !used.gone.Load() {
		t.Error("a route that is not used any more stays")
	}
}

// TestSweepIsBounded: a call tries at most its budget; together they reach every route, once in each pass.
func TestSweepIsBounded(t *testing.T) {
	tries := map[*fake]int{}
	o := fakeOptions(1000)
	o.Forget = func(f *fake) bool { tries[f]++; return false }
	d := NewDirectory(o)
	for i := range 500 {
		d.Intern(1, named(fmt.Sprint(i)), Tenant{"db", "user"})
	}
	d.Sweep(500)
	d.Sweep(500)
	if len(tries) != 0 {
		t.Fatalf("%d tries in the first two sweeps", len(tries))
	}
	calls := 0
	for ; len(tries) < 500; calls++ {
		before := len(tries)
		d.Sweep(70)
		if n := len(tries) - before; n > 70 || n == 0 {
			t.Fatalf("%d tries in a call", n)
		}
	}
	if calls != 8 {
		t.Errorf("%d calls for a pass", calls)
	}
	for _, n := range tries {
		if n != 1 {
			t.Fatalf("a route was tried %d times in one pass", n)
		}
	}
}

// TestNothingOfTheCallersBufferIsKept: names come from read buffers, which change.
func TestNothingOfTheCallersBufferIsKept(t *testing.T) {
	d := NewDirectory(fakeOptions(2))
	intern := func(application string) *fake {
		buffer := []byte("rule db user " + application)
		s := unsafe.String(&buffer[0], len(buffer))
		id := Identity{RuleID: s[:4], Key: Key{Database: s[5:7], User: s[8:12], Application: s[13:]}}
		f := d.Intern(1, id, Tenant{s[5:7], s[8:12]})
		clear(buffer)
		return f
	}
	for _, application := range []string{"own1", "own2", "shared"} {
		intern(application).use()
	}
	if a, b := intern("own1"), intern("own1"); a != b || a.overflow {
		t.Error("a route is not found again")
	}
	if f := intern("shared"); f.weight.Load() != 1 {
		t.Error("an identity of the overflow route is not found again")
	}
	want := []string{"db/user/overflow", "rule/database=db/user=user/application_name=own1", "rule/database=db/user=user/application_name=own2"}
	var got []string
	d.Each(func(_ int, id Identity, _ *fake) { got = append(got, id.Label()) })
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := d.check(); err != nil {
		t.Error(err)
	}
}

func TestNamesOfTheOverflow(t *testing.T) {
	label := func(o DirectoryOptions[int, *fake]) (label string) {
		d := NewDirectory(o)
		d.Intern(7, named("a"), Tenant{"db", "u1"}).use()
		d.Intern(7, named("b"), Tenant{"db", "u1"})
		d.Each(func(_ int, id Identity, f *fake) {
			if f.overflow {
				label = id.Label()
			}
		})
		return label
	}
	o := fakeOptions(1)
	if got := label(o); got != "db/u1/overflow" {
		t.Errorf("without names: %q", got)
	}
	o.Names = func(pool int) Tenant { return Tenant{"pool", fmt.Sprint(pool)} }
	if got := label(o); got != "pool/7/overflow" {
		t.Errorf("with names: %q", got)
	}
}

// TestWeighMayCallTheDirectory: the last weight is the last that is told, also when the call before changed it.
func TestWeighMayCallTheDirectory(t *testing.T) {
	var d *Directory[int, *fake]
	depth, told := 0, []int{}
	o := fakeOptions(1)
	o.Weigh = func(f *fake, w int) {
		depth++
		if depth > 1 {
			t.Error("told inside a call that tells")
		}
		told = append(told, w)
		if w < 20 {
			d.Intern(1, named(fmt.Sprint("from weigh", w)), Tenant{"db", "user"})
		}
		f.weight.Store(int32(w))
		depth--
	}
	d = NewDirectory(o)
	d.Intern(1, named("own"), Tenant{"db", "user"}).use()
	shared := d.Intern(1, named("a"), Tenant{"db", "user"})
	d.Intern(1, named("b"), Tenant{"db", "user"})
	if shared.weight.Load() != maxWeight || len(told) != maxWeight-1 || !slices.IsSorted(told) {
		t.Errorf("weight %d, told %v", shared.weight.Load(), told)
	}
}

func TestNoRoomAtAll(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a directory for no route")
		}
	}()
	NewDirectory(fakeOptions(0))
}

// TestWhichCallbacksHoldTheMutex: that Gone does keeps counters and EachAfter in step; that Weigh does not lets it call.
func TestWhichCallbacksHoldTheMutex(t *testing.T) {
	var d *Directory[int, *fake]
	called := map[string]bool{}
	look := func(what string, want bool) {
		held := !d.mu.TryLock()
		if !held {
			d.mu.Unlock()
		}
		if called[what] = true; held != want {
			t.Errorf("%s: mutex held: %v", what, held)
		}
	}
	o := fakeOptions(1)
	plain := o
	o.Make = func(pool int, id Identity) *fake { look("Make", true); return plain.Make(pool, id) }
	o.Overflow = func(pool int) *fake { look("Overflow", true); return plain.Overflow(pool) }
	o.Names = func(int) Tenant { look("Names", true); return Tenant{} }
	o.Forget = func(f *fake) bool { look("Forget", true); return f.forget() }
	o.Gone = func(*fake) { look("Gone", true) }
	o.Weigh = func(*fake, int) { look("Weigh", false) }
	d = NewDirectory(o)
	d.Intern(1, named("own"), Tenant{"db", "user"}).use()
	for _, name := range []string{"a", "b"} {
		d.Intern(1, named(name), Tenant{"db", "user"})
	}
	d.EachAfter(func() { look("first", true) }, func(int, Identity, *fake) { look("f", false) })
	d.DropPool(1)
	for range 3 {
		d.Sweep(10)
	}
	if len(called) != 8 {
		t.Errorf("called: %v", called)
	}
}
