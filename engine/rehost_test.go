package engine_test

import (
	"fmt"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

// rehosted is an engine with one database at some hosts, and how to give it others.
func rehosted(t testing.TB, settings string, servers ...*pgmock.Server) (e *engine.Engine, address string, change func(more string, servers ...*pgmock.Server)) {
	t.Helper()
	text := func(more string, servers []*pgmock.Server) string {
		list := ""
		for _, a := range addrs(servers...) {
			list += a + ", "
		}
		return fmt.Sprintf("databases: [{name: \"*\", hosts: [%s]%s}]\n%s", list, more, settings)
	}
	e, address = startYAML(t, text("", servers))
	return e, address, func(more string, servers ...*pgmock.Server) {
		t.Helper()
		if notices := reload(t, e, text(more, servers)); len(notices) != 0 {
			t.Errorf("notices %v", notices)
		}
	}
}

// TestReloadHosts: a reload that takes the present host away moves the pool, behind transactions; one that leaves it moves
// nothing and keeps all backends; RECONNECT chooses anew.
func TestReloadHosts(t *testing.T) {
	t.Parallel()
	a, b, c := named(t, "a", "off"), named(t, "b", "off"), named(t, "c", "on")
	e, address, change := rehosted(t, "", a)
	idle, busy := login(t, address), login(t, address)
	exec(t, busy, "begin")
	usable2(t, idle, "a")
	opened := a.Opened()

	change("", b, a) // the present one is still there
	change(", pool_max_size: 7", b, a)
	usable2(t, idle, "a")
	if n := e.Totals().BackendsClosed; n != 0 || a.Opened() != opened || b.Opened() != 0 {
		t.Errorf("%d backends closed by a reload that leaves the host", n)
	}
	must(t, e.Reconnect(""))
	closedIdle := func(name string) {
		t.Helper()
		until(t, "served by "+name, func() bool { return one(t, idle, "select") == name })
	}
	closedIdle("b")
	usable2(t, busy, "a")
	exec(t, busy, "commit")
	closedAll(t, e, "")
	usable2(t, busy, "b")

	exec(t, busy, "begin")
	change("", c, a)
	closedIdle("c")
	usable2(t, busy, "b")
	exec(t, busy, "commit")
	usable2(t, busy, "c")
	closedAll(t, e, "")

	change(", target_session_attrs: primary", c, a)
	closedIdle("a")
	usable2(t, busy, "a")
}

// TestReloadOpening: what a backend is opened with holds after a reload, and nothing else opens it anew.
func TestReloadOpening(t *testing.T) {
	t.Parallel()
	hello := func(c *pgmock.Conn) error {
		if _, err := c.Read(); err != nil {
			return err
		}
		return pgmock.Send(pgmock.Complete("SELECT 1"), pgmock.Ready('I'))(c)
	}
	a := pgmock.Start(t, pgmock.Login(), pgmock.Serve("first"))
	e, address, change := rehosted(t, "", a)
	c := login(t, address)
	usable2(t, c, "first")
	a.Script(pgmock.Login(), hello, pgmock.Serve("second"))
	change(", connect_query: select 1", a)
	usable2(t, c, "second")
	a.Script(func(c *pgmock.Conn) error {
		if err := pgmock.Login()(c); err != nil {
			return err
		}
		if c.Params["search_path"] != "tenant" {
			t.Errorf("parameters %v", c.Params)
		}
		return pgmock.Serve("third")(c)
	})
	change(", startup_parameters: {search_path: tenant}", a)
	usable2(t, c, "third")
	closedAll(t, e, "")
	before := a.Opened()
	change(", startup_parameters: {search_path: tenant}, max_clients: 9", a)
	usable2(t, c, "third")
	if a.Opened() != before {
		t.Error("a change of another setting opens backends anew")
	}
}

// TestReloadUnderLoad: hosts are changed while clients work; none of them notices.
func TestReloadHostsUnderLoad(t *testing.T) {
	t.Parallel()
	a, b := named(t, "a", "off"), named(t, "b", "off")
	e, address, change := rehosted(t, "capacity: {pool_max_size: 3}\n", a)
	stop := make(chan struct{})
	ended := make(chan error)
	const clients = 6
	for range clients {
		go func() {
			c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
			for {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				if _, err := c.Exec("select"); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for i := range 20 {
		before := e.Totals().Queries
		until(t, "queries", func() bool { return e.Totals().Queries > before+50 })
		if i%2 == 0 {
			change("", b)
		} else {
			change("", a)
		}
	}
	close(stop)
	for range clients {
		must(t, <-ended)
	}
	closedAll(t, e, "")
	rested(t, e)
	until(t, "the host that no entry names is forgotten", func() bool {
		n := 0
		for _, h := range e.Metrics().Hosts {
			if h.Host == a.Addr() || h.Host == b.Addr() {
				n++
			}
		}
		return n == 1
	})
}
