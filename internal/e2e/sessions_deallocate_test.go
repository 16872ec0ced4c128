package e2e

import (
	"fmt"
	"testing"

	"pgkinetic/internal/pgwire"
)

// resets are the ways to lose all prepared statements by a text.
var resets = []string{"DEALLOCATE ALL", "DISCARD ALL", "deallocate prepare all", "/* all */ DeAllocate -- of them\n ALL ;"}

// TestPS07ResetInAPipeline: what was made before it is gone, what is made behind it stays.
func TestPS07ResetInAPipeline(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, other := s.client(), s.client()
		other.group(pgwire.Parse("before", "SELECT 'other'"))
		for i, reset := range resets {
			n0, n1, n2 := fmt.Sprint("n0_", i), fmt.Sprint("n1_", i), fmt.Sprint("n2_", i)
			a.group(pgwire.Parse(n0, "SELECT 5"), pgwire.Parse(n2, "SELECT 6"))
			s.move()
			a.group(pgwire.Parse("", reset), invoke(""), pgwire.Parse(n1, "SELECT 7"))
			s.move()
			a.wantGroup("7", invoke(n1))
			a.failsGroup("26000", invoke(n0))
			a.failsGroup("26000", pgwire.Describe('S', n2))
			a.group(pgwire.Parse(n2, "SELECT 8"), invoke(n2))
			s.move()
			// Several groups in one write: each sees what those before it have left.
			a.send(invoke(n2), pgwire.Sync(), pgwire.Query(reset), invoke(n2), pgwire.Sync(), pgwire.Parse(n2, "SELECT 9"), invoke(n2), pgwire.Sync())
			a.read('Z', 4)
			s.move()
			a.wantGroup("9", invoke(n2))
			a.failsGroup("26000", invoke(n1))
		}
		other.wantGroup("other", invoke("before"))
	})
}

// TestPS07ResetAsANamedStatement is executed again and again, and takes itself away.
func TestPS07ResetAsANamedStatement(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		for range 3 {
			a.group(pgwire.Parse("reset", "DEALLOCATE ALL"), pgwire.Parse("s", "SELECT 1"))
			s.move()
			a.wantGroup("1", invoke("s"))
			s.move()
			a.group(invoke("reset"))
			s.move()
			a.failsGroup("26000", invoke("s"))
			a.failsGroup("26000", invoke("reset"))
		}
	})
}

// TestPS07ResetThatFails: DEALLOCATE is not undone by an error or a rollback behind it, and has not happened when the error
// came before it.
func TestPS07ResetThatFails(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		prepare := func() {
			a.send(pgwire.Parse("s", "SELECT 's'"), pgwire.Sync(), pgwire.Parse("t", "SELECT 't'"), pgwire.Sync())
			a.read('Z', 2)
			s.move()
		}
		check := func() {
			s.move()
			a.send(invoke("s"), pgwire.Sync(), invoke("t"), pgwire.Sync())
			a.read('Z', 2)
			a.exec("DEALLOCATE ALL")
		}
		prepare()
		a.failsGroup("22012", pgwire.Parse("", "DEALLOCATE s"), invoke(""), pgwire.Parse("", "SELECT 1/0"), invoke(""))
		check()
		prepare()
		a.failsGroup("22012", pgwire.Parse("", "SELECT 1/0"), invoke(""), pgwire.Parse("", "DEALLOCATE s"), invoke(""))
		check()
		prepare()
		a.fails("22012", "DEALLOCATE s; SELECT 1/0; DEALLOCATE t")
		check()
		prepare()
		a.fails("42601", "DEALLOCATE s; DEALLOCATE ALL; SELEC")
		check()
		prepare()
		a.group(pgwire.Parse("", "DEALLOCATE s")) // parsed but not executed
		check()
		prepare()
		a.group(pgwire.Parse("", "DEALLOCATE s"), pgwire.Bind("", "")) // nor here
		check()
		prepare()
		a.fails("25001", "SELECT 1; DISCARD ALL")
		check()
		prepare()
		a.want("DEALLOCATE ALL", "SELECT 'DEALLOCATE ALL' /* ; DISCARD ALL */ -- ; DEALLOCATE s")
		check()
	})
}

// TestPS07ResetInABlock: prepared statements do not follow transactions.
func TestPS07ResetInABlock(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("s", "SELECT 's'"), pgwire.Parse("t", "SELECT 't'"))
		s.move()
		a.exec("BEGIN")
		a.exec("SAVEPOINT one")
		a.exec("DEALLOCATE s")
		a.group(pgwire.Parse("u", "SELECT 'u'"))
		a.exec("ROLLBACK TO one")
		a.failsGroup("26000", invoke("s"))
		a.exec("ROLLBACK")
		s.move()
		a.failsGroup("26000", invoke("s"))
		a.wantGroup("t", invoke("t"))
		a.wantGroup("u", invoke("u"))
		a.exec("BEGIN")
		a.fails("25001", "DISCARD ALL")
		a.exec("ROLLBACK")
		s.move()
		a.wantGroup("t", invoke("t"))
	})
}

// TestPS08DeallocateByName: as PDO frees its statements; other clients with the same text keep theirs.
func TestPS08DeallocateByName(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("pdo_stmt_1", "SELECT 'same', $1::int"), pgwire.Describe('S', "pdo_stmt_1"))
		b.group(pgwire.Parse("pdo_stmt_1", "SELECT 'same', $1::int"))
		s.move()
		a.wantGroup("same|1", invoke("pdo_stmt_1", "1"))
		a.exec("DEALLOCATE pdo_stmt_1")
		s.move()
		a.failsGroup("26000", invoke("pdo_stmt_1", "1"))
		b.wantGroup("same|2", invoke("pdo_stmt_1", "2"))
		a.fails("26000", "DEALLOCATE pdo_stmt_1")
		a.fails("26000", "DEALLOCATE never_made")
		a.failsGroup("26000", pgwire.Parse("", "DEALLOCATE never_made"), invoke(""))
		s.move()
		a.group(pgwire.Parse("pdo_stmt_1", "SELECT 'again'"))
		s.move()
		a.wantGroup("again", invoke("pdo_stmt_1"))
		b.wantGroup("same|3", invoke("pdo_stmt_1", "3"))
	})
}

// TestPS08NamesAreIdentifiers: a name in a text is folded and quoted as SQL says, a name in a message is not.
func TestPS08NamesAreIdentifiers(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		for _, name := range []string{"lower", "Upper", `with "quotes"`, "with blank", "all", "é"} {
			a.group(pgwire.Parse(name, "SELECT 'x'"))
		}
		s.move()
		for _, text := range []string{
			"DEALLOCATE LOWER", "DEALLOCATE Upper", `DEALLOCATE PREPARE "Upper"`, `DEALLOCATE "with ""quotes"""`, `DEALLOCATE PREPARE "with blank"`,
			`DEALLOCATE "all"`, "DEALLOCATE é",
		} {
			a.query(text)
		}
		s.move()
		for _, name := range []string{"lower", "Upper", `with "quotes"`, "with blank", "all", "é"} {
			a.group(invoke(name))
		}
	})
}

// TestPS08UnicodeNames: an identifier may be written with escapes.
func TestPS08UnicodeNames(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("with blank", "SELECT 'x'"), pgwire.Parse("other", "SELECT 'other'"))
		s.move()
		a.exec(`DEALLOCATE U&"with\0020blank"`)
		s.move()
		a.failsGroup("26000", invoke("with blank"))
		a.exec(`DEALLOCATE U&"!006Fther" UESCAPE '!'`)
		s.move()
		a.failsGroup("26000", invoke("other"))
	})
}

// TestPS08InAPipeline: DEALLOCATE as an extended statement and in a multi-statement query takes effect in its place.
func TestPS08InAPipeline(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("s", "SELECT 1"), pgwire.Parse("t", "SELECT 2"))
		s.move()
		a.group(invoke("s"), pgwire.Parse("", "DEALLOCATE s"), invoke(""), pgwire.Parse("s", "SELECT 3"), invoke("s"))
		s.move()
		a.wantGroup("3", invoke("s"))
		a.failsGroup("26000", pgwire.Parse("u", "SELECT 4"), pgwire.Parse("", "DEALLOCATE u"), invoke(""), invoke("u"))
		a.exec("DEALLOCATE s; SELECT 5; DEALLOCATE t")
		s.move()
		a.failsGroup("26000", invoke("s"))
		a.failsGroup("26000", invoke("t"))
		a.failsGroup("26000", pgwire.Parse("", "DEALLOCATE ALL"), invoke(""), pgwire.Parse("", "DEALLOCATE s"), invoke(""))
	})
}

// TestPS27SQLPrepare keeps its backend until the statement is deallocated.
func TestPS27SQLPrepare(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.exec("PREPARE a(int) AS SELECT $1 + 1")
		for range 5 {
			s.pinned()
			a.want("2", "EXECUTE a(1)")
		}
		a.failsGroup("42P05", pgwire.Parse("a", "SELECT 1"))
		a.fails("42P05", "PREPARE a AS SELECT 1")
		a.exec("PREPARE b AS SELECT 'b'")
		a.exec("DEALLOCATE a")
		s.pinned()
		a.want("b", "EXECUTE b")
		a.exec("DEALLOCATE b")
		s.move()
		a.fails("26000", "EXECUTE b")
		a.group(pgwire.Parse("a", "SELECT 'protocol'"))
		s.move()
		a.wantGroup("protocol", invoke("a"))
		for _, reset := range resets {
			a.exec("PREPARE c AS SELECT 'c'")
			s.pinned()
			a.want("c", "EXECUTE c")
			a.exec(reset)
			s.move()
			a.fails("26000", "EXECUTE c")
		}
	})
}

// TestPS27PrepareThatFails pins nothing; one in a block that is rolled back stays, as in PostgreSQL.
func TestPS27PrepareThatFails(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.fails("42601", "PREPARE x AS bad")
		s.move()
		a.fails("26000", "EXECUTE x")
		a.exec("BEGIN; PREPARE y AS SELECT 'y'")
		a.exec("ROLLBACK")
		s.pinned()
		a.want("y", "EXECUTE y")
		a.exec("DEALLOCATE y")
		s.move()
		a.want("1", "SELECT 1")
		a.group(pgwire.Parse("", "PREPARE z AS SELECT 'z'"), invoke(""))
		s.pinned()
		a.wantGroup("z", pgwire.Parse("", "EXECUTE z"), invoke(""))
		a.group(pgwire.Parse("", "DEALLOCATE z"), invoke(""))
		s.move()
		a.exec("PREPARE once AS SELECT 'once'; EXECUTE once; DEALLOCATE once")
		s.move()
		a.want("1", "SELECT 1")
	})
}

// TestPS27BothWorlds: statements of SQL used by the protocol, and the other way round.
func TestPS27BothWorlds(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "session"}}, func(s *stage) {
		a := s.client()
		a.exec("PREPARE sql(int) AS SELECT $1 * 2")
		a.wantGroup("8", invoke("sql", "4"))
		a.group(pgwire.Describe('S', "sql"))
		a.group(pgwire.Close('S', "sql"))
		a.fails("26000", "EXECUTE sql(1)")
		a.exec("DEALLOCATE ALL")
		s.move()
		a.group(pgwire.Parse("protocol", "SELECT $1::int * 3"))
		s.move()
		a.wantGroup("12", invoke("protocol", "4"))
	})
}

// TestPS27ExecuteOfAProtocolStatement works or is refused as not supported; it never looks like a lost statement.
func TestPS27ExecuteOfAProtocolStatement(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("protocol", "SELECT $1::int * 3"))
		s.move()
		a.quiet = true
		all := a.query("EXECUTE protocol(4)")
		if row(all) != "12" && errorCode(all) != "0A000" {
			s.t.Errorf("got\n%s", pgwire.Transcript(all))
		}
		a.quiet = false
		a.wantGroup("15", invoke("protocol", "5"))
	})
}
