package engine_test

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/testdns"
)

const dbName = "db.test"

// addressed starts scripted servers at one port of 127.0.0.1, 127.0.0.2, …; each answers with the last part of its address.
func addressed(t testing.TB, n int) (servers []*pgmock.Server, port string) {
	t.Helper()
	first := pgmock.Start(t, pgmock.Login(), pgmock.Serve("1"))
	_, port, err := net.SplitHostPort(first.Addr())
	must(t, err)
	servers = append(servers, first)
	for i := 2; i <= n; i++ {
		servers = append(servers, pgmock.StartAt(t, fmt.Sprintf("127.0.0.%d:%s", i, port), pgmock.Login(), pgmock.Serve(fmt.Sprint(i))))
	}
	return servers, port
}

// startNamed is an engine whose every database lies at dbName, which a name server of the test's own knows.
func startNamed(t testing.TB, dns *testdns.Server, port, more string, settings ...string) (*engine.Engine, string, *journal) {
	t.Helper()
	log := &journal{}
	text := fmt.Sprintf("databases: [{name: \"*\", hosts: [\"%s:%s\"]%s}]\n", dbName, port, more)
	e, address := startWith(t, text, slog.New(slog.NewJSONHandler(log, nil)), []engine.Option{engine.WithNameServer(dns.Addr())}, settings...)
	return e, address, log
}

// FO-02: a name that moves is followed within its TTL, by new connections and, as they become idle, by those that are open.
func TestNameMoves(t *testing.T) {
	t.Parallel()
	servers, port := addressed(t, 2)
	dns := testdns.Start(t)
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
	e, address, log := startNamed(t, dns, port, "")
	idle, busy := login(t, address), login(t, address)
	exec(t, busy, "begin")
	usable2(t, idle, "1")
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.2"}, TTL: 1})
	begin := time.Now()
	until(t, "the other address serves", func() bool { return one(t, idle, "select") == "2" })
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("followed after %v, TTL 1 s", took)
	}
	usable2(t, busy, "1")
	exec(t, busy, "commit")
	until(t, "it follows behind its transaction", func() bool { return one(t, busy, "select") == "2" })
	until(t, "no backend is left", func() bool { return e.Totals().Evictions["reload"] == 2 && servers[0].Opened() == 2 })
	if len(log.lines(t, "a host's name stands for other addresses")) != 1 {
		t.Errorf("log: %s", log)
	}
}

// FO-03: where a name stands for others at each look-up, backends at addresses that it does not have at the moment may be kept.
func TestNameRotates(t *testing.T) {
	t.Parallel()
	servers, port := addressed(t, 2)
	dns := testdns.Start(t)
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
	e, address, log := startNamed(t, dns, port, "", "--reaper.dns-vanished=keep", "--capacity.pool-max-size=2")
	c := login(t, address)
	usable2(t, c, "1")
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.2"}, TTL: 1})
	until(t, "the change is noticed", func() bool { return len(log.lines(t, "a host's name stands for other addresses")) > 0 })
	exec(t, c, "begin")
	d := login(t, address)
	usable2(t, d, "2")
	exec(t, c, "commit")
	asked := dns.Questions()
	until(t, "a further look-up", func() bool { return dns.Questions() > asked+2 })
	time.Sleep(1200 * time.Millisecond) // a sweep, which closes nothing
	if n := e.Totals(); n.BackendsClosed != 0 || n.Servers != 2 || servers[0].Opened() != 1 {
		t.Errorf("%d closed, %d servers", n.BackendsClosed, n.Servers)
	}
}

// Name servers that fail take nothing away, and no request waits for them.
func TestNameServerFails(t *testing.T) {
	t.Parallel()
	_, port := addressed(t, 1)
	for name, z := range map[string]testdns.Zone{"silent": {Silent: true}, "failing": {Fail: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dns := testdns.Start(t)
			dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
			e, address, log := startNamed(t, dns, port, "")
			c := login(t, address)
			usable2(t, c, "1")
			dns.Set(dbName, z)
			must(t, e.Reconnect(""))
			begin := time.Now()
			usable2(t, c, "1")
			if took := time.Since(begin); took > 2500*time.Millisecond {
				t.Errorf("a request waited %v for a name server", took)
			}
			const told = "cannot look up a host's name; going on with its last addresses"
			until(t, "a line of the log", func() bool { return len(log.lines(t, told)) > 0 })
			closedAll(t, e, "")
			must(t, e.Reconnect(""))
			begin = time.Now()
			usable2(t, c, "1")
			if took := time.Since(begin); took > 900*time.Millisecond {
				t.Errorf("a request waited %v although it was known that name servers fail", took)
			}
			dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
			until(t, "a good answer", func() bool { return len(log.lines(t, "a host's name is answered again")) == 1 })
			if n := len(log.lines(t, told)); n != 1 {
				t.Errorf("%d lines about one failure", n)
			}
		})
	}
}

// FO-12: a first look-up that is not answered ends at connect_timeout_ms, says so, and stops no loop.
func TestFirstLookupSilent(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	dns := testdns.Start(t)
	dns.Set(dbName, testdns.Zone{Silent: true})
	text := fmt.Sprintf("databases: [{name: far, hosts: [\"%s:5432\"]}, {name: \"*\", hosts: [%q]}]\n", dbName, pg.Addr())
	_, address := startWith(t, text, slog.New(slog.DiscardHandler), []engine.Option{engine.WithNameServer(dns.Addr())},
		"--capacity.connect-timeout-ms=300", "--server.loops=1")
	c := login(t, address)
	stuck := make(chan error, 1)
	go func() {
		_, err := tryLogin(t, address, "database", "far")
		stuck <- err
	}()
	for n := 0; ; n++ {
		select {
		case err := <-stuck:
			f := refused(t, err, "FATAL", "08006")
			if n < 10 {
				t.Errorf("%d requests of others were served meanwhile", n)
			}
			if m := f.Fields['M']; !strings.Contains(m, dbName) || !strings.Contains(m, "look") {
				t.Errorf("message %q does not tell the cause", m)
			}
			return
		default:
			usable(t, c)
		}
	}
}

// TestUnknownName: a name that does not exist is told, and found once it does.
func TestUnknownName(t *testing.T) {
	t.Parallel()
	_, port := addressed(t, 1)
	dns := testdns.Start(t)
	_, address, _ := startNamed(t, dns, port, "", "--capacity.connect-timeout-ms=200")
	_, err := tryLogin(t, address)
	if f := refused(t, err, "FATAL", "08006"); !strings.Contains(f.Fields['M'], "no such host") {
		t.Errorf("message %q", f.Fields['M'])
	}
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 60})
	until(t, "a login", func() bool { return letIn(t, address) })
}

// TestNameOfSeveralServers: of several addresses the next is tried where one refuses or is silent, before the host counts as
// failing; with target_session_attrs, where one is of the wrong role.
func TestNameOfSeveralServers(t *testing.T) {
	t.Parallel()
	silent := []pgmock.Step{pgmock.Startup(), pgmock.Hang()}
	for name, f := range map[string]func(first *pgmock.Server){
		"refuses": func(first *pgmock.Server) { first.Down() },
		"starts": func(first *pgmock.Server) {
			first.Script(pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "57P03", "starting up")))
		},
		"is silent":  func(first *pgmock.Server) { first.Script(silent...) },
		"is standby": func(first *pgmock.Server) { first.Script(asRole("on"), pgmock.Serve("1")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, port := addressed(t, 2)
			servers[1].Script(asRole("off"), pgmock.Serve("2"))
			f(servers[0])
			dns := testdns.Start(t)
			dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1", "127.0.0.2"}, TTL: 60})
			_, address, _ := startNamed(t, dns, port, ", target_session_attrs: primary", "--capacity.connect-timeout-ms=500", "--capacity.checkout-timeout-ms=5000")
			begin := time.Now()
			usable2(t, login(t, address), "2")
			if took := time.Since(begin); name != "is silent" && took > 400*time.Millisecond {
				t.Errorf("served after %v", took)
			}
		})
	}
}

// TestNameOfDeadServers: where no address of a name answers, attempts are as rare as at one that has none but that.
func TestNameOfDeadServers(t *testing.T) {
	t.Parallel()
	servers, port := addressed(t, 3)
	var addrs []string
	for i, s := range servers {
		s.Script(pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "57P03", "starting up")))
		addrs = append(addrs, fmt.Sprintf("127.0.0.%d", i+1))
	}
	dns := testdns.Start(t)
	dns.Set(dbName, testdns.Zone{Addrs: addrs, TTL: 60})
	_, address, _ := startNamed(t, dns, port, "", "--capacity.connect-timeout-ms=1000", "--capacity.pool-max-size=1")
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "57P03")
	opened := 0
	for _, s := range servers {
		opened += s.Opened()
	}
	if opened < 6 || opened > 30 { // rounds begin after 0, 25, 75, 175, 375, 775 ms, or up to half a delay sooner
		t.Errorf("%d attempts in a second", opened)
	}
	servers[2].Script(pgmock.Login(), pgmock.Serve("3"))
	begin := time.Now()
	until(t, "a login", func() bool { return letIn(t, address) })
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("served %v after a server is back", took)
	}
}

// TestListenerFollowsName: a listener's connection to an address that is gone is opened anew.
func TestListenerFollowsName(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, port, err := net.SplitHostPort(pg.Addr())
	must(t, err)
	dns := testdns.Start(t)
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
	e, address, _ := startNamed(t, dns, port, "")
	c := login(t, address)
	subscribed(t, c, "+moved")
	pid := listener(t, e).PID
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.2"}, TTL: 1}) // where nobody is
	until(t, "the connection is given up", func() bool {
		views := e.ListenerViews()
		return len(views) == 1 && views[0].PID != pid
	})
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1"}, TTL: 1})
	until(t, "it is back", func() bool {
		views := e.ListenerViews()
		return len(views) == 1 && views[0].PID != 0 && views[0].PID != pid
	})
}
