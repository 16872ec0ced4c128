package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/view"
)

// Refusals have one line for each route and period with what is new, the worst first and a bounded number of them.
func TestRefusalsAreTold(t *testing.T) {
	var log bytes.Buffer
	var rows []view.Backpressure
	r := &reporter{
		log:  slog.New(slog.NewTextHandler(&log, nil)),
		rows: func() []view.Backpressure { return append([]view.Backpressure(nil), rows...) },
	}
	told := func(want ...string) {
		t.Helper()
		log.Reset()
		r.refusals()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if log.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log.String())
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) || !strings.Contains(lines[i], "level=WARN") {
				t.Errorf("line %d: %s, want %s", i, lines[i], want[i])
			}
		}
	}
	told()
	rows = []view.Backpressure{{Route: "a", Queued: 5, Admitted: 9, Canceled: 2}, {Route: "b", Rejected: 7, InFlight: 8, MaxInFlight: 9, Waiting: 3, MaxWaiters: 4}}
	told("route=b rejected=7 timed_out=0 shed=0 in_flight=8 max_in_flight=9 waiting=3 max_waiters=4")
	told()
	rows[0].Shed, rows[0].TimedOut, rows[1].Rejected = 2, 1, 9
	told("route=a rejected=0 timed_out=1 shed=2", "route=b rejected=2")
	rows[1].Rejected = 1 // another route of that name
	told("route=b rejected=1")
	rows = nil
	for i := range refusalLines + 3 {
		rows = append(rows, view.Backpressure{Route: fmt.Sprint("r", i), Rejected: uint64(100 - i)})
	}
	log.Reset()
	r.refusals()
	if n := strings.Count(log.String(), "\n"); n != refusalLines+1 {
		t.Errorf("%d lines", n)
	}
	if want := fmt.Sprintf("further_routes=3 rejected=%d", 100-20+100-21+100-22); !strings.Contains(log.String(), want) {
		t.Errorf("no %s in\n%s", want, log.String())
	}
}

// The summary tells what was done since the last one, per second.
func TestSummary(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	totals := Totals{Clients: 3, Servers: 2, Waiting: 1, Queries: 1100, Transactions: 550, BytesFromClients: 90, BytesFromServers: 300, ClientLogins: 8, ServerLogins: 4}
	r := &reporter{
		log: slog.New(slog.NewTextHandler(&log, nil)), totals: func() Totals { return totals },
		traffic: func() []view.Stats {
			return []view.Stats{
				{Total: view.Traffic{XactCount: 10, XactTimeUs: 200, QueryCount: 20, QueryTimeUs: 100, ServerAssignmentCount: 4, WaitTimeUs: 40}},
				{Total: view.Traffic{XactCount: 10, XactTimeUs: 400, QueryCount: 20, QueryTimeUs: 100, ServerAssignmentCount: 5, WaitTimeUs: 60}},
			}
		},
		carried: view.Traffic{XactCount: 10, XactTimeUs: 100, QueryCount: 20, QueryTimeUs: 100, ServerAssignmentCount: 4, WaitTimeUs: 50},
		before:  Totals{Queries: 100, Transactions: 50, BytesFromClients: 80, ClientLogins: 3, ServerLogins: 3}, at: now,
	}
	r.summary(now.Add(10 * time.Second))
	want := "msg=stats seconds=10 clients=3 servers=2 waiting=1 transactions_per_s=50 queries_per_s=100 received_per_s=1 sent_per_s=30 transaction_us=50 query_us=5 wait_us=10 logins=5 server_logins=1"
	if !strings.Contains(log.String(), want) {
		t.Errorf("%s", log.String())
	}
	log.Reset()
	r.summary(now.Add(20 * time.Second))
	if !strings.Contains(log.String(), "queries_per_s=0 ") {
		t.Errorf("%s", log.String())
	}
}
