package e2e

import (
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// The waits in these tests are what is tested: a clock that must not run.

// TestID01OnlyIdleTimeCounts: the time of queries is no idle time of their transaction.
func TestID01OnlyIdleTimeCounts(t *testing.T) {
	onlyKinetic(t)
	p := pooler.Start(t, pgtest.Shared(t), pooler.Options{PoolSize: 1, Flags: []string{"--capacity.idle-transaction-timeout-ms=1000"}})
	c := login(t, p)
	for range 2 {
		ask(t, c, "BEGIN")
		for range 3 {
			ask(t, c, "SELECT pg_sleep(0.7)")
			if err := c.Send(pgwire.Parse("", "SELECT pg_sleep(1.2)"), invoke(""), pgwire.Sync()); err != nil {
				t.Fatal(err)
			}
			if all, err := c.ReadUntil('Z', 1); err != nil || errorCode(all) != "" {
				t.Fatalf("%v after\n%s", err, pgwire.Transcript(all))
			}
		}
		ask(t, c, "COMMIT")
	}
	ask(t, c, "BEGIN")
	if got := ends(t, c); got != "FATAL 25P03" {
		t.Errorf("an idle transaction ends with %s", got)
	}
}

// TestID02IdleTimeIsNoQueryTime: a query in a block has its own clock.
func TestID02IdleTimeIsNoQueryTime(t *testing.T) {
	onlyKinetic(t)
	p := pooler.Start(t, pgtest.Shared(t), pooler.Options{PoolSize: 1, Flags: []string{"--capacity.query-timeout-ms=500"}})
	c := login(t, p)
	ask(t, c, "BEGIN")
	time.Sleep(800 * time.Millisecond)
	if got := ask(t, c, "SELECT 'in time'"); got != "in time" {
		t.Errorf("got %q", got)
	}
	if _, err := c.Exec("SELECT pg_sleep(30)"); code(err) != "57014" {
		t.Errorf("a query that is too long: %v", err)
	}
	ask(t, c, "ROLLBACK")
}

// TestID03IdleClientInSessionMode is closed although it has run a query, and its backend serves the next one, clean.
func TestID03IdleClientInSessionMode(t *testing.T) {
	onlyKinetic(t)
	s := staging{size: 1, flags: []string{"--capacity.idle-client-timeout-ms=500"}}.raise(t, pgtest.Shared(t), "session", 1)
	for range 2 {
		c := login(t, s.p)
		ask(t, c, "SET work_mem = '7MB'; SELECT pg_advisory_lock(3)")
		if got := ends(t, c); got != "FATAL 57P05" {
			t.Errorf("an idle client ends with %s", got)
		}
		s.probeOne("an idle client of session mode")
	}
}

// TestID04IdleTransactionIsRolledBack on the server, whose backend is used again.
func TestID04IdleTransactionIsRolledBack(t *testing.T) {
	onlyKinetic(t)
	pg := pgtest.Shared(t)
	pg.Exec(t, "DROP TABLE IF EXISTS id04; CREATE TABLE id04(a int)")
	s := staging{size: 1, flags: []string{"--capacity.idle-transaction-timeout-ms=300"}}.raise(t, pg, "transaction", 1)
	first := login(t, s.p)
	pid := ask(t, first, "SELECT pg_backend_pid()")
	first.Close()
	for _, block := range []string{"BEGIN; INSERT INTO id04 VALUES (1)", "BEGIN; SET work_mem = '7MB'; SELECT pg_advisory_lock(4); CREATE TEMP TABLE id04_t(a int)"} {
		c := login(t, s.p)
		ask(t, c, block)
		if got := ends(t, c); got != "FATAL 25P03" {
			t.Errorf("an idle transaction ends with %s", got)
		}
		s.probeOne(block)
	}
	last := login(t, s.p)
	if got := ask(t, last, "SELECT pg_backend_pid()"); got != pid {
		t.Error("the backend was not used again")
	}
	if got := ask(t, last, "SELECT count(*) FROM id04"); got != "0" {
		t.Errorf("%s rows of a transaction that was ended are there", got)
	}
	last.Close()
	s.probe()
}

// TestID06NoLoginsWithoutLoad: a pool that has nothing to do does not open and close backends.
func TestID06NoLoginsWithoutLoad(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 4, Flags: []string{"--capacity.pool-idle-timeout-ms=300"}})
	c := login(t, p)
	ask(t, c, "SELECT 1")
	until(t, 10*time.Second, "the idle backend is closed", func() bool { return s.Backends(t) == 0 })
	before := s.Logins()
	time.Sleep(time.Second)
	if n := s.Logins() - before; n != 0 {
		t.Errorf("%d logins without a request", n)
	}
	ask(t, c, "SELECT 1")
}

// TestID07ZeroIsOff for each deadline that can be switched off.
func TestID07ZeroIsOff(t *testing.T) {
	onlyKinetic(t)
	p := pooler.Start(t, pgtest.Shared(t), pooler.Options{PoolSize: 2, Flags: []string{
		"--capacity.query-timeout-ms=0", "--capacity.transaction-timeout-ms=0", "--capacity.idle-client-timeout-ms=0", "--capacity.idle-pin-timeout-ms=0",
		"--capacity.pool-idle-timeout-ms=0", "--capacity.pool-max-lifetime-ms=0",
	}})
	c := login(t, p)
	pid := ask(t, c, "SELECT pg_backend_pid()")
	ask(t, c, "BEGIN; SELECT pg_advisory_lock(7)")
	ask(t, c, "SELECT pg_sleep(0.5)")
	ask(t, c, "COMMIT")
	time.Sleep(300 * time.Millisecond)
	ask(t, c, "SELECT pg_advisory_unlock_all()")
	if got := ask(t, c, "SELECT pg_backend_pid()"); got != pid {
		t.Error("the backend was closed")
	}
}
