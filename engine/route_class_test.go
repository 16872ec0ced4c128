package engine_test

import (
	"slices"
	"strings"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// grown tells by label how many permits were taken while f ran. Routes that took none are left out.
func grown(t testing.TB, e *engine.Engine, f func()) map[string]uint64 {
	t.Helper()
	rested(t, e)
	before := e.Tallies()
	f()
	rested(t, e)
	more := map[string]uint64{}
	for label, n := range e.Tallies() {
		if k := n.Admitted - before[label].Admitted; k != 0 {
			more[label] = k
		}
	}
	return more
}

// ran checks that one permit of exactly this route was taken while f ran.
func ran(t testing.TB, e *engine.Engine, what, label string, f func()) {
	t.Helper()
	if got := grown(t, e, f); len(got) != 1 || got[label] != 1 {
		t.Errorf("%s: permits taken %v, want one of %s", what, got, label)
	}
}

// TestClassOfRequest: which route a request takes its permit from is told by the first words of its statements.
func TestClassOfRequest(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists classed; create table classed (a int)")
	e, address := startYAML(t, databases(pg))
	c := login(t, address, "application_name", "app")
	usable(t, c)
	for _, test := range []struct{ sql, class string }{
		{"select 1", "read"},
		{"  /* note */ (select 1)", "read"},
		{"values (1)", "read"},
		{"table classed", "read"},
		{"with x as (select 1) select * from x", "read"},
		{"show work_mem", "read"},
		{"insert into classed values (1)", "write"},
		{"UPDATE classed set a = 2", "write"},
		{"-- first\ndelete from classed", "write"},
		{"with x as (insert into classed values (3) returning a) select * from x", "write"},
		{"merge into classed c using (select 1 as b) s on c.a = s.b when matched then delete", "write"},
		{"create table if not exists classed_2 (a int)", "maintenance"},
		{"drop table if exists classed_2", "maintenance"},
		{"analyze classed", "maintenance"},
		{"truncate classed", "maintenance"},
		{"copy (select 1) to stdout", "copy"},
		{"begin; commit", "transaction"},
		{"begin; insert into classed values (1); commit", "write"},
		{"begin; select 1; insert into classed values (1); commit", "read"},
		{"start transaction; update classed set a = 1; commit", "write"},
		{"begin read only; select 1; commit", "read"},
		{"begin isolation level serializable, read only; commit", "read"},
		{"begin read write; delete from classed; commit", "write"},
		{"select 1; insert into classed values (1)", "read"},
	} {
		label := "postgres/postgres/app/" + test.class
		// BEGIN … COMMIT in one simple Query is one request; extended, so is each statement in a group of its own while
		// the backend stays.
		ran(t, e, test.sql, label, func() { exec(t, c, test.sql) })
		if strings.Contains(test.sql, ";") {
			continue
		}
		ran(t, e, test.sql+", extended", label, func() {
			send(t, c, pgwire.Parse("", test.sql), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
			if all, err := c.ReadUntil('Z', 1); err != nil || strings.Contains(typesOf(all), "E") {
				t.Fatalf("%s: got %s, %v", test.sql, pgwire.Transcript(all), err)
			}
		})
	}
	ran(t, e, "FunctionCall", "postgres/postgres/app/default", func() {
		send(t, c, pgwire.FunctionCall(1598))
		answered(t, c, "VZI")
	})
}

// TestClassBehindBegin: a request that begins with BEGIN has the class of the first statement behind it that is here already.
func TestClassBehindBegin(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists behind; create table behind (a int)")
	e, address := startYAML(t, databases(pg))
	c := login(t, address, "application_name", "app")
	usable(t, c)
	extended := func(sql string) []byte {
		return slices.Concat(pgwire.Parse("", sql), pgwire.Bind("", ""), pgwire.Execute("", 0))
	}
	insert, query := "insert into behind values (1)", "select 1"
	for name, test := range map[string]struct {
		class    string
		messages [][]byte
		groups   int
	}{
		"BEGIN and INSERT in one packet":       {"write", [][]byte{pgwire.Query("begin"), pgwire.Query(insert), pgwire.Query("commit")}, 3},
		"BEGIN and SELECT in one packet":       {"read", [][]byte{pgwire.Query("begin"), pgwire.Query(query), pgwire.Query("commit")}, 3},
		"BEGIN READ ONLY and SELECT":           {"read", [][]byte{pgwire.Query("begin read only"), pgwire.Query(query), pgwire.Query("commit")}, 3},
		"extended, one group":                  {"write", [][]byte{extended("begin"), extended(insert), extended("commit"), pgwire.Sync()}, 1},
		"extended, groups":                     {"write", [][]byte{extended("begin"), pgwire.Sync(), extended(insert), pgwire.Sync(), extended("commit"), pgwire.Sync()}, 3},
		"extended, described":                  {"write", [][]byte{extended("begin"), pgwire.Describe('P', ""), pgwire.Sync(), extended(insert), pgwire.Sync(), extended("commit"), pgwire.Sync()}, 3},
		"BEGIN, then COMMIT only":              {"transaction", [][]byte{pgwire.Query("begin"), pgwire.Query("commit")}, 2},
		"BEGIN, SET LOCAL, INSERT":             {"default", [][]byte{pgwire.Query("begin"), pgwire.Query("set local work_mem = '1MB'"), pgwire.Query(insert), pgwire.Query("commit")}, 4},
		"SAVEPOINT between BEGIN and INSERT":   {"write", [][]byte{pgwire.Query("begin"), pgwire.Query("savepoint a"), pgwire.Query(insert), pgwire.Query("commit")}, 4},
		"extended BEGIN READ ONLY and nothing": {"read", [][]byte{extended("begin read only"), pgwire.Sync(), extended("commit"), pgwire.Sync()}, 2},
	} {
		ran(t, e, name, "postgres/postgres/app/"+test.class, func() {
			send(t, c, test.messages...)
			if all, err := c.ReadUntil('Z', test.groups); err != nil || strings.Contains(typesOf(all), "E") {
				t.Fatalf("%s: got %s, %v", name, pgwire.Transcript(all), err)
			}
		})
	}
	ran(t, e, "BEGIN alone", "postgres/postgres/app/transaction", func() {
		exec(t, c, "begin")
		exec(t, c, insert)
		exec(t, c, "commit")
	})
}

// TestClassOfLogin: a login that needs a backend is a request of class default; one that needs none takes no permit.
func TestClassOfLogin(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)))
	ran(t, e, "the first login", "postgres/postgres/app/default", func() { login(t, address, "application_name", "app") })
	if got := grown(t, e, func() { login(t, address, "application_name", "app") }); len(got) != 0 {
		t.Errorf("a login whose verdicts are known took permits: %v", got)
	}
	ran(t, e, "a setting without a verdict", "postgres/postgres/app/default", func() {
		login(t, address, "application_name", "app", "options", "-c work_mem=1237kB")
	})
}

// TestClassOfSessionMode: in session mode every request is of class session, and a client is one request until it leaves.
func TestClassOfSessionMode(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--server.pool-mode=session")
	c := login(t, address, "application_name", "app")
	ran(t, e, "a session", "postgres/postgres/app/session", func() {
		exec(t, c, "select 1")
		exec(t, c, "begin; commit")
		send(t, c, pgwire.Terminate())
		if _, err := c.ReadAll(); err != nil {
			t.Error(err)
		}
	})
}

// TestRequestsOfOneClientByClass: one client's requests are limited class by class.
func TestRequestsOfOneClientByClass(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists by_class; create table by_class (a int)")
	e, address := startYAML(t, "routes: [{match: {query_class: write}, max_route_in_flight: 1, max_route_waiters: 0, overload_error_code: WRITE}]\n"+databases(pg))
	writer, c := login(t, address), login(t, address)
	send(t, writer, pgwire.Query("begin"), pgwire.Query("insert into by_class values (1)"))
	answered(t, writer, "CZTCZT")
	for range 2 {
		_, err := c.Exec("insert into by_class values (2)")
		overloaded(t, err, "ERROR", "WRITE")
		usable(t, c)
		exec(t, c, "begin; select 1; commit")
	}
	if n := e.Tally("postgres/postgres//write"); n.Rejected != 2 || n.PeakInFlight != 1 {
		t.Errorf("%+v, want 2 refused and never more than one in flight", n)
	}
	exec(t, writer, "commit")
	rested(t, e)
	exec(t, c, "insert into by_class values (4)")
}
