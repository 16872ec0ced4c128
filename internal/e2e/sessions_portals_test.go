package e2e

import (
	"fmt"
	"testing"

	"pgkinetic/internal/pgwire"
)

// portals binds so many portals to a statement within a block, the last of them to another one, and executes that.
func (a *actor) portals(n int, sql string) {
	a.s.t.Helper()
	a.exec("BEGIN")
	messages := [][]byte{pgwire.Parse("many", "SET LOCAL app.of = 'many'"), pgwire.Parse("last", sql)}
	for i := range n {
		messages = append(messages, pgwire.Bind(fmt.Sprint("p", i), "many"))
	}
	messages = append(messages, pgwire.Bind("last", "last"), pgwire.Execute("last", 0), pgwire.Close('S', "many"), pgwire.Close('S', "last"))
	if all := a.group(messages...); errorCode(all) != "" {
		a.s.t.Errorf("%s: got\n%s", sql, pgwire.Transcript(all))
	}
	a.exec("COMMIT")
}

// TestManyPortals: however many portals are open, what the statements of the last of them leave is kept.
func TestManyPortals(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for _, n := range []int{63, 64, 150} {
			a.portals(n, "CREATE TEMP TABLE many(a int)")
			s.pinned()
			a.want("0", "SELECT count(*) FROM many")
			a.exec("DROP TABLE many")
			s.move()
			a.portals(n, "SELECT pg_advisory_lock(65)")
			s.pinned()
			a.want("t", "SELECT pg_advisory_unlock(65)")
			s.move()
			a.portals(n, fmt.Sprintf("SET work_mem = '%dkB'", 100+n))
			s.move()
			a.want(fmt.Sprintf("%dkB", 100+n), "SHOW work_mem")
			a.portals(n, "DECLARE h CURSOR WITH HOLD FOR SELECT 7")
			s.pinned()
			a.want("7", "FETCH h")
			a.exec("CLOSE h")
			s.move()
			a.want("1", "SELECT 1")
		}
	})
}

// TestManyPortalsListen: beyond the portals that are followed a LISTEN keeps its backend, which then tells.
func TestManyPortalsListen(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		a.portals(80, "LISTEN many")
		a.exec("SET work_mem = '7MB'")
		s.pinned()
		b.c.Close()
		s.actors = s.actors[:1]
		a.query("NOTIFY many, 'of myself'")
		s.pg.Exec(t, "NOTIFY many, 'of another'")
		a.read('A', 1)
		a.exec("DISCARD ALL")
		s.move()
		a.want("4MB", "SHOW work_mem")
	})
}

// TestFetchDescribesItsOwnCursor: a statement that is FETCH has the columns that the cursor of its client had at Parse,
// whatever another client's cursor of this name has.
func TestFetchDescribesItsOwnCursor(t *testing.T) {
	play(t, staging{modes: []string{"transaction"}}, func(s *stage) {
		a, b := s.client(), s.client()
		declare := []string{"DECLARE c CURSOR FOR SELECT 1 AS one", "DECLARE c CURSOR FOR SELECT 'x'::text AS a, 2 AS b", ""}
		for round, sql := range declare {
			for _, c := range []*actor{a, b} {
				name := fmt.Sprint("f", round)
				c.query("BEGIN; " + sql)
				c.group(pgwire.Parse(name, "FETCH c"), pgwire.Describe('S', name))
				c.group(pgwire.Bind("", name), pgwire.Describe('P', ""), pgwire.Execute("", 0))
				c.group(pgwire.Parse("g", "FETCH c"), invoke("g"), pgwire.Close('S', "g"), pgwire.Parse("g", "SELECT 1"), invoke("g"), pgwire.Close('S', "g"))
				c.query("ROLLBACK")
				c.group(pgwire.Close('S', name)) // a Describe now would make PostgreSQL crash
				c.group(pgwire.Parse("", "FETCH c"), pgwire.Describe('S', ""))
				c.group(pgwire.Parse("m", "MOVE c"), pgwire.Describe('S', "m"), pgwire.Close('S', "m"))
			}
			s.move()
		}
	})
}

// TestExecuteDescribesItsOwn: so has EXECUTE those of the client's own statement, also on a backend where that has yet to
// be made, and where another one has taken its place.
func TestExecuteDescribesItsOwn(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		for i, c := range []*actor{a, b} {
			c.group(pgwire.Parse("p", fmt.Sprintf("SELECT %d AS of_%d", i, i)))
			c.group(pgwire.Parse("x", "EXECUTE p"), pgwire.Describe('S', "x"), invoke("x"))
			c.group(pgwire.Describe('S', "x"), pgwire.Bind("", "x"), pgwire.Describe('P', ""), pgwire.Execute("", 0))
			s.pinned()
			c.exec("DEALLOCATE p")
			s.move()
			c.failsGroup("26000", invoke("x"))
			s.move()
			c.group(pgwire.Parse("p", "SELECT 'again' AS again"))
			c.wantGroup("again", pgwire.Bind("", "x"), pgwire.Describe('P', ""), pgwire.Execute("", 0))
			s.pinned()
			c.exec("DEALLOCATE ALL")
			s.move()
		}
	})
}

// TestTwoNamesOfOneText: an error names the statement as the message did that draws it.
func TestTwoNamesOfOneText(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "statement"}}, func(s *stage) {
		a := s.client()
		const text = "SELECT $1::text"
		a.group(pgwire.Parse("first", text), pgwire.Parse("second", text))
		for range 2 {
			for _, name := range []string{"first", "second"} {
				a.failsGroup("42P05", pgwire.Parse(name, text))
				a.failsGroup("08P01", pgwire.Bind("", name), pgwire.Execute("", 0))
				a.failsGroup("08P01", invoke("second", "x"), pgwire.Bind("", name), invoke("first", "x"), invoke("second", "x"))
			}
			s.move()
		}
	})
}

// TestUnnamedThatIsNotKept: it lives as long as with PostgreSQL, whatever fails behind it.
func TestUnnamedThatIsNotKept(t *testing.T) {
	play(t, staging{flags: []string{"--capacity.max-prepared-statements=0"}}, func(s *stage) {
		a := s.client()
		fails := [][]byte{pgwire.Parse("bad", "SELECT no_such_column")}
		parse := pgwire.Parse("", "SELECT 'unnamed'")
		a.failsGroup("42703", append([][]byte{parse}, fails...)...)
		s.pinned()
		a.wantGroup("unnamed", invoke(""))
		a.failsGroup("42703", fails...)
		a.wantGroup("unnamed", invoke(""))
		a.wantGroup("next", pgwire.Parse("", "SELECT 'next'"), invoke(""))
		s.move()
		a.group(parse)
		s.pinned()
		a.want("1", "SELECT 1")
		a.failsGroup("26000", invoke(""))
		s.move()
		a.group(parse)
		a.group(pgwire.Close('S', ""))
		s.move()
		a.failsGroup("26000", invoke(""))
		a.failsGroup("42703", pgwire.Parse("", "SELECT no_such_column"))
		s.move()
	})
}

// TestUnnamedExecute: an EXECUTE is kept as any other statement.
func TestUnnamedExecute(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.exec("PREPARE p AS SELECT 'p'")
		a.failsGroup("22012", pgwire.Parse("", "EXECUTE p"), pgwire.Parse("bad", "SELECT 1/0"), invoke("bad"))
		a.wantGroup("p", invoke(""))
		s.pinned()
		a.group(pgwire.Parse("d", "DEALLOCATE p"), invoke("d"))
		s.move()
		a.failsGroup("26000", invoke(""))
		s.move()
	})
}
