package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// idleEngine is an engine that is never started, with the settings of flags.
func idleEngine(t *testing.T, flags ...string) *Engine {
	t.Helper()
	cfg, _, problems := configs.Load("", nil, append([]string{"--server.listen=127.0.0.1:0", "--server.loops=1"}, flags...))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Discard)
	return e
}

func TestNearest(t *testing.T) {
	known := []string{"capacity.max_route_in_flight", "capacity.max_route_waiters", "bulk"}
	for name, want := range map[string]string{
		"capacity.max_route_in_fligth": known[0], "CAPACITY.MAX_ROUTE_WAITER": known[1], "": "bulk", "blk": "bulk",
	} {
		if got := unknown("thing", name, slices.Clone(known)).Error(); !strings.HasSuffix(got, fmt.Sprintf("nearest: %q", want)) {
			t.Errorf("%q: %s, want %q", name, got, want)
		}
	}
}

// TestUnknownCodes: what the console tells of a name that there is none of.
func TestUnknownCodes(t *testing.T) {
	for kind, want := range map[string]string{"database": "3D000", "route": "42704"} {
		err := unknown(kind, "x", nil)
		coded, ok := errors.AsType[*unknownName](err)
		if !ok || coded.SQLState() != want || err.Error() != fmt.Sprintf("no such %s: \"x\"", kind) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWalkMeetsEverybody: clients that leave between two turns of a walk hide nobody.
func TestWalkMeetsEverybody(t *testing.T) {
	w := &worker{}
	for range 3*walkPerTurn + 7 {
		w.all.add(&client{w: w})
	}
	met := map[*client]int{}
	begun := 0
	run := walker(func(*worker) { begun++ }, func(c *client) { met[c]++ })
	stayed := append([]*client(nil), w.all.items...)
	turns := 1
	for ; run(w); turns++ {
		for range 40 { // from anywhere
			i := (turns * 7919) % len(stayed)
			w.all.remove(stayed[i])
			stayed = append(stayed[:i], stayed[i+1:]...)
		}
		w.all.add(&client{w: w})
	}
	for _, c := range stayed {
		if met[c] == 0 {
			t.Fatal("a client that stayed was not met")
		}
	}
	if turns < 4 || begun != 1 {
		t.Errorf("%d turns, begun %d times", turns, begun)
	}
	if walker(func(*worker) {}, func(*client) { t.Error("met somebody") })(&worker{}) {
		t.Error("an empty list takes a second turn")
	}
}

// TestLateCounts: what a route counts after it was forgotten is in its label's sums, once, and its label makes no room
// until then.
func TestLateCounts(t *testing.T) {
	e := idleEngine(t)
	up, _, _ := e.registry.find("d", "u")
	o := admission.RouteOptions{MaxInFlight: 1}
	rt := e.registry.makeRoute(up.pool, identityOf("r", routing.Key{}), o)
	rt.adm.Hold(1)
	for range 3 { // its queue has no room
		w := e.adm.NewWaiter(0)
		if v := rt.adm.Enter(0, 1, w); v != admission.RouteFull {
			t.Fatalf("verdict %d", v)
		}
		e.adm.FreeWaiter(w)
	}
	rt.adm.Forget()
	t1 := e.registry.stats
	t1.bury(rt, 1, [outcomes]uint64{admission.Rejected: 2}) // two had been counted by then
	for range 2 {
		if rows := e.Backpressure(); len(rows) != 1 || rows[0].Rejected != 3 {
			t.Errorf("%+v, want 3 rejected", rows)
		}
	}
	if rt.stats.graves != 1 || t1.makeRoom(graveRest) {
		t.Errorf("%d graves; or the label made room for another", rt.stats.graves)
	}
	later := e.registry.makeRoute(up.pool, identityOf("q", routing.Key{}), o)
	later.adm.Forget()
	t1.bury(later, 2*graveRest, later.counts())
	if !t1.makeRoom(3 * graveRest) {
		t.Error("a label whose routes have been dead for long makes no room")
	}
	if rt.stats.graves != 0 || len(t1.graves) != 0 || rt.stats.retired[admission.Rejected].Load() != 3 {
		t.Errorf("%d graves of %d, %d rejected", rt.stats.graves, len(t1.graves), rt.stats.retired[admission.Rejected].Load())
	}
}

// TestGravesAreBounded: a flood of routes that are forgotten keeps a bounded number.
func TestGravesAreBounded(t *testing.T) {
	e := idleEngine(t)
	up, _, _ := e.registry.find("d", "u")
	s := e.registry.stats
	for i := range gravesMax + 100 {
		rt := e.registry.makeRoute(up.pool, identityOf(fmt.Sprint(i%maxLabels), routingKey), admission.RouteOptions{MaxInFlight: 1})
		rt.adm.Forget()
		s.bury(rt, 1, rt.counts())
	}
	if len(s.graves) != gravesMax {
		t.Errorf("%d graves, want %d", len(s.graves), gravesMax)
	}
}

// TestUsersAreBounded: counts of users without a client are forgotten, those of others and of a login in progress are not;
// and the caps of users whose pools are gone.
func TestUsersAreBounded(t *testing.T) {
	e := idleEngine(t, "--server.max-pools=3")
	r := e.registry
	held, _, _ := r.find("d", "held")
	if !held.clients[2].take() {
		t.Fatal("not counted")
	}
	fresh, _, _ := r.find("d", "fresh")
	idle, _, _ := r.find("d", "idle")
	now := reactor.Now()
	idle.clients[2].asked = now - 2*userGrace
	r.pruneUsers(now, userGrace)
	if r.usrCli["held"] != held.clients[2] || r.usrCli["fresh"] != fresh.clients[2] || r.usrCli["idle"] != nil {
		t.Errorf("kept %v", r.usrCli)
	}
	for k := range r.users {
		if k.tenant.User == "idle" {
			t.Error("a view of a forgotten user is kept: it would count apart from others")
		}
	}
	r.pruned = now
	idle.clients[2].asked, r.usrCli["idle"] = now-2*userGrace, idle.clients[2]
	if r.pruneUsers(now+1, userGrace); r.usrCli["idle"] == nil {
		t.Error("pruned twice in a moment")
	}
	for _, up := range []*userPool{fresh, idle} {
		up.pool.clients.Add(-1)
	}
	if _, _, refusal := r.find("d", "new"); refusal != nil {
		t.Fatal(refusal)
	}
	for user, want := range map[string]bool{"held": true, "new": true, "fresh": false, "idle": false} {
		if got := r.usrCaps[user] != nil; got != want {
			t.Errorf("cap of user %s kept: %v", user, got)
		}
	}
}

// TestOverflowKeepsItsWeight: a change of limits leaves the weight of an overflow route to the directory.
func TestOverflowKeepsItsWeight(t *testing.T) {
	e := idleEngine(t)
	up, _, _ := e.registry.find("d", "u")
	rt := e.registry.newOverflow(up.pool)
	rt.adm.SetWeight(7)
	cfg := *e.cfg
	cfg.Capacity.MaxRouteInFlight = 3
	rt.relimit(e.workers[0], newSettings(2, &cfg, nil, nil, nil))
	weight, _ := rt.adm.Share()
	if n := rt.adm.Counts(); weight != 7 || n.Limit != 3 {
		t.Errorf("weight %d, %+v", weight, n)
	}
}

// TestRuleNumbers: the number of a route with settings of its own names rule and label, for all of them.
func TestRuleNumbers(t *testing.T) {
	cfg := configs.Default()
	cfg.Routes = make([]configs.Route, 3)
	for i := range cfg.Routes {
		cfg.Routes[i].Name, cfg.Routes[i].Weight = fmt.Sprint("r", i), i+1
	}
	k := routingKey
	labels := []labelled{{label: "x"}, {label: "d/u//default", set: configs.Route{Weight: 9}}, {label: "r1", set: configs.Route{OnFull: configs.OnFullDropOldest}}}
	s := newSettings(1, cfg, nil, labels, nil)
	for _, c := range []struct {
		id   int
		name string
		rule int
		want configs.Route
	}{
		{-1, "", -1, configs.Route{Weight: 9, OnFull: configs.OnFullRejectNew}},
		{1, "r1", 1, configs.Route{Name: "r1", Weight: 2, OnFull: configs.OnFullDropOldest}},
		{2, "r2", 2, configs.Route{Name: "r2", Weight: 3}},
	} {
		id := identityOf(c.name, k)
		n := s.table.indexOf(&id, c.id)
		base, _ := s.parts(n)
		got := s.rule(n)
		if base != c.rule || got.Name != c.want.Name || got.Weight != c.want.Weight || got.OnFull != c.want.OnFull {
			t.Errorf("%s: number %d gives rule %d, %+v", id.Label(), n, base, got)
		}
	}
	if s.rule(-100) != nil || s.rule(3) != nil {
		t.Error("a number of another generation gives a rule")
	}
}

var routingKey = routing.Key{Database: "d", User: "u"}

func identityOf(rule string, k routing.Key) routing.Identity {
	if rule == "" {
		return routing.Identity{Rule: -1, Key: k}
	}
	return routing.Identity{RuleID: rule}
}

// TestWhatNeedsARestart: every other setting holds in a running process.
func TestWhatNeedsARestart(t *testing.T) {
	var all []string
	for _, o := range configs.Options() {
		if needsRestartFor(o) {
			all = append(all, o.Path())
		}
	}
	if want := []string{"server.loops", "server.io_uring"}; !slices.Equal(all, want) {
		t.Errorf("%q need a restart, want %q", all, want)
	}
	for path := range liveSettings {
		if !slices.ContainsFunc(configs.Options(), func(o *configs.Option) bool { return o.Path() == path }) {
			t.Errorf("%s is live and no setting", path)
		}
	}
}

// TestBuffersAreShown: what a connection's buffers hold is what SHOW SOCKETS has of it.
func TestBuffersAreShown(t *testing.T) {
	var row view.Socket
	bufferFact{in: 1, out: 2, gathered: 3, rest: 4, drained: 5}.show(&row)
	if want := (view.Socket{RecvPos: 1, PktPos: 3, PktRemain: 4, SendPos: 5, SendRemain: 2, PktAvail: 1, SendAvail: 2}); row != want {
		t.Errorf("%+v, want %+v", row, want)
	}
}

// TestNotReadyBeforeTheStart: nobody is to be sent here before the loops turn.
func TestNotReadyBeforeTheStart(t *testing.T) {
	if h := idleEngine(t).Health(); h.Ready || h.Reason != "starting" {
		t.Errorf("%+v", h)
	}
}
