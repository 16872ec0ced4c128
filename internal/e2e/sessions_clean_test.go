package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// endings are the ways in which a client leaves.
var endings = map[string]func(c *pgwire.Conn){
	"terminate": func(c *pgwire.Conn) {
		_ = c.Send(pgwire.Terminate())
		c.Close()
	},
	"close": (*pgwire.Conn).Close,
	"reset": (*pgwire.Conn).Reset,
}

// dirt is what clients leave behind: each text is one simple query.
var dirt = []string{
	"SELECT pg_catalog.set_config('search_path', '', false)", "SET default_transaction_read_only = on", "SET ROLE tenant", "SET SESSION AUTHORIZATION tenant",
	"SET statement_timeout = 1234", "SET work_mem = '7MB'", "SET standard_conforming_strings = off", "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1, 2), pg_advisory_lock_shared(3)",
	"SELECT pg_try_advisory_lock(4)", "CREATE TEMP TABLE left_behind(a int)", "CREATE TEMPORARY VIEW left_view AS SELECT 1", "SELECT 1 AS a INTO TEMP left_into",
	"BEGIN; DECLARE left_cursor CURSOR WITH HOLD FOR SELECT generate_series(1, 3); COMMIT", "DECLARE left_cursor CURSOR WITH HOLD FOR SELECT 1", "PREPARE left_statement AS SELECT 1",
	"LISTEN left_channel", "SELECT pg_advisory_lock(1); SET ROLE tenant", "BEGIN; SET LOCAL ROLE tenant; SELECT pg_advisory_lock(9); ROLLBACK", "BEGIN; CREATE TEMP TABLE left_behind(a int)",
	"DO $$ BEGIN PERFORM set_config('work_mem', '9MB', false); END $$", "DO $$ BEGIN PERFORM pg_advisory_lock(77); END $$", "SET TIME ZONE 'Asia/Tokyo'; SET DateStyle = german; SET IntervalStyle = iso_8601",
	"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1; CREATE TEMP TABLE t AS SELECT 1; SELECT 1/0", "BEGIN; SELECT pg_advisory_lock(5); SELECT 1/0",
	"CREATE TEMP SEQUENCE left_sequence", "SET extra_float_digits = 0; SET lock_timeout = 77; PREPARE one AS SELECT 1; SELECT pg_advisory_lock(8); CREATE TEMP TABLE u(a int)",
}

// TestST01CleanBackends: whatever a client has left and however it left, the next one finds the only backend as a login to
// PostgreSQL finds its session, without a new login. (ST-01, ST-02, ST-03.)
func TestST01CleanBackends(t *testing.T) {
	onlyKinetic(t)
	pg := pgtest.Shared(t)
	for _, sql := range settingRoles {
		pg.Exec(t, sql)
	}
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			s := staging{size: 1}.raise(t, pg, mode, 1)
			first := login(t, s.p)
			pid := ask(t, first, "SELECT pg_backend_pid()")
			first.Close()
			for _, left := range dirt {
				for name, end := range endings {
					c := login(t, s.p)
					if err := c.Send(pgwire.Query(left)); err != nil {
						t.Fatal(err)
					}
					if _, err := c.ReadUntil('Z', 1); err != nil {
						t.Fatalf("%s: %v", left, err)
					}
					end(c)
					s.probeOne(left + ", " + name)
				}
			}
			last := login(t, s.p)
			if got := ask(t, last, "SELECT pg_backend_pid()"); got != pid {
				t.Errorf("cleaning has cost a login to PostgreSQL")
			}
			last.Close()
			s.probe()
		})
	}
}

// probeOne is a new client that must find its backend clean.
func (s *stage) probeOne(what string) {
	s.t.Helper()
	direct := pgwire.Login(s.t, "tcp", s.pg.Addr(), startup(nil)...)
	defer direct.Close()
	c := login(s.t, s.p)
	defer c.Close()
	if got, want := ask(s.t, c, leftovers), ask(s.t, direct, leftovers); got != want {
		s.t.Errorf("after %s a new client finds\n%s, with PostgreSQL it finds\n%s", what, got, want)
	}
	if got := ask(s.t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); got != "0" {
		s.t.Errorf("after %s %s advisory locks are held", what, got)
	}
}

// TestST02OthersWhileItStays: what a client has set is nobody else's while it stays, either.
func TestST02OthersWhileItStays(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a, b := s.client(), s.client()
		for _, sql := range []string{
			"SET default_transaction_read_only = on", "SET ROLE tenant", "SET statement_timeout = 9999", "SET work_mem = '9MB'", "SET search_path = ''",
			"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
		} {
			a.exec(sql)
			for range 2 {
				b.query(leftovers)
				b.exec("DROP TABLE IF EXISTS st02; CREATE TABLE st02(a int); DROP TABLE st02")
				a.query(leftovers)
				s.move()
			}
		}
	})
}

// TestCleanIsNotSent: to a backend that is clean nothing is sent. PostgreSQL logs each statement.
func TestCleanIsNotSent(t *testing.T) {
	onlyKinetic(t)
	pg := pgtest.Start(t, pgtest.Setting("log_statement", "all"), pgtest.Setting("log_min_duration_statement", "0"))
	p := pooler.Start(t, pg, pooler.Options{PoolSize: 1})
	for i := range 20 {
		c := login(t, p, "application_name", "same")
		ask(t, c, fmt.Sprintf("SELECT 'round %d'", i))
		if err := c.Send(pgwire.Parse("s", "SELECT 'prepared'"), invoke("s"), pgwire.Sync()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadUntil('Z', 1); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	log := pg.Log()
	if n := strings.Count(log, "DISCARD"); n != 0 {
		t.Errorf("DISCARD was sent %d times", n)
	}
	if n := strings.Count(log, "RESET"); n != 0 {
		t.Errorf("RESET was sent %d times", n)
	}
	if n := strings.Count(log, "set_config") + strings.Count(log, "SET "); n > 2 { // once for application_name, and in the log of the set-up
		t.Errorf("settings were sent %d times for clients that all want the same", n)
	}
}

// TestST12SessionAndTransactionPools: what a client of a session pool has left is gone for those of a transaction pool to
// the same database.
func TestST12SessionAndTransactionPools(t *testing.T) {
	onlyKinetic(t)
	pg := pgtest.Shared(t)
	databases := fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name":"sessions","hosts":["%s"],"dbname":"postgres","pool_mode":"session"},{"name":"transactions","hosts":["%s"],"dbname":"postgres"}]`,
		pg.Addr(), pg.Addr())
	p := pooler.Start(t, pg, pooler.Options{PoolSize: 1, Env: []string{databases}})
	enter := func(database string) *pgwire.Conn {
		return pgwire.Login(t, "tcp", p.Addr(), "user", "postgres", "database", database)
	}
	locks := func() string { return pg.Value(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") }
	for range 3 {
		a, b := enter("sessions"), enter("transactions")
		ask(t, a, "SELECT pg_advisory_lock(12); SET work_mem = '7MB'; CREATE TEMP TABLE st12(a int)")
		if got := ask(t, b, "SHOW work_mem"); got != "4MB" {
			t.Errorf("the other pool sees %s", got)
		}
		a.Close()
		until(t, 5*time.Second, "the lock is free", func() bool { return locks() == "0" })
		if got := ask(t, b, "SELECT pg_try_advisory_lock(12)::text || pg_advisory_unlock(12) || current_setting('work_mem')"); got != "truetrue4MB" {
			t.Errorf("the other pool gets %s", got)
		}
		b.Close()
	}
}

// TestResetQueryDiscard: reset_query discard and one of one's own run after every client.
func TestResetQueryDiscard(t *testing.T) {
	onlyKinetic(t)
	for _, query := range []string{"discard", "RESET ALL; SELECT pg_advisory_unlock_all()"} {
		t.Run(query, func(t *testing.T) { hiddenState(t, "--capacity.reset-query="+query) })
	}
}

// hiddenState leaves what no message and no text shows; with the flag the next client does not find it.
func hiddenState(t *testing.T, flag string) {
	t.Helper()
	s := staging{size: 1, flags: []string{flag}}.raise(t, pgtest.Shared(t), "transaction", 1)
	s.pg.Exec(t, `CREATE OR REPLACE FUNCTION hidden_state() RETURNS void LANGUAGE plpgsql AS
		'BEGIN PERFORM set_config(''work_mem'', ''9MB'', false); PERFORM pg_advisory_lock(6); END'`)
	for range 3 {
		c := login(t, s.p)
		ask(t, c, "SELECT hidden_state()")
		c.Close()
		s.probeOne(flag)
		c = login(t, s.p)
		if err := c.Send(pgwire.FunctionCall(2880, []byte("6"))); err != nil { // pg_advisory_lock(int8)
			t.Fatal(err)
		}
		if _, err := c.ReadUntil('Z', 1); err != nil {
			t.Fatal(err)
		}
		c.Close()
		s.probeOne(flag + ", FunctionCall")
	}
	s.probe()
}

// TestResetCheck finds what the wire cannot show.
func TestResetCheck(t *testing.T) {
	onlyKinetic(t)
	hiddenState(t, "--capacity.reset-check=true")
}
