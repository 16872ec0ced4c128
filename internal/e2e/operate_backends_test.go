package e2e

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// sceneBackends: backends are closed for every reason.
func sceneBackends(t *testing.T, x *site, w *watch) {
	o := w.operate(t, x.Server, pooler.Options{
		Databases: []string{
			"name: idle, dbname: postgres, pool_idle_timeout_ms: 100", "name: old, dbname: postgres, pool_max_lifetime_ms: 100",
			"name: warm, dbname: postgres, pool_min_idle: 1, pool_idle_timeout_ms: 100, user: postgres",
			"name: first, dbname: postgres", "name: second, dbname: postgres, pool_max_size: 5",
		},
		Flags: []string{"--capacity.max-backends=6", "--reaper.server-check-delay-ms=100", "--server.loops=2"},
	})
	for _, name := range []string{"idle", "old", "warm", "first"} {
		o.wants(o.client(name, "postgres"), "SELECT 1", "")
	}
	o.lookUntil("pg_kinetic_pool_evictions_total{reason=idle_timeout}", "pg_kinetic_pool_evictions_total{reason=max_lifetime}", "SERVERS.kept", "POOLS.sv_used")
	var many []*pgwire.Conn
	for range 5 {
		c := o.client("second", "postgres")
		o.wants(c, "BEGIN", "")
		many = append(many, c)
	}
	o.lookUntil("pg_kinetic_pool_evictions_total{reason=host_limit}")
	o.command("RECONNECT second")
	o.look()
	for _, c := range many[1:] {
		o.wants(c, "COMMIT", "")
	}
	o.wants(many[0], "LOAD 'plpgsql'", "")
	many[0].Close()
	o.lookUntil("pg_kinetic_pool_evictions_total{reason=reload}", "pg_kinetic_pool_evictions_total{reason=dirty}")
	o.wants(many[1], "SELECT 1", "")
	for _, s := range o.listed("servers") {
		if s["database"] == "second" && s["remote_pid"] != 0.0 {
			x.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%.0f)", s["remote_pid"]))
		}
	}
	o.lookUntil("pg_kinetic_pool_evictions_total{reason=unhealthy}")
}

// gate is a way to PostgreSQL that can be shut for connections to come, or for PostgreSQL's answers.
type gate struct {
	address           string
	arrivals, answers valve
}

// valve lets pass while it is not shut.
type valve struct {
	mu   sync.Mutex
	held chan struct{} // nil: it is not
}

// shut holds what comes from now on, until the function that it gives is called.
func (v *valve) shut() (open func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	held := make(chan struct{})
	v.held = held
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.held = nil
		close(held)
	}
}

func (v *valve) pass() {
	v.mu.Lock()
	held := v.held
	v.mu.Unlock()
	if held != nil {
		<-held
	}
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	g := &gate{}
	g.address = newHost(t, func(c net.Conn) {
		defer c.Close()
		g.arrivals.pass()
		s, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer s.Close()
		go func() {
			defer s.Close()
			_, _ = io.Copy(s, c)
		}()
		b := make([]byte, 32<<10)
		for {
			n, err := s.Read(b)
			g.answers.pass()
			if _, lost := c.Write(b[:n]); err != nil || lost != nil {
				return
			}
		}
	})
	return g
}

// sceneCancels: cancels on their way, at each of its stages. With TLS a cancel waits for an answer before it is sent.
func sceneCancels(t *testing.T, x *site, w *watch) {
	for mode, seen := range map[string][]string{
		"disable": {"POOLS.cl_active_cancel_req", "POOLS.sv_active_cancel"}, "require": {"POOLS.cl_waiting_cancel_req"},
	} {
		g := newGate(t, x.Addr())
		o := w.operate(t, x.Server, pooler.Options{
			Env:   []string{fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name": "*", "hosts": [%q]}]`, g.address)},
			Flags: []string{"--tls.server-mode=" + mode},
		})
		c := o.client("postgres", "postgres")
		o.wants(c, "SELECT 1", "")
		open := g.arrivals.shut()
		o.send(c, pgwire.Query("SELECT pg_sleep(1)"))
		var ended sync.WaitGroup
		ended.Go(func() { _ = pgwire.Cancel("tcp", o.Addr(), c.PID, c.Key) })
		o.lookUntil(seen...)
		o.answered(c) // before its cancel has come to PostgreSQL
		o.lookUntil("POOLS.sv_being_canceled")
		open()
		ended.Wait()
		open = g.answers.shut()
		ended.Go(func() { // what search_path may be PostgreSQL must say
			pgwire.Login(t, "tcp", o.Addr(), "user", "postgres", "database", "postgres", "options", "-c search_path=other")
		})
		o.lookUntil("pg_kinetic_client_connections{state=login_link}")
		open()
		ended.Wait()
	}
}
