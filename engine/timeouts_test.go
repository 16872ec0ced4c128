package engine_test

import (
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// reused checks that the backend that c had serves somebody else: the same process, no further login.
func reused(t testing.TB, address, pid string) {
	t.Helper()
	c := login(t, address)
	if got := one(t, c, "select pg_backend_pid()"); got != pid {
		t.Errorf("served by backend %s, want %s again", got, pid)
	}
	if got := one(t, c, "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'"); got != "0" {
		t.Errorf("%s advisory locks are left", got)
	}
}

func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.query-timeout-ms=150", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	_, err := c.Exec("select pg_sleep(60)")
	refused(t, err, "ERROR", "57014")
	usable(t, c)
	// The time inside a block during which no query runs does not count.
	exec(t, c, "begin")
	time.Sleep(300 * time.Millisecond) // what is tested: nothing is waited for
	exec(t, c, "select 1")
	_, err = c.Exec("select pg_sleep(60)")
	refused(t, err, "ERROR", "57014")
	if _, err = c.Exec("rollback"); err != nil {
		t.Error(err)
	}
	reused(t, address, pid)
}

// TestQueryTimeoutWithoutEffect: PostgreSQL does not obey the cancel: the session ends after recovery_timeout_ms.
func TestQueryTimeoutWithoutEffect(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Hang())
	_, address := startAt(t, mock.Addr(), "--capacity.query-timeout-ms=100", "--capacity.recovery-timeout-ms=200")
	c := login(t, address)
	begin := time.Now()
	send(t, c, pgwire.Query("select"))
	<-mock.Cancelled()
	if f := ended(t, c, "57014"); !strings.Contains(f.Fields['M'], "query_timeout_ms") {
		t.Errorf("message %q", f.Fields['M'])
	}
	if took := time.Since(begin); took < 290*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
}

// TestIdleTransactionTimeout: the clock runs only between ReadyForQuery(T) and the next message.
func TestIdleTransactionTimeout(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.idle-transaction-timeout-ms=200", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	exec(t, c, "begin; select pg_advisory_xact_lock(11)")
	for range 2 {
		exec(t, c, "select pg_sleep(0.35)")
	}
	ended(t, c, "25P03")
	reused(t, address, pid)
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL", n)
	}
}

// TestIdleInFailedTransaction: a failed block is a block.
func TestIdleInFailedTransaction(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.idle-transaction-timeout-ms=100", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	_, _ = c.Exec("begin; select 1/0")
	ended(t, c, "25P03")
	reused(t, address, pid)
}

// TestIdleAfterFlush: after an answered Flush the clock is that of an idle transaction.
func TestIdleAfterFlush(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.idle-transaction-timeout-ms=150", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	send(t, c, pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush())
	ended(t, c, "25P03")
	reused(t, address, pid)
}

func TestTransactionTimeout(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.transaction-timeout-ms=250", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	exec(t, c, "begin")
	send(t, c, pgwire.Query("select pg_sleep(60)"))
	ended(t, c, "25P04")
	reused(t, address, pid)
	// Idle in the block.
	c = login(t, address)
	exec(t, c, "begin")
	ended(t, c, "25P04")
	reused(t, address, pid)
	// Many short ones: the clock starts anew with each.
	c = login(t, address)
	for range 4 {
		exec(t, c, "begin")
		exec(t, c, "select pg_sleep(0.1)")
		exec(t, c, "commit")
	}
}

func TestIdleClientTimeout(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.idle-client-timeout-ms=150", "--capacity.pool-max-size=1")
	c := login(t, address)
	exec(t, c, "select pg_sleep(0.3)") // busy is not idle
	ended(t, c, "57P05")
	ended(t, login(t, address), "57P05") // it never sent anything
	for _, database := range []string{"session", "postgres"} {
		c = loginAs(t, address, "postgres", database)
		exec(t, c, "set work_mem = '2MB'") // held by the mode, or by a pin
		pid := one(t, c, "select pg_backend_pid()")
		ended(t, c, "57P05")
		c = loginAs(t, address, "postgres", database)
		if rows := exec(t, c, "select pg_backend_pid(), current_setting('work_mem')"); rows[0][0] != pid || rows[0][1] == "2MB" {
			t.Errorf("%s: the next client got %v, want backend %s, cleaned", database, rows[0], pid)
		}
		c.Close()
	}
}

// TestLoginTimeout: a silent client and one that sends a byte now and then.
func TestLoginTimeout(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.login-timeout-ms=300")
	silent := pgwire.Dial(t, "tcp", address)
	slow := pgwire.Dial(t, "tcp", address)
	stop := make(chan struct{})
	go func() {
		for _, b := range pgwire.Startup(0, "user", "postgres", "application_name", strings.Repeat("x", 4000)) {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if slow.Send([]byte{b}) != nil {
				return
			}
		}
	}()
	defer close(stop)
	ended(t, silent, "08006")
	all, err := slow.ReadAll()
	if err != nil || len(all) > 1 || len(all) == 1 && pgwire.ErrorOf(all[0]).Code() != "08006" {
		t.Errorf("the slow one got %s, %v", pgwire.Transcript(all), err)
	}
	until(t, "both gone", func() bool { return e.Totals().Clients == 0 })
}

// TestClientStall: a client that holds a backend and owes bytes is closed; the backend serves another.
func TestClientStall(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists stall; create table stall (a text)")
	for _, c := range []struct {
		name     string
		messages [][]byte
		same     bool // the backend survives
	}{
		{"no Sync", [][]byte{pgwire.Parse("", "select 1"), pgwire.Bind("", "")}, true},
		{"half a small message", [][]byte{pgwire.Parse("", "select 1"), pgwire.Bind("", "")[:7]}, true},
		{"half a large message", [][]byte{pgwire.Query("select '" + strings.Repeat("x", 40000) + "'")[:20000]}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, address := start(t, pg, "--capacity.client-stall-timeout-ms=150", "--capacity.pool-max-size=1")
			conn := login(t, address)
			pid := one(t, conn, "select pg_backend_pid()")
			send(t, conn, c.messages...)
			ended(t, conn, "08006")
			if c.same {
				reused(t, address, pid)
			} else {
				usable(t, login(t, address))
			}
		})
	}
	t.Run("COPY IN has ten times as long", func(t *testing.T) {
		t.Parallel()
		_, address := start(t, pg, "--capacity.client-stall-timeout-ms=40", "--capacity.pool-max-size=1")
		conn := login(t, address)
		pid := one(t, conn, "select pg_backend_pid()")
		send(t, conn, pgwire.Query("copy stall from stdin"))
		if m, err := conn.Read(); err != nil || m.Type != 'G' {
			t.Fatalf("got %v, %v", m, err)
		}
		send(t, conn, pgwire.CopyData([]byte("a\n")))
		begin := time.Now()
		ended(t, conn, "08006")
		if took := time.Since(begin); took < 350*time.Millisecond {
			t.Errorf("closed after %v, want 400 ms", took)
		}
		reused(t, address, pid)
		if got := pg.Value(t, "select count(*) from stall"); got != "0" {
			t.Errorf("%s rows of the COPY that failed", got)
		}
	})
}

// TestClientWrite: a client that does not read is closed; its backend serves another.
func TestClientWrite(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.client-write-timeout-ms=200", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, "select pg_backend_pid()")
	send(t, c, pgwire.Query("select repeat('x', 100000) from generate_series(1, 500)"))
	until(t, "the client closed", func() bool { return e.Totals().Closed["client_write_timeout"] == 1 })
	reused(t, address, pid)
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL", n)
	}
	if all, err := c.ReadAll(); err != nil || strings.Contains(typesOf(all), "Z") {
		t.Errorf("the rest was %d messages, %v", len(all), err)
	}
}
