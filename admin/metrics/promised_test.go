package metrics

import (
	"slices"
	"strings"
	"testing"
)

// promised are metrics on which dashboards and alerts rest: neither their names nor their labels may change.
const promised = `
pg_kinetic_backpressure_events_total route outcome
pg_kinetic_route_checkout_wait_ms route cause
pg_kinetic_route_in_flight route
pg_kinetic_route_waiting route
pg_kinetic_route_limit route kind
pg_kinetic_route_saturation route kind
pg_kinetic_timeout_total kind
pg_kinetic_buffer_limit_total kind
pg_kinetic_pool_connections database user state
pg_kinetic_pool_evictions_total reason
pg_kinetic_client_connections state
pg_kinetic_client_connections_total
pg_kinetic_queries_total database user
pg_kinetic_transactions_total database user
pg_kinetic_query_duration_ms route
pg_kinetic_transaction_duration_ms route
pg_kinetic_backend_pin_total reason
pg_kinetic_backend_pinned reason
pg_kinetic_backend_recovery_total trigger outcome
pg_kinetic_backend_sqlstate_total sqlstate
pg_kinetic_prepared_statements kind
pg_kinetic_prepared_events_total event
pg_kinetic_bytes_total direction
pg_kinetic_tls_handshakes_total scope outcome
pg_kinetic_auth_attempts_total method outcome
pg_kinetic_accept_paused_total
pg_kinetic_backend_moves_total
pg_kinetic_config_reload_total outcome
pg_kinetic_buffer_bytes
pg_kinetic_loop_busy_ratio loop
pg_kinetic_build_info version
`

func TestPromisedMetrics(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(promised)) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := slices.IndexFunc(Table, func(m Metric) bool { return m.Name == name })
		if i < 0 || !slices.Equal(Table[i].Labels, strings.Fields(labels)) {
			t.Errorf("no %s with the labels %q", name, labels)
		}
	}
}
