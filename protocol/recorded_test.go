package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol/sqllex"
)

var record = flag.Bool("record", false, "record testdata/postgres anew from a PostgreSQL server")

// recorded are the dialogues in testdata/postgres: what a client sends, one
// slice for each time that it waits until PostgreSQL is silent.
var recorded = []struct {
	name  string
	sends [][][]byte
}{
	{"simple", [][][]byte{
		{pgwire.Query("select 1; select 'a' where false; ;"), pgwire.Query("")},
		{pgwire.Query("select 1/0; select 2"), pgwire.Query("begin"), pgwire.Query("selec"), pgwire.Query("rollback")},
		{pgwire.Query("copy t to stdout"), pgwire.Query("listen a; notify a"), pgwire.Query("set datestyle = german")},
		{pgwire.Query("do $$begin raise notice 'x'; end$$"), pgwire.Query("insert into rule values (1)")},
	}},
	{"extended", [][][]byte{
		{
			pgwire.Parse("s", "select generate_series(1, 5)"), pgwire.Describe('S', "s"), pgwire.Bind("", "s"),
			pgwire.Describe('P', ""), pgwire.Execute("", 2), pgwire.Execute("", 0), pgwire.Close('S', "s"), pgwire.Sync(),
		},
		{pgwire.Parse("", "insert into t values (1)"), pgwire.Describe('S', ""), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush()},
		{pgwire.Parse("", ""), pgwire.Bind("", ""), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync()},
		{pgwire.Parse("", "copy t to stdout"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()},
		{pgwire.Parse("", "selec")},
		{pgwire.Query("select 1"), pgwire.CopyDone(), pgwire.Flush(), pgwire.Sync(), pgwire.Query("select 2")},
		{pgwire.Sync(), pgwire.Sync(), pgwire.Parse("", "select 1"), pgwire.Bind("", "none"), pgwire.Sync(), pgwire.Sync()},
		{pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Query("select 2")},
		{pgwire.Parse("", "insert into d values (1), (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()},
		{pgwire.Parse("", "selec"), pgwire.FunctionCall(2560), pgwire.Sync()},
		{pgwire.FunctionCall(2560), pgwire.FunctionCall(1), pgwire.Sync()},
		{pgwire.CopyData([]byte("1")), pgwire.CopyDone(), pgwire.CopyFail("x"), pgwire.Flush(), pgwire.Sync()},
	}},
	{"copy", [][][]byte{
		{pgwire.Query("copy t from stdin")},
		{pgwire.Sync(), pgwire.CopyData([]byte("1\n")), pgwire.Flush(), pgwire.CopyDone(), pgwire.Sync()},
		{
			pgwire.Query("copy t from stdin; select 1; copy t from stdout"), pgwire.CopyData([]byte("1\n")), pgwire.CopyDone(),
			pgwire.CopyData([]byte("2\n")), pgwire.CopyDone(), pgwire.Query("select 2"),
		},
		{pgwire.Query("copy t from stdin; select 1"), pgwire.CopyData([]byte("x\n")), pgwire.CopyData([]byte("2\n")), pgwire.CopyDone()},
		{pgwire.Query("copy t from stdin"), pgwire.CopyFail("no"), pgwire.Query("copy fails from stdin"), pgwire.Sync(), pgwire.Sync()},
		{pgwire.Parse("c", "copy t from stdin"), pgwire.Bind("", "c"), pgwire.Execute("", 0), pgwire.Sync()},
		{pgwire.CopyData([]byte("1\n")), pgwire.Sync(), pgwire.CopyDone(), pgwire.Sync()},
		{pgwire.Bind("", "c"), pgwire.Execute("", 0), pgwire.Sync(), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone(), pgwire.Sync()},
		{pgwire.Bind("", "c"), pgwire.Execute("", 1), pgwire.CopyFail("no"), pgwire.Query("select 1"), pgwire.Sync()},
		{pgwire.Parse("", "copy fails from stdin"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(), pgwire.Flush(), pgwire.Sync()},
		{pgwire.Bind("", "none"), pgwire.Bind("", "c"), pgwire.Execute("", 0), pgwire.Sync(), pgwire.CopyData([]byte("1\n")), pgwire.CopyDone(), pgwire.Sync()},
		{pgwire.Query("copy t from stdin"), pgwire.CopyData([]byte("x\n")), pgwire.Query("select 1")},
		{pgwire.Parse("", "copy d from stdin"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.CopyData([]byte("1\n1\n")), pgwire.CopyDone(), pgwire.Sync()},
	}},
	{"violation", [][][]byte{
		{pgwire.Parse("", "copy t from stdin"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush()},
		{pgwire.Query("select 1"), pgwire.Sync()},
	}},
	{"terminated", [][][]byte{
		{pgwire.Query("begin")},
		{pgwire.Query("select pg_terminate_backend(pg_backend_pid())")},
	}},
}

const recordedSetup = `
	create table t (a int);
	create table d (a int unique deferrable initially deferred);
	create table rule (a int);
	create rule r as on insert to rule do also (select 1 as a; select 2 as b);
	create table fails (a int);
	create function no() returns trigger language plpgsql as $$begin raise exception 'no'; end$$;
	create trigger fails before insert on fails for each statement execute function no()`

// TestRecord is not a test of its own: it makes the files of TestRecorded.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("not asked to record")
	}
	server := pgtest.Start(t)
	server.Exec(t, recordedSetup)
	for _, d := range recorded {
		c := pgwire.Login(t, "unix", server.SocketPath(), "user", "postgres", "database", "postgres")
		var out strings.Builder
		fmt.Fprintln(&out, "PostgreSQL", server.Value(t, "show server_version"))
		for _, chunk := range d.sends {
			for _, m := range chunk {
				fmt.Fprintf(&out, "> %c %s\n", m[0], strconv.Quote(string(m[HeaderLen:])))
			}
			if err := c.Send(chunk...); err != nil {
				t.Fatal(err)
			}
			recordAnswers(&out, c)
		}
		if err := os.WriteFile(filepath.Join("testdata/postgres", d.name+".txt"), []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func recordAnswers(out *strings.Builder, c *pgwire.Conn) {
	for !c.Silent(300 * time.Millisecond) {
		m, err := c.Read()
		if err != nil {
			return
		}
		switch m.Type {
		case BackendErrorResponse:
			fmt.Fprintf(out, "< E %s\n", ErrorCode(m.Body))
		case BackendReadyForQuery:
			fmt.Fprintf(out, "< Z %s\n", m.Body)
		default:
			fmt.Fprintf(out, "< %c\n", m.Type)
		}
	}
}

// replay gives the tracker what a client sent and what PostgreSQL answered.
type replay struct {
	t       *testing.T
	tracker Tracker
	marks   CopyMarks
	unsent  [][2]string // type and body of what the client has sent and the tracker has not let through
	blocked bool
}

func (r *replay) mayCopy(typ byte, body []byte) bool {
	switch typ {
	case FrontendQuery:
		sql, _ := QueryText(body)
		return sqllex.Scan(sql).Flags&sqllex.CopyFromStdin != 0
	case FrontendExecute:
		portal, _ := ExecutePortal(body)
		return r.marks.Execute(portal)
	}
	return false
}

func (r *replay) sent(typ byte, body []byte) {
	switch typ {
	case FrontendParse:
		name, sql, _ := ParseMessage(body)
		r.marks.Parse(name, sqllex.Scan(sql).Flags&sqllex.CopyFromStdin != 0)
	case FrontendBind:
		portal, stmt, _ := BindNames(body)
		r.marks.Bind(portal, stmt)
	case FrontendClose:
		kind, name, _ := CloseTarget(body)
		r.marks.Close(kind, name)
	}
}

func (r *replay) offer() {
	for len(r.unsent) > 0 && !r.blocked {
		typ, body := r.unsent[0][0][0], []byte(r.unsent[0][1])
		switch v := r.tracker.Offer(typ, r.mayCopy(typ, body)); v {
		case Hold, Full:
			r.blocked = true
			return
		case Forward, ForwardFlush:
			r.sent(typ, body)
		case Drop:
		}
		r.unsent = r.unsent[1:]
	}
}

func (r *replay) receive(typ byte, arg string) {
	status := byte(0)
	if typ == BackendReadyForQuery {
		status = arg[0]
	}
	a, err := r.tracker.Receive(typ, status, []byte(arg))
	if err != nil || a.Swallow {
		r.t.Fatalf("%c %s: %+v, %v", typ, arg, a, err)
	}
	if typ == BackendErrorResponse {
		r.marks.Failed()
	}
	if a.Ready && r.tracker.Owed() == 0 {
		r.marks.Settle()
	}
	if a.Resume {
		r.blocked = false
	}
}

// TestRecorded replays what PostgreSQL has said to what it was sent.
func TestRecorded(t *testing.T) {
	for _, d := range recorded {
		t.Run(d.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata/postgres", d.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			r := &replay{t: t}
			r.tracker.Reset()
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			for _, line := range lines[1:] {
				typ, arg := line[2], strings.TrimSpace(line[3:])
				if line[0] == '<' {
					r.offer()
					r.receive(typ, arg)
					continue
				}
				body, err := strconv.Unquote(arg)
				if err != nil {
					t.Fatal(err)
				}
				r.unsent = append(r.unsent, [2]string{string(typ), body})
			}
			r.offer()
			if d.name == "violation" || d.name == "terminated" {
				if r.tracker.Idle() {
					t.Error("idle after the end of the session")
				}
				return
			}
			if len(r.unsent) > 0 || !r.tracker.Idle() {
				t.Errorf("%d messages are not sent, %s", len(r.unsent), stateText(&r.tracker))
			}
		})
	}
}
