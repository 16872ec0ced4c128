package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

func quoted(servers ...*pgtest.Server) (all []string) {
	for _, s := range servers {
		all = append(all, fmt.Sprintf("%q", s.Addr()))
	}
	return all
}

// TestFailover: the primary dies under load and its standby is promoted. What was in flight fails, and what comes while no
// primary is there; nothing is written anywhere else, and then all goes on at the new primary, with no more backends than
// its limit.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	primary.Exec(t, "create table written (n int)")
	standby := primary.Standby(t)
	e, address := startHosts(t, ", target_session_attrs: read-write", quoted(standby, primary), "--server.loops=2",
		"--capacity.max-backends=5", "--capacity.pool-max-size=5", "--capacity.connect-timeout-ms=1000")
	var stop atomic.Bool
	var written, failed atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			c := login(t, address)
			for !stop.Load() {
				_, err := c.Exec("insert into written values (1)")
				if err == nil {
					written.Add(1)
					continue
				}
				var e *pgwire.Error
				if !errors.As(err, &e) || e.Code() != "08006" && !strings.HasPrefix(e.Code(), "57P0") {
					t.Errorf("a write failed with %v", err)
					return
				}
				failed.Add(1)
			}
		})
	}
	more := func(what string, n int64) {
		t.Helper()
		before := written.Load()
		until(t, what, func() bool { return written.Load() >= before+n || t.Failed() })
	}
	more("writes", 200)
	must(t, primary.Stop(pgtest.Immediate))
	until(t, "requests failed", func() bool { return failed.Load() > 10 })
	standby.Promote(t)
	more("writes at the new primary", 200)
	if n := standby.Value(t, "select count(*)::text from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"); n > "5" {
		t.Errorf("%s backends at the new primary, max_backends is 5", n)
	}
	stop.Store(true)
	all.Wait()
	rested(t, e)
}

// TestPromotionReported: backends of a standby that report its promotion are left by a pool that wants a standby.
func TestPromotionReported(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	standby, other := primary.Standby(t), primary.Standby(t)
	e, address := startHosts(t, ", target_session_attrs: standby", quoted(primary, standby, other))
	idle, busy := login(t, address), login(t, address)
	port := func(c *pgwire.Conn) string { return one(t, c, "select inet_server_port()::text") }
	exec(t, busy, "begin")
	if got := port(busy); got != fmt.Sprint(standby.Port) {
		t.Fatalf("served by port %s, want %d", got, standby.Port)
	}
	usable(t, idle)
	standby.Promote(t)
	usable(t, idle) // PostgreSQL reports it with an answer
	until(t, "the backend closed", func() bool { return e.Totals().Evictions["reload"] > 0 })
	if got := port(idle); got != fmt.Sprint(other.Port) {
		t.Errorf("served by port %s after the promotion, want %d", got, other.Port)
	}
	usable(t, busy)
	exec(t, busy, "commit")
	closedAll(t, e, "")
	if got := port(busy); got != fmt.Sprint(other.Port) {
		t.Errorf("served by port %s behind the transaction, want %d", got, other.Port)
	}
}

// readOnlyError answers every query as a standby answers a write.
func readOnlyError() pgmock.Step {
	return func(c *pgmock.Conn) error {
		for {
			m, err := c.Read()
			if err != nil {
				return err
			}
			if m.Type == 'Q' {
				err = pgmock.Send(pgmock.Error("ERROR", "25006", "cannot execute INSERT in a read-only transaction"), pgmock.Ready('I'))(c)
			}
			if err != nil || m.Type == 'X' {
				return err
			}
		}
	}
}

// TestDemotedServer: a server that does not report its role refuses a write: it is not used again, and the pool goes where
// it can write.
func TestDemotedServer(t *testing.T) {
	t.Parallel()
	was, is := old(t, "was", "f", "off"), old(t, "is", "f", "off")
	_, address := startHosts(t, ", target_session_attrs: read-write", addrs(was, is))
	c := login(t, address)
	usable2(t, c, "was")
	was.Down()
	answersAs(t, c, "is")

	// And now by the answer to a write alone.
	recovery := func(c *pgmock.Conn) error {
		if _, err := c.Read(); err != nil {
			return err
		}
		return pgmock.Send(pgmock.Row("on"), pgmock.Complete("SHOW"), pgmock.Ready('I'))(c)
	}
	first := pgmock.Start(t, asRole(""), func(c *pgmock.Conn) error {
		if _, err := c.Read(); err != nil {
			return err
		}
		return pgmock.Send(pgmock.Row("off"), pgmock.Complete("SHOW"), pgmock.Ready('I'))(c)
	}, readOnlyError())
	second := old(t, "second", "f", "off")
	e, address := startHosts(t, ", target_session_attrs: read-write", addrs(first, second))
	c = login(t, address)
	first.Script(asRole(""), recovery)
	_, err := c.Exec("insert into t values (1)")
	refused(t, err, "ERROR", "25006")
	usable2(t, c, "second")
	if n := e.Totals().Evictions; n["unhealthy"]+n["reload"] == 0 { // the latter, if the pool has moved before it was released
		t.Error("the server that could not write is not told of")
	}
}

// TestClientsOwnReadOnly: a client that makes its own transactions read-only moves nobody.
func TestClientsOwnReadOnly(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startHosts(t, ", target_session_attrs: read-write", quoted(pg))
	c := login(t, address)
	pid := one(t, c, askPID)
	for range 3 {
		exec(t, c, "begin read only")
		_, err := c.Exec("create table never (n int)")
		refused(t, err, "ERROR", "25006")
		exec(t, c, "rollback")
	}
	exec(t, c, "set default_transaction_read_only = on")
	if got := one(t, c, askPID); got != pid || e.Totals().BackendsClosed != 0 {
		t.Errorf("backend %s, then %s", pid, got)
	}
}
