package session

import (
	"strings"
	"testing"

	"pgkinetic/backend"
)

// conn is a backend as the tests see it: what it reports and what it carries.
type conn struct {
	t       *testing.T
	params  backend.Params
	applied Applied
}

func newConn(t *testing.T, pairs ...string) *conn {
	c := &conn{t: t}
	c.report(pairs...)
	c.applied.Cleared(&c.params)
	return c
}

func (c *conn) report(pairs ...string) {
	for _, p := range params(pairs...) {
		c.params.Set([]byte(p.Name), []byte(p.Value))
	}
}

// become asks for the batch to want, checks it, and reports what the server
// would report before it confirms.
func (c *conn) become(want *Profile, plan Plan, sql string, reports ...string) {
	c.t.Helper()
	out, got := c.applied.Batch([]byte("x"), want, &c.params)
	wanted := "x"
	if sql != "" {
		wanted = "xQ\x00\x00\x00" + string(rune(len(sql)+5)) + sql + "\x00"
		if len(sql)+5 > 127 {
			wanted = "xQ\x00\x00" + string([]byte{byte((len(sql) + 5) >> 8), byte(len(sql) + 5)}) + sql + "\x00"
		}
	}
	if string(out) != wanted || got != plan {
		c.t.Errorf("batch %q, plan %d, want %q, %d", out, got, wanted, plan)
	}
	if c.applied.Pending() != (plan != Nothing) {
		c.t.Errorf("pending %t after plan %d", c.applied.Pending(), plan)
	}
	if plan != Nothing {
		c.report(reports...)
		c.applied.Confirm(&c.params)
	}
	if c.applied.Profile() != want {
		c.t.Error("the backend does not carry what was asked for")
	}
}

func TestBatchOfReportedParameters(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC", "DateStyle", "ISO, MDY", "application_name", "pg-kinetic", "server_version", "15")
	tokyo := Intern(params("timezone", "Asia/Tokyo", "application_name", "a"))
	same := Intern(params("timezone", "Asia/Tokyo", "application_name", "a", "datestyle", "ISO, MDY"))
	c.become(Empty(), Nothing, "")
	c.become(tokyo, Pipeline, `SET "timezone"=E'Asia/Tokyo';SET "application_name"=E'a';`, "TimeZone", "Asia/Tokyo", "application_name", "a")
	c.become(tokyo, Nothing, "")
	// Asking for what holds anyway costs nothing, in both directions.
	c.become(same, Nothing, "")
	c.become(tokyo, Nothing, "")
	c.become(Intern(params("timezone", "Asia/Tokyo")), Pipeline, `RESET "application_name";`, "application_name", "pg-kinetic")
	c.become(Empty(), Pipeline, `RESET "TimeZone";`, "TimeZone", "UTC")
	c.become(Empty(), Nothing, "")
}

func TestBatchOfUnreportedParameters(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC")
	a := Intern(params("search_path", "s1, public", "work_mem", "8MB"))
	b := Intern(params("search_path", "s2", "work_mem", "8MB", "geqo", "off"))
	c.become(a, Pipeline, `SELECT pg_catalog.set_config(E'search_path',E's1, public',false);SET "work_mem"=E'8MB';`)
	c.become(a, Nothing, "")
	c.become(b, Pipeline, `SET "geqo"=E'off';SELECT pg_catalog.set_config(E'search_path',E's2',false);`)
	c.become(Empty(), Pipeline, `RESET "geqo";RESET "search_path";RESET "work_mem";`)
}

// search_path is reported from PostgreSQL 18 on.
func TestBatchOfReportedSearchPath(t *testing.T) {
	c := newConn(t, "search_path", `"$user", public`)
	c.become(Intern(params("search_path", "s")), Pipeline, `SELECT pg_catalog.set_config(E'search_path',E's',false);`, "search_path", "s")
	c.become(Empty(), Pipeline, `RESET "search_path";`, "search_path", `"$user", public`)
}

func TestBatchThatMayFailIsAwaited(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC")
	c.become(Intern(params("default_tablespace", "1")), Await, `SET "default_tablespace"=E'1';`)
	c.become(Intern(params("work_mem", "8MB")), Await, `RESET "default_tablespace";SET "work_mem"=E'8MB';`)
	c.become(Intern(params("statement_timeout", "5ms", "work_mem", "8MB")), Await, `SET "statement_timeout"=E'5ms';`)
	c.become(Intern(params("work_mem", "8MB")), Await, `RESET "statement_timeout";`)
	c.become(Intern(params("work_mem", "9MB")), Pipeline, `SET "work_mem"=E'9MB';`)
}

// What a function set behind our back, as far as the server reports it, is put
// right for the next client, and for the same client's next request.
func TestBatchUndoesStrays(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC", "DateStyle", "ISO, MDY", "is_superuser", "on", "session_authorization", "u")
	mine := Intern(params("timezone", "Asia/Tokyo"))
	c.become(mine, Pipeline, `SET "timezone"=E'Asia/Tokyo';`, "TimeZone", "Asia/Tokyo")
	c.report("DateStyle", "German, DMY", "TimeZone", "GMT")
	c.become(mine, Pipeline, `SET "timezone"=E'Asia/Tokyo';RESET "DateStyle";`, "TimeZone", "Asia/Tokyo", "DateStyle", "ISO, MDY")
	c.report("is_superuser", "off")
	c.become(mine, Pipeline, `RESET "role";RESET "session_authorization";`, "is_superuser", "on")
	c.become(mine, Nothing, "")
}

// A reload changes defaults: one RESET makes sure, then the new value is the
// base; no batch for ever.
func TestBatchAfterReload(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC", "in_hot_standby", "on")
	c.report("TimeZone", "Europe/Rome", "in_hot_standby", "off")
	c.become(Empty(), Pipeline, `RESET "TimeZone";`)
	c.become(Empty(), Nothing, "")
	c.become(Intern(params("timezone", "UTC")), Pipeline, `SET "timezone"=E'UTC';`, "TimeZone", "UTC")
	c.become(Empty(), Pipeline, `RESET "TimeZone";`, "TimeZone", "Europe/Rome")
	c.become(Empty(), Nothing, "")
}

// A server that shows another value than the one it called canonical is not
// asked again and again.
func TestBatchDoesNotRepeat(t *testing.T) {
	c := newConn(t, "application_name", "pg-kinetic")
	want := Intern(params("application_name", "long"))
	c.become(want, Pipeline, `SET "application_name"=E'long';`, "application_name", "cut")
	c.become(want, Nothing, "")
}

func TestBatchOfRole(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC", "is_superuser", "on", "session_authorization", "u")
	r := Intern(params("role", "r", "work_mem", "8MB"))
	const off = `RESET "role";RESET "session_authorization";`
	c.become(r, Await, off+`SET "work_mem"=E'8MB';SET "role"=E'r';`, "is_superuser", "off")
	c.become(r, Nothing, "")
	c.report("TimeZone", "GMT")
	c.become(r, Await, off+`RESET "TimeZone";SET "role"=E'r';`, "TimeZone", "UTC")
	c.become(Intern(params("role", "s", "work_mem", "8MB")), Await, off+`SET "role"=E's';`)
	c.become(Empty(), Await, off+`RESET "work_mem";`, "is_superuser", "on")
	c.become(Empty(), Nothing, "")
}

func TestBatchFailed(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC")
	want := Intern(params("default_tablespace", "1"))
	if _, plan := c.applied.Batch(nil, want, &c.params); plan != Await {
		t.Fatalf("plan %d", plan)
	}
	c.applied.Failed()
	if c.applied.Pending() || c.applied.Profile() != Empty() {
		t.Error("a failed batch left something behind")
	}
	c.become(want, Await, `SET "default_tablespace"=E'1';`)
}

func TestBatchOfUncertainBackend(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC")
	want := Intern(params("role", "r", "timezone", "UTC", "work_mem", "8MB"))
	const all = `RESET "role";RESET "session_authorization";RESET ALL;`
	c.applied.Uncertain()
	c.become(Empty(), Await, all)
	c.become(Empty(), Nothing, "")
	c.applied.Batch(nil, want, &c.params)
	c.applied.Uncertain()
	c.become(want, Await, all+`SET "timezone"=E'UTC';SET "work_mem"=E'8MB';SET "role"=E'r';`)
	c.become(want, Nothing, "")
	c.applied.Uncertain()
	c.applied.Cleared(&c.params)
	c.become(Empty(), Nothing, "")
}

func TestBatchAfterDiscardAll(t *testing.T) {
	c := newConn(t, "TimeZone", "UTC")
	want := Intern(params("work_mem", "8MB", "timezone", "GMT"))
	c.become(want, Pipeline, `SET "timezone"=E'GMT';SET "work_mem"=E'8MB';`, "TimeZone", "GMT")
	c.report("TimeZone", "UTC")
	c.applied.Cleared(&c.params)
	c.become(Empty(), Nothing, "")
	c.become(want, Pipeline, `SET "timezone"=E'GMT';SET "work_mem"=E'8MB';`, "TimeZone", "GMT")
}

func TestBatchFreshFromLogin(t *testing.T) {
	var a Applied
	var p backend.Params
	p.Set([]byte("TimeZone"), []byte("UTC"))
	if out, plan := a.Batch(nil, Empty(), &p); plan != Nothing || len(out) > 0 {
		t.Errorf("batch %q", out)
	}
	out, plan := a.Batch(nil, Intern(params("x.long", strings.Repeat("v", 70000))), &p)
	if plan != Pipeline || len(out) != 1+int(out[1])<<24+int(out[2])<<16+int(out[3])<<8+int(out[4]) {
		t.Errorf("a long batch has %d bytes and says %v", len(out), out[:5])
	}
}
