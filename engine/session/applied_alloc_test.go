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

// A request that sets what the client has already.
func TestAdoptingAllocatesOnlyForAChange(t *testing.T) {
	c := newConn(t, "application_name", "pg-kinetic", "TimeZone", "UTC", "DateStyle", "ISO, MDY")
	p := Intern(params("application_name", "a", "timezone", "GMT"))
	c.carry(p)
	r := Request{Seen: sqllex.SetReported &^ (sqllex.SetClientEncoding | sqllex.SetIntervalStyle | sqllex.SetStandardConformingStrings), Failed: true}
	if n := testing.AllocsPerRun(100, func() {
		c.applied.Note(&c.params, r.Seen)
		if q, ok := p.Adopt(p, &c.params, r); q != p || !ok {
			t.Fatalf("%+v %t", q, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdopt(b *testing.B) {
	c := newConn(nil, "server_version", "15", "TimeZone", "UTC", "application_name", "pg-kinetic")
	p := Intern(params("application_name", "a", "timezone", "GMT"))
	c.carry(p)
	r := Request{Seen: sqllex.SetApplicationName}
	b.Run("same", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Adopt(p, &c.params, r)
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		name, values, q := []byte("application_name"), [][]byte{[]byte("a"), []byte("b")}, p
		for i := 0; b.Loop(); i++ {
			c.params.Set(name, values[i&1])
			q, _ = q.Adopt(p, &c.params, r)
		}
	})
}
