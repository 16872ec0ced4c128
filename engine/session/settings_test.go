package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// outcomes is a tracker that has settled all up to done, of which those from
// failed on were not executed.
type outcomes struct{ done, failed uint64 }

func (o outcomes) Done() uint64 { return o.done }

func (o outcomes) Outcome(number uint64) protocol.Outcome {
	switch {
	case o.failed == 0 || number < o.failed:
		return protocol.Executed
	case number == o.failed:
		return protocol.Failed
	}
	return protocol.Removed
}

// carry makes the backend carry p and report so.
func (c *conn) carry(p *Profile) (batch string) {
	out, plan := c.applied.Batch(nil, p, &c.params)
	if plan == Nothing {
		return ""
	}
	for i := range p.Len() {
		if name, value := p.At(i); reportedName(c, name) {
			c.report(name, value)
		}
	}
	c.applied.Confirm(&c.params)
	return string(out[5 : len(out)-1])
}

func reportedName(c *conn, name string) bool {
	_, ok := c.params.Get(name)
	return ok
}

// client is one whose statements all go well, on the backend conn.
type client struct {
	*conn
	st          *Settings
	prof, first *Profile
	number      uint64
}

func newClient(t *testing.T, startup ...string) *client {
	c := &client{conn: newConn(t, "TimeZone", "UTC", "application_name", "pg-kinetic"), st: new(Settings)}
	c.first = Intern(params(startup...))
	c.prof = c.first
	c.conn.carry(c.prof)
	return c
}

// query tells of a Query that is answered with these tags, ERROR being one, and
// this status.
func (c *client) query(sql string, status byte, tags ...string) {
	c.number++
	c.st.Sent(c.number, sqllex.AppendOps(nil, []byte(sql)), []byte(sql))
	o := outcomes{done: c.number}
	for _, tag := range tags {
		if tag == "ERROR" {
			c.st.Error()
			o.failed = c.number
			continue
		}
		c.st.Step(c.number, []byte(tag))
	}
	c.st.Settle(o)
	c.st.Ready(status)
}

// resolved checks the client's Profile and what the backend carries.
func (c *client) resolved(want, carried *Profile) {
	c.t.Helper()
	var r Resolution
	if c.prof, r = c.st.Resolve(c.prof, c.first, &c.applied, &c.params); r != Resolved || c.prof != want {
		c.t.Errorf("resolution %d, profile %+v, want %+v", r, c.prof, want)
	}
	if c.applied.Profile() != carried {
		c.t.Errorf("the backend carries %+v, want %+v", c.applied.Profile(), carried)
	}
	if c.st.Live() {
		c.t.Error("not at rest")
	}
}

func (c *client) asks(want Resolution) string {
	c.t.Helper()
	if _, r := c.st.Resolve(c.prof, c.first, &c.applied, &c.params); r != want {
		c.t.Fatalf("resolution %d, want %d", r, want)
	}
	q := c.st.AppendReadBack(nil)
	return string(q[5 : len(q)-1])
}

// told answers AppendReadBack with these names and values.
func (c *client) told(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		c.st.Answer('D', dataRow(fmt.Sprintf("%x", pairs[i]), fmt.Sprintf("%x", pairs[i+1])))
	}
	c.st.Answer('Z', []byte{'I'})
	c.st.Ready('I')
}

func profileOf(pairs ...string) *Profile { return Intern(params(pairs...)) }

func TestNilSettingsHaveNothing(t *testing.T) {
	var st *Settings
	c := newConn(t, "TimeZone", "UTC")
	st.Sent(1, nil, nil)
	st.Unfollowed(1)
	st.Step(1, []byte("SET"))
	st.Error()
	st.Settle(outcomes{done: 1})
	st.Ready('I')
	st.Leave(&c.applied)
	p, r := st.Resolve(Empty(), Empty(), &c.applied, &c.params)
	if st.Live() || st.Lost() || st.Waits(Empty()) || p != Empty() || r != Resolved || len(st.Restore(nil, 'T', Empty())) > 0 {
		t.Error("nil has something")
	}
}

func TestSavepointsBeforeTheFirstSet(t *testing.T) {
	c := newClient(t)
	c.query("BEGIN; SAVEPOINT a; SET work_mem = 1; SAVEPOINT a; SET work_mem = 2; ROLLBACK TO a; RELEASE a; ROLLBACK TO a; SET lock_timeout = 3; COMMIT",
		'I', "BEGIN", "SAVEPOINT", "SET", "SAVEPOINT", "SET", "ROLLBACK", "RELEASE", "ROLLBACK", "SET", "COMMIT")
	c.resolved(profileOf("lock_timeout", "3"), profileOf("lock_timeout", "3"))
}

func TestErrorTakesBackTheGroup(t *testing.T) {
	c := newClient(t)
	c.query("SET work_mem = 1; COMMIT; SET work_mem = 2; x", 'I', "SET", "COMMIT", "SET", "ERROR")
	c.resolved(profileOf("work_mem", "1"), profileOf("work_mem", "1"))
	// In a group of the extended protocol the messages are several.
	for n, sql := range []string{"SET work_mem = 3", "SET lock_timeout = 3", "SELECT 1"} {
		c.st.Sent(10+uint64(n), sqllex.AppendOps(nil, []byte(sql)), []byte(sql))
	}
	c.st.Step(10, []byte("SET"))
	c.st.Settle(outcomes{done: 10})
	c.st.Error()
	c.st.Settle(outcomes{done: 12, failed: 11})
	c.st.Ready('I')
	c.resolved(profileOf("work_mem", "1"), profileOf("work_mem", "1"))
}

// A RESET leads to the client's startup value, the backend to its own.
func TestResetLeadsToTheStartupValue(t *testing.T) {
	c := newClient(t, "work_mem", "8MB", "timezone", "GMT", "role", "r")
	c.query("SET work_mem = '9MB'; SET lock_timeout = 1", 'I', "SET", "SET")
	own := profileOf("work_mem", "9MB", "timezone", "GMT", "role", "r", "lock_timeout", "1")
	c.resolved(own, own)
	c.query("RESET work_mem", 'I', "RESET")
	c.resolved(profileOf("work_mem", "8MB", "timezone", "GMT", "role", "r", "lock_timeout", "1"), profileOf("timezone", "GMT", "role", "r", "lock_timeout", "1"))
	c.report("TimeZone", "UTC")
	c.query("RESET ALL", 'I', "RESET")
	c.resolved(c.first, profileOf("role", "r"))
	if batch := c.carry(c.prof); batch != `RESET "role";RESET "session_authorization";SET "timezone"=E'GMT';SET "work_mem"=E'8MB';SET "role"=E'r';` {
		t.Errorf("batch %s", batch)
	}
	c.report("TimeZone", "UTC")
	c.query("DISCARD ALL", 'I', "DISCARD ALL")
	c.resolved(c.first, Empty())
}

// Within a block the startup value is given back at once, and again where that
// was taken back.
func TestRestoreInABlock(t *testing.T) {
	c := newClient(t, "work_mem", "8MB", "role", "r")
	f := func(status byte, want string) {
		t.Helper()
		q := c.st.Restore(nil, status, c.first)
		if len(q) > 0 {
			q = q[5 : len(q)-1]
		}
		if string(q) != want {
			t.Errorf("%q, want %q", q, want)
		}
	}
	c.query("BEGIN", 'T', "BEGIN")
	f('T', "")
	c.query("RESET ALL; SAVEPOINT s", 'T', "RESET", "SAVEPOINT")
	f('E', "")
	f('T', `SET "work_mem"=E'8MB';`)
	f('T', "")
	c.query("ROLLBACK TO s", 'T', "ROLLBACK")
	f('T', `SET "work_mem"=E'8MB';`)
	c.query("RESET SESSION AUTHORIZATION", 'T', "RESET")
	f('T', `SET "role"=E'r';`)
	c.query("RESET work_mem; SET work_mem = 1", 'T', "RESET", "SET")
	f('T', "")
	c.query("RESET work_mem; SET LOCAL work_mem = 1", 'T', "RESET", "SET")
	f('T', "")
	c.query("COMMIT", 'I', "COMMIT")
	f('I', "")
	c.resolved(c.first, profileOf("role", "r"))
}

// What comes behind a RESET waits, if the client has startup values.
func TestWaitsBehindAReset(t *testing.T) {
	c := newClient(t, "work_mem", "8MB")
	send := func(n uint64, sql string) { c.st.Sent(n, sqllex.AppendOps(nil, []byte(sql)), []byte(sql)) }
	send(1, "SET work_mem = 1")
	if c.st.Waits(c.first) {
		t.Error("waits behind a SET")
	}
	send(2, "DISCARD ALL")
	if !c.st.Waits(c.first) || c.st.Waits(Empty()) {
		t.Error("does not wait behind DISCARD ALL")
	}
	c.st.Step(1, []byte("SET"))
	c.st.Settle(outcomes{done: 1})
	if c.st.Ready('I'); !c.st.Waits(c.first) {
		t.Error("the first answer ends it")
	}
	c.st.Step(2, []byte("DISCARD ALL"))
	c.st.Settle(outcomes{done: 2})
	if c.st.Ready('I'); c.st.Waits(c.first) {
		t.Error("waits for ever")
	}
	c.resolved(c.first, Empty())
}

// ST-01: what set_config sets is the client's own, and the server is asked for
// no more than that.
func TestST01SetConfigIsAskedFor(t *testing.T) {
	c := newClient(t)
	c.query("SELECT pg_catalog.set_config('search_path', '', false), set_config('My.Own', 'x', false)", 'I', "SELECT 1")
	sql := c.asks(AskServer)
	if strings.Contains(sql, "pg_settings") || !strings.Contains(sql, "current_setting(E'search_path',true)") || !strings.Contains(sql, "E'my.own'") {
		t.Errorf("asks %s", sql)
	}
	c.told("search_path", "", "my.own", "x")
	c.resolved(profileOf("search_path", "", "my.own", "x"), profileOf("search_path", "", "my.own", "x"))
}

// In doubt the server tells everything; what may have strayed beyond is undone.
func TestDoubtAsksForEverything(t *testing.T) {
	c := newClient(t, "work_mem", "8MB")
	c.query("SET my.own = 1; SELECT set_config($1, $2, false)", 'I', "SET", "SELECT 1")
	if sql := c.asks(AskServer); !strings.Contains(sql, "pg_settings") || !strings.Contains(sql, "E'my.own'") {
		t.Errorf("asks %s", sql)
	}
	c.told("role", "none", "my.own", "1", "lock_timeout", "5s")
	c.resolved(profileOf("my.own", "1", "work_mem", "8MB", "lock_timeout", "5s"), profileOf("my.own", "1", "lock_timeout", "5s"))
	if batch := c.carry(Empty()); batch != `RESET "role";RESET "session_authorization";RESET ALL;` {
		t.Errorf("batch %s", batch)
	}
}

// While the server cannot tell, the client keeps it.
func TestServerThatCannotTellIsKept(t *testing.T) {
	c := newClient(t)
	c.query("SELECT set_config($1, $2, false)", 'I', "SELECT 1")
	for _, answer := range []func(){
		func() { c.st.Answer('E', errorBody("57014", "canceling statement due to statement timeout")) },
		func() { c.st.Answer('D', dataRow("6g", "00")) },
		func() { c.st.Answer('D', dataRow("00")) },
		func() { c.st.Answer('D', []byte{0, 2, 0, 0, 0, 9}) },
		func() { c.st.Answer('D', []byte{0, 2, 0, 0}) },
		func() { c.st.Answer('D', nil) },
		func() { c.st.Answer('D', dataRow("61", strings.Repeat("61", maxReadBack))) },
	} {
		c.asks(AskServer)
		answer()
		c.st.Answer('Z', []byte{'I'})
		c.st.Ready('I')
		c.asks(KeepServer)
	}
	c.asks(AskServer)
	c.told("work_mem", "1MB")
	c.resolved(profileOf("work_mem", "1MB"), profileOf("work_mem", "1MB"))
}

// ST-03, ST-02: what somebody leaves behind in the middle is undone by the next
// batch.
func TestST02LeavingInTheMiddle(t *testing.T) {
	const all = `RESET "role";RESET "session_authorization";RESET ALL;`
	f := func(want string, do func(c *client)) {
		t.Helper()
		c := newClient(t)
		do(c)
		c.st.Leave(&c.applied)
		if batch := c.carry(Empty()); batch != want || c.st.Live() {
			t.Errorf("batch %s, want %s", batch, want)
		}
	}
	sent := func(sql string) func(c *client) {
		return func(c *client) { c.st.Sent(1, sqllex.AppendOps(nil, []byte(sql)), []byte(sql)) }
	}
	f("", func(*client) {})
	f("", sent("BEGIN; SAVEPOINT a"))
	f(all, sent("SET ROLE r"))
	f(all, sent("DISCARD ALL"))
	f(all, func(c *client) { c.query("SET ROLE r", 'I', "SET") })
	f(all, func(c *client) { c.query("BEGIN; SET ROLE r", 'T', "BEGIN", "SET") })
	f(all, func(c *client) { c.query("DO $$$$", 'I', "DO") })
	f(all, func(c *client) { c.st.Unfollowed(1) })
}

func TestLostWithTheServer(t *testing.T) {
	f := func(want bool, do func(c *client)) {
		t.Helper()
		c := newClient(t)
		do(c)
		if c.st.Lost() != want || c.st.Live() {
			t.Errorf("lost %t", !want)
		}
	}
	f(false, func(*client) {})
	f(false, func(c *client) { c.query("DO $$$$", 'I', "DO") })
	f(false, func(c *client) { c.query("SET work_mem = 1; x", 'I', "SET", "ERROR") })
	f(true, func(c *client) { c.query("SET work_mem = 1", 'I', "SET") })
	f(true, func(c *client) { c.st.Unfollowed(1) })
}

// A CALL may commit what an error then does not take back.
func TestErrorBehindACallIsInDoubt(t *testing.T) {
	c := newClient(t)
	c.query("SET work_mem = 1; CALL p(); x", 'I', "SET", "CALL", "ERROR")
	c.asks(AskServer)
}

// The bounds: who goes beyond is asked for, not forgotten.
func TestMemoryOfSettingsIsBounded(t *testing.T) {
	f := func(what string, sql func(i int) string) *client {
		t.Helper()
		c := newClient(t)
		c.query("BEGIN", 'T', "BEGIN")
		for i := range 100_000 {
			text := []byte(sql(i))
			c.number++
			c.st.Sent(c.number, sqllex.AppendOps(nil, text), text)
			if i&1 == 0 {
				c.st.Settle(outcomes{done: c.number})
			}
		}
		st := c.st
		if len(st.log) > 2*maxLog || cap(st.sent) > 4*maxLog || len(st.marks) > 2*maxLog || cap(st.text) > 4*maxText || len(st.ask) > maxAsk+1 {
			t.Errorf("%s: log %d, sent %d, marks %d, text %d, ask %d", what, len(st.log), cap(st.sent), len(st.marks), cap(st.text), len(st.ask))
		}
		return c
	}
	value := strings.Repeat("v", 100)
	f("SET", func(int) string { return "SET work_mem = " + value })
	f("savepoints", func(int) string { return "SET a.b = 1; SAVEPOINT " + value[:50] })
	f("BEGIN", func(int) string { return "SET a.b = 1; BEGIN" })
	c := f("names", func(i int) string { return fmt.Sprintf("SET a.b%d = 1", i) })
	c.st.Settle(outcomes{done: c.number})
	c.st.Ready('I')
	c.asks(KeepServer) // more than can be asked for
	c.st.Leave(&c.applied)

	c = newClient(t)
	c.query("BEGIN", 'T', "BEGIN")
	for i := range 3 * maxLog {
		c.query(fmt.Sprintf("SET a.b%d = 1", i&1), 'T', "SET")
	}
	c.query("COMMIT", 'I', "COMMIT")
	if sql := c.asks(AskServer); !strings.Contains(sql, "E'a.b0'") || !strings.Contains(sql, "E'a.b1'") {
		t.Errorf("asks %s", sql)
	}
}

// A parameter that may have a value of the session's own is reset for a client
// without one, though its value is the base.
func TestBatchResetsWhatEqualsTheBase(t *testing.T) {
	c := newClient(t)
	f := func(p *Profile, want string) {
		t.Helper()
		if got := c.carry(p); got != want {
			t.Errorf("batch %q, want %q", got, want)
		}
	}
	utc := profileOf("timezone", "UTC")
	c.query("SET timezone = utc", 'I', "SET")
	c.resolved(utc, utc)
	f(utc, "")
	f(Empty(), `RESET "TimeZone";`)
	f(Empty(), "")
	f(utc, "")
	c.query("SET timezone = utc", 'I', "SET") // what it is already
	c.resolved(utc, utc)
	f(Empty(), `RESET "TimeZone";`)
	f(profileOf("timezone", "GMT"), `SET "timezone"=E'GMT';`)
	f(utc, `SET "timezone"=E'UTC';`)
	f(Empty(), `RESET "TimeZone";`)
	c.prof = Empty()
	c.query("SET timezone = utc", 'I', "SET")
	c.resolved(utc, utc)
	c.query("RESET timezone", 'I', "RESET")
	c.resolved(Empty(), Empty())
	f(Empty(), "")
}

// A report that is not ASCII is asked for: it was converted to the client's
// encoding.
func TestReportBeyondASCIIIsAskedFor(t *testing.T) {
	c := newClient(t)
	c.report("TimeZone", "<\xe9>-3")
	c.query("SET timezone = '<é>-3'", 'I', "SET")
	c.asks(AskServer)
	c.told("timezone", "<é>-3")
	want := profileOf("timezone", "<é>-3")
	c.resolved(want, want)
}

func TestListValues(t *testing.T) {
	f := func(name, list, value string, isList bool) {
		t.Helper()
		got, gotList := fromList(nil, name, []byte(list))
		if string(got) != value || gotList != isList {
			t.Errorf("%s = %s: %q %t, want %q %t", name, list, got, gotList, value, isList)
		}
	}
	f("a", "E'x'", "x", false)
	f("a", "E''", "", false)
	f("a", `E'it''s \\'`, `it's \`, false)
	f("a", "E'x','y'", "E'x','y'", true)
	f("a", "E'x',E'y'", "E'x',E'y'", true)
	f("a", "E'x',1", "E'x',1", true)
	f("a", "-1.5", "-1.5", false)
	f("a", "1,2", "1,2", true)
	f("search_path", "E'x'", "E'x'", true)
}

// FuzzFromList: what a value is reduced to means the same to PostgreSQL.
func FuzzFromList(f *testing.F) {
	f.Add("'it''s'")
	f.Add(`E'\\x\'', b`)
	f.Add("-1e5")
	f.Fuzz(func(t *testing.T, value string) {
		sql := []byte("SET x TO " + value)
		ops := sqllex.AppendOps(nil, sql)
		if len(ops) != 1 || ops[0].Kind != sqllex.OpSet {
			return
		}
		list, ok := ops[0].AppendValue(nil, sql, false)
		if !ok {
			return
		}
		got, isList := fromList(nil, "x", list)
		if isList || list[0] != 'E' {
			if !bytes.Equal(got, list) {
				t.Fatalf("%s: %q", list, got)
			}
			return
		}
		again := appendLiteral(nil, string(got))
		sql = append([]byte("SET x TO "), again...)
		if twice, ok := (&sqllex.AppendOps(nil, sql)[0]).AppendValue(nil, sql, false); !ok || !bytes.Equal(twice, list) {
			t.Fatalf("%s: %s, %s", list, again, twice)
		}
	})
}

// FuzzReadBackRow: what is decoded is what was encoded.
func FuzzReadBackRow(f *testing.F) {
	f.Add(dataRow("61", "62"))
	f.Add(append(binary.BigEndian.AppendUint16(nil, 2), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, body []byte) {
		name, value, exists, ok := readBackRow(body)
		if !ok && (name != "" || value != "" || exists) {
			t.Fatalf("%q: %q %q", body, name, value)
		}
		again := dataRow(fmt.Sprintf("%x", name), fmt.Sprintf("%x", value))
		if n, v, _, ok := readBackRow(again); !ok || n != name || v != value {
			t.Fatalf("%q: %q %q, again %q %q", body, name, value, n, v)
		}
		if exists && ok && name != "" && len(again) > len(body) {
			t.Fatalf("%q: %q %q is more than there is", body, name, value)
		}
	})
}
