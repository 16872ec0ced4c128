package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// settingsOf loads settings text as a reload does.
func settingsOf(t testing.TB, text string, flags ...string) (*configs.Config, *configs.Origins) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "k.yaml")
	must(t, os.WriteFile(file, []byte(trusting(text)), 0o600))
	cfg, origins, problems := configs.Load(file, nil, append([]string{"--server.listen=127.0.0.1:0"}, flags...))
	for _, p := range problems {
		t.Fatal(p)
	}
	return cfg, origins
}

// reload replaces the settings of e and returns the notices.
func reload(t testing.TB, e *engine.Engine, text string, flags ...string) []engine.Notice {
	t.Helper()
	notices, err := e.Reload(settingsOf(t, text, flags...))
	must(t, err)
	return notices
}

// limitRow finds a limit.
func limitRow(t testing.TB, e *engine.Engine, name, of string) view.Limit {
	t.Helper()
	for _, r := range e.Limits() {
		if r.Name == name && (of == "" || strings.HasPrefix(r.Of, of)) {
			return r
		}
	}
	t.Fatalf("no limit %s of %q", name, of)
	return view.Limit{}
}

// explained asks for a request to a database and gives one of its limits.
func explained(t testing.TB, e *engine.Engine, database, limit string) engine.ExplainedLimit {
	t.Helper()
	x, err := e.Foresee(view.Request{Database: database, User: "postgres", ClientAddr: "127.0.0.1"})
	must(t, err)
	for _, l := range x.Limits {
		if l.Name == limit {
			return l
		}
	}
	t.Fatalf("no limit %s in %+v", limit, x)
	return engine.ExplainedLimit{}
}

// TestSetEverySetting: each setting of capacity and admission is taken, holds, and says where it comes from; a wrong value
// is told in configs' words and changes nothing.
func TestSetEverySetting(t *testing.T) {
	t.Parallel()
	e, _ := start(t, pgtest.Shared(t))
	for _, o := range configs.Options() {
		if o.Section != "capacity" || o.Key == "reset_query" {
			continue
		}
		value, wrong := fmt.Sprint(o.Max/2), fmt.Sprint(o.Max+1)
		if o.Kind == configs.KindSQLState {
			value, wrong = "53400", "5700"
		}
		if o.Kind == configs.KindBool {
			value, wrong = "true", "yes"
		}
		must(t, e.SetLimit(o.Path(), value))
		_, _, problems := configs.Load("", nil, []string{"--" + o.Flag() + "=" + wrong})
		if err := e.SetLimit(o.Path(), wrong); err == nil || err.Error() != problems[0].Message {
			t.Errorf("%s=%s: %v, want %s", o.Path(), wrong, err, problems[0].Message)
		}
		if l := explained(t, e, "postgres", o.Key); l.Value != value || l.Origin != "set at run time" {
			t.Errorf("%s: %+v, want %s", o.Path(), l, value)
		}
	}
	for name, value := range map[string]string{
		"admission.max_routes": "77", "admission.fifo_slack_ms": "0", "admission.max_connects_per_host": "3",
		"admission.route_key": "database,user", "admission.application_name_pattern": "[0-9]+",
	} {
		must(t, e.SetLimit(name, value))
	}
	must(t, e.SetLimit("admission.application_name_replace", "N"))
	x, err := e.Foresee(view.Request{Database: "postgres", User: "u", ApplicationName: "w17"})
	must(t, err)
	if x.Route != "postgres/u//default" {
		t.Errorf("route %q", x.Route)
	}
	must(t, e.SetLimit("admission.route_key", "application_name"))
	if x, _ = e.Foresee(view.Request{Database: "postgres", User: "u", ApplicationName: "w17"}); x.Route != "postgres/u/wN/default" {
		t.Errorf("route %q", x.Route)
	}
	if r := limitRow(t, e, "max_routes", ""); r.Value != 77 || r.Origin != "set at run time" {
		t.Errorf("%+v", r)
	}
	for _, c := range [][3]string{
		{"capacity.max_route_inflight", "8", `nearest: "capacity.max_route_in_flight"`},
		{"server.max_clients", "8", "no such setting"},
		{"capacity.reset_query", "discard", "restart"},
		{"admission.application_name_replace", "$7", "group"},
		{"admission.application_name_pattern", "(", "regular expression"},
	} {
		if err := e.SetLimit(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s=%s: %v, want %s", c[0], c[1], err, c[2])
		}
	}
	// A reload gives all of it up.
	reload(t, e, databases(pgtest.Shared(t)))
	if l := explained(t, e, "postgres", "max_route_in_flight"); l.Value != "100" || l.Origin != "default" {
		t.Errorf("after the reload %+v", l)
	}
}

// TestSetWakesAndDrains: raising each limit lets its waiters go at once; lowering it lets nobody in until there is room
// again, and ends nothing.
func TestSetWakesAndDrains(t *testing.T) {
	for _, loops := range []int{1, 2, 4} {
		for _, name := range []string{"capacity.max_route_in_flight", "capacity.pool_max_size", "capacity.max_backends"} {
			t.Run(fmt.Sprintf("%s_%d", name, loops), func(t *testing.T) {
				t.Parallel()
				pg := pgtest.Shared(t)
				user := role(t, pg)
				e, address := startYAML(t, databases(pg), fmt.Sprintf("--server.loops=%d", loops),
					"--admission.route-key=database,user", "--capacity.checkout-timeout-ms=60000")
				must(t, e.SetLimit(name, "1"))
				all := crowd(t, address, loops, 6, "user", user, "database", "postgres")
				g := shut(t, pg, 6)
				send(t, all[0], pgwire.Query(g.query(0)))
				g.running(t, 0)
				for i, c := range all[1:4] {
					queue(t, e, c, g.query(i+1))
				}
				must(t, e.SetLimit(name, "4"))
				g.running(t, 0, 1, 2, 3)
				must(t, e.SetLimit(name, "2"))
				queue(t, e, all[4], g.query(4))
				queue(t, e, all[5], g.query(5))
				g.open(t, 0, 1)
				answered(t, all[0], "TDCZI")
				answered(t, all[1], "TDCZI")
				waiting(t, e, 2) // two are still in flight
				g.running(t, 2, 3)
				g.open(t, 2)
				answered(t, all[2], "TDCZI")
				g.running(t, 3, 4)
				g.open(t, 3, 4, 5)
				for _, c := range all[3:] {
					answered(t, c, "TDCZI")
				}
				if name != "capacity.max_route_in_flight" {
					until(t, "2 backends at most", func() bool {
						return pg.Value(t, "select count(*) <= 2 from pg_stat_activity where usename = '"+user+"'") == "t"
					})
				}
				rested(t, e)
			})
		}
	}
}

// TestSetQueues: the bounds of queues.
func TestSetQueues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"capacity.max_route_waiters", "capacity.max_checkout_waiters"} {
		f := fill(t, pgtest.Shared(t))
		c, d := login(t, f.address), login(t, f.address)
		must(t, f.e.SetLimit("capacity.max_route_waiters", "2"))
		must(t, f.e.SetLimit(name, "2"))
		queue(t, f.e, c, "select 1")
		must(t, f.e.SetLimit(name, "1")) // those that wait go on
		waiting(t, f.e, 2)
		_, err := d.Exec("select 1")
		overloaded(t, err, "ERROR", "53300")
		f.empty(t)
		answered(t, c, "TDCZI")
	}
}

// TestSetRoute: a rule's settings for all its routes, those of a label for its routes alone; also for routes to come.
func TestSetRoute(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t))+
		"routes: [{name: bulk, match: {application_name: bulk}, split_by: [user], max_route_in_flight: 9}, {match: {application_name: x}, weight: 5}]\n",
		"--admission.route-key=database,user,application_name")
	bulk, plain, x := login(t, address, "application_name", "bulk"), login(t, address, "application_name", "p"), login(t, address, "application_name", "x")
	for _, c := range []*pgwire.Conn{bulk, plain, x} {
		usable(t, c)
	}
	for _, c := range [][3]string{
		{"bulk", "max_route_in_flight", "4"},
		{"bulk", "weight", "3"},
		{"bulk", "on_full", "drop_oldest"},
		{"postgres/postgres/p/default", "max_route_waiters", "7"},
		{"postgres/postgres/p/default", "weight", "2"},
		{"postgres/postgres/p/default", "idle_client_timeout_ms", "60000"},
		{"postgres/postgres/p/default", "overload_error_code", "53400"},
		{"postgres/postgres/x/default", "max_route_in_flight", "6"},
	} {
		must(t, e.SetRoute(c[0], c[1], c[2]))
	}
	check := func() {
		t.Helper()
		rows := map[string]view.Route{}
		for _, r := range e.Routes() {
			rows[r.Route] = r
		}
		b, p, u := rows["bulk/user=postgres"], rows["postgres/postgres/p/default"], rows["postgres/postgres/x/default"]
		if b.MaxInFlight != 4 || b.Weight != 3 || b.OnFull != "drop_oldest" || b.Rule != "bulk" {
			t.Errorf("bulk %+v", b)
		}
		if p.MaxWaiters != 7 || p.Weight != 2 || p.MaxInFlight != 100 || p.Rule != "" || p.IdleClientTimeoutMs != 60000 || p.OverloadErrorCode != "53400" {
			t.Errorf("p %+v", p)
		}
		if u.MaxInFlight != 6 || u.Weight != 5 || u.Rule != "routes[1]" {
			t.Errorf("x %+v", u)
		}
	}
	check()
	got, err := e.Foresee(view.Request{Database: "postgres", User: "postgres", ApplicationName: "p"})
	must(t, err)
	if !slices.Contains(got.Limits, engine.ExplainedLimit{Name: "max_route_waiters", Value: "7", Origin: "set at run time"}) ||
		!slices.Contains(got.Limits, engine.ExplainedLimit{Name: "weight", Value: "2", Origin: "set at run time"}) {
		t.Errorf("explained %+v", got.Limits)
	}
	must(t, e.SetLimit("capacity.max_route_waiters", "55")) // keeps what is more specific
	check()
	for _, c := range [][4]string{
		{"bulk", "max_route_in_flight", "0", `route "bulk": max_route_in_flight must be from 1 to 65535, not 0`},
		{"bulk", "max_route_in_flight", "many", "whole number"},
		{"bulk", "on_full", "drop_newest", "nearest"},
		{"bulk", "wait", "3", `nearest: "weight"`},
		{"bulk", "split_by", "user", "reload"},
		{"bluk", "weight", "3", `nearest: "bulk"`},
	} {
		if err := e.SetRoute(c[0], c[1], c[2]); err == nil || !strings.Contains(err.Error(), c[3]) {
			t.Errorf("%v: %v", c, err)
		}
	}
	// A rule's time-out, for who is idle now and for who comes.
	must(t, e.SetRoute("bulk", "idle_client_timeout_ms", "150"))
	ended(t, bulk, "57P05")
	usable(t, plain)
	must(t, e.SetRoute("postgres/postgres/p/default", "idle_client_timeout_ms", "150"))
	ended(t, plain, "57P05")
	usable(t, x)
}

// TestSetIdleTimeout: a time-out that is set holds for clients that are idle already, on all loops.
func TestSetIdleTimeout(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.loops=2")
	clients := crowd(t, address, 2, 4, "user", "postgres", "database", "postgres")
	usable(t, clients[0])
	must(t, e.SetLimit("capacity.idle_client_timeout_ms", "200"))
	for _, c := range clients {
		ended(t, c, "57P05")
	}
}

// TestReloadUnderLoad: while clients on all loops run, limits go up and down and a route's weight and policy change: never
// more active than the limit once the old requests have ended, and every request is answered.
func TestReloadUnderLoad(t *testing.T) {
	for _, loops := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Shared(t)
			user := role(t, pg)
			text := databases(pg) + "capacity: {max_route_in_flight: %d, pool_max_size: %d, max_backends: %d, checkout_timeout_ms: 60000}\n" +
				"routes: [{name: all, match: {user: \"*\"}, weight: %d, on_full: %s}]\n"
			e, address := startYAML(t, fmt.Sprintf(text, 8, 8, 8, 1, "reject_new"), fmt.Sprintf("--server.loops=%d", loops))
			stop := make(chan struct{})
			var group sync.WaitGroup
			for _, c := range crowd(t, address, loops, 16, "user", user, "database", "postgres") {
				group.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := c.Exec("select pg_sleep(0.002)"); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			activity := pgwire.Login(t, "unix", pg.SocketPath(), "user", "postgres", "database", "postgres", "application_name", "pgtest")
			for round, limits := range [][3]int{{3, 8, 8}, {8, 2, 8}, {8, 8, 3}, {1, 1, 1}, {8, 8, 8}, {2, 3, 4}} {
				policy := []string{"reject_new", "drop_oldest", "drop_random"}[round%3]
				reload(t, e, fmt.Sprintf(text, limits[0], limits[1], limits[2], round+1, policy))
				most := slices.Min(limits[:])
				drained := fmt.Sprintf("select count(*) filter (where state = 'active') <= %d and count(*) <= %d from pg_stat_activity where usename = '%s'",
					most, min(limits[1], limits[2]), user)
				// PostgreSQL alone would not tell: a request may be on its way to a backend that still seems idle.
				until(t, "drained to "+fmt.Sprint(limits), func() bool {
					return e.Tally("all").InFlight <= most && one(t, activity, drained) == "t"
				})
				for range 20 {
					if one(t, activity, drained) != "t" {
						t.Errorf("more than %v after it had drained", limits)
					}
				}
				row := limitRow(t, e, "max_route_in_flight", "")
				if row.Value != int64(limits[0]) || row.Peak > 8 {
					t.Errorf("%+v", row)
				}
			}
			close(stop)
			group.Wait()
			rested(t, e)
		})
	}
}

// TestReloadKeepsRoutes: rules that are added, removed and reordered keep what is in flight on live routes, of rules with
// and without a name; only numbers change. What was in flight returns to its route.
func TestReloadKeepsRoutes(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t))+
		"routes: [{name: api, match: {application_name: api}, max_route_in_flight: 5}, {match: {application_name: web}, max_route_in_flight: 6}]\n",
		"--admission.route-key=database,user,application_name", "--server.loops=2")
	var open []*pgwire.Conn
	for _, name := range []string{"api", "api", "web", "web", "web"} {
		c := login(t, address, "application_name", name)
		exec(t, c, "begin")
		open = append(open, c)
	}
	check := func(api, web int, apiRule, webRule string) {
		t.Helper()
		until(t, "two and three in flight", func() bool {
			return e.Tally("api").InFlight == 2 && e.Tally("postgres/postgres/web/default").InFlight == 3
		})
		for _, r := range e.Routes() {
			switch {
			case r.Route == "api" && (r.InFlight != 2 || r.MaxInFlight != api || r.Rule != apiRule),
				r.Route == "postgres/postgres/web/default" && (r.InFlight != 3 || r.MaxInFlight != web || r.Rule != webRule):
				t.Errorf("%+v", r)
			}
		}
		if n := len(e.Routes()); n != 2 {
			t.Errorf("%d routes", n)
		}
	}
	check(5, 6, "api", "routes[1]")
	key := "admission: {route_key: [database, user, application_name]}\n"
	reload(t, e, databases(pgtest.Shared(t))+key+"routes: [{name: new, match: {application_name: n}}, {match: {application_name: web}, max_route_in_flight: 3},"+
		" {name: api, match: {application_name: [api, other]}, max_route_in_flight: 2}]\n")
	check(2, 3, "api", "routes[1]")
	late := login(t, address, "application_name", "api")
	queue(t, e, late, "select 1") // the same route: its two are in flight
	reload(t, e, databases(pgtest.Shared(t))+key+"capacity: {max_route_in_flight: 50}\n")
	answered(t, late, "TDCZI") // raised
	check(50, 50, "", "")
	usable(t, late) // of the ordinary key now
	for _, c := range open {
		exec(t, c, "commit")
	}
	rested(t, e)
	for _, r := range e.Backpressure() {
		want := map[string]uint64{"api": 3, "postgres/postgres/web/default": 3, "postgres/postgres/api/default": 1}[r.Route]
		if r.Admitted < want || r.InFlight != 0 {
			t.Errorf("%+v, want at least %d admitted", r, want)
		}
	}
}

// TestReloadCaps: bounds of a database and of a user that were not there before hold for the pools and clients that are.
func TestReloadCaps(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	user := role(t, pg)
	text := fmt.Sprintf("databases: [{name: a, hosts: [%q], dbname: postgres%%s}]\ncapacity: {checkout_timeout_ms: 60000}\n", pg.Addr())
	e, address := startYAML(t, fmt.Sprintf(text, ""))
	var all []*pgwire.Conn
	for range 4 {
		c := pgwire.Login(t, "tcp", address, "user", user, "database", "a")
		exec(t, c, "begin")
		all = append(all, c)
	}
	backends := func() string {
		return pg.Value(t, "select count(*) from pg_stat_activity where usename = '"+user+"'")
	}
	for _, kind := range []string{"database", "user"} {
		set := func(limits string) {
			if kind == "database" {
				reload(t, e, fmt.Sprintf(text, ", "+limits))
			} else {
				reload(t, e, fmt.Sprintf(text, "")+fmt.Sprintf("users: [{name: %s, %s}]\n", user, limits))
			}
		}
		set("max_backends: 2, max_clients: 4")
		name := map[string]string{"database": "database a", "user": "user " + user}[kind]
		if r := limitRow(t, e, "max_backends", name); r.Value != 2 || r.Current != 4 || r.Peak != 4 {
			t.Errorf("%+v", r)
		}
		if r := limitRow(t, e, "max_clients", name); r.Value != 4 || r.Current != 4 || !strings.HasPrefix(r.Origin, "file ") {
			t.Errorf("%+v", r)
		}
		_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", user, "database", "a")
		refused(t, err, "FATAL", "53300")
		for _, c := range all {
			exec(t, c, "commit")
		}
		until(t, "two backends", func() bool { return backends() == "2" })
		exec(t, all[0], "begin")
		exec(t, all[1], "begin")
		queue(t, e, all[2], "begin")
		reload(t, e, fmt.Sprintf(text, "")) // none again
		answered(t, all[2], "CZT")
		exec(t, all[3], "begin")
		if backends() != "4" {
			t.Errorf("%s backends without the cap", backends())
		}
	}
}

// TestReloadNotices: what a reload cannot change is told, and nothing else.
func TestReloadNotices(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	text := "databases: [{name: a, hosts: [%q], dbname: postgres%s}]\n"
	e, address := startYAML(t, fmt.Sprintf(text, pg.Addr(), ""))
	usable(t, loginTo(t, address, "a"))
	if got := reload(t, e, fmt.Sprintf(text, pg.Addr(), ", pool_max_size: 3, max_clients: 7")+"capacity: {query_timeout_ms: 5}\n"); len(got) != 0 {
		t.Errorf("notices %v", got)
	}
	got := reload(t, e, fmt.Sprintf(text, "127.0.0.1:1", ", connect_query: \"select 1\", user: postgres, reset_query: discard")+
		"server: {backlog: 5, io_uring: false, pool_mode: session, max_clients: 9}\nusers: [{name: u, pool_mode: session}]\n")
	var names []string
	for _, n := range got {
		names = append(names, n.Setting)
	}
	want := []string{
		"server.pool_mode", "server.io_uring", "users[u].pool_mode",
		"capacity.reset_query", "databases[a].user",
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("notices %v, want %v", got, want)
	}
	if r := limitRow(t, e, "max_clients", ""); r.Value != 9 {
		t.Errorf("%+v", r)
	}
	got = reload(t, e, "databases: [{name: b}]\n")
	if i := slices.IndexFunc(got, func(n engine.Notice) bool {
		return n.Setting == "databases[a]" && strings.Contains(n.String(), "new logins")
	}); i < 0 {
		t.Errorf("notices %v", got)
	}
}

// TestNotStarted: an engine that does not run yet answers so.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	cfg, origins := settingsOf(t, "databases: [{name: b}]\n")
	e, err := engine.New(cfg, slog.New(slog.DiscardHandler), engine.WithOrigins(origins))
	must(t, err)
	defer e.Discard()
	for _, err := range []error{
		e.Pause(t.Context(), view.Scope{}), e.Resume(view.Scope{}), e.SetLimit("capacity.pool_max_size", "3"),
		e.SetRoute("r", "weight", "3"), func() error { _, err := e.Reload(cfg, origins); return err }(),
	} {
		if !errors.Is(err, engine.ErrNotRunning) {
			t.Errorf("got %v", err)
		}
	}
	if r := limitRow(t, e, "max_clients", ""); r.Origin != "default" {
		t.Errorf("%+v", r)
	}
	if r := limitRow(t, e, "max_unauthenticated", ""); r.Value == 0 || r.Current != 0 {
		t.Errorf("%+v", r)
	}
}
