package sqllex

import (
	"strings"
	"testing"
)

// scan reads a text whole, byte by byte and in two pieces cut at every offset,
// and fails unless all agree, and unless the class so far is that of the text so
// far.
func scan(t *testing.T, sql string) Result {
	t.Helper()
	want := Scan([]byte(sql))
	var s Scanner
	for i := range len(sql) {
		s.Feed([]byte(sql[i : i+1]))
	}
	if got := s.End(); got != want {
		t.Fatalf("%q byte by byte: %+v, whole: %+v", sql, got, want)
	}
	for i := range len(sql) + 1 {
		s.Reset()
		s.Feed([]byte(sql[:i]))
		if got, want := s.Class(), Scan([]byte(sql[:i])).Class; got != want {
			t.Fatalf("%q: class %v of its first part, want %v", sql[:i], got, want)
		}
		s.Feed([]byte(sql[i:]))
		if got := s.End(); got != want {
			t.Fatalf("%q cut at %d: %+v, whole: %+v", sql, i, got, want)
		}
	}
	return want
}

func TestFlags(t *testing.T) {
	f := func(sql string, want Flags) {
		t.Helper()
		if got := scan(t, sql); got.Flags != want {
			t.Errorf("%q: flags %b, want %b", sql, got.Flags, want)
		}
	}
	// COPY
	f("COPY t FROM STDIN", CopyFromStdin)
	f("copy t (a, b) from stdin with (format csv)", CopyFromStdin)
	f("copy public.\"T\" from/* x */\nSTDIN", CopyFromStdin)
	f("copy t from -- where\n stdin", CopyFromStdin)
	f("copy t from stdout", CopyFromStdin)
	f("copy binary t from stdin", CopyFromStdin)
	f("select 1; copy t from stdin", CopyFromStdin)
	f("copy t to stdout", 0)
	f("copy t from '/srv/stdin'", 0)
	f("copy t from program 'stdin'", 0)
	f("copy (select a from b) to stdout", 0)
	f("select 'copy t from stdin'", 0)
	f("select 1 /* ; copy t from stdin */", 0)
	f("-- copy t from stdin\nselect 1", 0)
	f("select $$;copy t from stdin$$", 0)
	f("select $a$ $$ ; copy t from stdin $b$ $a$", 0)
	f("select $a$ $b$a$; copy t from stdin", CopyFromStdin)
	f("select \"; copy t from stdin\"", 0)
	f("select \"a\"\"; copy t from stdin\"", 0)
	f("select 'a''; copy t from stdin'", 0)
	// transactions
	f("begin", Begin)
	f("BEGIN ISOLATION LEVEL SERIALIZABLE", Begin)
	f("start transaction", Begin)
	f("commit", End)
	f("end", End)
	f("abort", End)
	f("rollback work", End)
	f("rollback to savepoint a", Savepoint)
	f("rollback transaction to a", Savepoint)
	f("commit and chain", End|Begin)
	f("commit and no chain", End)
	f("rollback and chain", End|Begin)
	f("commit prepared 'x'", 0)
	f("prepare transaction 'x'", End)
	f("begin; select 1; commit", Begin|End)
	f("savepoint a", Savepoint)
	// settings
	f("set a = 1", SetSession)
	f("set session a = 1", SetSession)
	f("SET search_path TO b", SetSession)
	f("set \"a.b\" = 1", SetSession)
	f("set local a = 1", SetLocal)
	f("set local /* x */ a = 1", SetLocal)
	f("set local.a = 1", SetSession)
	f("set transaction.a = 1", SetSession)
	f("set transaction read only", 0)
	f("set constraints all deferred", 0)
	f("set session characteristics as transaction read only", SetSession)
	f("set session authorization x", SetSession)
	f("set role x", SetSession)
	f("set time zone 'utc'", SetSession)
	f("reset all", SetSession)
	f("select set_config('a', 'b', false)", SetSession)
	f("select pg_catalog . set_config ('a', 'b', false)", SetSession)
	f("select SET_CONFIG/**/(a, b, c) from d", SetSession)
	f("select \"set_config\"('a', 'b', false)", SetSession)
	f("select \"SET_CONFIG\"('a', 'b', false)", 0)
	f("select set_config from t", 0)
	f("select set_config, (1)", 0)
	f("select 'set_config('", 0)
	f("update t set a = 1", 0)
	f("alter role x set a = 1", 0)
	// the rest
	f("listen a", Listen)
	f("unlisten *", Listen)
	f("notify a", Notify)
	f("select pg_notify('a', 'b')", Notify)
	f("prepare \"a\" as select 1", Prepare)
	f("prepare u&\"a\" as select 1", Prepare|TempTable)
	f("prepare a as select 1", Prepare)
	f("prepare transaction (int) as select 1", Prepare|End)
	f("prepare transaction as select 1", Prepare|End)
	f("execute a(1)", Execute)
	// what has a name only runs nothing, however that is written
	for _, name := range []string{"pg_temp", "\"pg_temp\"", "u&\"a\"", "u&\"a\" uescape '!'", "\"set_config\""} {
		f("listen "+name+"; select 1", Listen)
		f("unlisten "+name, Listen)
		f("notify "+name+", 'x'", Notify)
		f("deallocate prepare "+name, Deallocate)
		f("close "+name, CloseCursor)
		f("savepoint "+name+"; release savepoint "+name, Savepoint)
	}
	f("rollback to u&\"a\"", Savepoint)
	f("explain analyze execute a(1)", Execute)
	f("deallocate all", Deallocate)
	f("declare c cursor with hold for select 1", WithHold)
	f("declare c cursor without hold for select 1", 0)
	f("declare c cursor for with hold as (select 1) select 1 from hold", WithHold) // "with hold" is enough
	f("discard all", Discard)
	f("load 'x'", Load)
	f("do $$ begin perform set_config('a','b',false); end $$", Do)
	f("call p()", Do)
	f("call p(set_config('a','b',false))", Do|SetSession)
	// temporary objects
	f("create temp table a (b int)", TempTable)
	f("create temporary view a as select 1", TempTable)
	f("create or replace temp view a as select 1", TempTable)
	f("create local temp sequence a", TempTable)
	f("create table temp (temporary int)", 0)
	f("create unlogged table temp (a int)", 0)
	f("select 1 into temp a", TempTable)
	f("select 1 into local temporary table a", TempTable)
	f("with x as (select 1) select * into temp a from x", TempTable)
	f("explain analyze select 1 into temp a", TempTable)
	f("explain analyze create temp table a as select 1", TempTable)
	f("select 1 into a", 0)
	f("insert into temp values (1)", 0)
	f("with x as (select 1) insert into temp select * from x", 0)
	f("merge into temp using a on true when matched then do nothing", 0)
	f("select * from pg_temp.a", TempTable)
	f("select * from PG_TEMP_3.a", TempTable)
	f("create table \"pg_temp\".a (b int)", TempTable)
	f("select pg_temperature()", 0)
	// advisory locks
	f("select pg_advisory_lock(1)", AdvisoryLock)
	f("select pg_try_advisory_lock_shared (1, 2)", AdvisoryLock)
	f("select pg_advisory_xact_lock(1)", 0)
	f("select pg_try_advisory_xact_lock_shared(1)", 0)
	f("select pg_advisory_unlock(1)", AdvisoryUnlock)
	f("select pg_advisory_unlock_all()", AdvisoryUnlock)
	f("select 1 from t where pg_try_advisory_lock(id)", AdvisoryLock)
	f("select U&\"pg\\005fadvisory_lock\"(1)", TempTable|SetSession|Notify|AdvisoryLock|AdvisoryUnlock)
	// bodies in SQL
	f("create function f() returns int begin atomic select 1; select case when true then 1 end; end", 0)
	f("create or replace procedure f() begin atomic; end; set a = 1", SetSession)
	f("create rule r as on insert to t do also (select 1; select 2)", 0)
}

func TestStringsBothReadings(t *testing.T) {
	f := func(sql string, want Flags) {
		t.Helper()
		if got := scan(t, sql); got.Flags != want {
			t.Errorf("%q: flags %b, want %b", sql, got.Flags, want)
		}
	}
	f(`select '\'; set a = 1; --'`, SetSession) // ends at the second quote, if on
	f(`select '\'' ; set a = 1`, SetSession)    // ends at the third, if off
	f(`select 'a\'; listen x; select '; notify y; --'`, Listen|Notify)
	f(`select '\\'; set a = 1; --'`, SetSession) // the same in both
	f(`select 'a\b; set a = 1'`, 0)
	f(`select E'\'; set a = 1; --'`, 0)
	f(`select e'\\'; set a = 1; --'`, SetSession)
	f("select E'a'\n'\\'; set a = 1; --'", 0) // goes on as an escape string
	f("select E'a' -- x\n'\\'; set a = 1; --'", 0)
	f("select E'a', \n'\\\\'; set a = 1", SetSession)
	f(`select U&'\'; set a = 1`, SetSession)
	f(`select u & 'x' ; set a = 1`, SetSession)
	f(`select U&"a" , 1; set a = 1`, SetSession|TempTable)
	f(`select n'a' ; set a = 1`, SetSession)
	f(`select x'1f' ; set a = 1`, SetSession)
	f(`select 1e'\'; set a = 1`, 0)
	f("select $1; set a = 1", SetSession)
	f("select a$b$; set a = 1; --$b$", SetSession) // a$b$ is a name
	f("select $x set_config(1)", SetSession)
	f("select 1-2 ; set a = 1", SetSession)
	f("select 4/2 ; set a = 1", SetSession)
	f("select 1 /* /* */ ; set a = 1 */", 0)
	f("select 1 /* /* */ */ ; set a = 1", SetSession)
	f("select 1 /***/ ; set a = 1", SetSession)
	f("select 1 /*/ ; set a = 1", 0)
	f("select 1 +-- ; set a = 1\r; set b = 1", SetSession)
	f("select $é$ ; set a = 1 $é$", 0)
	f("select $"+strings.Repeat("t", maxTag)+"$ ; set a = 1", 0)
	f("select $"+strings.Repeat("t", maxTag+1)+"$ ; select 1", AllFlags)
	f("select 1set_config('a','b',false)", SetSession)
	f("select "+strings.Repeat("x", 100)+"(set_config(1))", SetSession)
	f("select \"pg_advisory_lock"+strings.Repeat("x", 40)+"\"(1)", 0)
	f("set", 0)
	f("select u&", 0)
	f("select 'abc", 0)
	f("select $", 0)
	f("select 1 -", 0)
	f("select \"pg_temp\"", TempTable)
	f("select $pg_temp", TempTable)
	f("set a = 1\x00", SetSession)
}

func TestClass(t *testing.T) {
	f := func(sql string, want Class) {
		t.Helper()
		if got := scan(t, sql); got.Class != want {
			t.Errorf("%q: class %v, want %v", sql, got.Class, want)
		}
	}
	f("", ClassDefault)
	f("select 1", ClassRead)
	f("(select 1) union (select 2)", ClassRead)
	f("/* a /* b */ */ ( -- c\n ( select 1))", ClassRead)
	f(" (with a as (delete from t returning 1) select 2)", ClassWrite)
	f("(values (1)) union all table t", ClassRead)
	f("values (1)", ClassRead)
	f("table t", ClassRead)
	f("show all", ClassRead)
	f("fetch 1 from c", ClassRead)
	f("move 1 in c", ClassRead)
	f("close c", ClassDefault)
	f("declare c cursor for select 1", ClassRead)
	f("declare c cursor for select 1 from t for update of t", ClassWrite)
	f("select a from t for update", ClassWrite)
	f("SELECT a FROM t FOR NO KEY UPDATE SKIP LOCKED", ClassWrite)
	f("select a from t limit 1 for share", ClassWrite)
	f("(select a from t for/**/key share nowait) union select 1", ClassWrite)
	f("with a as (select 1) select * from t for share", ClassWrite)
	f("table t for update", ClassWrite)
	f("explain select 1 from t for update", ClassRead)
	f("explain analyze select 1 from t for update", ClassWrite)
	f("select substring(a from 1 for 3), update, share, key from t", ClassRead)
	f("select 'for update' as \"for\", update from t", ClassRead)
	f("explain delete from t", ClassRead)
	f("explain create table a as select 1", ClassRead)
	f("explain (analyze, buffers) delete from t", ClassWrite)
	f("explain analyze create table a as select 1", ClassMaintenance)
	f("explain verbose select 1", ClassRead)
	f("explain analyze select 1", ClassRead)
	f("explain analyze insert into t values (1)", ClassWrite)
	f("explain (analyze) execute a", ClassDefault)
	f("explain with x as (delete from t returning 1) select 1", ClassRead)
	f("with a as (select 1) select 2", ClassRead)
	f("with a as (delete from t returning 1) select 2", ClassWrite)
	f("with a as (select 1) insert into t select 2", ClassWrite)
	f("insert into t values (1)", ClassWrite)
	f("MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE", ClassWrite)
	f("select a into b from c", ClassWrite)
	f("vacuum full", ClassMaintenance)
	f("create index i on t(a)", ClassMaintenance)
	f("alter table t add a int", ClassMaintenance)
	f("create table a as select 1", ClassMaintenance)
	f("truncate t", ClassMaintenance)
	f("refresh materialized view v", ClassMaintenance)
	f("reindex table t", ClassMaintenance)
	f("analyze", ClassMaintenance)
	f("drop table t", ClassMaintenance)
	f("grant select on t to r", ClassMaintenance)
	f("copy t to stdout", ClassCopy)
	f("copy t from stdin", ClassCopy)
	f("copy (select 1) to stdout", ClassCopy)
	f("call p()", ClassDefault)
	f("do $$ begin delete from t; end $$", ClassDefault)
	f("execute a", ClassDefault)
	f("begin", ClassTransaction)
	f("begin; insert into t values (1); select 1", ClassWrite)
	f("begin read only; insert into t values (1)", ClassRead)
	f("start transaction isolation level read committed, read only", ClassRead)
	f("begin isolation level read committed", ClassTransaction)
	f("begin read write; select 1", ClassRead)
	f("begin; ; /* x */ ; copy t from stdin", ClassCopy)
	f("begin; lock table t; select 1", ClassWrite)
	f("begin; begin; select 1", ClassRead)
	f("begin; set local a = 1; select 1", ClassDefault)
	f("begin; commit", ClassTransaction)
	f("commit", ClassTransaction)
	f("savepoint a", ClassTransaction)
	f("set a = 1; select 1", ClassDefault)
	f("lock t in share mode", ClassWrite)
	f("listen a", ClassDefault)
	f("\"select\" 1", ClassDefault)
	f("select 1; delete from t", ClassRead)
	f("averyveryverylongfirstwordindeed a", ClassDefault)
	f(strings.Repeat("select", 10)+" a", ClassDefault)
}

func TestStatements(t *testing.T) {
	f := func(sql string, want int) {
		t.Helper()
		if got := scan(t, sql); got.Statements != want {
			t.Errorf("%q: %d statements, want %d", sql, got.Statements, want)
		}
	}
	f("", 0)
	f(" ; -- x\n ;/* y */", 0)
	f("select 1", 1)
	f("select 1;", 1)
	f("select 1;;select 2", 2)
	f("select ';'; select \";\"; select $$;$$", 3)
	f("create rule r as on insert to t do also (select 1; select 2); select 3", 2)
	f("create function f() returns int begin atomic select 1; select 2; end; select 3", 2)
	f("create function f() returns int language sql as 'select 1; select 2'; select 3", 2)
	f("1", 1)
	f("select 1)); select 2", 2)
	f(`select '\'; select 2; --'`, 2)
}

func TestClassNames(t *testing.T) {
	for c, want := range []string{"default", "read", "write", "maintenance", "copy", "transaction"} {
		if got := Class(c).String(); got != want {
			t.Errorf("class %d is %q, want %q", c, got, want)
		}
	}
}

// FuzzScan: a text cut anywhere means what it means whole.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"select 'a\\'' ; set a = 1", "copy t from/*/**/*/stdin", "select $a$ $b$a$; $$ x $$",
		"select E'a'\n'b\\'' u&\"x\"\"\"(", "begin read only; select set_config ( 'a' )",
		"create function f() begin atomic case x end; end; listen a", "prepare transaction 'a'; set local.a",
		"set session timezone to 'x\\'; set timezone to default; --'", "select a for no key update; set datestyle = iso, dmy",
	} {
		f.Add([]byte(s), uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, sql []byte, a, b uint16) {
		want := Scan(sql)
		var s Scanner
		x := min(int(a), len(sql))
		y := min(x+int(b), len(sql))
		s.Feed(sql[:x])
		s.Feed(sql[x:y])
		if got, want := s.Class(), Scan(sql[:y]).Class; got != want {
			t.Fatalf("%q: class %v of its first %d bytes, want %v", sql, got, y, want)
		}
		s.Feed(sql[y:])
		if got := s.End(); got != want {
			t.Fatalf("%q cut at %d and %d: %+v, whole: %+v", sql, x, y, got, want)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct{ name, sql string }{
		{"point", "SELECT abalance FROM pgbench_accounts WHERE aid = 123456;"},
		{"update", "UPDATE pgbench_tellers SET tbalance = tbalance + -1234 WHERE tid = 12;"},
		{"begin", "BEGIN"},
		{"string1MB", "INSERT INTO t VALUES ('" + strings.Repeat("x", 1<<20) + "')"},
		{"words1MB", "SELECT " + strings.Repeat("some_column, ", 1<<20/13) + "1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			sql := []byte(c.sql)
			b.SetBytes(int64(len(sql)))
			b.ReportAllocs()
			for b.Loop() {
				if Scan(sql).Statements != 1 {
					b.Fatal("not one statement")
				}
			}
		})
	}
}
