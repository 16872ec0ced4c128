package backend

import (
	"fmt"
	"strings"
	"testing"

	"pgkinetic/protocol"
)

func record(pairs ...string) *Params {
	p := &Params{}
	for i := 0; i < len(pairs); i += 2 {
		p.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	p.rebaseAll()
	return p
}

func TestParamsSet(t *testing.T) {
	p := record("TimeZone", "UTC", "DateStyle", "ISO, MDY")
	f := func(name, value string, wantChanged bool, want string) {
		t.Helper()
		gen := p.Gen()
		changed := p.Set([]byte(name), []byte(value))
		var got []string
		p.Each(func(name string, value []byte) { got = append(got, name+"="+string(value)) })
		if changed != wantChanged || (p.Gen() != gen) != wantChanged || strings.Join(got, ";") != want {
			t.Errorf("Set(%q, %q) = %t, generation %d to %d, %q; want %t, %q", name, value, changed, gen, p.Gen(), got, wantChanged, want)
		}
	}
	f("TimeZone", "UTC", false, "TimeZone=UTC;DateStyle=ISO, MDY")
	f("TimeZone", "Europe/Rome", true, "TimeZone=Europe/Rome;DateStyle=ISO, MDY")
	f("timezone", "", true, "TimeZone=;DateStyle=ISO, MDY")
	f("my.own", "1", true, "TimeZone=;DateStyle=ISO, MDY;my.own=1")
	f("my.own", strings.Repeat("x", maxParamBytes), false, "TimeZone=;DateStyle=ISO, MDY;my.own=1")
	f("other", strings.Repeat("x", maxParamBytes), false, "TimeZone=;DateStyle=ISO, MDY;my.own=1")
	if _, _, base := p.At(0); string(base) != "UTC" {
		t.Errorf("base %q, want UTC", base)
	}
	p.Rebase(0)
	if _, _, base := p.At(0); string(base) != "" {
		t.Errorf("base after Rebase %q, want the value", base)
	}
	if _, ok := p.Get("MY.OWN"); !ok {
		t.Error("names are not compared without regard to case")
	}
	if _, ok := p.Get("my.owm"); ok {
		t.Error("found a parameter that is not there")
	}
}

func TestParamsBoundNumber(t *testing.T) {
	p := &Params{}
	for i := range 2 * maxParams {
		if got, want := p.Set(fmt.Append(nil, "p", i), []byte("v")), i < maxParams; got != want {
			t.Fatalf("parameter %d: recorded %t, want %t", i, got, want)
		}
	}
}

func TestSnapshot(t *testing.T) {
	a, b := record("server_version", "15.4 (Debian)", "TimeZone", "UTC"), record("server_version", "15.4 (Debian)", "TimeZone", "UTC")
	s := a.Snapshot(nil)
	if b.Snapshot(s) != s {
		t.Error("equal backends do not share a Snapshot")
	}
	b.Set([]byte("TimeZone"), []byte("Asia/Tokyo"))
	if b.Snapshot(s) != s {
		t.Error("a value that is not the base changed the Snapshot")
	}
	b.Rebase(1)
	s2 := b.Snapshot(s)
	if zone, _ := s2.Get("timezone"); zone != "Asia/Tokyo" || s2 == s {
		t.Errorf("zone %q, want the new base", zone)
	}
	if s2.ServerMajor() != 15 {
		t.Errorf("major version %d, want 15", s2.ServerMajor())
	}
	want := protocol.AppendParameterStatus(protocol.AppendParameterStatus(nil, "server_version", "15.4 (Debian)"), "TimeZone", "Asia/Tokyo")
	if got := s2.AppendAll([]byte("x")); string(got) != "x"+string(want) {
		t.Errorf("ParameterStatus %q, want %q", got, want)
	}
	if got := b.AppendAll(nil); string(got) != string(want) {
		t.Errorf("ParameterStatus of the backend %q, want %q", got, want)
	}
}

func TestSnapshotWith(t *testing.T) {
	s := record("in_hot_standby", "on", "TimeZone", "UTC").Snapshot(nil)
	if s.With([]byte("IN_HOT_STANDBY"), []byte("on")) != s {
		t.Error("an equal value made a new Snapshot")
	}
	s2 := s.With([]byte("in_hot_standby"), []byte("off")).With([]byte("x"), []byte("y"))
	if v, _ := s2.Get("in_hot_standby"); v != "off" || s2.Len() != 3 || s2.At(2) != (protocol.Param{Name: "x", Value: "y"}) {
		t.Errorf("got %+v", s2.items)
	}
	if v, _ := s.Get("in_hot_standby"); v != "on" {
		t.Error("With changed the Snapshot it was called on")
	}
	if s.With([]byte("x"), make([]byte, maxParamBytes)) != s {
		t.Error("With exceeds the bound")
	}
	var none *Snapshot
	if _, ok := none.Get("x"); ok || none.Len() != 0 || none.ServerMajor() != 0 || none.AppendAll(nil) != nil {
		t.Error("a nil Snapshot is not empty")
	}
	if v, _ := none.With([]byte("x"), []byte("y")).Get("x"); v != "y" {
		t.Error("With on a nil Snapshot")
	}
}

func TestServerMajor(t *testing.T) {
	f := func(version string, want int) {
		t.Helper()
		if got := record("server_version", version).Snapshot(nil).ServerMajor(); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
	f("15.4 (Debian 15.4-1)", 15)
	f("18beta1", 18)
	f("9.6.24", 9)
	f("", 0)
	f("devel", 0)
	f("99999999999999999999", 9999)
}

func TestSettable(t *testing.T) {
	for _, name := range []string{"application_name", "client_encoding", "datestyle", "TIMEZONE", "search_path", "my.own"} {
		if !Settable(name) {
			t.Errorf("%s is not settable", name)
		}
	}
	for _, name := range []string{"server_version", "in_hot_standby", "IS_superuser", "session_authorization", "server_encoding", "integer_datetimes"} {
		if Settable(name) {
			t.Errorf("%s is settable", name)
		}
	}
}
