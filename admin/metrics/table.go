package metrics

import (
	"strconv"

	"pgkinetic/admin/view"
)

// Table is every metric of ours, in the order in which they are written.
var Table = []Metric{
	// Admission.
	{"pg_kinetic_backpressure_events_total", Counter, []string{"route", "outcome"}, "Requests that did not get a backend at once, by what became of them: queued, rejected, timed_out, canceled, disconnected, shed, drained.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			for _, e := range m.Routes[i].Events {
				w.count(e.N, m.Routes[i].Route, e.Label)
			}
		}
	}},
	{"pg_kinetic_route_checkout_wait_ms", Histogram, []string{"route", "cause"}, "How long requests waited for a permit and a backend, by what for: route, pool, host, connect, pause.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			for j := range m.Routes[i].Waits {
				w.histogram(&m.Routes[i].Waits[j].Histogram, m.Routes[i].Route, m.Routes[i].Waits[j].Cause)
			}
		}
	}},
	{"pg_kinetic_route_in_flight", Gauge, []string{"route"}, "Requests that hold a permit of the route.", byRoute(func(r *view.RouteMetrics) int { return r.InFlight })},
	{"pg_kinetic_route_waiting", Gauge, []string{"route"}, "Requests that wait for a permit of the route.", byRoute(func(r *view.RouteMetrics) int { return r.Waiting })},
	{"pg_kinetic_route_limit", Gauge, []string{"route", "kind"}, "The sum of the limits of the routes under the label: in_flight, waiters.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			w.gauge(float64(m.Routes[i].LimitInFlight), m.Routes[i].Route, "in_flight")
			w.gauge(float64(m.Routes[i].LimitWaiters), m.Routes[i].Route, "waiters")
		}
	}},
	{"pg_kinetic_route_saturation", Gauge, []string{"route", "kind"}, "How much of its limit the fullest of the routes under the label uses, between 0 and 1: in_flight, waiters.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			w.gauge(m.Routes[i].SaturationInFlight, m.Routes[i].Route, "in_flight")
			w.gauge(m.Routes[i].SaturationWaiters, m.Routes[i].Route, "waiters")
		}
	}},
	{"pg_kinetic_query_duration_ms", Histogram, []string{"route"}, "Time of query cycles from their first forwarded byte to ReadyForQuery; waiting does not count.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			w.histogram(&m.Routes[i].QueryMs, m.Routes[i].Route)
		}
	}},
	{"pg_kinetic_transaction_duration_ms", Histogram, []string{"route"}, "Time of transactions from their first query to the ReadyForQuery that ends them, in session mode too.", func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			w.histogram(&m.Routes[i].TransactionMs, m.Routes[i].Route)
		}
	}},
	{"pg_kinetic_timeout_total", Counter, []string{"kind"}, "Time-outs that fired: checkout, query, transaction, idle_client, idle_transaction, idle_pin, client_write, client_stall, pause, login, connect, recovery.", by(func(m *view.Metrics) []view.Count { return m.Timeouts })},
	{"pg_kinetic_buffer_limit_total", Counter, []string{"kind"}, "Limits of buffered bytes that were met: client, backend, process.", by(func(m *view.Metrics) []view.Count { return m.BufferLimits })},
	{"pg_kinetic_buffer_bytes", Gauge, nil, "Bytes held in buffers of connections.", func(w *writer, m *view.Metrics) { w.gauge(float64(m.BufferBytes)) }},
	{"pg_kinetic_limit", Gauge, []string{"name", "of"}, "Limits of the process (of is empty) and of PostgreSQL hosts: max_clients, max_backends and the others that SHOW LIMITS has; 0 is none.", func(w *writer, m *view.Metrics) {
		for i := range m.Limits {
			w.gauge(float64(m.Limits[i].Value), m.Limits[i].Name, m.Limits[i].Of)
		}
	}},
	{"pg_kinetic_limit_used", Gauge, []string{"name", "of"}, "How much of pg_kinetic_limit is in use.", func(w *writer, m *view.Metrics) {
		for i := range m.Limits {
			w.gauge(float64(m.Limits[i].Current), m.Limits[i].Name, m.Limits[i].Of)
		}
	}},

	// Backends.
	{"pg_kinetic_pool_connections", Gauge, []string{"database", "user", "state"}, "Backends of pools: active, idle, connecting, recovering.", func(w *writer, m *view.Metrics) {
		for i := range m.Pools {
			p := &m.Pools[i]
			w.gauge(float64(p.Active), p.Database, p.User, "active")
			w.gauge(float64(p.Idle), p.Database, p.User, "idle")
			w.gauge(float64(p.Connecting), p.Database, p.User, "connecting")
			w.gauge(float64(p.Recovering), p.Database, p.User, "recovering")
		}
	}},
	{"pg_kinetic_pool_limit", Gauge, []string{"database", "user"}, "Backends that pools may have (pool_max_size).", byPool(func(p *view.PoolMetrics) float64 { return float64(p.MaxSize) })},
	{"pg_kinetic_pool_waiting", Gauge, []string{"database", "user"}, "Requests and logins that wait for a backend of the pool.", byPool(func(p *view.PoolMetrics) float64 { return float64(p.Waiting) })},
	{"pg_kinetic_pool_oldest_checkout_ms", Gauge, []string{"database", "user"}, "How long a backend of the pool has been with the same client, the longest of them.", byPool(func(p *view.PoolMetrics) float64 { return p.OldestCheckoutMs })},
	{"pg_kinetic_pool_evictions_total", Counter, []string{"reason"}, "Backends that were closed by us: idle_timeout, max_lifetime, host_limit, reload, unhealthy, dirty.", by(func(m *view.Metrics) []view.Count { return m.Evictions })},
	{"pg_kinetic_backend_host_up", Gauge, []string{"host"}, "1 while a PostgreSQL host answers, or has not been tried; 0 while it does not.", func(w *writer, m *view.Metrics) {
		for _, h := range m.Hosts {
			w.gauge(truth(!h.Down), h.Host)
		}
	}},
	{"pg_kinetic_backend_host_changes_total", Counter, nil, "Moves of a pool to another host of its database.", single(func(m *view.Metrics) uint64 { return m.HostChanges })},
	{"pg_kinetic_dns_lookups_total", Counter, []string{"outcome"}, "Look-ups of the names of PostgreSQL hosts: found, failed (the last addresses are used on).", by(func(m *view.Metrics) []view.Count { return m.Lookups })},
	{"pg_kinetic_backend_logins_total", Counter, nil, "Logins to PostgreSQL that succeeded.", single(func(m *view.Metrics) uint64 { return m.ServerLogins })},
	{"pg_kinetic_backend_connects_failed_total", Counter, nil, "Connects and logins to PostgreSQL that failed.", single(func(m *view.Metrics) uint64 { return m.ConnectsFailed })},
	{"pg_kinetic_backend_moves_total", Counter, nil, "Idle backends that moved to another event loop.", single(func(m *view.Metrics) uint64 { return m.Moves })},
	{"pg_kinetic_backend_pin_total", Counter, []string{"reason"}, "Clients that began to keep their backend outside a transaction: temp_table, advisory_lock, with_hold, sql_prepare, large_parse, unknown.", by(func(m *view.Metrics) []view.Count { return m.Pins })},
	{"pg_kinetic_backend_pinned", Gauge, []string{"reason"}, "Clients that keep a backend outside a transaction now; reasons as above.", by(func(m *view.Metrics) []view.Count { return m.Pinned })},
	{"pg_kinetic_backend_recovery_total", Counter, []string{"trigger", "outcome"}, "Backends that were brought back to a clean state, or could not be.", by2(func(m *view.Metrics) []view.Count2 { return m.Recoveries })},
	{"pg_kinetic_backend_sqlstate_total", Counter, []string{"sqlstate"}, "Errors of PostgreSQL; codes beyond the first 200 are summed as other.", by(func(m *view.Metrics) []view.Count { return m.SQLStates })},
	{"pg_kinetic_prepared_statements", Gauge, []string{"kind"}, "Prepared statements: client (names of clients), server (copies on backends), texts (each once).", by(func(m *view.Metrics) []view.Count { return m.Prepared })},
	{"pg_kinetic_prepared_events_total", Counter, []string{"event"}, "What was done for prepared statements: parsed, hit, answered, evicted, stale.", by(func(m *view.Metrics) []view.Count { return m.PreparedEvents })},

	// Clients.
	{"pg_kinetic_client_connections", Gauge, []string{"state"}, "Connections of clients by the state that they are in.", by(func(m *view.Metrics) []view.Count { return m.Clients })},
	{"pg_kinetic_client_connections_total", Counter, nil, "Connections of clients that were accepted.", single(func(m *view.Metrics) uint64 { return m.ClientsTotal })},
	{"pg_kinetic_client_logins_total", Counter, nil, "Logins of clients that succeeded.", single(func(m *view.Metrics) uint64 { return m.Logins })},
	{"pg_kinetic_client_closed_total", Counter, []string{"reason"}, "Connections of clients that ended, by the cause that the log names too.", by(func(m *view.Metrics) []view.Count { return m.Closed })},
	{"pg_kinetic_queries_total", Counter, []string{"database", "user"}, "Query cycles answered.", byTraffic(func(t *view.TrafficMetrics) uint64 { return t.Queries })},
	{"pg_kinetic_transactions_total", Counter, []string{"database", "user"}, "Transactions ended.", byTraffic(func(t *view.TrafficMetrics) uint64 { return t.Transactions })},
	{"pg_kinetic_user_events_total", Counter, []string{"database", "user", "event"}, "What clients of a database and user did: login, refused (a login that was not let in), cancel (a CancelRequest for one of them), abrupt (gone without Terminate).", func(w *writer, m *view.Metrics) {
		for i := range m.Traffic {
			t := &m.Traffic[i]
			w.count(t.Logins, t.Database, t.User, "login")
			w.count(t.Refused, t.Database, t.User, "refused")
			w.count(t.Cancels, t.Database, t.User, "cancel")
			w.count(t.Abrupt, t.Database, t.User, "abrupt")
		}
	}},
	{"pg_kinetic_bytes_total", Counter, []string{"direction"}, "Bytes read and written: client_in, client_out, server_in, server_out (in is towards us).", func(w *writer, m *view.Metrics) {
		w.count(m.BytesIn, "client_in")
		w.count(m.BytesOut, "client_out")
		w.count(m.ServerBytesIn, "server_in")
		w.count(m.ServerBytesOut, "server_out")
	}},
	{"pg_kinetic_tls_handshakes_total", Counter, []string{"scope", "outcome"}, "TLS handshakes with clients and with PostgreSQL (scope client, server): ok, denied (a certificate that we do not accept), failed (for any other reason).", by2(func(m *view.Metrics) []view.Count2 { return m.Handshakes })},
	{"pg_kinetic_auth_attempts_total", Counter, []string{"method", "outcome"}, "Logins of clients by method: ok, denied (no proof or a wrong one), failed (for any other reason).", by2(func(m *view.Metrics) []view.Count2 { return m.AuthAttempts })},
	{"pg_kinetic_cancel_requests_total", Counter, nil, "CancelRequests of clients.", single(func(m *view.Metrics) uint64 { return m.Cancels })},
	{"pg_kinetic_slow_queries_total", Counter, nil, "Query cycles that took longer than log.slow_query_ms.", single(func(m *view.Metrics) uint64 { return m.SlowQueries })},

	// The process.
	{"pg_kinetic_not_ready", Gauge, []string{"reason"}, "1 while clients are not served, and /readyz answers 503, for the reason: starting, draining, paused, suspended, no_backend.", func(w *writer, m *view.Metrics) {
		for _, reason := range view.NotReady {
			w.gauge(truth(m.Health.Reason == reason), reason)
		}
	}},
	{"pg_kinetic_accept_paused_total", Counter, nil, "Times that accepting stopped because descriptors had run out.", single(func(m *view.Metrics) uint64 { return m.AcceptPaused })},
	{"pg_kinetic_config_reload_total", Counter, []string{"outcome"}, "Times that settings were read again, by what came of it.", by(func(m *view.Metrics) []view.Count { return m.Reloads })},
	{"pg_kinetic_loop_busy_ratio", Gauge, []string{"loop"}, "The part of the last seconds that an event loop did not wait for events, between 0 and 1.", byLoop(func(l *view.LoopMetrics) float64 { return l.BusyRatio })},
	{"pg_kinetic_loop_clients", Gauge, []string{"loop"}, "Clients of an event loop.", byLoop(func(l *view.LoopMetrics) float64 { return float64(l.Clients) })},
	{"pg_kinetic_loop_backends", Gauge, []string{"loop"}, "Backends of an event loop.", byLoop(func(l *view.LoopMetrics) float64 { return float64(l.Servers) })},
	{"pg_kinetic_log_lines_dropped_total", Counter, nil, "Log lines that were dropped because their reader is too slow.", single(func(m *view.Metrics) uint64 { return m.LogLinesDropped })},
	{"pg_kinetic_build_info", Gauge, []string{"version"}, "1; the version is the label.", func(w *writer, _ *view.Metrics) { w.gauge(1, w.version) }},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func single(of func(*view.Metrics) uint64) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) { w.count(of(m)) }
}

func by(of func(*view.Metrics) []view.Count) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for _, c := range of(m) {
			w.count(c.N, c.Label)
		}
	}
}

func by2(of func(*view.Metrics) []view.Count2) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for _, c := range of(m) {
			w.count(c.N, c.Label, c.Second)
		}
	}
}

func byRoute(of func(*view.RouteMetrics) int) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for i := range m.Routes {
			w.gauge(float64(of(&m.Routes[i])), m.Routes[i].Route)
		}
	}
}

func byPool(of func(*view.PoolMetrics) float64) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for i := range m.Pools {
			w.gauge(of(&m.Pools[i]), m.Pools[i].Database, m.Pools[i].User)
		}
	}
}

func byTraffic(of func(*view.TrafficMetrics) uint64) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for i := range m.Traffic {
			w.count(of(&m.Traffic[i]), m.Traffic[i].Database, m.Traffic[i].User)
		}
	}
}

func byLoop(of func(*view.LoopMetrics) float64) func(*writer, *view.Metrics) {
	return func(w *writer, m *view.Metrics) {
		for i := range m.Loops {
			w.gauge(of(&m.Loops[i]), strconv.Itoa(m.Loops[i].Loop))
		}
	}
}
