package e2e

import (
	"testing"

	"pgkinetic/internal/pgwire"
)

// TestTemporaryTableShadows: a text that another client has prepared means the client's own temporary table to a client that
// has one of that name, and the other way round.
func TestTemporaryTableShadows(t *testing.T) {
	setup := []string{
		"DROP TABLE IF EXISTS public.shadowed", "CREATE TABLE public.shadowed AS SELECT 'public'::text AS v",
	}
	const text = "SELECT v FROM shadowed"
	play(t, staging{setup: setup, size: 1}, func(s *stage) {
		warm := s.client()
		warm.quiet = true
		warm.exec("CREATE TEMP TABLE other (x int); DROP TABLE other") // the server has a schema for temporary tables
		warm.exec("DISCARD ALL")
		a, b := s.client(), s.client()
		a.wantGroup("public", pgwire.Parse("s", text), invoke("s"))
		a.wantGroup("public", invoke("s"))
		b.exec("CREATE TEMP TABLE shadowed AS SELECT 'mine'::text AS v")
		b.wantGroup("mine", pgwire.Parse("s", text), invoke("s"))
		b.wantGroup("mine", pgwire.Parse("", text), invoke(""))
		b.exec("DISCARD ALL")
		a.wantGroup("public", invoke("s"))
		a.wantGroup("public", pgwire.Parse("", text), invoke(""))
	})
}

// TestTemporaryTableLeavesNoPlan: the types of a temporary table are in no plan of another client.
func TestTemporaryTableLeavesNoPlan(t *testing.T) {
	setup := []string{
		"DROP TABLE IF EXISTS public.shadowed", "CREATE TABLE public.shadowed (v text)", "INSERT INTO public.shadowed VALUES ('public')",
	}
	const text = "SELECT v FROM shadowed WHERE v = $1"
	play(t, staging{setup: setup, size: 1}, func(s *stage) {
		b := s.client()
		b.exec("CREATE TEMP TABLE shadowed AS SELECT 1::int AS v")
		b.wantGroup("1", pgwire.Parse("s", text), invoke("s", "1"))
		b.wantGroup("1", invoke("s", "1"))
		b.c.Close()
		a := s.client()
		a.wantGroup("public", pgwire.Parse("s", text), pgwire.Describe('S', "s"), invoke("s", "public"))
		a.wantGroup("public", invoke("s", "public"))
	})
}

// TestSchemaOfEachTenant: the same text in two schemas, whose tables have columns of different types.
func TestSchemaOfEachTenant(t *testing.T) {
	setup := []string{
		"DROP SCHEMA IF EXISTS t1 CASCADE", "DROP SCHEMA IF EXISTS t2 CASCADE", "CREATE SCHEMA t1", "CREATE SCHEMA t2",
		"CREATE TABLE t1.things AS SELECT 1::int AS v", "CREATE TABLE t2.things AS SELECT 'one'::text AS v",
	}
	play(t, staging{setup: setup, size: 1}, func(s *stage) {
		a, b := s.client("search_path", "t1"), s.client("search_path", "t2")
		for range 2 {
			a.group(pgwire.Parse("s", "SELECT v FROM things WHERE v = $1"))
			a.group(pgwire.Describe('S', "s"))
			b.group(pgwire.Parse("s", "SELECT v FROM things WHERE v = $1"))
			b.group(pgwire.Describe('S', "s"))
			a.wantGroup("1", invoke("s", "1"))
			b.wantGroup("one", invoke("s", "one"))
			a.wantGroup("1", invoke("s", "1"))
			b.wantGroup("one", invoke("s", "one"))
			a.group(pgwire.Close('S', "s"))
			b.group(pgwire.Close('S', "s"))
			a.exec("SELECT 1")
		}
	})
}

// TestMigratedParameter: after a migration that changes a parameter's type, a fresh client is served.
func TestMigratedParameter(t *testing.T) {
	setup := []string{"DROP TABLE IF EXISTS public.moved", "CREATE TABLE public.moved AS SELECT 7 AS id, 'x'::text AS v"}
	const text = "SELECT v FROM moved WHERE id = $1"
	const insert = "INSERT INTO moved (id) VALUES ($1)"
	play(t, staging{setup: setup, size: 1}, func(s *stage) {
		a := s.client()
		a.quiet = true
		a.wantGroup("x", pgwire.Parse("s", text), pgwire.Parse("i", insert), invoke("s", "7"))
		a.group(invoke("i", "7"))
		a.exec("DELETE FROM moved WHERE v IS NULL")
		a.exec("ALTER TABLE moved ALTER id TYPE text")
		b := s.client()
		b.wantGroup("x", pgwire.Parse("s", text), pgwire.Describe('S', "s"), invoke("s", "7"))
		c := s.client()
		c.wantGroup("x", pgwire.Parse("s", text), pgwire.Describe('S', "s"), invoke("s", "7"))
		c.wantGroup("x", pgwire.Parse("", text), invoke("", "7"))
		c.wantGroup("", pgwire.Parse("i", insert), invoke("i", "abc"))
		c.wantGroup("", pgwire.Parse("i2", insert), invoke("i2", "abc"))
	})
}

func TestExecuteOfAStatementByAGroup(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("a", "SELECT $1::text || current_setting('application_name')"))
		a.group(pgwire.Close('S', "b"), pgwire.Parse("b", "EXECUTE a('1')"), invoke("b"))
	})
}

func TestPipelineBehindAReset(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client("TimeZone", "Asia/Tokyo")
		a.group(pgwire.Parse("b", "SELECT 1"))
		a.send(pgwire.Query("RESET TimeZone"), pgwire.Parse("b", "SELECT 1"), pgwire.Sync())
		a.read('Z', 2)
	})
}

func TestResetBehindAPin(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client("TimeZone", "Asia/Tokyo")
		a.exec("PREPARE q AS SELECT 1")
		a.group(pgwire.Parse("b", "SELECT 1"))
		a.send(pgwire.Query("RESET TimeZone"), pgwire.Parse("b", "SELECT 1"), pgwire.Sync())
		a.read('Z', 2)
	})
}

func TestResetBehindAnError(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client("TimeZone", "Asia/Tokyo")
		a.group(pgwire.Parse("b", "SELECT 1"))
		a.send(pgwire.Parse("b", "SELECT 1"), pgwire.Sync(), pgwire.Query("RESET TimeZone"), pgwire.Parse("b", "SELECT 1"), pgwire.Sync())
		a.read('Z', 3)
	})
}

func TestDeallocateBehindAnError(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("a", "SELECT 1"))
		a.fails("22012", "SELECT 1/0; DEALLOCATE a")
		b.exec("PREPARE a AS SELECT 2")
		b.want("2", "EXECUTE a")
		b.c.Close()
		a.wantGroup("1", invoke("a"))
	})
}

func TestDeallocateInAFailedQuery(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("a", "SELECT 1"))
		a.fails("42601", "DEALLOCATE a; SELEC")
		b.fails("26000", "EXECUTE a")
		b.exec("PREPARE a AS SELECT 2")
		b.want("2", "EXECUTE a")
		b.c.Close()
		a.wantGroup("1", invoke("a"))
		a.exec("DEALLOCATE a")
		a.fails("26000", "DEALLOCATE a")
	})
}

func TestExecuteInAFailedBlock(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("a", "SELECT 1"))
		a.exec("BEGIN")
		a.fails("22012", "SELECT 1/0")
		a.fails("25P02", "EXECUTE a")
		a.exec("ROLLBACK")
		a.wantGroup("1", invoke("a"))
		a.want("1", "EXECUTE a")
	})
}

func TestDeallocateRemovedByAnError(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("a", "SELECT 1"))
		a.group(pgwire.Parse("z", "SELECT 1/0"))
		a.group(pgwire.Parse("d", "DEALLOCATE a"))
		a.send(invoke("z"), invoke("d"), pgwire.Sync())
		a.read('Z', 1)
		a.wantGroup("1", invoke("a"))
		b := s.client()
		b.exec("PREPARE a AS SELECT 2")
		b.c.Close()
		a.exec("BEGIN")
		a.send(invoke("z"), pgwire.Sync(), pgwire.Query("DEALLOCATE a"))
		a.read('Z', 2)
		a.exec("ROLLBACK")
		a.wantGroup("1", invoke("a"))
	})
}

func TestExecuteInAFailedPipeline(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("a", "SELECT 1"))
		a.exec("BEGIN")
		a.send(pgwire.Query("SELECT 1/0"), pgwire.Query("EXECUTE a"), pgwire.Query("ROLLBACK"), invoke("a"), pgwire.Sync())
		a.read('Z', 4)
		a.wantGroup("1", invoke("a"))
	})
}

// TestDeallocateOnceMore: a DEALLOCATE behind one that has failed, in the same pipeline, and an Execute without its portal.
func TestDeallocateOnceMore(t *testing.T) {
	play(t, staging{size: 1}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("b", "SELECT 1"))
		a.group(pgwire.Parse("d", "DEALLOCATE b"))
		a.group(pgwire.Parse("z", "SELECT 1/0"))
		a.group(invoke("d")) // the next link knows d
		a.group(pgwire.Parse("b", "SELECT 1"))
		a.send(pgwire.Query("SELECT 1/0; DEALLOCATE b"), invoke("d"), pgwire.Sync())
		a.read('Z', 2)
		a.failsGroup("26000", invoke("b"))
		a.group(pgwire.Parse("b", "SELECT 2"))
		a.send(invoke("d"), invoke("z"), pgwire.Sync(), pgwire.Execute("", 0), pgwire.Sync(), invoke("d"), pgwire.Sync())
		a.read('Z', 3)
		a.group(pgwire.Parse("b", "SELECT 3"))
		a.send(invoke("z"), invoke("d"), pgwire.Sync(), pgwire.Execute("", 0), pgwire.Sync(), invoke("d"), pgwire.Sync())
		a.read('Z', 3)
		a.failsGroup("26000", invoke("b"))
	})
}
