package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// stats is the row of a database.
func stats(t testing.TB, e *engine.Engine, database string) view.Stats {
	t.Helper()
	for _, r := range e.Stats() {
		if r.Database == database {
			return r
		}
	}
	t.Fatalf("no row %q in %+v", database, e.Stats())
	return view.Stats{}
}

// TestStats: what a known dialogue counts, by the database that its client has asked for.
func TestStats(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t, "--server.loops=2")
	c, other := loginTo(t, address, "a"), loginTo(t, address, "b")
	before := stats(t, e, "a").Total
	exec(t, c, "begin")
	exec(t, c, "select pg_sleep(0.02)")
	exec(t, c, "commit")
	exec(t, c, "select repeat('x', 10000)")
	send(t, c, pgwire.Parse("s", "select 1"), pgwire.Bind("", "s"), pgwire.Execute("", 0), pgwire.Sync())
	types(t, c, 1)
	send(t, c, pgwire.Bind("", "s"), pgwire.Execute("", 0), pgwire.Sync())
	types(t, c, 1)
	exec(t, other, "select 1")
	n := stats(t, e, "a").Total
	if q, x, a := n.QueryCount-before.QueryCount, n.XactCount-before.XactCount, n.ServerAssignmentCount-before.ServerAssignmentCount; q != 6 || x != 4 || a != 4 {
		t.Errorf("%d queries, %d transactions, %d assignments", q, x, a)
	}
	if n.ClientParseCount != 1 || n.ServerParseCount == 0 || n.ServerParseCount > 2 || n.BindCount != 2 {
		t.Errorf("%d parses of the client, %d of servers, %d binds", n.ClientParseCount, n.ServerParseCount, n.BindCount)
	}
	if got := n.Sent - before.Sent; got < 10000 || got > 12000 {
		t.Errorf("%d bytes to the client", got)
	}
	if got := n.Received - before.Received; got < 150 || got > 1000 {
		t.Errorf("%d bytes from the client", got)
	}
	if n.QueryTimeUs-before.QueryTimeUs < 20_000 || n.XactTimeUs-before.XactTimeUs < n.QueryTimeUs-before.QueryTimeUs {
		t.Errorf("%d us of queries, %d of transactions", n.QueryTimeUs, n.XactTimeUs)
	}
	if b := stats(t, e, "b").Total; b.QueryCount != 1 || b.Received == 0 {
		t.Errorf("the other database: %+v", b)
	}
}

// TestTimesArePerTransaction: in session mode too a transaction ends with its ReadyForQuery, and neither waiting nor thinking
// counts.
func TestTimesArePerTransaction(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: a, hosts: [%q], dbname: postgres, pool_mode: session, pool_max_size: 1}]\n",
		pgtest.Shared(t).Addr()), "--admission.route-key=database,user", "--capacity.checkout-timeout-ms=60000")
	c, waiter := loginTo(t, address, "a"), loginTo(t, address, "a")
	begin := time.Now()
	exec(t, c, "select 1")
	queue(t, e, waiter, "select 2")
	for range 10 {
		time.Sleep(30 * time.Millisecond) // what is measured: the client thinks
		exec(t, c, "select 1")
	}
	must(t, c.Net.Close())
	answered(t, waiter, "TDCZI")
	whole := time.Since(begin)
	n := stats(t, e, "a").Total
	if n.XactCount != 12 || n.XactTimeUs > uint64(whole.Microseconds())/3 || n.QueryTimeUs > n.XactTimeUs {
		t.Errorf("%d transactions took %d us of %v", n.XactCount, n.XactTimeUs, whole)
	}
	if n.WaitTimeUs < 100_000 {
		t.Errorf("a wait of 100 ms counts %d us", n.WaitTimeUs)
	}
}
