package engine_test

import (
	"strings"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/testdns"
)

// shownHost is the row of a host.
func shownHost(t testing.TB, e *engine.Engine, host string) view.Host {
	t.Helper()
	for _, row := range e.Hosts() {
		if row.Host == host {
			return row
		}
	}
	t.Fatalf("SHOW HOSTS has no %s: %+v", host, e.Hosts())
	return view.Host{}
}

// TestHostsShown: which hosts answer, what is open there, why one does not.
func TestHostsShown(t *testing.T) {
	t.Parallel()
	a, b, c := named(t, "a", ""), named(t, "b", ""), named(t, "c", "")
	a.Down()
	e, address := startHosts(t, "", addrs(a, b, c), "--capacity.max-backends=7")
	busy := login(t, address)
	exec(t, busy, "begin")
	if r := shownHost(t, e, a.Addr()); r.State != "down" || r.FailingMs <= 0 || !strings.Contains(r.Cause, "refused") || r.Pools != 0 || r.Servers != 0 {
		t.Errorf("%+v", r)
	}
	if r := shownHost(t, e, b.Addr()); r.State != "up" || r.FailingMs != 0 || r.Cause != "" || r.Pools != 1 || r.Servers != 1 || r.MaxBackends != 7 || r.Address != "" {
		t.Errorf("%+v", r)
	}
	if r := shownHost(t, e, c.Addr()); r.State != "unknown" {
		t.Errorf("%+v", r)
	}
	if n := e.Metrics().HostChanges; n != 1 {
		t.Errorf("%d changes of the host", n)
	}
	if d := e.Databases(); len(d) == 0 || d[0].Host == nil || "\""+*d[0].Host+":" != addrs(b)[0][:len(*d[0].Host)+2] || d[0].Failing != "" {
		t.Errorf("%+v", d)
	}
	for _, p := range e.Pools() {
		if p.Host != b.Addr() {
			t.Errorf("%+v", p)
		}
	}
}

// TestNamesShown: the addresses of names, and how their look-ups fare.
func TestNamesShown(t *testing.T) {
	t.Parallel()
	servers, port := addressed(t, 2)
	dns := testdns.Start(t)
	e, address, _ := startNamed(t, dns, port, "", "--capacity.connect-timeout-ms=300")
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "08006")
	only := func() view.DNSHost {
		t.Helper()
		rows := e.DNSHosts()
		if len(rows) != 1 || rows[0].Hostname != dbName {
			t.Fatalf("%+v", rows)
		}
		return rows[0]
	}
	if r := only(); r.State != "none" || r.Addrs != "" || r.TTL != 0 {
		t.Errorf("%+v", r)
	}
	servers[0].Down()
	dns.Set(dbName, testdns.Zone{Addrs: []string{"127.0.0.1", "127.0.0.2"}, TTL: 9})
	until(t, "a login", func() bool { return letIn(t, address) })
	if r := only(); r.State != "found" || r.Addrs != "127.0.0.2:"+port+",127.0.0.1:"+port || r.TTL < 1 || r.TTL > 9 {
		t.Errorf("%+v", r)
	}
	if r := shownHost(t, e, dbName+":"+port); r.Address != "127.0.0.2:"+port || r.State != "up" {
		t.Errorf("%+v", r)
	}
	dns.Set(dbName, testdns.Zone{Fail: true})
	must(t, e.Reconnect(""))
	until(t, "the failure is told", func() bool { return only().State == "stale" })
	n := map[string]uint64{}
	for _, c := range e.Metrics().Lookups {
		n[c.Label] = c.N
	}
	if n["found"] == 0 || n["failed"] < 2 {
		t.Errorf("look-ups %v", n)
	}
}
