package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

const backendPID = "select pg_backend_pid()"

// leftovers counts what a session left on the backend that c uses. It parses and binds nothing by name.
const leftovers = `select concat_ws(' ',
	(select count(*) from pg_prepared_statements), (select count(*) from pg_cursors where is_holdable),
	(select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
	(select count(*) from pg_listening_channels()),
	(select count(*) from pg_class where relpersistence = 't' and relnamespace = pg_my_temp_schema()),
	current_setting('work_mem'), current_user)`

const clean = "0 0 0 0 0 4MB postgres"

// TestTransactionMode: clients share a backend from transaction to transaction; a block keeps it.
func TestTransactionMode(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	a, b := login(t, address), login(t, address)
	pid := one(t, a, backendPID)
	if got := one(t, b, backendPID); got != pid {
		t.Errorf("backends %s and %s", pid, got)
	}
	exec(t, a, "begin")
	queue(t, e, b, "select 1")
	exec(t, a, "set local work_mem = '9MB'")
	exec(t, a, "commit")
	types(t, b, 1)
	if s := e.Totals(); pinsOfAll(e) != 0 || s.ServerLogins != 1 {
		t.Errorf("%d pins, %d logins", pinsOfAll(e), s.ServerLogins)
	}
}

// TestPins: state that another client must not see keeps the backend until its client leaves; then nothing of it is left.
func TestPins(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop role if exists pin_role; create role pin_role")
	e, address := start(t, pg, "--capacity.pool-max-size=1")
	for name, messages := range map[string][][]byte{
		"PREPARE":          {pgwire.Query("prepare p as select 1")},
		"WITH HOLD":        {pgwire.Query("begin; declare c cursor with hold for select 1; commit")},
		"temp table":       {pgwire.Query("create temp table x (a int)")},
		"select into temp": {pgwire.Query("select 1 as a into temp y")},
		"advisory lock":    {pgwire.Query("select pg_advisory_lock(77)")},
		"lock and role":    {pgwire.Query("select pg_advisory_lock(1); set role pin_role")},
	} {
		before := pinsOfAll(e)
		c, other := login(t, address), login(t, address)
		pid := one(t, other, backendPID)
		send(t, c, messages...)
		if got := types(t, c, 1); strings.Contains(got, "E") || !strings.HasSuffix(got, "ZI") {
			t.Fatalf("%s: %s", name, got)
		}
		if n := pinsOfAll(e); n == before {
			t.Errorf("%s: %d pins, want more than %d", name, n, before)
		}
		queue(t, e, other, "select 1") // the backend is kept
		if got := one(t, c, backendPID); got != pid {
			t.Errorf("%s: its backend became %s, was %s", name, got, pid)
		}
		send(t, c, pgwire.Terminate())
		types(t, other, 1)
		if got := one(t, other, leftovers); got != clean {
			t.Errorf("%s: left %q, want %q", name, got, clean)
		}
		if got := one(t, other, backendPID); got != pid {
			t.Errorf("%s: the backend was not reused", name)
		}
	}
}

// TestNoPins: what leaves nothing behind does not keep the backend.
func TestNoPins(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	c := login(t, address)
	for _, sql := range []string{
		"begin; set local work_mem = '10MB'; commit", "select 'set work_mem = 1; listen x'", "/* listen x */ select 1 -- prepare p as",
		"select pg_try_advisory_xact_lock(5)", "select $$ create temp table x $$", "show work_mem",
	} {
		exec(t, c, sql)
	}
	send(t, c, pgwire.Parse("", "select $1::text"), pgwire.Bind("", "", []byte("a")), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
	types(t, c, 1)
	if n := pinsOfAll(e); n != 0 {
		t.Errorf("%d pins", n)
	}
	usable(t, login(t, address))
}

// TestUnnamedStatementBoundLater: another client's unnamed statement is never met.
func TestUnnamedStatementBoundLater(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2")
	a, b := login(t, address), login(t, address)
	send(t, a, pgwire.Parse("", "select 'mine'"), pgwire.Describe('S', ""), pgwire.Sync())
	types(t, a, 1)
	send(t, b, pgwire.Parse("", "select 'theirs'"), pgwire.Describe('S', ""), pgwire.Sync())
	types(t, b, 1)
	send(t, a, pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
	all, err := a.ReadUntil('Z', 1)
	if err != nil || len(all) < 2 || all[1].Type != 'D' || pgwire.Values(all[1])[0] != "mine" {
		t.Errorf("got %s, %v", pgwire.Transcript(all), err)
	}
}

// TestSessionMode: the backend is held from the first request until the client leaves; then it is cleaned.
func TestSessionMode(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	for range 2 {
		c, other := loginAs(t, address, "postgres", "session"), loginAs(t, address, "postgres", "session")
		pid := one(t, c, backendPID)
		queue(t, e, other, leftovers)
		exec(t, c, "set work_mem = '11MB'; create temp table x (a int); select pg_advisory_lock(8); listen c; prepare p as select 1")
		exec(t, c, "begin; declare h cursor with hold for select 1; commit")
		send(t, c, pgwire.Parse("named", "select 1"), pgwire.Sync())
		types(t, c, 1)
		if got := one(t, c, backendPID); got != pid {
			t.Errorf("its backend became %s, was %s", got, pid)
		}
		c.Reset()
		all, err := other.ReadUntil('Z', 1)
		if err != nil || typesOf(all) != "TDCZI" || pgwire.Values(all[1])[0] != clean {
			t.Errorf("the next client got %s, %v", pgwire.Transcript(all), err)
		}
		if got := one(t, other, backendPID); got != pid {
			t.Errorf("the backend was not reused")
		}
		other.Close()
	}
}

// TestNotificationsStayAway: a client that did not listen hears nothing.
func TestNotificationsStayAway(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	a := login(t, address)
	exec(t, a, "listen ch")
	a.Close()
	b := login(t, address)
	for range 5 {
		send(t, b, pgwire.Query("notify ch, 'x'"), pgwire.Query("select 1"))
		if got := types(t, b, 2); got != "CZITDCZI" {
			t.Errorf("got %s", got)
		}
	}
}

// TestNotificationReachesListener: the pinned one hears at once, though it is idle.
func TestNotificationReachesListener(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	a, b := login(t, address), login(t, address)
	exec(t, a, "listen heard")
	exec(t, b, "notify heard, 'x'")
	if m, err := a.Read(); err != nil || m.Type != 'A' {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestStatementMode: no block, no pin, and a group stays on one backend.
func TestStatementMode(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.pool-mode=statement", "--capacity.pool-max-size=1")
	c := login(t, address)
	for _, sql := range []string{
		"begin", "start transaction", "select 1; begin", "prepare p as select 1",
		"create temp table x (a int)", "select pg_advisory_lock(1)",
	} {
		_, err := c.Exec(sql)
		refused(t, err, "ERROR", "0A000")
		usable(t, c)
	}
	send(t, c, pgwire.Parse("named", "select 1"), pgwire.Bind("", "named"), pgwire.Execute("", 0), pgwire.Sync())
	if got := types(t, c, 1); got != "12DCZI" {
		t.Errorf("a named statement: %s", got)
	}
	send(t, c, pgwire.Parse("", "select pg_backend_pid()"), pgwire.Bind("", ""), pgwire.Execute("", 0),
		pgwire.Parse("", "select 2"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
	if got := types(t, c, 1); got != "12DC12DCZI" {
		t.Errorf("a group: %s", got)
	}
	exec(t, c, "do $$ begin perform 1; end $$") // no block
	usable(t, c)
	if n := pinsOfAll(e); n != 0 {
		t.Errorf("%d pins", n)
	}
}

// TestStatementModeLateBlock: BEGIN behind other statements of a large message is not seen in time; the block is rolled
// back and the session ends.
func TestStatementModeLateBlock(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists late; create table late (a int)")
	_, address := start(t, pg, "--server.pool-mode=statement", "--capacity.pool-max-size=1")
	c := login(t, address)
	pid := one(t, c, backendPID)
	send(t, c, pgwire.Query("select '"+strings.Repeat("x", 3<<20)+"'; begin; insert into late values (1)"))
	ended(t, c, "0A000")
	reused(t, address, pid)
	if got := pg.Value(t, "select count(*) from late"); got != "0" {
		t.Errorf("%s rows stayed", got)
	}
}

// TestResetQuery: discard after every client; or the given SQL.
func TestResetQuery(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists reset_log; create table reset_log (a int)")
	for _, query := range []string{"discard", "insert into reset_log values (1)"} { // the log is empty before the second
		ran := query != "discard"
		_, address := start(t, pg, "--capacity.pool-max-size=1", "--capacity.reset-query="+query)
		a := login(t, address)
		exec(t, a, "do $$ begin perform set_config('my.hidden', 'x', false); end $$") // the wire does not show it
		b := login(t, address)
		exec(t, b, "select 1") // runs behind the reset
		if got := pg.Value(t, "select count(*) from reset_log"); ran != (got != "0") {
			t.Errorf("%s: ran %s times", query, got)
		}
		if got := one(t, b, "select coalesce(current_setting('my.hidden', true), '')"); !ran && got != "" {
			t.Errorf("%s: hidden state %q is left", query, got)
		}
	}
}

// exact runs work while pg_stat_activity is sampled; it fails when a sample shows more than most sessions of the roles.
func exact(t testing.TB, pg *pgtest.Server, where string, most int, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	for samples := 0; ; samples++ {
		if n := len(pg.Exec(t, "select pid from pg_stat_activity where backend_type = 'client backend' and "+where)); n > most {
			t.Errorf("%d sessions, allowed are %d", n, most)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// hammer runs n clients, each with rounds short transactions, and reports errors.
func hammer(t testing.TB, address string, n, rounds int, params func(i int) []string) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		c := pgwire.Dial(t, "tcp", address)
		go func() {
			_, err := c.Login(0, params(i)...)
			for r := 0; r < rounds && err == nil; r++ {
				_, err = c.Exec("begin; select pg_sleep(0.002); commit")
			}
			c.Close()
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestBackendLimits: pool_max_size, max_backends of the host over several pools, max_backends of a database: never exceeded,
// and every client is served.
func TestBackendLimits(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	a, b := role(t, pg), role(t, pg)
	if len(pg.Exec(t, "select 1 from pg_database where datname = 'limits_1'")) == 0 {
		pg.Exec(t, "create database limits_1")
	}
	where := fmt.Sprintf("usename in ('%s', '%s')", a, b)
	users := []string{a, b}
	for name, c := range map[string]struct {
		text string
		most int
	}{
		"pool_max_size":            {"databases: [{name: \"*\", hosts: [%q], pool_max_size: 3}]\n", 2 * 2 * 3},
		"max_backends of the host": {"capacity: {max_backends: 4}\ndatabases: [{name: \"*\", hosts: [%q]}]\n", 4},
		"max_backends of entries":  {"databases: [{name: postgres, hosts: [%q], max_backends: 2}, {name: limits_1, hosts: [%[1]q], max_backends: 3}]\n", 5},
		"max_backends of users":    {"users: [{name: " + a + ", max_backends: 2}, {name: " + b + ", max_backends: 1}]\ndatabases: [{name: \"*\", hosts: [%q]}]\n", 3},
	} {
		var e *engine.Engine
		t.Run(name, func(t *testing.T) {
			var address string
			e, address = startYAML(t, fmt.Sprintf(c.text, pg.Addr()), "--server.loops=2", "--capacity.checkout-timeout-ms=20000")
			exact(t, pg, where, c.most, func() {
				hammer(t, address, 24, 10, func(i int) []string {
					return []string{"user", users[i%2], "database", []string{"postgres", "limits_1"}[i/2%2]}
				})
			})
			quiet(t, e)
		})
		until(t, "its backends gone", func() bool {
			return len(pg.Exec(t, "select pid from pg_stat_activity where "+where)) == 0
		})
	}
}
