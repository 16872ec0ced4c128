package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// visit is a client of database and user that comes and goes.
func visit(t testing.TB, e *Engine, database, user string) *userPool {
	t.Helper()
	up, _, refused := e.registry.find(database, user)
	if refused != nil {
		t.Fatal(refused.Message)
	}
	return up
}

// TestForget: a pool without clients and backends is forgotten after its grace, and what was counted under its user's name
// with it; one that has a client is not, whenever that came.
func TestForget(t *testing.T) {
	e := idleEngine(t)
	r, now := e.registry, reactor.Now()
	stays, goes := visit(t, e, "a", "stays"), visit(t, e, "b", "goes")
	goes.pool.clients.Add(-1)
	known := func(up *userPool) bool { return r.pools[up.pool.key] == up.pool }
	r.forget(now)
	r.forget(now + poolGrace - 1)
	if !known(goes) {
		t.Fatal("forgotten before its time")
	}
	goes.pool.clients.Add(1)
	r.forget(now + poolGrace)
	goes.pool.clients.Add(-1)
	r.forget(now + poolGrace + 1)
	r.forget(now + 2*poolGrace)
	if !known(goes) {
		t.Fatal("the time did not begin anew with its client")
	}
	r.forget(now + 2*poolGrace + 1)
	if known(goes) || !known(stays) || len(*r.all.Load()) != 1 {
		t.Fatalf("after the grace: %v", r.pools)
	}
	if r.usrCaps["goes"] != nil || r.usrCli["goes"] != nil || r.usrCaps["stays"] == nil {
		t.Errorf("counts of the users: %v, %v", r.usrCaps, r.usrCli)
	}
	if again := visit(t, e, "b", "goes"); again.pool == goes.pool || !known(again) {
		t.Error("no new pool of that name")
	}
}

// TestForgetRemoved: the pool of an entry that is gone has no grace.
func TestForgetRemoved(t *testing.T) {
	e := idleEngine(t)
	up := visit(t, e, "a", "u")
	up.pool.standing.Store(int32(removed))
	e.registry.forget(1)
	if len(e.registry.pools) != 1 {
		t.Fatal("forgotten with a client in it")
	}
	up.pool.clients.Add(-1)
	e.registry.forget(2)
	if len(e.registry.pools) != 0 {
		t.Fatal("kept")
	}
}

// TestStanding: what the settings say of a pool, whose clients may have come under others.
func TestStanding(t *testing.T) {
	f := func(text string, key poolKey, want standing) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "k.yaml")
		if err := os.WriteFile(file, []byte("auth: {method: trust}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, problems := configs.Load(file, nil, nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := standingOf(cfg, key); got != want {
			t.Errorf("%v under %s stands as %d, want %d", key, text, got, want)
		}
	}
	app := poolKey{entry: "app", database: "app", user: "u"}
	any := poolKey{entry: "*", database: "x", user: "u"}
	session := poolKey{entry: "app", database: "app", user: "u", mode: modeSession}
	f("databases: [{name: app}]", app, asAskedFor)
	f("databases: [{name: app, user: u}]", app, permanent)
	f("databases: [{name: app, user: other}]", app, removed)
	f("databases: [{name: app, user: u, dbname: b}]", app, removed)
	f("databases: [{name: app, dbname: app}]", app, asAskedFor)
	f("databases: [{name: other}]", app, removed)
	f("databases: [{name: '*'}]", app, removed)
	f("databases: [{name: '*'}]", any, asAskedFor)
	f("databases: [{name: '*', user: u}]", any, asAskedFor)
	f("databases: [{name: '*', dbname: x}]", any, asAskedFor)
	f("databases: [{name: '*', dbname: y}]", any, removed)
	f("databases: [{name: '*'}, {name: x}]", any, removed)
	f("databases: [{name: '*', dbname: x}, {name: x}]", any, asAskedFor)
	f("databases: [{name: app, user: u, pool_mode: session}]", app, removed)
	f("databases: [{name: app, user: u}]\nusers: [{name: c, pool_mode: session}]", session, asAskedFor)
	f("databases: [{name: app, user: u}]", session, removed)
	f("databases: [{name: app, user: u}]\nserver: {pool_mode: session}", session, permanent)
}

// TestMinIdleOfDeserted: what is kept open goes when the clients have been gone for long; where the entry alone names
// the pool, it stays.
func TestMinIdleOfDeserted(t *testing.T) {
	e := idleEngine(t, "--capacity.pool-min-idle=2")
	p, now := visit(t, e, "a", "u").pool, reactor.Now()
	f := func(at int64, want int) {
		t.Helper()
		p.notice(at)
		if got := p.minIdle(at); got != want {
			t.Errorf("kept %d, want %d", got, want)
		}
	}
	f(now, 2)
	p.clients.Add(-1)
	f(now, 2)
	f(now+poolGrace-1, 2)
	f(now+poolGrace, 0)
	p.standing.Store(int32(permanent))
	f(now+poolGrace, 2)
	if p.forgettable(now + poolGrace) {
		t.Error("a pool that is kept warm is forgotten")
	}
	p.standing.Store(int32(removed))
	f(now+poolGrace, 0)
}

// TestLifeOver: lives differ by up to 10 %, follow the setting as it is now, and 0 is for ever.
func TestLifeOver(t *testing.T) {
	e := idleEngine(t, "--capacity.pool-max-lifetime-ms=1000")
	p := visit(t, e, "a", "u").pool
	f := func(spread, age int64, want bool) {
		t.Helper()
		s := &server{pool: p, openedAt: 5 * ms, spread: spread}
		if got := s.lifeOver(5*ms + age); got != want {
			t.Errorf("spread %d ‰, age %d ms: over %v, want %v", spread, age/ms, got, want)
		}
	}
	f(0, 999*ms, false)
	f(0, 1000*ms, true)
	f(lifeSpread, 1099*ms, false)
	f(lifeSpread, 1100*ms, true)
	f(-lifeSpread, 899*ms, false)
	f(-lifeSpread, 900*ms, true)
	limits := *p.limits.Load()
	limits.PoolMaxLifetimeMs = 2000
	p.limits.Store(&limits)
	f(0, 1999*ms, false)
	limits.PoolMaxLifetimeMs = 0
	f(0, never/2, false)
	idle := &server{pool: p, state: serverIdle}
	limits.PoolIdleTimeoutMs = 0
	if idle.idleOver(never / 2) {
		t.Error("idle for too long without a limit")
	}
	limits.PoolIdleTimeoutMs = 10
	if idle.idleOver(10*ms-1) || !idle.idleOver(10*ms) {
		t.Error("the idle time is not what was set")
	}
	idle.state = serverLinked
	if idle.idleOver(never / 2) {
		t.Error("idle while in use")
	}
}

// TestKeptReason: why a backend is still there.
func TestKeptReason(t *testing.T) {
	e := idleEngine(t, "--capacity.pool-max-lifetime-ms=1000", "--capacity.pool-idle-timeout-ms=500")
	p, now := visit(t, e, "a", "u").pool, reactor.Now()
	f := func(state serverState, age, idle int64, want string) {
		t.Helper()
		s := &server{pool: p, state: state, openedAt: now - age*ms, idleAt: now - idle*ms}
		if got := keptReason(s); got != want {
			t.Errorf("%s, %d ms old, idle for %d ms: %q, want %q", state, age, idle, got, want)
		}
	}
	p.limits.Load().PoolMinIdle = 1
	f(serverIdle, 10, 10, "")
	f(serverIdle, 700, 600, "pool_min_idle")
	f(serverIdle, 1700, 600, "next_sweep")
	f(serverLinked, 1700, 600, "in_use")
	f(serverRecovering, 1700, 600, "in_use")
	f(serverLinked, 700, 600, "")
	f(serverClosing, 1700, 600, "")
	f(serverLoggingIn, 1700, 600, "")
	p.standing.Store(int32(removed)) // nothing is kept in it, so one that is idle for too long waits for a sweep only
	limits := *p.limits.Load()
	limits.PoolMinIdle = 0
	p.limits.Store(&limits)
	if got := (&server{pool: p, state: serverIdle, openedAt: now, idleAt: now - 600*ms}); !got.idleOver(reactor.Now()) {
		t.Error("not idle for too long")
	}
}

// TestEvictionsAreComplete: every reason for which an open backend ends counts as one thing, and each of these has a
// reason.
func TestEvictionsAreComplete(t *testing.T) {
	seen := map[eviction]bool{}
	for r := range reasonCount {
		e, counts := evictionOf(r)
		if counts != (r >= reasonServerIdle && r <= reasonServerGone || r == reasonRecoveryTimeout) {
			t.Errorf("%s counts: %v", r, counts)
		}
		if counts {
			seen[e] = true
		}
	}
	for k, name := range evictionNames {
		if name == "" || !seen[eviction(k)] {
			t.Errorf("no reason for eviction %d, %q", k, name)
		}
	}
}

// names makes n databases and users known, each for a moment.
func names(t testing.TB, e *Engine, from, n int) {
	for i := from; i < from+n; i++ {
		up := visit(t, e, fmt.Sprintf("database_%d", i), fmt.Sprintf("user_%d", i))
		up.pool.clients.Add(-1)
	}
}
