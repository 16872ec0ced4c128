package session

import (
	"strings"
	"testing"

	"pgkinetic/protocol/sqllex"
)

func TestAdopt(t *testing.T) {
	login := Intern(params("application_name", "a", "work_mem", "8MB", "timezone", "Asia/Tokyo"))
	set := login.with([]change{{name: "timezone", value: []byte("GMT"), adopt: true}})
	f := func(name string, p *Profile, sql string, failed bool, reports []string, want ...string) {
		t.Helper()
		c := newConn(t, "application_name", "pg-kinetic", "TimeZone", "UTC", "DateStyle", "ISO, MDY", "server_version", "15")
		c.carry(p)
		c.report(reports...)
		got, ok := p.Adopt(login, &c.params, Request{Seen: sqllex.Scan([]byte(sql)).Flags, Failed: failed})
		if want == nil {
			if ok || got != p {
				t.Errorf("%s: %+v %t, want refused", name, got, ok)
			}
			return
		}
		if wanted := Intern(params(want...)); !ok || got != wanted {
			t.Errorf("%s: %+v %t, want %+v", name, got, ok, wanted)
		}
	}
	const name, zone = "set application_name = 'b'", "set timezone = 'x'"
	own := []string{"application_name", "a", "work_mem", "8MB", "timezone", "Asia/Tokyo"}
	ownGMT := []string{"application_name", "a", "work_mem", "8MB", "timezone", "GMT"}
	none := []string{}
	is := func(pairs ...string) []string { return pairs }

	f("another value", login, name, false, is("application_name", "b"), "application_name", "b", "work_mem", "8MB", "timezone", "Asia/Tokyo")
	f("two of them", login, name+";"+zone, false, is("application_name", "b", "TimeZone", "GMT"), "application_name", "b", "work_mem", "8MB", "timezone", "GMT")
	f("its own value", login, name, false, nil, own...)
	f("the base", login, name, false, is("application_name", "pg-kinetic"), "application_name", "pg-kinetic", "work_mem", "8MB", "timezone", "Asia/Tokyo")
	f("without one", Empty(), zone, false, is("TimeZone", "GMT"), "timezone", "GMT")
	f("without one, the base", Empty(), zone, false, nil, "timezone", "UTC")
	f("an empty value", Empty(), name, false, is("application_name", ""), "application_name", "")
	f("after an error", Empty(), zone, true, nil, none...)
	f("after an error, another value", Empty(), zone, true, is("TimeZone", "GMT"), "timezone", "GMT")
	f("rolled back", Empty(), "begin;"+zone+";rollback", false, nil, none...)
	f("committed", Empty(), "begin;"+zone+";commit", false, is("TimeZone", "GMT"), "timezone", "GMT")
	// Only what the texts name: the rest are changed defaults, or set inside a
	// function.
	f("another changed", login, name, false, is("application_name", "b", "TimeZone", "GMT", "DateStyle", "German"), "application_name", "b", "work_mem", "8MB", "timezone", "Asia/Tokyo")
	f("nothing named", login, "select 1", false, is("TimeZone", "GMT"), own...)
	// What cannot be given to another backend.
	f("not reported", login, "set intervalstyle = iso_8601", false, nil)
	f("not ASCII", login, zone, false, is("TimeZone", "<\xe9>-3"))
	f("a control character", login, zone, false, is("TimeZone", "a\x7fb"))
	f("too long", login, zone, false, is("TimeZone", strings.Repeat("x", maxAdopted+1)))
	f("just not too long", Empty(), zone, false, is("TimeZone", strings.Repeat("x", maxAdopted)), "timezone", strings.Repeat("x", maxAdopted))
	f("RESET as well", login, name+";reset timezone", false, is("application_name", "b"))
	// DISCARD ALL brings back what the login asked for.
	f("discarded", set, "discard all", false, is("TimeZone", "UTC"), own...)
	f("discarded under a new default", set, "discard all", false, is("TimeZone", "CET"), own...)
	f("nothing of its own discarded", login, "discard all", false, is("TimeZone", "UTC"), own...)
	f("discard failed", set, "discard all", true, nil, ownGMT...)
	f("discard temp", set, "discard temp", false, nil, ownGMT...)
	f("set, discarded", login, "set timezone = 'x'; discard all", false, is("TimeZone", "UTC"), own...)
	f("discarded, set", set, "discard all; set timezone = 'x'", false, is("TimeZone", "CET"), "application_name", "a", "work_mem", "8MB", "timezone", "CET")
}

// carry makes the backend carry p and report so.
func (c *conn) carry(p *Profile) (batch string) {
	out, plan := c.applied.Batch(nil, p, &c.params)
	if plan == Nothing {
		return ""
	}
	for i := range p.Len() {
		if name, value := p.At(i); adoptableFlag(name) != 0 {
			c.report(name, value)
		}
	}
	c.applied.Confirm(&c.params)
	return string(out[5 : len(out)-1])
}

// A parameter that may have a value of the session's own is reset for a client
// without one, though its value is the base.
func TestBatchResetsWhatEqualsTheBase(t *testing.T) {
	c := newConn(t, "application_name", "pg-kinetic", "TimeZone", "UTC")
	f := func(p *Profile, want string) {
		t.Helper()
		if got := c.carry(p); got != want {
			t.Errorf("batch %q, want %q", got, want)
		}
	}
	const seen = sqllex.SetTimeZone
	utc := Intern(params("timezone", "UTC"))
	// By a SET of a client's own.
	c.applied.Note(&c.params, sqllex.AllFlags&^sqllex.SetReported)
	f(Empty(), "")
	c.applied.Note(&c.params, seen)
	f(utc, "")
	f(utc, "")
	f(Empty(), `RESET "TimeZone";`)
	f(Empty(), "")
	c.applied.Note(&c.params, seen) // the same Profile as before
	f(Empty(), `RESET "TimeZone";`)
	f(utc, "")
	f(Empty(), "")
	// By a batch.
	f(Intern(params("timezone", "GMT")), `SET "timezone"=E'GMT';`)
	f(utc, `SET "timezone"=E'UTC';`)
	f(Empty(), `RESET "TimeZone";`)
	f(Empty(), "")
	// Noted behind a batch that is not answered yet, and behind one that fails.
	for _, end := range []func(){func() { c.applied.Confirm(&c.params) }, c.applied.Failed} {
		if _, plan := c.applied.Batch(nil, Intern(params("work_mem", "8MB")), &c.params); plan != Pipeline {
			t.Fatalf("plan %d", plan)
		}
		c.applied.Note(&c.params, seen)
		end()
		f(Intern(params("work_mem", "8MB", "timezone", "UTC")), map[bool]string{false: "", true: `SET "work_mem"=E'8MB';`}[c.applied.Profile() == Empty()])
		f(Empty(), `RESET "TimeZone";RESET "work_mem";`)
	}
	// A batch that fails leaves what was to be reset.
	c.applied.Note(&c.params, seen)
	c.applied.Batch(nil, Empty(), &c.params)
	c.applied.Failed()
	f(Empty(), `RESET "TimeZone";`)
	// After a clean-up nothing is left; after RESET ALL what the batch has set.
	c.applied.Note(&c.params, seen)
	c.applied.Cleared(&c.params)
	f(Empty(), "")
	c.applied.Uncertain()
	f(utc, `RESET "role";RESET "session_authorization";RESET ALL;SET "timezone"=E'UTC';`)
	f(Empty(), `RESET "TimeZone";`)
}
