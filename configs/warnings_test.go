package configs

import (
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		c, o := mustLoad(t, write(t, "w.yaml", text), nil, nil)
		expectProblems(t, Warnings(c, o, 0), want)
	}
	// a route above its pool
	f("capacity:\n  max_route_in_flight: 50\n", "w.yaml:2:24: max_route_in_flight 50 is above pool_max_size 20")
	f("capacity:\n  max_route_in_flight: 100\n  pool_max_size: 10\n", "w.yaml:2:24: max_route_in_flight 100 is above pool_max_size 10")
	f("capacity:\n  pool_max_size: 10\n")
	f("capacity:\n  max_route_in_flight: 100\n  pool_max_size: 20\n")
	f("capacity:\n  max_route_in_flight: 20\n")
	f("databases:\n- name: a\n  max_route_in_flight: 21\n", "w.yaml:3:24: max_route_in_flight 21 is above pool_max_size 20")
	f("databases:\n- name: a\n  pool_max_size: 5\ncapacity:\n  max_route_in_flight: 6\n", "w.yaml:5:24: max_route_in_flight 6 is above pool_max_size 5")
	f("users:\n- name: a\n  max_route_in_flight: 21\n", "w.yaml:3:24: max_route_in_flight 21 is above")
	// a wait that ends before its connect
	f("capacity:\n  checkout_timeout_ms: 2000\n", "w.yaml:2:24: checkout_timeout_ms 2000 is below connect_timeout_ms 3000")
	f("capacity:\n  connect_timeout_ms: 6000\n", "w.yaml:2:23: checkout_timeout_ms 5000 is below connect_timeout_ms 6000")
	f("databases:\n- name: a\n  checkout_timeout_ms: 100\n", "w.yaml:3:24: checkout_timeout_ms 100 is below")
	f("capacity:\n  checkout_timeout_ms: 3000\n")
	// session mode
	f("databases:\n- name: a\n  pool_mode: session\n  max_route_in_flight: 5\n", "w.yaml:4:24: max_route_in_flight 5 is below pool_max_size 20 in session mode")
	f("databases:\n- name: a\n  pool_mode: session\ncapacity:\n  max_route_in_flight: 5\n", "w.yaml:5:24: max_route_in_flight 5 is below pool_max_size 20 in session mode")
	f("server:\n  pool_mode: session\ncapacity:\n  max_route_in_flight: 5\n", "w.yaml:4:24: max_route_in_flight 5 is below pool_max_size 20 in session mode")
	f("databases:\n- name: a\n  pool_mode: session\n")
	f("capacity:\n  max_route_in_flight: 5\n")
	// limits above what bounds them
	f("capacity:\n  pool_max_size: 91\n", "w.yaml:2:18: pool_max_size 91 is above capacity.max_backends 90")
	f("capacity:\n  max_backends: 10\n")
	f("databases:\n- name: a\n  pool_max_size: 91\n", "w.yaml:3:18: pool_max_size 91 is above capacity.max_backends 90")
	f("databases:\n- name: a\n  max_clients: 10001\n", "w.yaml:3:16: max_clients 10001 is above server.max_clients 10000")
	f("capacity:\n  query_timeout_ms: 20\n  transaction_timeout_ms: 10\n", "w.yaml:2:21: query_timeout_ms 20 is above transaction_timeout_ms 10")
	f("capacity:\n  query_timeout_ms: 20\n")
	f("capacity:\n  max_route_waiters: 10001\n", "w.yaml:2:22: max_route_waiters 10001 is above max_checkout_waiters 10000")
	f("server:\n  max_buffer_memory: 1MiB\n", "w.yaml:2:22: max_client_buffer_bytes 1048576 + max_backend_buffer_bytes 1048576 are above")
	// backends that are kept
	f("capacity:\n  pool_min_idle: 21\n", "w.yaml:2:18: pool_min_idle 21 is above pool_max_size 20")
	f("capacity:\n  pool_min_idle: 20\n")
	f("databases:\n- name: a\n  pool_max_size: 3\ncapacity:\n  pool_min_idle: 4\n", "w.yaml:5:18: pool_min_idle 4 is above pool_max_size 3")
	f("capacity:\n  pool_min_idle: 11\n  max_backends: 10\n", "w.yaml:2:18: pool_min_idle 11 is above capacity.max_backends 10")
	// operators
	f("admin:\n  listen: 10.0.0.7:6433\n", `w.yaml:2:11: admin.listen "10.0.0.7:6433" can be reached from other machines`)
	f("admin:\n  listen: ':6433'\n", "w.yaml:2:11: admin.listen \":6433\" can be reached from other machines")
	f("admin:\n  listen: '[::1]:6433'\n")
	f("admin:\n  listen: ''\n  pprof: true\n", "w.yaml:3:10: admin.pprof has no effect")
	f("admin:\n  users: [a, b]\n  stats_users: [c, b]\n", `w.yaml:3:16: admin.stats_users names "b", who may do more`)
	f("reaper:\n  server_check_delay_ms: 5\n", "w.yaml:2:26: reaper.server_check_delay_ms has no effect")
	f("reaper:\n  server_check_delay_ms: 5\n  server_check_query: SELECT 1\n")
	f("databases:\n- name: a\n  target_session_attrs: prefer-standby\n", "w.yaml:3:25: databases[0].target_session_attrs has no effect: there is one host")
	f("databases:\n- name: a\n  hosts: [a, b]\n  target_session_attrs: prefer-standby\n")
	f("")
}

func TestDescriptorWarning(t *testing.T) {
	c, o := mustLoad(t, "", nil, []string{"--server.max-clients=1000"})
	if w := Warnings(c, o, 1024); len(w) != 1 || !strings.HasPrefix(w[0].String(), "--server.max-clients: 2218 file descriptors are needed, but the hard limit is 1024") {
		t.Errorf("set and too low: %v", w)
	}
	if w := Warnings(c, o, 2218); len(w) != 0 {
		t.Errorf("enough: %v", w)
	}
	c, o = mustLoad(t, "", nil, nil)
	if w := Warnings(c, o, 1024); len(w) != 0 {
		t.Errorf("a default is lowered and needs no warning: %v", w)
	}
}

func TestDescriptorsNeeded(t *testing.T) {
	f := func(want int, databases string) {
		t.Helper()
		c, _ := mustLoad(t, write(t, "d.yaml", databases), nil, []string{"--server.max-clients=100", "--server.max-unauthenticated=10", "--capacity.max-backends=5"})
		if got := DescriptorsNeeded(c); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	f(100+10+5+64+64, "")
	f(100+10+5+64+64, "databases: [{name: a}, {name: b, hosts: [\"127.0.0.1\"]}]")
	f(100+10+2*(5+64)+64, "databases: [{name: a}, {name: b, hosts: [\"127.0.0.2\"]}]")
}

func TestFitDescriptors(t *testing.T) {
	f := func(hard uint64, clients, unauthenticated int, flags ...string) {
		t.Helper()
		c, o := mustLoad(t, "", nil, flags)
		before := *c
		fitted, note, err := FitDescriptors(c, o, hard)
		if clients == 0 {
			if err == nil || !strings.Contains(err.Error(), "file descriptors are needed, but the hard limit is") {
				t.Errorf("%d: %v", hard, err)
			}
			return
		}
		if err != nil || fitted.Server.MaxClients != clients || fitted.Server.MaxUnauthenticated != unauthenticated {
			t.Fatalf("%d: %+v, %v", hard, fitted, err)
		}
		if lowered := fitted != c; lowered != (note != "") || lowered && uint64(DescriptorsNeeded(fitted)) != hard {
			t.Errorf("%d: need %d, note %q", hard, DescriptorsNeeded(fitted), note)
		}
		if c.Server.MaxClients != before.Server.MaxClients {
			t.Errorf("%d: the settings passed in were changed", hard)
		}
	}
	f(1<<40, 10000, 1000)
	f(11218, 10000, 1000)
	f(11217, 9999, 1000)
	f(4218, 3000, 1000)
	f(1024, 605, 201)
	f(256, 29, 9)
	f(220, 1, 1)
	f(219, 0, 0)
	f(0, 0, 0)
	f(11217, 0, 0, "--server.max-clients=10000")
	f(11218, 10000, 1000, "--server.max-clients=10000")
	f(1318, 100, 1000, "--server.max-unauthenticated=1000")
	f(1218, 0, 0, "--server.max-unauthenticated=1000")
}
