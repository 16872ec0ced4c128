package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// The tests of these files are named by what users of poolers have run into: PS for prepared statements and pipelines, ST
// for what a session keeps, CA for cancels, ID for idle time.

// TestPS01UnnamedBindInLaterGroup: an unnamed statement is bound in a later group, on whatever backend, and is the
// client's own although others use theirs in between.
func TestPS01UnnamedBindInLaterGroup(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("", "SELECT 'mine', $1::text"), pgwire.Describe('S', ""))
		b.group(pgwire.Parse("", "SELECT 'other'"), pgwire.Describe('S', ""))
		for i := range 4 {
			s.move()
			b.wantGroup("other", invoke(""))
			a.wantGroup(fmt.Sprint("mine|", i), invoke("", fmt.Sprint(i)))
			b.want("simple", "SELECT 'simple'") // ends b's unnamed statement and nobody else's
			b.group(pgwire.Parse("", "SELECT 'other'"))
		}
		s.move()
		a.group(pgwire.Describe('S', ""))
		a.want("simple", "SELECT 'simple'")
		s.move()
		a.failsGroup("26000", invoke("", "gone"))
	})
}

// TestPS01LargeUnnamed: too large to be kept, parsed in one group and bound in a later one.
func TestPS01LargeUnnamed(t *testing.T) {
	play(t, staging{flags: []string{"--capacity.max-client-buffer-bytes=32768"}}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("", "SELECT 'large' /* "+strings.Repeat("x", 50000)+" */"))
		a.wantGroup("large", invoke(""))
		a.wantGroup("large", invoke(""))
		a.exec("DISCARD ALL")
	})
}

// TestPS01FailedUnnamedParse: what is left of the unnamed statement after a failed one is as in PostgreSQL.
func TestPS01FailedUnnamedParse(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		for _, bad := range []string{"SELEC", "SELECT * FROM nowhere_at_all", "SELECT 1; SELECT 2"} {
			a.group(pgwire.Parse("", "SELECT 'good'"))
			s.move()
			a.group(pgwire.Parse("", bad))
			s.move()
			a.group(invoke(""))
			a.group(pgwire.Parse("", "SELECT 'good'"), pgwire.Close('S', ""))
			s.move()
			a.failsGroup("26000", invoke(""))
		}
	})
}

// TestPS02FlushKeepsTheBackend: between Flush and Sync the portal stays, whoever else runs.
func TestPS02FlushKeepsTheBackend(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		s.spread()
		for range 3 {
			a.send(pgwire.Parse("", "SELECT g FROM generate_series(1, 8) g"), pgwire.Bind("", ""), pgwire.Describe('P', ""), pgwire.Flush())
			a.read('T', 1)
			b.want("b", "SELECT 'b'")
			a.send(pgwire.Execute("", 3), pgwire.Flush())
			a.read('s', 1)
			b.wantGroup("b", pgwire.Parse("", "SELECT 'b'"), invoke(""))
			a.send(pgwire.Execute("", 0), pgwire.Sync())
			a.read('Z', 1)
		}
	})
}

// TestPS03ManyGroupsInOneWrite: each is answered, in order.
func TestPS03ManyGroupsInOneWrite(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		for _, name := range []string{"", "s"} {
			var all [][]byte
			for i := range 5 {
				n := name
				if n != "" {
					n = fmt.Sprint(name, i)
				}
				all = append(all, pgwire.Parse(n, fmt.Sprintf("SELECT %d, $1::int", i)), pgwire.Bind("", n, []byte("7")),
					pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
			}
			a.send(all...)
			b.exec("SELECT 'between'")
			a.read('Z', 5)
			s.move()
		}
		a.wantGroup("3|8", invoke("s3", "8"))
	})
}

// TestPS04QueryBehindAFailedParse: it is skipped up to Sync, and so is what is answered without a server.
func TestPS04QueryBehindAFailedParse(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("known", "SELECT 'known'"))
		s.move()
		a.send(pgwire.Parse("", "SELEC"), pgwire.Query("SELECT 'skipped'"), pgwire.Parse("new", "SELECT 1"), pgwire.Close('S', "known"),
			pgwire.Describe('S', "known"), pgwire.Sync(), pgwire.Query("SELECT 'answered'"))
		a.read('Z', 2)
		a.wantGroup("known", invoke("known"))
		a.failsGroup("26000", invoke("new"))
	})
}

// TestPS06ErrorComesAtOnce: without Flush or Sync.
func TestPS06ErrorComesAtOnce(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		for _, bad := range [][]byte{
			pgwire.Parse("", "selec 1"), pgwire.Bind("", "nobody"), pgwire.Describe('S', "nobody"), pgwire.Describe('P', "nobody"),
			pgwire.Execute("nobody", 0), pgwire.Parse("s", "SELECT * FROM nowhere_at_all"),
		} {
			a.c.Timeout = 3 * time.Second
			a.send(bad)
			a.read('E', 1)
			a.send(pgwire.Sync())
			a.read('Z', 1)
		}
	})
}

// TestPS09LoneDescribe: a statement is described on a backend that has not seen it.
func TestPS09LoneDescribe(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("s1", "SELECT $1::int AS a, 'x'::text AS b"))
		s.move()
		a.group(pgwire.Describe('S', "s1"))
		s.move()
		a.group(pgwire.Describe('S', "s1"), invoke("s1", "3"))
		s.move()
		a.send(pgwire.Describe('S', "s1"), pgwire.Flush())
		a.read('T', 1)
		a.send(pgwire.Bind("p", "s1", []byte("4")), pgwire.Describe('P', "p"), pgwire.Execute("p", 0), pgwire.Sync())
		a.read('Z', 1)
	})
}

// TestPS15CloseOfAFailedStatement is no error, wherever it goes.
func TestPS15CloseOfAFailedStatement(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.failsGroup("42601", pgwire.Parse("s", "bad"))
		s.move()
		a.group(pgwire.Close('S', "s"))
		a.group(pgwire.Close('S', "never"), pgwire.Close('P', "never"), pgwire.Close('S', ""))
		a.group(pgwire.Parse("s", "SELECT 5"), pgwire.Close('S', "s"), pgwire.Parse("s", "SELECT 6"), invoke("s"))
		s.move()
		a.wantGroup("6", invoke("s"))
		a.group(pgwire.Close('S', "s"))
		s.move()
		a.failsGroup("26000", invoke("s"))
	})
}

// TestPS20RowLimitAndFlush: the remaining rows come from the same portal.
func TestPS20RowLimitAndFlush(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("q", "SELECT g FROM generate_series(1, 5) g"))
		s.move()
		s.spread()
		a.send(pgwire.Bind("", "q"), pgwire.Execute("", 1), pgwire.Flush())
		a.read('s', 1)
		for range 5 {
			b.want("b", "SELECT 'b'")
		}
		a.send(pgwire.Execute("", 0), pgwire.Sync())
		a.read('Z', 1)
	})
}

// TestPS23OneTransactionPerSync: an error undoes what the group has done before it.
func TestPS23OneTransactionPerSync(t *testing.T) {
	play(t, staging{modes: everyMode, setup: []string{"DROP TABLE IF EXISTS ps23; CREATE TABLE ps23(a int)"}}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("insert", "INSERT INTO ps23 VALUES ($1)"), pgwire.Parse("fail", "SELECT 1/$1::int"))
		s.move()
		a.failsGroup("22012", invoke("insert", "1"), invoke("fail", "0"))
		a.failsGroup("22012", pgwire.Parse("", "INSERT INTO ps23 VALUES (1)"), invoke(""), pgwire.Parse("", "SELECT 1/0"), invoke(""))
		s.move()
		a.want("0", "SELECT count(*) FROM ps23")
		a.group(invoke("insert", "1"), invoke("insert", "2"))
		a.want("2", "SELECT count(*) FROM ps23")
	})
}

// TestPS24PrepareExecuteCloseElsewhere: as drivers with a statement cache do it, each step on another backend.
func TestPS24PrepareExecuteCloseElsewhere(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		for i := range 3 {
			name := fmt.Sprint("__stmt_", i)
			a.group(pgwire.Parse(name, "SELECT $1::int + 1"), pgwire.Describe('S', name))
			b.group(pgwire.Parse(name, "SELECT 'b' || $1"), pgwire.Describe('S', name)) // the same name, another text
			s.move()
			a.wantGroup("42", pgwire.Bind("", name, []byte("41")), pgwire.Execute("", 0))
			b.wantGroup("bx", invoke(name, "x"))
			s.move()
			b.wantGroup("by", invoke(name, "y"))
			a.group(pgwire.Close('S', name))
			s.move()
			a.failsGroup("26000", invoke(name, "41"))
			b.wantGroup("bz", invoke(name, "z"))
		}
	})
}

// TestPS12DuplicateAndGhost: names are in use exactly when they are in PostgreSQL.
func TestPS12DuplicateAndGhost(t *testing.T) {
	setup := []string{"DROP TABLE IF EXISTS ps12"}
	play(t, staging{modes: everyMode, setup: setup}, func(s *stage) {
		a := s.client()
		a.failsGroup("42P01", pgwire.Parse("s", "SELECT * FROM ps12"))
		s.move()
		a.failsGroup("26000", invoke("s"))
		a.exec("CREATE TABLE ps12(a int)")
		a.group(pgwire.Parse("s", "SELECT * FROM ps12"))
		s.move()
		a.group(invoke("s"))
		a.failsGroup("42P05", pgwire.Parse("s", "SELECT * FROM ps12"))
		s.move()
		a.failsGroup("42P05", pgwire.Parse("s", "SELECT 1"))
		a.group(invoke("s"))
		// In one pipeline: the second is refused, its group skipped, the first is still there.
		a.send(pgwire.Parse("twice", "SELECT 'first'"), pgwire.Sync(), pgwire.Parse("twice", "SELECT 'second'"), invoke("twice"), pgwire.Sync(),
			invoke("twice"), pgwire.Sync())
		a.read('Z', 3)
		a.send(pgwire.Parse("both", "SELECT 'first'"), pgwire.Parse("both", "SELECT 'second'"), pgwire.Sync())
		a.read('Z', 1)
		s.move()
		a.wantGroup("first", invoke("both"))
		// An error behind a Parse does not take the statement back, one before it does.
		a.failsGroup("26000", pgwire.Parse("kept", "SELECT 'kept'"), invoke("nobody"), pgwire.Parse("lost", "SELECT 'lost'"))
		s.move()
		a.wantGroup("kept", invoke("kept"))
		a.failsGroup("26000", invoke("lost"))
		a.group(pgwire.Parse("lost", "SELECT 'found'"), invoke("lost"))
	})
}

// TestPS12ParseThatTimesOut leaves no ghost.
func TestPS12ParseThatTimesOut(t *testing.T) {
	setup := []string{`CREATE OR REPLACE FUNCTION slow_to_plan(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep($1); RETURN $1; END'`}
	play(t, staging{setup: setup}, func(s *stage) {
		a := s.client()
		a.exec("SET statement_timeout = 50")
		// The planner calls the function when it plans: at Bind.
		a.failsGroup("57014", pgwire.Parse("s", "SELECT slow_to_plan(30)"), invoke("s"))
		s.move()
		a.exec("SET statement_timeout = 0")
		a.failsGroup("42P05", pgwire.Parse("s", "SELECT 1"))
		a.group(pgwire.Close('S', "s"))
		a.wantGroup("1", pgwire.Parse("s", "SELECT 1"), invoke("s"))
		s.move()
		a.wantGroup("1", invoke("s"))
	})
}
