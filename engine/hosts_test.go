package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

// startHosts is an engine whose every database lies at several hosts; more is further text of the entry.
func startHosts(t testing.TB, more string, hosts []string, settings ...string) (*engine.Engine, string) {
	t.Helper()
	return startYAML(t, fmt.Sprintf("databases: [{name: \"*\", hosts: [%s]%s}]\n", strings.Join(hosts, ", "), more), settings...)
}

// named is a scripted server that answers with its name, and reports a role unless that is empty.
func named(t testing.TB, name, standby string) *pgmock.Server {
	t.Helper()
	return pgmock.Start(t, asRole(standby), pgmock.Serve(name))
}

// asRole is a login at a server that reports whether it is a standby, or, from an old one, nothing of that.
func asRole(standby string) pgmock.Step {
	return func(c *pgmock.Conn) error {
		if err := pgmock.Startup()(c); err != nil {
			return err
		}
		all := [][]byte{pgmock.AuthenticationOk(), pgmock.Parameters()}
		if standby != "" {
			all = append(all, pgmock.ParameterStatus("in_hot_standby", standby), pgmock.ParameterStatus("default_transaction_read_only", "off"))
		}
		return pgmock.Send(append(all, pgmock.KeyData(1, 7), pgmock.Ready('I'))...)(c)
	}
}

func addrs(servers ...*pgmock.Server) (all []string) {
	for _, s := range servers {
		all = append(all, fmt.Sprintf("%q", s.Addr()))
	}
	return all
}

// answersAs waits until a session's requests are answered by the server of that name; each error must be 08006.
func answersAs(t testing.TB, c *pgwire.Conn, name string) {
	t.Helper()
	until(t, "an answer of "+name, func() bool {
		rows, err := c.Exec("select")
		if err != nil {
			refused(t, err, "ERROR", "08006")
			return false
		}
		return rows[0][0] == name
	})
}

// up tells whether metrics say so of a host.
func up(e *engine.Engine, s *pgmock.Server) bool {
	return slices.Contains(e.Metrics().Hosts, view.HostMetrics{Host: s.Addr()})
}

// TestHostsInOrder: the first that answers serves, and goes on to although one before it is back; when it fails the next
// that answers does. That one is back is found out all the same, and RECONNECT goes there.
func TestHostsInOrder(t *testing.T) {
	t.Parallel()
	a, b, c := named(t, "a", ""), named(t, "b", ""), named(t, "c", "")
	a.Down()
	e, address := startHosts(t, "", addrs(a, b, c))
	first := login(t, address)
	usable2(t, first, "b")
	if up(e, a) {
		t.Error("a host that refuses is up")
	}
	a.Up()
	second := login(t, address)
	exec(t, first, "begin")
	usable2(t, second, "b")
	exec(t, first, "commit")
	until(t, "it is seen that the first is back", func() bool { return up(e, a) })
	usable2(t, second, "b")
	b.Down()
	answersAs(t, second, "a")
	a.Down()
	answersAs(t, second, "c")
	answersAs(t, first, "c")
	must(t, e.Reconnect(""))
	closedAll(t, e, "")
	usable2(t, first, "c") // the others have failed a moment ago
	a.Up()
	until(t, "it is back", func() bool { return up(e, a) })
	usable2(t, first, "c")
	must(t, e.Reconnect(""))
	closedAll(t, e, "")
	usable2(t, first, "a")
}

// TestFailedConnectBesideOthers: a connect that fails while the pool has backends, and needs no further one, is not the last
// word on the host.
func TestFailedConnectBesideOthers(t *testing.T) {
	t.Parallel()
	mock := named(t, "alive", "")
	e, address := startAt(t, mock.Addr())
	c := login(t, address)
	exec(t, c, "begin")
	mock.Script(pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "57P03", "starting up")))
	d := login(t, address)
	send(t, d, pgwire.Query("select"))
	until(t, "the host counts as failing", func() bool { return !up(e, mock) })
	exec(t, c, "commit")
	answered(t, d, "TDCZI")
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	until(t, "the host is seen to be well", func() bool { return up(e, mock) })
}

// TestSilentHost: a host that accepts and says nothing is given connect_timeout_ms, and clients wait for the next one.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	silent, b := pgmock.Start(t, pgmock.Startup(), pgmock.Hang()), named(t, "b", "")
	_, address := startHosts(t, "", addrs(silent, b), "--capacity.connect-timeout-ms=200", "--capacity.checkout-timeout-ms=10000")
	usable2(t, login(t, address), "b")
}

// TestNoHost: all causes are told, at once when it has lasted; and the first host that is back serves within a second
// although nobody waits for it.
func TestNoHost(t *testing.T) {
	t.Parallel()
	a, b := named(t, "a", ""), named(t, "b", "")
	a.Down()
	b.Down()
	e, address := startHosts(t, "", addrs(a, b), "--capacity.connect-timeout-ms=200")
	_, err := tryLogin(t, address)
	f := refused(t, err, "FATAL", "08006")
	for _, s := range []*pgmock.Server{a, b} {
		if !strings.Contains(f.Fields['M'], s.Addr()) {
			t.Errorf("message %q does not name %s", f.Fields['M'], s.Addr())
		}
	}
	until(t, "an answer at once", func() bool {
		begin := time.Now()
		_, err := tryLogin(t, address)
		refused(t, err, "FATAL", "08006")
		return time.Since(begin) < 100*time.Millisecond
	})
	x, err := e.Foresee(view.Request{Database: "other", User: "new"})
	if err != nil || x.Decision != engine.DecisionRefuse || !strings.Contains(x.Reason, b.Addr()) {
		t.Errorf("a request of a new pool: %+v, %v", x, err)
	}
	failed := e.Totals().ConnectsFailed
	until(t, "probes without a client", func() bool { return e.Totals().ConnectsFailed > failed+3 })
	b.Up()
	begin := time.Now()
	until(t, "a login", func() bool { return letIn(t, address) })
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("served %v after a host is back, want 1 s", took)
	}
}

// TestBackWithoutClients: a server that comes back while nobody asks is known to be back when somebody does.
func TestBackWithoutClients(t *testing.T) {
	t.Parallel()
	mock := named(t, "alive", "")
	mock.Down()
	e, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=100")
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "08006")
	mock.Up()
	until(t, "a probe that has succeeded", func() bool {
		hosts := e.Hosts()
		return mock.Opened() > 0 && len(hosts) == 1 && hosts[0].State == "up"
	})
	begin := time.Now()
	usable2(t, login(t, address), "alive")
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the first client waited %v", took)
	}
}

// TestFullHostIsNotLeft: a host that has no room is no failed one.
func TestFullHostIsNotLeft(t *testing.T) {
	t.Parallel()
	full := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "53300", "no room")))
	b := named(t, "b", "")
	_, address := startHosts(t, "", addrs(full, b), "--capacity.checkout-timeout-ms=300")
	_, err := tryLogin(t, address)
	if err == nil || b.Logins() != 0 {
		t.Errorf("%v; %d logins at the next host", err, b.Logins())
	}
}

// TestRoles: which of a primary and a standby each attribute finds, whatever their order, and whether they report it or
// have to be asked.
func TestRoles(t *testing.T) {
	t.Parallel()
	for attrs, want := range map[string]string{
		"any": "first", "read-write": "primary", "primary": "primary", "standby": "standby", "read-only": "standby", "prefer-standby": "standby",
	} {
		for _, standbyFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,%v", attrs, standbyFirst), func(t *testing.T) {
				t.Parallel()
				servers := []*pgmock.Server{named(t, "primary", "off"), named(t, "standby", "on")}
				want := want
				if standbyFirst {
					servers[0], servers[1] = servers[1], servers[0]
				}
				if want == "first" {
					want = map[bool]string{true: "standby", false: "primary"}[standbyFirst]
				}
				_, address := startHosts(t, ", target_session_attrs: "+attrs, addrs(servers...))
				usable2(t, login(t, address), want)
			})
		}
	}
}

// old is a scripted server of a version that does not report its role: it has to be asked.
func old(t testing.TB, name, recovery, readOnly string) *pgmock.Server {
	t.Helper()
	asked := func(c *pgmock.Conn) error {
		m, err := c.Read()
		if err != nil {
			return err
		}
		answer := recovery
		if strings.Contains(string(m.Body), "transaction_read_only") {
			answer = readOnly
		}
		return pgmock.Send(pgmock.Row(answer), pgmock.Complete("SELECT 1"), pgmock.Ready('I'))(c)
	}
	return pgmock.Start(t, asRole(""), asked, pgmock.Serve(name))
}

// TestRolesOfOldServers: servers that do not report their role are asked.
func TestRolesOfOldServers(t *testing.T) {
	t.Parallel()
	for attrs, want := range map[string]string{"read-write": "primary", "primary": "primary", "standby": "standby", "read-only": "standby"} {
		standby, primary := old(t, "standby", "t", "on"), old(t, "primary", "f", "off")
		_, address := startHosts(t, ", target_session_attrs: "+attrs, addrs(standby, primary))
		usable2(t, login(t, address), want)
		_, address = startHosts(t, ", target_session_attrs: "+attrs, addrs(primary, standby))
		usable2(t, login(t, address), want)
	}
}

// TestPreferredRole: where no standby is to be had, any host does; where none satisfies a strict attribute, the cause says so.
func TestPreferredRole(t *testing.T) {
	t.Parallel()
	a, b := named(t, "a", "off"), named(t, "b", "off")
	gone := named(t, "gone", "on")
	gone.Down()
	_, address := startHosts(t, ", target_session_attrs: prefer-standby", addrs(a, gone, b))
	c := login(t, address)
	usable2(t, c, "a")
	gone.Up()
	answersAs(t, c, "gone") // as soon as a standby is there
	_, address = startHosts(t, ", target_session_attrs: standby", addrs(a, b), "--capacity.checkout-timeout-ms=300")
	_, err := tryLogin(t, address)
	f := refused(t, err, "FATAL", "08006")
	for _, part := range []string{a.Addr(), b.Addr(), "target_session_attrs standby", "no standby"} {
		if !strings.Contains(f.Fields['M'], part) {
			t.Errorf("message %q does not say %q", f.Fields['M'], part)
		}
	}
}
