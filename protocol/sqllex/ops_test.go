package sqllex

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

var opNames = [...]string{
	"unknown", "begin", "commit", "rollback", "prepare transaction", "savepoint", "release", "rollback to",
	"set", "reset", "reset all", "discard all", "discard plans", "discard temp", "discard sequences",
	"prepare", "execute", "deallocate", "deallocate all", "listen", "unlisten", "unlisten all", "notify",
	"declare hold", "close", "close all", "lock", "unlock", "unlock all", "temp", "load", "do",
}

// describe writes operations as "statement:kind [local] [chain] name=value".
func describe(sql string) string {
	var all []string
	for _, o := range AppendOps(nil, []byte(sql)) {
		s := fmt.Sprintf("%d:%s", o.Statement, opNames[o.Kind])
		if o.Local {
			s += " local"
		}
		if o.Chain {
			s += " chain"
		}
		if name, ok := o.AppendName(nil, []byte(sql)); ok {
			s += " " + string(name)
		} else if !o.Name.Empty() {
			s += " ?"
		}
		if o.Kind == OpSet {
			value, ok := o.AppendValue(nil, []byte(sql), false)
			if !ok {
				value = []byte("?")
			}
			s += "=" + string(value)
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

func TestOps(t *testing.T) {
	f := func(sql, want string) {
		t.Helper()
		if got := describe(sql); got != want {
			t.Errorf("%q:\n %s\nwant\n %s", sql, got, want)
		}
	}
	f("", "")
	f("select 1", "")
	f("copy t from stdin", "")
	// SET.
	f("set a = 1", "0:set a=1")
	f(" ;; SET /* x */ Work_Mem TO '8MB' -- y", "0:set work_mem=E'8MB'")
	f("select 1; set session x.\"Y\" = on;", "1:set x.y=E'on'")
	f("set search_path = foo, \"Bar\", 'it''s', $$q$$", `0:set search_path=E'foo',E'Bar',E'it''s',E'q'`)
	f("set a to -1.5e+3", "0:set a=-1.5e+3")
	f("set a to +5", "0:set a=+5")
	f("set a = 0x1F", "0:set a=0x1F")
	f("set a = E'x\\ty\\x41\\101\\'\\\\'", `0:set a=E'x`+"\t"+`yAA''\\'`)
	f("set a = 'x'\n 'y'", "0:set a=E'xy'")
	f("set a = 'x' 'y'", "0:set a=?")
	f("set a = 'é'", "0:set a=?")
	f("set a = U&'x'", "0:set a=?")
	f(`set a = E'\u0041'`, "0:set a=?")
	f("set a = b c", "0:set a=?")
	f("set a = 1 2", "0:set a=?")
	f("set a = ,", "0:set a=?")
	f("set a = default", "0:reset a")
	f("set a = \"default\"", "0:set a=E'default'")
	f("set a = default, default", "0:set a=E'default',E'default'")
	f("set a from current", "0:set a=?")
	f("set local a = 1", "0:set local a=1")
	f("set local.a = 1", "0:set local.a=1")
	f("set session.a = 1", "0:set session.a=1")
	f("set session = 1", "0:set session=1")
	f("set session session.a = 1", "0:set session.a=1")
	f("set a", "0:unknown")
	f("set", "")
	f("set local", "0:unknown")
	// Its special forms.
	f("set time zone 'utc'", "0:set timezone=E'utc'")
	f("set session time zone -3", "0:set timezone=-3")
	f("set time zone local", "0:reset timezone")
	f("set time zone default", "0:reset timezone")
	f("set local time zone interval '1' hour", "0:set local timezone=?")
	f("set names 'utf8'", "0:set client_encoding=E'utf8'")
	f("set names", "0:reset client_encoding")
	f("set names default", "0:reset client_encoding")
	f("set names = 'x'", "0:set names=E'x'")
	f("set schema 'x'", "0:set search_path=E'x'")
	f("set xml option document", "0:set xmloption=E'document'")
	f("set role none", "0:set role=E'none'")
	f("set local role \"A b\"", "0:set local role=E'A b'")
	f("set role to x", "0:set role=E'x'")
	f("set session authorization 'x'", "0:set session_authorization=E'x'")
	f("set session session authorization default", "0:reset session_authorization")
	f("set local session authorization y", "0:set local session_authorization=E'y'")
	f("set session characteristics as transaction isolation level read committed, read only not deferrable",
		"0:set default_transaction_isolation=E'read committed'; 0:set default_transaction_read_only=E'on'; 0:set default_transaction_deferrable=E'off'")
	f("set session characteristics as transaction isolation level read uncommitted, read write, deferrable",
		"0:set default_transaction_isolation=E'read uncommitted'; 0:set default_transaction_read_only=E'off'; 0:set default_transaction_deferrable=E'on'")
	f("set session characteristics as transaction isolation level repeatable read, isolation level serializable",
		"0:set default_transaction_isolation=E'repeatable read'; 0:set default_transaction_isolation=E'serializable'")
	f("set session characteristics as transaction isolation level x", "0:unknown")
	f("set transaction isolation level serializable; set constraints all deferred; set session transaction read only", "")
	// RESET and DISCARD.
	f("reset Foo . \"Bar\"", "0:reset foo.bar")
	f("reset all", "0:reset all")
	f("reset \"all\"", "0:reset all") // a parameter of that name, which there is not
	f("reset time zone", "0:reset timezone")
	f("reset session authorization", "0:reset session_authorization")
	f("reset role", "0:reset role")
	f("reset transaction isolation level", "")
	f("reset 1", "0:unknown")
	f("discard all; discard plans; discard temp; discard temporary; discard sequences",
		"0:discard all; 1:discard plans; 2:discard temp; 3:discard temp; 4:discard sequences")
	// Transactions.
	f("begin; savepoint A; release savepoint \"a\"; release B; rollback to a; rollback work to savepoint c; abort; end and chain",
		"0:begin; 1:savepoint a; 2:release a; 3:release b; 4:rollback to a; 5:rollback to c; 6:rollback; 7:commit chain")
	f("start transaction; rollback and chain; commit and no chain; prepare transaction 'x'; commit prepared 'x'; rollback prepared 'x'",
		"0:begin; 1:rollback chain; 2:commit; 3:prepare transaction")
	// SQL prepared statements.
	f("prepare A as select 1; prepare \"A\"(int) as select 1; execute a(1); explain analyze execute \"b\"",
		"0:prepare a; 1:prepare A; 2:execute a; 3:execute b")
	f("prepare transaction (int) as select $1", "0:prepare transaction")
	f("deallocate a; deallocate prepare \"B\"; deallocate all; deallocate prepare all; deallocate \"all\"; deallocate prepare; DEALLOCATE PREPARE PREPARE",
		"0:deallocate a; 1:deallocate B; 2:deallocate all; 3:deallocate all; 4:deallocate all; 5:deallocate prepare; 6:deallocate prepare")
	// Channels.
	f("listen A; listen \"A\"\"\"; unlisten b; unlisten *; notify C, 'x'; select pg_notify('a', 'b')",
		`0:listen a; 1:listen A"; 2:unlisten b; 3:unlisten all; 4:notify c; 5:notify`)
	f("listen U&\"d\\0061t\\+000061 \\\\ \\D83D\\DE00\"", `0:listen data \ 😀`)
	f("listen U&\"d!0061!!\\\" /* x */ uescape '!'; deallocate u&\"!006Fther\" UESCAPE $$!$$", `0:listen da!\; 1:deallocate other`)
	f("set U&\"!0061\" uescape '!' . u&\"x_0062\" uescape E'\\137' = u&\"!0063\" uescape '!'", "0:set a.xb=E'c'; 0:temp")
	for _, escape := range []string{"''", "'!!'", "'a'", "'+'", "''''", "'\"'", "' '", "'é'", "U&'!'", "'!"} {
		f("listen U&\"d\\0061\" uescape "+escape, "0:listen ?")
	}
	f("listen U&\"\\\"", "0:listen ?")
	f("listen U&\"\\0000\"", "0:listen ?")
	f("listen U&\"\\DE00\"", "0:listen ?")
	f("listen U&\"\\D83Dx\"", "0:listen ?")
	f("listen U&\"\\00g1\"", "0:listen ?")
	f("listen "+strings.Repeat("Xy", 40), "0:listen "+strings.Repeat("xy", 31)+"x")
	f("listen \""+strings.Repeat("é", 40)+"\"", "0:listen "+strings.Repeat("é", 31))
	// Cursors, and what stays behind.
	f("declare C cursor with hold for select 1; declare d cursor for select 1; close c; close all",
		"0:declare hold c; 2:close c; 3:close all")
	f("create temp table a (b int); select 1 into temp x; select pg_temp.f()", "0:temp; 1:temp; 2:temp")
	f("select pg_advisory_lock(1), pg_advisory_unlock(2)", "0:unlock; 0:lock")
	f("select pg_catalog.pg_advisory_unlock_all()", "0:unlock all")
	f("select pg_advisory_unlock_all(), 1", "0:unlock")
	f("load 'x'; do $$begin end$$; call p()", "0:load; 1:do; 2:do")
	// set_config.
	f("SELECT pg_catalog.set_config('search_path', '', false)", "0:set search_path=?")
	f("select set_config('A.b', $1, true), \"set_config\"('c', $2, is_local)", "0:set local a.b=?; 0:set c=?")
	f("select set_config('a', coalesce($1, f(1, true)), not true)", "0:set a=?")
	f("select set_config($1, $2, true)", "0:unknown")
	f("select set_config('a', 'b', true), set_config(x, 'b', true)", "0:set local a=?; 0:unknown")
	f("select u&\"set_config\"('a', 'b', false)", "0:notify; 0:unlock; 0:lock; 0:temp; 0:unknown")
	// Where statements end.
	f("create function f() returns int begin atomic select case when true then 1 end; select 2; end; set a = 1", "1:set a=1")
	f("create rule r as on insert to t do also (select 1; select 2); set a = 1", "1:set a=1")
	f("select ';', \";\", $x$;$x$ /* ; /* ; */ ; */ -- ;\n; set a = 1", "1:set a=1")
	f("set a = 1; select $"+strings.Repeat("t", maxTag+1)+"$ ; set b = 1", "0:set a=1; 1:unknown")
	// Where the two readings of a text differ.
	f(`set a = '\'; listen x; --'`, "0:unknown")
	f(`set a = E'\'; listen x; --'`, `0:set a=E'''; listen x; --'`)
	f(`set a = '\n'`, `0:set a=E'\\n'`)
}

// With standard_conforming_strings off a backslash in a plain string escapes.
func TestValueOfEscapes(t *testing.T) {
	sql := []byte(`set a = '\x41\n', b`)
	ops := AppendOps(nil, sql)
	if got, ok := ops[0].AppendValue(nil, sql, true); !ok || string(got) != "E'A\n',E'b'" {
		t.Errorf("%s %t", got, ok)
	}
}

// Spans are those of the text as it was given.
func TestSpans(t *testing.T) {
	sql := []byte(`select 1; deallocate /* x */ "A b" ; set x = 1 , 2 ;`)
	ops := AppendOps(nil, sql)
	if got := string(ops[0].Name.Of(sql)); got != `"A b"` {
		t.Errorf("name %s", got)
	}
	if got := string(ops[1].Value.Of(sql)); got != "1 , 2" {
		t.Errorf("value %s", got)
	}
	if !ops[0].NameIs(sql, "A b") || ops[0].NameIs(sql, "a b") {
		t.Error("NameIs")
	}
}

// opFlags are the flags that an operation of a kind may account for.
var opFlags = [...]Flags{
	OpUnknown: AllFlags, OpBegin: Begin, OpCommit: End | Begin, OpRollback: End | Begin, OpPrepareTransaction: End,
	OpSavepoint: Savepoint, OpRelease: Savepoint, OpRollbackTo: Savepoint, OpSet: SetSession | SetReported | SetLocal,
	OpReset: SetSession | SetReported | SetLocal, OpResetAll: SetSession, OpDiscardAll: Discard, OpDiscardPlans: Discard,
	OpDiscardTemp: Discard, OpDiscardSequences: Discard, OpPrepare: Prepare | End, OpExecute: Execute,
	OpDeallocate: Deallocate, OpDeallocateAll: Deallocate, OpListen: Listen, OpUnlisten: Listen, OpUnlistenAll: Listen,
	OpNotify: Notify, OpDeclareHold: WithHold, OpClose: CloseCursor, OpCloseAll: CloseCursor, OpAdvisoryLock: AdvisoryLock,
	OpAdvisoryUnlock: AdvisoryUnlock, OpAdvisoryUnlockAll: AdvisoryUnlock, OpTemp: TempTable, OpLoad: Load, OpDo: Do,
}

// FuzzOps: the operations stand for what the flags say, and for nothing else.
func FuzzOps(f *testing.F) {
	for _, s := range []string{
		"set a = 1; reset b; set local c to d, 'e'", "begin; savepoint a; rollback to a; commit and chain",
		"select set_config('a', b, true); listen U&\"\\0041\"; deallocate all", "set time zone interval '1' hour",
		"create function f() returns int begin atomic select 1; end; discard all", "prepare transaction (int) as select 1",
		"set session characteristics as transaction read only", "set a = E'\\'' ; --'", "declare c cursor with hold for select 1",
		"set timezone = set_config('a', 'b', false)", "set names; set xml option document; set session session authorization x",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sql []byte) {
		r := Scan(sql)
		ops := AppendOps(nil, sql)
		said, last := Flags(0), int32(0)
		for i := range ops {
			o := &ops[i]
			said |= opFlags[o.Kind]
			if o.Kind != OpUnknown && opFlags[o.Kind]&r.Flags == 0 {
				t.Fatalf("%q: %s, flags %b", sql, opNames[o.Kind], r.Flags)
			}
			if o.Statement < last || int(o.Statement) >= r.Statements && r.Flags != AllFlags {
				t.Fatalf("%q: statement %d behind %d, of %d", sql, o.Statement, last, r.Statements)
			}
			last = o.Statement
			if int(o.Name.End) > len(sql) || o.Name.Start > o.Name.End || int(o.Value.End) > len(sql) || o.Value.Start > o.Value.End {
				t.Fatalf("%q: spans %v %v", sql, o.Name, o.Value)
			}
			_, _ = o.AppendName(nil, sql)
			if value, ok := o.AppendValue(nil, sql, false); ok {
				again := append([]byte("SET x TO "), value...)
				if ops := AppendOps(nil, again); len(ops) != 1 || ops[0].Kind != OpSet {
					t.Fatalf("%q: value %q", sql, value)
				}
			}
		}
		none := CopyFromStdin
		if lower := bytes.ToLower(sql); bytes.Contains(lower, []byte("transaction")) || bytes.Contains(lower, []byte("constraints")) {
			none |= SetLocal | SetSession // SET TRANSACTION and the like have no operation
		}
		if lost := r.Flags &^ said &^ none; lost != 0 {
			t.Fatalf("%q: flags %b, of which %b are not said: %s", sql, r.Flags, lost, describe(string(sql)))
		}
	})
}

func BenchmarkOps(b *testing.B) {
	for _, sql := range []string{"BEGIN", "SET search_path TO a, b", "SELECT 1; SET LOCAL statement_timeout = '5s'; SELECT 2"} {
		b.Run(sql[:5], func(b *testing.B) {
			text := []byte(sql)
			ops := make([]Op, 0, 8)
			b.ReportAllocs()
			for b.Loop() {
				ops = AppendOps(ops[:0], text)
			}
		})
	}
}
