package engine_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// clientRow is the row of the client of an application.
func clientRow(t testing.TB, e *engine.Engine, application string) view.Client {
	t.Helper()
	for r := range e.Clients() {
		if r.ApplicationName == application {
			return r
		}
	}
	t.Fatalf("no client %q in %+v", application, slices.Collect(e.Clients()))
	return view.Client{}
}

// TestWhoRunsThisBackend: one view joins client, address, application, backend, state and times; the rows of both sides refer
// to each other.
func TestWhoRunsThisBackend(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--server.loops=2", "--capacity.pool-max-size=1", "--capacity.checkout-timeout-ms=60000",
		"--reaper.server-check-delay-ms=20")
	began := time.Now().Add(-time.Second)
	c, waiter := login(t, address, "application_name", "worker"), login(t, address, "application_name", "waiter")
	exec(t, c, "create temp table kept (a int)")
	g := shut(t, pg, 1)
	send(t, c, pgwire.Parse("s", "select 1"), pgwire.Bind("", "s"), pgwire.Execute("", 0), pgwire.Sync())
	types(t, c, 1)
	send(t, c, pgwire.Query(g.query(0)))
	g.running(t, 0)
	queue(t, e, waiter, "select 1")
	until(t, "a wait of 20 ms", func() bool { return clientRow(t, e, "waiter").WaitUs >= 20_000 })

	r := clientRow(t, e, "worker")
	servers := slices.Collect(e.Servers())
	if len(servers) != 1 {
		t.Fatalf("%+v", servers)
	}
	s := servers[0]
	here := netip.MustParseAddrPort(c.Net.LocalAddr().String())
	pooler := netip.MustParseAddrPort(address)
	if r.Type != "C" || r.User != "postgres" || r.Database != "postgres" || r.State != "active" || r.Addr != "127.0.0.1" || r.Port != int(here.Port()) ||
		r.LocalAddr != "127.0.0.1" || r.LocalPort != int(pooler.Port()) || r.ConnectTime.Before(began) || r.RequestTime.Before(r.ConnectTime) ||
		r.RequestTime.After(time.Now()) || r.Wait != 0 || r.Activity != "linked" || r.StateMs <= 0 || r.Pins != "temp_table" || r.AuthMethod != "trust" ||
		r.PreparedStatements != 1 || r.Route != "postgres/postgres/worker/maintenance" || r.ID == 0 || r.TLS != "" || r.Replication != "none" {
		t.Errorf("%+v", r)
	}
	if r.Link != s.Ptr || s.Link != r.Ptr || r.ServerPID != s.RemotePID || s.RemotePID == 0 {
		t.Errorf("who runs %+v? %+v", s, r)
	}
	if s.Type != "S" || s.User != "postgres" || s.Database != "postgres" || s.State != "active" || s.Addr != "127.0.0.1" || s.Port == 0 ||
		s.LocalPort == 0 || s.LocalPort == s.Port || s.ConnectTime.Before(began) || s.RequestTime.Before(s.ConnectTime) || s.CloseNeeded != 0 ||
		s.ApplicationName != "worker" || s.PreparedStatements != 1 || s.Activity != "linked" || s.StateMs <= 0 || s.AgeMs < s.StateMs ||
		s.Host != pg.Addr() || s.Queries != 2 {
		t.Errorf("%+v", s)
	}
	if w := clientRow(t, e, "waiter"); w.State != "waiting" || w.Activity != "waiting" || w.Link != "" || w.ServerPID != 0 {
		t.Errorf("%+v", w)
	}
	must(t, e.Reconnect(""))
	if s := slices.Collect(e.Servers())[0]; s.CloseNeeded != 1 {
		t.Errorf("after RECONNECT %+v", s)
	}
	g.open(t, 0)
	answered(t, c, "TDCZI")
	exec(t, c, "discard all")
	answered(t, waiter, "TDCZI")
	rested(t, e)
	if r := clientRow(t, e, "worker"); r.State != "idle" || r.Link != "" {
		t.Errorf("%+v", r)
	}
	until(t, "the new one is used", func() bool {
		all := slices.Collect(e.Servers())
		return len(all) == 1 && all[0].State == "used" && all[0].Link == "" && all[0].CloseNeeded == 0
	})
}

// TestManyClientsAreShown: everybody is shown once, whatever the loop and however many turns that takes.
func TestManyClientsAreShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--server.loops=2", "--server.unix-socket-dir="+dir)
	const n = 600
	for i := range n {
		login(t, address, "application_name", fmt.Sprint("c", i))
	}
	local := pgwire.Login(t, "unix", fmt.Sprint(dir, "/.s.PGSQL.", netip.MustParseAddrPort(address).Port()), "user", "postgres", "database", "postgres")
	seen := map[string]int{}
	for r := range e.Clients() {
		seen[r.ApplicationName]++
		if r.Addr == "unix" {
			seen["unix"]++
			if r.RemotePID != int64(os.Getpid()) || r.Port != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	for i := range n {
		if seen[fmt.Sprint("c", i)] != 1 {
			t.Fatalf("client %d was shown %d times", i, seen[fmt.Sprint("c", i)])
		}
	}
	if seen["unix"] != 1 {
		t.Errorf("%d clients behind the Unix socket", seen["unix"])
	}
	for range e.Clients() { // who looks may stop
		break
	}
	usable(t, local)
}

// TestSocketsAndDescriptors: what buffers hold, and whose every descriptor is.
func TestSocketsAndDescriptors(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)))
	slow, part := login(t, address, "application_name", "slow"), login(t, address, "application_name", "part", "client_encoding", "latin1")
	send(t, slow, pgwire.Query("select repeat('x', 100000) from generate_series(1, 300)"))
	whole := pgwire.Query("select " + strings.Repeat("1 + ", 1000) + "1")
	exec(t, part, "begin")
	send(t, part, whole[:len(whole)-10])
	socket := func(application, kind string) (row view.Socket) {
		for r := range e.Sockets() {
			if r.ApplicationName == application && r.Type == kind {
				row = r
			}
		}
		return row
	}
	until(t, "output that the client does not take", func() bool {
		c, s := socket("slow", "C"), socket("slow", "S")
		return c.SendRemain > 0 && c.SendAvail > 0 && c.Link == s.Ptr && s.PktRemain > 0 && c.State == "cl_active" && s.State == "sv_active"
	})
	until(t, "input that is not whole", func() bool {
		r := socket("part", "C")
		return r.RecvPos == len(whole)-10 && r.PktAvail == r.RecvPos
	})
	fds := slices.Collect(e.FDs())
	tasks := map[string]int{}
	for _, r := range fds {
		if _, err := os.Readlink(fmt.Sprint("/proc/self/fd/", r.FD)); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		if r.Task != "pooler" && (r.User != "postgres" || r.Database != "postgres" || r.DateStyle == "" || r.TimeZone == "" || r.StdStrings != "on" || r.Link == 0) {
			t.Errorf("%+v", r)
		}
		if r.Port == 0 || r.Addr != "127.0.0.1" {
			t.Errorf("%+v", r)
		}
		tasks[r.Task+" "+r.ClientEncoding]++
	}
	if tasks["pooler "] != 1 || tasks["client LATIN1"]+tasks["client latin1"] != 1 || tasks["client UTF8"] != 1 || len(fds) != 5 {
		t.Errorf("%v", tasks)
	}
	if _, err := slow.ReadUntil('Z', 1); err != nil {
		t.Fatal(err)
	}
}
