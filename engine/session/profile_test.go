package session

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"pgkinetic/backend"
	"pgkinetic/protocol"
)

// params makes a list of settings from names and values.
func params(pairs ...string) []protocol.Param {
	var list []protocol.Param
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, protocol.Param{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func TestInternShares(t *testing.T) {
	a := Intern(params("timezone", "UTC", "application_name", "a"))
	b := Intern(params("application_name", "a", "timezone", "UTC"))
	if a != b {
		t.Error("equal settings in another order have another Profile")
	}
	if c := Intern(params("application_name", "a", "timezone", "GMT")); c == a {
		t.Error("other settings have the same Profile")
	}
	if c := Intern(params("application_name", "a\x00timezone")); c == Intern(params("application_name", "a", "timezone", "")) {
		t.Error("lists of different length have the same Profile")
	}
	if Intern(nil) != Empty() || Empty().Len() != 0 {
		t.Error("no settings are not the empty Profile")
	}
	if name, value := a.At(0); a.Len() != 2 || name != "application_name" || value != "a" {
		t.Errorf("first of %d settings %s=%s", a.Len(), name, value)
	}
	if value, ok := a.Get("TimeZone"); !ok || value != "UTC" {
		t.Errorf("TimeZone %q %t", value, ok)
	}
	if _, ok := a.Get("timezona"); ok {
		t.Error("found a setting that is not there")
	}
}

func TestInternConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	got := make([]*Profile, 16)
	for i := range got {
		wg.Go(func() { got[i] = Intern(params("x.concurrent", "1")) })
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] {
			t.Fatal("two Profiles with the same settings")
		}
	}
}

// Profiles of clients that have left cost nothing; those of others stay.
func TestInternForgets(t *testing.T) {
	count := func() int {
		profiles.Lock()
		defer profiles.Unlock()
		return len(profiles.byKey)
	}
	kept := Intern(params("x.kept", "1"))
	before := count()
	for i := range 1000 {
		Intern(params("x.left", fmt.Sprint(i)))
	}
	for range 200 { // cleanups run on a goroutine of the runtime's, after a collection
		runtime.GC()
		if count() <= before {
			break
		}
		runtime.Gosched()
	}
	if n := count(); n > before {
		t.Errorf("%d profiles in the table, %d before", n, before)
	}
	if Intern(params("x.kept", "1")) != kept {
		t.Error("a live Profile was forgotten")
	}
	runtime.KeepAlive(kept)
}

func TestCannotFail(t *testing.T) {
	f := func(want bool, name, value string) {
		t.Helper()
		if got := Intern(params(name, value)).pipelined; got != want {
			t.Errorf("%s=%s: pipelined %t, want %t", name, value, got, want)
		}
	}
	f(true, "application_name", "x")
	f(true, "statement_timeout", "0")
	f(true, "statement_timeout", "1min")
	f(true, "statement_timeout", "12345ms")
	f(false, "statement_timeout", "999ms")
	f(false, "role", "x")
	f(true, "my.own", "x")
	f(true, "enable_seqscan", "off")
	f(false, "enabled", "off")
	f(true, "statement_timeout", "1500")
	f(true, "statement_timeout", "2 s")
	f(false, "statement_timeout", "999")
	f(false, "statement_timeout", "0100000")
	f(false, "statement_timeout", "0.5s")
	f(false, "statement_timeout", "0.5")
	f(false, "statement_timeout", "0s")
	f(false, "statement_timeout", "100us")
	f(false, "statement_timeout", "")
	f(false, "session_authorization", "x")
	f(false, "default_tablespace", "x")
}

func TestLoginParams(t *testing.T) {
	var p backend.Params
	for _, kv := range [][2]string{{"server_version", "15"}, {"TimeZone", "UTC"}, {"application_name", "pg-kinetic"}} {
		p.Set([]byte(kv[0]), []byte(kv[1]))
	}
	snapshot := p.Snapshot(nil)
	f := func(profile *Profile, want ...string) {
		t.Helper()
		var wanted []byte
		for i := 0; i < len(want); i += 2 {
			wanted = protocol.AppendParameterStatus(wanted, want[i], want[i+1])
		}
		if got := LoginParams(nil, snapshot, profile); string(got) != string(wanted) {
			t.Errorf("got %q, want %q", got, wanted)
		}
	}
	f(Empty(), "server_version", "15", "TimeZone", "UTC", "application_name", "pg-kinetic")
	f(
		Intern(params("application_name", "me", "search_path", "s", "timezone", "Asia/Tokyo")),
		"server_version", "15", "TimeZone", "Asia/Tokyo", "application_name", "me",
	)
}
