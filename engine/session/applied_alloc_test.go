//go:build !race

package session

import (
	"testing"

	"pgkinetic/protocol/sqllex"
)

// Two clients with different settings take turns on one backend.
func TestSwitchingAllocatesNothing(t *testing.T) {
	c := newConn(t, "application_name", "pg-kinetic", "TimeZone", "UTC", "DateStyle", "ISO, MDY")
	a := Intern(params("application_name", "a", "search_path", "s"))
	b := Intern(params("application_name", "bb", "timezone", "GMT", "work_mem", "8MB"))
	name, zone := []byte("application_name"), []byte("TimeZone")
	values := [][]byte{[]byte("a"), []byte("UTC"), []byte("bb"), []byte("GMT")}
	buf := make([]byte, 0, 4096)
	turn := func() {
		for i, want := range []*Profile{a, b} {
			if _, plan := c.applied.Batch(buf, want, &c.params); plan != Pipeline {
				t.Fatal(plan)
			}
			c.params.Set(name, values[2*i])
			c.params.Set(zone, values[2*i+1])
			c.applied.Confirm(&c.params)
			if _, plan := c.applied.Batch(buf, want, &c.params); plan != Nothing {
				t.Fatal(plan)
			}
		}
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBatchNothing(b *testing.B) {
	c := newConn(nil, "application_name", "pg-kinetic")
	for b.Loop() {
		c.applied.Batch(nil, Empty(), &c.params)
	}
}

func BenchmarkBatchSwitch(b *testing.B) {
	c := newConn(nil, "application_name", "pg-kinetic", "TimeZone", "UTC", "DateStyle", "ISO, MDY", "IntervalStyle", "postgres",
		"client_encoding", "UTF8", "standard_conforming_strings", "on", "server_version", "15.4", "server_encoding", "UTF8",
		"in_hot_standby", "off", "is_superuser", "off", "session_authorization", "u", "integer_datetimes", "on")
	profiles := []*Profile{
		Intern(params("application_name", "a", "client_encoding", "UTF8", "datestyle", "ISO, MDY", "extra_float_digits", "2")),
		Intern(params("application_name", "b", "client_encoding", "UTF8", "datestyle", "ISO, MDY", "extra_float_digits", "3")),
	}
	name, values := []byte("application_name"), [][]byte{[]byte("a"), []byte("b")}
	buf := make([]byte, 0, 4096)
	for i := 0; b.Loop(); i++ {
		c.applied.Batch(buf, profiles[i&1], &c.params)
		c.params.Set(name, values[i&1])
		c.applied.Confirm(&c.params)
	}
}

// A request that sets what the client has already, and one of a client that has
// never set anything.
func TestSettingsAllocateOnlyForAChange(t *testing.T) {
	c := newConn(t, "application_name", "pg-kinetic", "TimeZone", "UTC", "DateStyle", "ISO, MDY")
	p := Intern(params("application_name", "a", "timezone", "GMT", "work_mem", "8MB", "my.own", "it's"))
	c.carry(p)
	sql := []byte("BEGIN; SET application_name = 'a'; SET LOCAL lock_timeout = 5; SAVEPOINT s; SET Work_mem TO '8MB'; SET my.own TO 'it''s'; COMMIT")
	ops := sqllex.AppendOps(nil, sql)
	st := new(Settings)
	request := func() {
		if st.Live() {
			t.Fatal("not at rest")
		}
		st.Sent(1, ops, sql)
		for _, tag := range []string{"BEGIN", "SET", "SET", "SAVEPOINT", "SET", "SET", "COMMIT"} {
			st.Step(1, []byte(tag))
		}
		st.Settle(outcomes{done: 1})
		st.Ready('I')
		if q, r := st.Resolve(p, p, &c.applied, &c.params); q != p || r != Resolved {
			t.Fatalf("%+v %d", q, r)
		}
	}
	request()
	if n := testing.AllocsPerRun(100, request); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c.applied.Profile() != p {
		t.Error("the backend does not carry it")
	}
}

func BenchmarkSettings(b *testing.B) {
	c := newConn(nil, "server_version", "15", "TimeZone", "UTC", "application_name", "pg-kinetic")
	p := Intern(params("application_name", "a", "work_mem", "8MB"))
	c.carry(p)
	run := func(b *testing.B, st *Settings, texts ...string) {
		b.ReportAllocs()
		q := p
		for i := 0; b.Loop(); i++ {
			sql := []byte(texts[i%len(texts)])
			st.Sent(1, sqllex.AppendOps(nil, sql), sql)
			st.Step(1, []byte("SET"))
			st.Settle(outcomes{done: 1})
			st.Ready('I')
			q, _ = st.Resolve(q, p, &c.applied, &c.params)
		}
	}
	b.Run("never", func(b *testing.B) { run(b, nil, "") })
	b.Run("same", func(b *testing.B) { run(b, new(Settings), "SET work_mem = '8MB'") })
	b.Run("changed", func(b *testing.B) { run(b, new(Settings), "SET work_mem = '9MB'", "SET work_mem = '8MB'") })
}
