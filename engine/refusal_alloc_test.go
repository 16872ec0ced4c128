//go:build !race

package engine_test

import (
	"slices"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestAllocRefusals: a refusal, with all that it tells, costs no malloc, whichever queue is full and in either protocol.
func TestAllocRefusals(t *testing.T) {
	for name, limits := range map[string][]string{
		"route": {"--capacity.max-route-waiters=0"}, "process": {"--capacity.max-checkout-waiters=0"},
	} {
		for protocol, message := range map[string][]byte{
			"simple":   pgwire.Query("select 1"),
			"extended": slices.Concat(pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()),
		} {
			t.Run(name+"_"+protocol, func(t *testing.T) {
				e, address := start(t, pgtest.Shared(t), append(limits, "--capacity.max-route-in-flight=1", "--admission.route-key=database,user",
					"--capacity.idle-transaction-timeout-ms=0", "--log.connections=false")...)
				holder(t, address)
				c := login(t, address)
				_ = c.Net.SetDeadline(time.Time{}) // the test binary has one
				checkMallocs(t, c.Net, message)
				if n := e.Tally(plain); n.Rejected < 10000 || n.Admitted > 2 {
					t.Errorf("nothing was refused: %+v", n)
				}
			})
		}
	}
}
