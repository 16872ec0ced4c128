package engine_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// from is an address whose connections reach the target from the source address.
func from(t testing.TB, source, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := dialer.Dial("tcp", target)
			if err != nil {
				t.Error(err)
				_ = near.Close()
				continue
			}
			go pipe(near, far)
			go pipe(far, near)
		}
	}()
	return l.Addr().String()
}

// pipe copies until one side ends, and ends the other.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from) // however it ends, both ends close
	_, _ = to.Close(), from.Close()
}

// socket is the Unix socket of an engine that has one.
func socket(t testing.TB, e *engine.Engine) string {
	t.Helper()
	for _, l := range e.Listeners() {
		if strings.HasPrefix(l.Address, "/") {
			return l.Address
		}
	}
	t.Fatal("no Unix socket")
	return ""
}

// TestRulesFirstMatchWins: patterns, addresses, sockets and classes; the first rule that matches names the route.
func TestRulesFirstMatchWins(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists ruled; create table ruled (a int)")
	who := role(t, pg)
	e, address := startYAML(t, `routes:
  - {name: special, match: {application_name: api-special}}
  - {name: api, match: {application_name: ["api-*", "*-api-*"]}}
  - {name: late, match: {application_name: api-late}}
  - {name: second, match: {client_addr: [10.0.0.0/8, 127.0.0.2/31]}}
  - {name: socket, match: {client_addr: unix}}
  - {name: roles, match: {user: "role_*", database: postgres, query_class: read}}
  - {name: writers, match: {query_class: [write, copy]}, split_by: [application_name]}
`+databases(pg), "--server.unix-socket-dir="+t.TempDir())
	second := from(t, "127.0.0.2", address)
	for _, test := range []struct {
		label, network, address, user, application, sql string
	}{
		{"special", "tcp", address, "postgres", "api-special", "select 1"},
		{"api", "tcp", address, "postgres", "api-", "select 1"},
		{"api", "tcp", address, "postgres", "api-late", "insert into ruled values (1)"},
		{"api", "tcp", second, "postgres", "new-api-x", "select 1"},
		{"second", "tcp", second, "postgres", "other", "select 1"},
		{"second", "tcp", second, who, "other", "insert into ruled values (1)"},
		{"socket", "unix", socket(t, e), who, "other", "select 1"},
		{"roles", "tcp", address, who, "other", "select 1"},
		{"writers/application_name=other", "tcp", address, who, "other", "insert into ruled values (1)"},
		{"writers/application_name=another", "tcp", address, "postgres", "another", "copy ruled to stdout"},
		{"postgres/postgres/other/read", "tcp", address, "postgres", "other", "select 1"},
		{"postgres/postgres/API-x/read", "tcp", address, "postgres", "API-x", "select 1"},
		{"postgres/" + who + "/other/maintenance", "tcp", address, who, "other", "truncate ruled"},
	} {
		c := pgwire.Login(t, test.network, test.address, "user", test.user, "database", "postgres", "application_name", test.application)
		ran(t, e, fmt.Sprintf("%+v", test), test.label, func() { exec(t, c, test.sql) })
	}
	if n := e.Tally("late"); n.Routes != 0 {
		t.Errorf("a rule behind one that hides it has a route: %+v", n)
	}
}

// TestNamedRuleIsOneRoute: all that match share the limits, whatever else differs between them.
func TestNamedRuleIsOneRoute(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists shared_route; create table shared_route (a int)")
	e, address := startYAML(t, `routes: [{name: api, match: {application_name: "api-*"}, max_route_in_flight: 3, max_route_waiters: 0}]
`+databases(pg), "--server.loops=2")
	second := from(t, "127.0.0.2", address)
	a, b, c := login(t, address, "application_name", "api-1"), login(t, second, "application_name", "api-2"), login(t, address, "application_name", "api-3")
	exec(t, a, "begin")
	send(t, b, pgwire.Query("begin"), pgwire.Query("insert into shared_route values (1)"))
	answered(t, b, "CZTCZT")
	exec(t, c, "begin read only")
	for _, sql := range []string{"select 1", "insert into shared_route values (1)", "vacuum shared_route"} {
		_, err := login(t, second, "application_name", "api-4").Exec(sql)
		overloaded(t, err, "ERROR", "53300")
	}
	usable(t, login(t, address, "application_name", "other"))
	if n := e.Tally("api"); n.InFlight != 3 || n.Rejected != 3 || n.Routes != 1 {
		t.Errorf("%+v", n)
	}
	for _, k := range []*pgwire.Conn{a, b, c} {
		exec(t, k, "rollback")
	}
	rested(t, e)
}

// TestSplitBy: the parts that it names keep the requests of a named rule apart.
func TestSplitBy(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, `routes: [{name: each, match: {application_name: "*"}, split_by: [client_addr, user], max_route_in_flight: 1, max_route_waiters: 0}]
`+databases(pg))
	who := role(t, pg)
	for _, user := range []string{"postgres", who} {
		for _, a := range []string{address, from(t, "127.0.0.2", address)} {
			hold := pgwire.Login(t, "tcp", a, "user", user, "database", "postgres", "application_name", "a")
			exec(t, hold, "begin")
			_, err := pgwire.Login(t, "tcp", a, "user", user, "database", "postgres", "application_name", "b").Exec("select 1")
			overloaded(t, err, "ERROR", "53300")
		}
	}
	// Addresses are no label: two routes under each.
	for _, user := range []string{"postgres", who} {
		if n := e.Tally("each/user=" + user); n.Routes != 2 || n.InFlight != 2 || n.Rejected != 2 {
			t.Errorf("%s: %+v", user, n)
		}
	}
}

// TestSettingsOfRules: time-outs and the SQLSTATE hold for the requests that a rule matches, and for no others.
func TestSettingsOfRules(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists timed; create table timed (a int)")
	e, address := startYAML(t, `routes:
  - {match: {application_name: short-query, query_class: write}, query_timeout_ms: 150}
  - {match: {application_name: short-idle}, idle_transaction_timeout_ms: 150}
  - {match: {application_name: short-transaction}, transaction_timeout_ms: 150}
  - {match: {application_name: short-client}, idle_client_timeout_ms: 150}
  - {name: short-wait, match: {application_name: short-wait}, checkout_timeout_ms: 150, max_route_in_flight: 1, overload_error_code: SHORT}
`+databases(pg))
	app := func(name string) *pgwire.Conn { return login(t, address, "application_name", name) }
	const slow = "insert into timed select 1 from (select pg_sleep(%s)) s"

	c := app("short-query")
	_, err := c.Exec(fmt.Sprintf(slow, "60"))
	refused(t, err, "ERROR", "57014")
	exec(t, c, "select pg_sleep(0.4)") // reads have no such limit
	exec(t, app("other"), fmt.Sprintf(slow, "0.4"))

	idle, other := app("short-idle"), app("other")
	exec(t, idle, "begin")
	exec(t, other, "begin")
	ended(t, idle, "25P03")
	exec(t, other, "commit")

	long := app("short-transaction")
	exec(t, long, "begin")
	ended(t, long, "25P04")
	// It is a request that has the route's limits; a client that has sent none has those of its class default.
	ended(t, app("short-client"), "57P05")

	hold, waiter := app("short-wait"), app("short-wait")
	exec(t, hold, "begin")
	begin := time.Now()
	_, err = waiter.Exec("select 1")
	overloaded(t, err, "ERROR", "SHORT")
	if d := time.Since(begin); d < 150*time.Millisecond || d > 5*time.Second {
		t.Errorf("failed after %v, want 150 ms", d)
	}
	if n := e.Tally("short-wait"); n.TimedOut != 1 {
		t.Errorf("%+v", n)
	}
	exec(t, hold, "commit")
	usable(t, waiter)
}

// TestMostSpecificLimitHolds: route rule before user before database before capacity.
func TestMostSpecificLimitHolds(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	a, b := role(t, pg), role(t, pg)
	if len(pg.Exec(t, "select 1 from pg_database where datname = 'specific'")) == 0 {
		pg.Exec(t, "create database specific")
	}
	_, address := startYAML(t, fmt.Sprintf(`capacity: {max_route_in_flight: 1, max_route_waiters: 0, overload_error_code: CAPAC}
databases:
  - {name: specific, hosts: [%q], overload_error_code: DATAB, max_route_in_flight: 2}
  - {name: "*", hosts: [%[1]q]}
users: [{name: %s, overload_error_code: USERS, max_route_in_flight: 3}]
routes: [{match: {application_name: ruled}, overload_error_code: RULES, max_route_in_flight: 4}]
`, pg.Addr(), a))
	for _, test := range []struct {
		database, user, application, code string
		limit                             int
	}{
		{"postgres", b, "x", "CAPAC", 1},
		{"specific", b, "x", "DATAB", 2},
		{"specific", a, "x", "USERS", 3},
		{"postgres", a, "x", "USERS", 3},
		{"postgres", b, "ruled", "RULES", 4},
		{"specific", a, "ruled", "RULES", 4},
	} {
		open := func() *pgwire.Conn {
			return pgwire.Login(t, "tcp", address, "user", test.user, "database", test.database, "application_name", test.application)
		}
		var holders []*pgwire.Conn
		for range test.limit {
			c := open()
			exec(t, c, "begin")
			holders = append(holders, c)
		}
		c := open()
		_, err := c.Exec("begin")
		overloaded(t, err, "ERROR", test.code)
		for _, k := range holders {
			exec(t, k, "commit")
		}
		usable(t, c)
	}
}

// TestApplicationNamePattern: names are made alike before keys and rules look at them.
func TestApplicationNamePattern(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, `admission: {application_name_pattern: '-[0-9]+$', application_name_replace: ''}
routes: [{match: {application_name: batch}, max_route_in_flight: 1, max_route_waiters: 0}]
`+databases(pg))
	for i := range 3 {
		c := login(t, address, "application_name", fmt.Sprintf("worker-%d", i))
		ran(t, e, "a worker", "postgres/postgres/worker/read", func() { exec(t, c, "select 1") })
		if got := one(t, c, "show application_name"); got != fmt.Sprintf("worker-%d", i) {
			t.Errorf("PostgreSQL is told %q", got)
		}
	}
	hold := login(t, address, "application_name", "batch-1")
	exec(t, hold, "begin")
	_, err := login(t, address, "application_name", "batch-77").Exec("begin")
	overloaded(t, err, "ERROR", "53300")
}

// TestSetApplicationNameMovesRoute: a client that changes its name by SET is on the new name's route with its next request.
func TestSetApplicationNameMovesRoute(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, "routes: [{name: batch, match: {application_name: batch}, max_route_in_flight: 1, max_route_waiters: 0}]\n"+databases(pgtest.Shared(t)))
	c, other := login(t, address, "application_name", "first"), login(t, address, "application_name", "other")
	usable(t, c)
	for _, test := range []struct{ set, label string }{
		{"set application_name = 'second'", "postgres/postgres/second/read"},
		{"set application_name to third", "postgres/postgres/third/read"},
		{"SET SESSION application_name = 'batch'", "batch"},
		{"begin; set application_name = 'fourth'; commit", "postgres/postgres/fourth/read"},
		{"begin; set application_name = 'fifth'; rollback", "postgres/postgres/fourth/read"},
		{"begin; set local application_name = 'fifth'; commit", "postgres/postgres/fourth/read"},
	} {
		exec(t, c, test.set)
		ran(t, e, test.set, test.label, func() { exec(t, c, "select 1") })
		exec(t, other, "begin; select 1; commit") // another client may have the backend in between
		if got := one(t, other, "show application_name"); got != "other" {
			t.Errorf("after %s another client is called %q", test.set, got)
		}
	}
	exec(t, c, "set application_name = 'batch'")
	exec(t, c, "begin")
	exec(t, other, "set application_name = 'batch'")
	_, err := other.Exec("select 1")
	overloaded(t, err, "ERROR", "53300")
	if n := pinsOfAll(e); n != 0 {
		t.Errorf("%d clients were pinned by SET", n)
	}
	exec(t, c, "commit")
	rested(t, e)
}
