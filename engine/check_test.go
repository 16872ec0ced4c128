package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// checked is a scripted server that notes what happens to its check queries.
type checked struct {
	mu     sync.Mutex
	events []string

	era int
}

func (k *checked) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, what)
}

func (k *checked) seen() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.events)
}

// silence lets the connections that are open be silent from now on.
func (k *checked) silence() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.era++
}

func (k *checked) present() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.era
}

// serve answers queries, in a block after BEGIN.
func (k *checked) serve(c *pgmock.Conn) error {
	era, status := k.present(), byte('I')
	for {
		m, err := c.Read()
		if err != nil {
			return err
		}
		sql := strings.TrimSuffix(string(m.Body), "\x00")
		switch {
		case m.Type == 'X':
			k.note("closed")
			return nil
		case sql == "check":
			k.note("check")
		case sql == "begin":
			status = 'T'
		case sql == "commit":
			status = 'I'
		}
		if era != k.present() {
			continue
		}
		if err := pgmock.Send(pgmock.Row("alive"), pgmock.Complete("SELECT 1"), pgmock.Ready(status))(c); err != nil {
			return err
		}
	}
}

const checkEvery = "--reaper.server-check-query=check"

// idleServers opens n idle ones.
func idleServers(t testing.TB, address string, n int) *pgwire.Conn {
	t.Helper()
	var all []*pgwire.Conn
	for range n {
		c := login(t, address)
		exec(t, c, "begin")
		all = append(all, c)
	}
	for _, c := range all {
		exec(t, c, "commit")
	}
	return all[0]
}

// TestCheck: idle backends are asked after the delay, one after the other, again after the next, and stay what they are:
// their idle time goes on.
func TestCheck(t *testing.T) {
	t.Parallel()
	k := &checked{}
	mock := pgmock.Start(t, pgmock.Login(), k.serve)
	e, address := startAt(t, mock.Addr(), checkEvery, "--reaper.server-check-delay-ms=100", "--capacity.pool-idle-timeout-ms=2500", "--server.loops=1")
	c := idleServers(t, address, 3)
	until(t, "all are asked", func() bool { return len(k.seen()) >= 3 })
	usable2(t, c, "alive")
	until(t, "idle for too long", func() bool { return e.Totals().Servers == 0 })
	if n := e.Totals(); n.Evictions["idle_timeout"] != 3 || n.ServerLogins != 3 || n.Evictions["unhealthy"] != 0 {
		t.Errorf("%d logins, evictions %v", n.ServerLogins, n.Evictions)
	}
	checks := 0
	for _, what := range k.seen() {
		if what == "check" {
			checks++
		}
	}
	if checks < 4 || checks > 12 {
		t.Errorf("%d checks of three backends in some three seconds", checks)
	}
}

// TestCheckSilence: one backend that gives no answer is closed within the short deadline; then all others that are idle are asked
// together, and the next request is served by a new one.
func TestCheckSilence(t *testing.T) {
	t.Parallel()
	k := &checked{}
	mock := pgmock.Start(t, pgmock.Login(), k.serve)
	e, address := startAt(t, mock.Addr(), checkEvery, "--reaper.server-check-delay-ms=1500", "--capacity.connect-timeout-ms=400", "--server.loops=1")
	c := idleServers(t, address, 5)
	k.silence()
	until(t, "all are closed", func() bool { return e.Totals().Evictions["unhealthy"] == 5 })
	usable2(t, c, "alive")
	if n := e.Totals(); n.ServerLogins != 6 || n.BackendsLost != 0 {
		t.Errorf("%d logins, %d lost to clients", n.ServerLogins, n.BackendsLost)
	}
	got := k.seen()
	if first := slices.Index(got, "closed"); first > 0 { // the first one's farewell and the questions to the others go out together
		got = slices.Delete(got, first, first+1)
	}
	if how := strings.Join(got, " "); how != "check check check check check closed closed closed closed" {
		t.Errorf("it went so, but for the first that was closed: %s", how)
	}
}

// TestCheckHoldsNobodyUp: a request that comes while the only backend is asked gets that, or another one, in time.
func TestCheckHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, entry(pg.Addr(), "postgres", "pool_max_size: 1")+"reaper: {server_check_delay_ms: 1, server_check_query: select pg_sleep(0.5)}\n")
	c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
	usable(t, c)
	testing := func() bool { return e.Totals().Servers == 1 && oneServer(e, "testing") }
	until(t, "it is asked", testing)
	usable(t, c)
	if n := e.Totals(); n.ServerLogins != 1 || n.Evictions["unhealthy"] != 0 {
		t.Errorf("%d logins, evictions %v", n.ServerLogins, n.Evictions)
	}
	until(t, "it is asked again", testing)
	begin := time.Now()
	must(t, e.Reconnect(""))
	until(t, "closed when it has answered", func() bool { return e.Totals().Servers == 0 })
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("closed after %v", took)
	}
	if n := e.Totals().Evictions["reload"]; n != 1 {
		t.Errorf("evictions %v", e.Totals().Evictions)
	}
}

// TestCheckFails: a backend whose check fails, or leaves a block open, or which ends meanwhile, is closed.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	for _, query := range []string{"select 1/0", "begin", "select pg_terminate_backend(pg_backend_pid())", "copy pg_class from stdin"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			e, address := startYAML(t, entry(pg.Addr(), "postgres", "pool_max_size: 3")+
				fmt.Sprintf("reaper: {server_check_delay_ms: 1, server_check_query: %q}\n", query))
			c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
			usable(t, c)
			until(t, "it is closed", func() bool { n := e.Totals(); return n.Servers == 0 && n.Evictions["unhealthy"] == 1 })
			usable(t, c)
			if n := e.Totals().BackendsLost; n != 0 {
				t.Errorf("%d lost to clients", n)
			}
		})
	}
}

// oneServer tells whether the only backend is in a state.
func oneServer(e *engine.Engine, activity string) bool {
	all := slices.Collect(e.Servers())
	return len(all) == 1 && all[0].Activity == activity
}

// TestCheckSilenceOfAHost: when one backend is silent, those of the host's other pools are asked at once, on every loop, and no
// backend of another host.
func TestCheckSilenceOfAHost(t *testing.T) {
	t.Parallel()
	var took time.Duration
	for range 3 { // the machine may be busy
		if took = silenceOfAHost(t); took < 800*time.Millisecond { // a tick, and the deadline of 400 ms
			return
		}
	}
	t.Errorf("the others were found %v later", took)
}

// silenceOfAHost gives how long after the first one all others were found silent.
func silenceOfAHost(t *testing.T) time.Duration {
	t.Helper()
	k := &checked{}
	mock := pgmock.Start(t, pgmock.Login(), k.serve)
	other := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: elsewhere, hosts: [%q]}, {name: \"*\", hosts: [%q]}]\n", other.Addr(), mock.Addr()),
		checkEvery, "--reaper.server-check-delay-ms=3000", "--server.loops=2", "--capacity.connect-timeout-ms=400")
	young := crowd(t, address, 2, 4, "user", "postgres", "database", "young")
	quiet := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "elsewhere")
	usable2(t, quiet, "alive")
	usable2(t, login(t, address), "alive") // the one that is asked first
	time.Sleep(2500 * time.Millisecond)    // by then it has rested for long, and the others have not
	for _, c := range young {
		exec(t, c, "begin")
	}
	for _, c := range young {
		exec(t, c, "commit")
	}
	k.silence()
	until(t, "the old one is found", func() bool { return e.Totals().Evictions["unhealthy"] >= 1 })
	found := time.Now()
	until(t, "all of the host are", func() bool { return e.Totals().Evictions["unhealthy"] == 5 })
	took := time.Since(found)
	usable2(t, quiet, "alive")
	if n := e.Totals().ServerLogins; n != 6 {
		t.Errorf("%d logins, want 6", n)
	}
	return took
}

// TestNothingIsAsked: during a pause and a suspension no backend is asked, and none is opened ahead.
func TestNothingIsAsked(t *testing.T) {
	t.Parallel()
	f := func(name string, begin, end func(e *engine.Engine) error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &checked{}
			mock := pgmock.Start(t, pgmock.Login(), k.serve)
			e, _ := startYAML(t, entry(mock.Addr(), "u", "pool_min_idle: 2"), checkEvery, "--reaper.server-check-delay-ms=1")
			until(t, "they are asked", func() bool { return len(k.seen()) >= 3 })
			must(t, begin(e))
			until(t, "at rest", func() bool { return len(e.Unrest()) == 0 })
			before := len(k.seen())
			time.Sleep(2200 * time.Millisecond) // sweeps; no backend is asked in each
			mock.Down()
			mock.Up()
			until(t, "both have gone", func() bool { return e.Totals().Evictions["unhealthy"] == 2 })
			time.Sleep(1200 * time.Millisecond)
			if n := e.Totals(); len(k.seen()) != before || n.ServerLogins != 2 {
				t.Errorf("it went so: %v; %d logins", k.seen()[before:], n.ServerLogins)
			}
			must(t, end(e))
			until(t, "it goes on", func() bool { return len(k.seen()) > before && e.Totals().ServerLogins == 4 })
		})
	}
	all := view.Scope{}
	f("PAUSE", func(e *engine.Engine) error { return e.Pause(t.Context(), all) }, func(e *engine.Engine) error { return e.Resume(all) })
	f("SUSPEND", func(e *engine.Engine) error { return e.Suspend(t.Context()) }, func(e *engine.Engine) error { return e.Resume(all) })
}

// TestCheckMeetsOperators: commands that come while a backend is asked neither wait for a silent one for long, nor leave anything
// behind.
func TestCheckMeetsOperators(t *testing.T) {
	t.Parallel()
	f := func(name string, command func(t *testing.T, e *engine.Engine), reason string, gone int64, logins uint64) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Shared(t)
			who := role(t, pg)
			e, address := startYAML(t, entry(pg.Addr(), who, "pool_max_size: 1")+"reaper: {server_check_delay_ms: 1, server_check_query: select pg_sleep(0.6)}\n")
			c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
			usable(t, c)
			until(t, "it is asked", func() bool { return oneServer(e, "testing") })
			if p := e.Pools()[0]; p.SvTested != 1 || p.SvIdle+p.SvUsed+p.SvActive+p.SvLogin != 0 {
				t.Errorf("SHOW POOLS: %+v", p)
			}
			if p := e.Metrics().Pools[0]; p.Recovering != 1 || p.Idle+p.Active+p.Connecting != 0 {
				t.Errorf("metrics: %+v", p)
			}
			begin := time.Now()
			command(t, e)
			until(t, "at rest", func() bool { return len(e.Unrest()) == 0 || oneServer(e, "testing") })
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("after %v", took)
			}
			until(t, "evicted or not", func() bool { return int64(e.Totals().Evictions[reason]) == gone })
			if e.Alive() == nil && logins > 0 {
				c := pgwire.Login(t, "tcp", address, "user", "u", "database", "app")
				usable(t, c)
				if n := e.Totals().ServerLogins; n != logins {
					t.Errorf("%d logins, want %d", n, logins)
				}
			}
		})
	}
	all := view.Scope{}
	f("PAUSE", func(t *testing.T, e *engine.Engine) {
		must(t, e.Pause(t.Context(), all))
		if rest := e.Unrest(); len(rest) > 0 {
			t.Errorf("paused, but %v", rest)
		}
		must(t, e.Resume(all))
	}, "unhealthy", 0, 1)
	f("KILL", func(t *testing.T, e *engine.Engine) {
		must(t, e.Kill("app"))
		until(t, "it is gone", func() bool { return e.Totals().Servers == 0 })
		must(t, e.Resume(view.Scope{Database: "app"}))
	}, "reload", 0, 2)
	f("RECONNECT", func(t *testing.T, e *engine.Engine) {
		must(t, e.Reconnect("app"))
		must(t, e.WaitClose(t.Context(), "app"))
	}, "reload", 1, 2)
	f("SUSPEND", func(t *testing.T, e *engine.Engine) {
		must(t, e.Suspend(t.Context()))
		until(t, "it has answered", func() bool { return oneServer(e, "idle") })
		must(t, e.Resume(all))
	}, "unhealthy", 0, 1)
	f("a lowered limit", func(t *testing.T, e *engine.Engine) {
		must(t, e.SetLimit("capacity.pool_max_lifetime_ms", "1"))
		until(t, "it is gone", func() bool { return e.Totals().Evictions["max_lifetime"] > 0 })
		must(t, e.SetLimit("capacity.pool_max_lifetime_ms", "0"))
	}, "max_lifetime", 1, 2)
	f("a drain", func(t *testing.T, e *engine.Engine) {
		must(t, e.Drain(5*time.Second, nil))
	}, "unhealthy", 0, 0)
}

// TestCheckTellsNewDefaults: PostgreSQL tells an idle backend's changed defaults with its next answer, which may be that to the
// check: new clients are told them, too.
func TestCheckTellsNewDefaults(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	e, address := startYAML(t, entry(pg.Addr(), "postgres", "pool_max_size: 1")+"reaper: {server_check_delay_ms: 1, server_check_query: select 1}\n")
	zone := func() string {
		c := pgwire.Dial(t, "tcp", address)
		defer c.Close()
		all, err := c.Login(0, "user", "u", "database", "app")
		must(t, err)
		return reportedIn(all)["TimeZone"]
	}
	before := zone()
	pg.Exec(t, "alter system set timezone = 'Asia/Tokyo'")
	pg.Exec(t, "select pg_reload_conf()")
	until(t, "a new client is told", func() bool { return zone() == "Asia/Tokyo" })
	if n := e.Totals().ServerLogins; before == "Asia/Tokyo" || n != 1 {
		t.Errorf("%q before; %d logins, want 1", before, n)
	}
}

// TestCheckOpensNothing: a backend that is asked is still one of those that are kept idle: no other is opened in its place.
func TestCheckOpensNothing(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, _ := startYAML(t, entry(pg.Addr(), "postgres", "pool_min_idle: 4, pool_idle_timeout_ms: 100")+
		"reaper: {server_check_delay_ms: 0, server_check_query: select pg_sleep(0.4)}\nserver: {loops: 1}\n")
	until(t, "four are there", func() bool { return e.Totals().ServerLogins == 4 })
	time.Sleep(5 * time.Second) // several questions, and sweeps of both loops
	if n := e.Totals(); n.ServerLogins != 4 || n.Servers != 4 {
		t.Errorf("%d logins, %d open, want 4; evictions %v", n.ServerLogins, n.Servers, n.Evictions)
	}
}
