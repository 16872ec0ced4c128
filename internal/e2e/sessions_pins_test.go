package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestST14AdvisoryLock keeps its backend until it is given back.
func TestST14AdvisoryLock(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for _, lock := range [][2]string{
			{"SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"},
			{"SELECT pg_try_advisory_lock(7, 8)", "SELECT pg_advisory_unlock(7, 8)"},
			{"SELECT pg_advisory_lock_shared(9)", "SELECT pg_advisory_unlock_shared(9)"},
			{"SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock_all()"},
			{"SELECT pg_advisory_lock(7)", "DISCARD ALL"},
		} {
			a.exec(lock[0])
			s.pinned()
			a.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
			s.pinned()
			a.query(lock[1])
			a.want("0", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
		}
	})
}

// TestST14TwiceLocked: a lock that was taken twice is held until it is given back twice.
func TestST14TwiceLocked(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.exec("SELECT pg_advisory_lock(7), pg_advisory_lock(7)")
		a.want("t", "SELECT pg_advisory_unlock(7)")
		s.pinned()
		a.want("t", "SELECT pg_advisory_unlock(7)")
		a.want("f", "SELECT pg_advisory_unlock(7)")
		a.exec("SELECT pg_advisory_lock(7)")
		a.group(pgwire.Parse("u", "SELECT pg_advisory_unlock($1)"))
		s.pinned()
		a.wantGroup("t", invoke("u", "7"))
	})
}

// TestST14LockEndsWithItsPin: after unlock_all and DISCARD ALL nothing is held, so the backend is free. A lock of a
// transaction never keeps it.
func TestST14LockEndsWithItsPin(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for _, end := range []string{"SELECT pg_advisory_unlock_all()", "DISCARD ALL"} {
			a.exec("SELECT pg_advisory_lock(7)")
			s.pinned()
			a.exec(end)
			s.move()
			a.want("0", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
		}
		a.exec("SELECT pg_advisory_xact_lock(7)")
		s.move()
		a.exec("BEGIN; SELECT pg_advisory_xact_lock(7); COMMIT")
		s.move()
		a.want("0", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
	})
}

// TestST15HoldCursor keeps its backend until it is closed; a cursor of a transaction does not outlive it.
func TestST15HoldCursor(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for _, declare := range []string{
			"DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 9)", "BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT generate_series(1, 9); COMMIT",
		} {
			a.exec(declare)
			for range 3 {
				s.pinned()
				a.query("FETCH 2 FROM c")
			}
			a.exec("CLOSE c")
			s.move()
			a.fails("34000", "FETCH 1 FROM c")
			a.exec(declare)
			s.pinned()
			a.exec("CLOSE ALL")
			s.move()
			a.exec(declare)
			s.pinned()
			a.exec("DISCARD ALL")
			s.move()
			a.want("0", "SELECT count(*) FROM pg_cursors")
		}
		a.fails("25P01", "DECLARE c CURSOR FOR SELECT 1")
		s.move()
		a.exec("BEGIN; DECLARE c CURSOR FOR SELECT 1; FETCH c; COMMIT")
		s.move()
		a.exec("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; ROLLBACK")
		s.move()
		a.fails("34000", "FETCH 1 FROM c")
	})
}

// TestST16TempTable keeps its backend; the next client finds no trace.
func TestST16TempTable(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for _, end := range []string{"DISCARD TEMP", "DISCARD ALL"} {
			a.exec("CREATE TEMP TABLE x(a int)")
			for i := range 3 {
				s.pinned()
				a.exec(fmt.Sprintf("INSERT INTO x VALUES (%d)", i))
			}
			a.want("3", "SELECT count(*) FROM x")
			a.exec(end)
			s.move()
			a.fails("42P01", "SELECT count(*) FROM x")
		}
		a.exec("BEGIN; CREATE TEMP TABLE x(a int); ROLLBACK")
		a.exec("BEGIN; CREATE TEMP TABLE x(a int) ON COMMIT DROP; COMMIT")
		a.exec("CREATE TEMP TABLE x(a int)")
		s.pinned()
		a.c.Close()
		b := s.client()
		b.fails("42P01", "SELECT count(*) FROM x")
		b.exec("CREATE TEMP TABLE x(a int); INSERT INTO x VALUES (1)")
		b.want("1", "SELECT count(*) FROM x")
	})
}

// TestPinsOverlap: a backend with several reasons to stay is free when the last one has gone.
func TestPinsOverlap(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.exec("PREPARE p AS SELECT 'p'; SELECT pg_advisory_lock(1)")
		a.exec("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT")
		s.pinned()
		a.exec("DEALLOCATE p")
		s.pinned()
		a.exec("SELECT pg_advisory_unlock_all()")
		s.pinned()
		a.exec("CLOSE c")
		s.move()
		a.want("1", "SELECT 1")
		a.exec("PREPARE p AS SELECT 'p'; CREATE TEMP TABLE o(a int); SELECT pg_advisory_lock(1)")
		s.pinned()
		a.exec("DISCARD ALL")
		s.move()
		a.want("1", "SELECT 1")
	})
}

// harmless is what drivers and applications send all the time: no reason to keep a backend.
var harmless = []string{
	"SET work_mem = '5MB'", "SET search_path = public", "SET statement_timeout = 0", "SET application_name = 'x'", "SET TIME ZONE 'UTC'", "SET client_encoding = 'UTF8'",
	"SET NAMES 'UTF8'", "SET DateStyle = ISO", "SET extra_float_digits = 3", "SET ROLE NONE", "RESET ALL", "DISCARD ALL", "DEALLOCATE ALL", "CLOSE ALL", "UNLISTEN *",
	"SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", "SET SESSION AUTHORIZATION DEFAULT", "DISCARD TEMP", "DISCARD PLANS",
	"DISCARD SEQUENCES", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "BEGIN; SET LOCAL work_mem = '9MB'; COMMIT", "NOTIFY nobody", "SET standard_conforming_strings = on",
	"SELECT version()", "SHOW TRANSACTION ISOLATION LEVEL", "CREATE TABLE IF NOT EXISTS harmless(a int)", "LISTEN somebody", "SET CONSTRAINTS ALL DEFERRED",
	"SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD SEQUENCES; DISCARD TEMP",
}

// TestST17NoPin: after each of these the backend is free at once, by either protocol.
func TestST17NoPin(t *testing.T) {
	play(t, staging{setup: []string{"DROP TABLE IF EXISTS harmless"}}, func(s *stage) {
		a := s.client()
		for _, sql := range harmless {
			a.query(sql)
			s.move()
			if !strings.Contains(sql, ";") {
				a.group(pgwire.Parse("", sql), pgwire.Describe('S', ""), invoke(""))
				s.move()
			}
		}
	})
}

// TestST17HundredClientsOnFive: clients that connect as drivers do, prepare, set and reset all get served, and cost no more
// than the pool's backends. None of them leaves in between.
func TestST17HundredClientsOnFive(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 5, Flags: []string{"--server.loops=2", "--capacity.checkout-timeout-ms=20000"}})
	var all sync.WaitGroup
	for i := range 100 {
		c := login(t, p, "application_name", fmt.Sprint("app ", i), "extra_float_digits", "2", "search_path", fmt.Sprintf("s%d, public", i))
		all.Go(func() {
			for round := range 3 {
				if err := driverRound(c, i, round); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := s.Backends(t); n > 5 {
		t.Errorf("PostgreSQL has %d sessions", n)
	}
	steady(t, s, p, 5, descriptors(t, p.PID()))
}

// driverRound prepares and runs a query, changes settings, and resets the session as a driver's pool does.
func driverRound(c *pgwire.Conn, i, round int) error {
	err := c.Send(pgwire.Query(fmt.Sprintf("SET statement_timeout = %d", 10001+10*i)), pgwire.Parse("s", "SELECT $1::text, current_setting('search_path'), current_setting('statement_timeout')"),
		pgwire.Describe('S', "s"), pgwire.Sync())
	if err != nil {
		return err
	}
	if answer, err := c.ReadUntil('Z', 2); err != nil || errorCode(answer) != "" {
		return fmt.Errorf("%v after\n%s", err, pgwire.Transcript(answer))
	}
	nonce := fmt.Sprintf("client %d round %d", i, round)
	if err := c.Send(invoke("s", nonce), pgwire.Sync()); err != nil {
		return err
	}
	answer, err := c.ReadUntil('Z', 1)
	if want := fmt.Sprintf("%s|s%d, public|%dms", nonce, i, 10001+10*i); err != nil || row(answer) != want {
		return fmt.Errorf("want %q: %v, got\n%s", want, err, pgwire.Transcript(answer))
	}
	for _, reset := range []string{"SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", "DISCARD ALL"} {
		if _, err := c.Exec(reset); err != nil {
			return err
		}
	}
	return nil
}

// TestMaxPinned: beyond the bound the statement that would pin is refused, and the refusal tells who holds the others.
func TestMaxPinned(t *testing.T) {
	onlyKinetic(t)
	s := staging{size: 4, flags: []string{"--capacity.max-pinned=2"}}.raise(t, pgtest.Shared(t), "transaction", 2)
	pins := []string{"CREATE TEMP TABLE bounded(a int)", "SELECT pg_advisory_lock(pg_backend_pid())", "PREPARE bounded AS SELECT 1", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"}
	var holders []*actor
	for i := range 2 {
		a := s.client()
		a.exec(pins[i])
		holders = append(holders, a)
	}
	late := s.client()
	for _, sql := range pins {
		for _, all := range [][]pgwire.Message{late.query(sql), late.group(pgwire.Parse("", sql), invoke(""))} {
			text := pgwire.Transcript(all)
			if errorCode(all) != "53300" || !strings.Contains(text, "temp_table") || !strings.Contains(text, "advisory_lock") {
				t.Errorf("%s: got\n%s", sql, text)
			}
		}
		late.want("served", "SELECT 'served'")
		late.exec("BEGIN")
		late.want("in a block", "SELECT 'in a block'")
		late.exec("COMMIT")
	}
	holders[0].exec("DISCARD ALL")
	late.exec(pins[0])
	late.want("0", "SELECT count(*) FROM bounded")
	holders[1].c.Close()
	until(t, 5*time.Second, "the place of a pinned client that has left", func() bool { return errorCode(holders[0].query(pins[2])) == "" })
	s.leave()
	s.probe()
}

// TestIdlePinTimeout: a client that is idle while it pins loses its session, one that is idle without does not.
func TestIdlePinTimeout(t *testing.T) {
	onlyKinetic(t)
	s := staging{size: 2, flags: []string{"--capacity.idle-pin-timeout-ms=300"}}.raise(t, pgtest.Shared(t), "transaction", 1)
	other, free := s.client(), s.client()
	other.exec("SET work_mem = '5MB'")
	other.group(pgwire.Parse("s", "SELECT 's'"))
	free.exec("SELECT pg_advisory_lock(3)")
	free.exec("SELECT pg_advisory_unlock_all()")
	for _, pin := range []string{"SELECT pg_advisory_lock(3)", "CREATE TEMP TABLE idle(a int)", "PREPARE idle AS SELECT 1", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"} {
		a := s.client()
		a.exec(pin)
		if got := ends(t, a.c); got != "FATAL 57P05" {
			t.Errorf("%s: %s", pin, got)
		}
		s.probeOne(pin)
	}
	other.wantGroup("s", invoke("s"))
	other.want("5MB", "SHOW work_mem")
	free.want("1", "SELECT 1")
	s.leave()
	s.probe()
}
