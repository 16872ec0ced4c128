package console

import (
	"slices"
	"strings"
	"testing"
)

// TestPromisedColumns: views of ours on which scripts rest begin with these columns.
func TestPromisedColumns(t *testing.T) {
	for name, columns := range map[string]string{
		"BACKPRESSURE": "route in_flight max_in_flight waiting max_waiters admitted queued rejected timed_out canceled disconnected shed drained " +
			"wait_p50_ms wait_p99_ms oldest_wait_ms",
		"LIMITS":      "name value current peak origin",
		"PERFORMANCE": "metric value unit",
	} {
		want := strings.Fields(columns)
		if got := namesOf(viewNamed(t, name)); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("SHOW %s has %v, not %v", name, got, want)
		}
	}
	for _, name := range []string{"ROUTES", "PINNING", "PREPARED", "RECOVERY", "ERRORS"} {
		viewNamed(t, name)
	}
}
