package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgkinetic/protocol"
)

func list(params []protocol.Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "[%s=%s]", p.Name, p.Value)
	}
	return b.String()
}

func TestParseOptions(t *testing.T) {
	f := func(options, want string) {
		t.Helper()
		got, err := ParseOptions(options)
		if err != nil || list(got) != want {
			t.Errorf("%q: %s, %v, want %s", options, list(got), err, want)
		}
	}
	f("", "")
	f(" \t\n ", "")
	f("-c search_path=s1,public -c statement_timeout=12345", "[search_path=s1,public][statement_timeout=12345]")
	f("-csearch_path=s1", "[search_path=s1]")
	f("--search_path=x", "[search_path=x]")
	f("--search-path=a-b -c lock-timeout=1", "[search_path=a-b][lock_timeout=1]")
	f(`-c search_path=a,\ b`, "[search_path=a, b]")
	f(`-c x.y=a\\b\'c`, `[x.y=a\b'c]`)
	f(`-c a=b\`, "[a=b]")
	f(`-c a=\ `, "[a= ]")
	f("-c a=b=c", "[a=b=c]")
	f("-c a=", "[a=]")
	f("--a=1\v--a=2", "[a=1][a=2]")
	f("-c -c=1", "[_c=1]")
}

func TestParseOptionsRefuses(t *testing.T) {
	f := func(options, want string) {
		t.Helper()
		_, err := ParseOptions(options)
		var s *SettingError
		if !errors.As(err, &s) || s.Answer().Code != "42601" || s.Answer().Message != want {
			t.Errorf("%q: %v, want %q", options, err, want)
		}
	}
	f("xyz", "invalid command-line argument for server process: xyz")
	f("-c a=1 -e", "invalid command-line argument for server process: -e")
	f("-c", "invalid command-line argument for server process: -c")
	f("--", "invalid command-line argument for server process: --")
	f("-S 1000", "invalid command-line argument for server process: -S")
	f("-cfoo", "-c foo requires a value")
	f("-c foo", "-c foo requires a value")
	f("--foo", "--foo requires a value")
	f("-c =a", "-c =a requires a value")
}

func TestRequested(t *testing.T) {
	f := func(want string, pairs ...string) {
		t.Helper()
		var params []protocol.Param
		for i := 0; i < len(pairs); i += 2 {
			params = append(params, protocol.Param{Name: pairs[i], Value: pairs[i+1]})
		}
		got, err := requested(params)
		if err != nil || list(got) != want {
			t.Errorf("%q: %s, %v, want %s", pairs, list(got), err, want)
		}
	}
	f("", "user", "u", "database", "d", "replication", "off", "_pq_.x", "y")
	f("[timezone=UTC][datestyle=ISO]", "TimeZone", "UTC", "DateStyle", "ISO")
	// What stands in the packet itself goes before what "options" say.
	f("[a=1][timezone=B][x=y]", "TimeZone", "B", "options", "-c a=1 -c timezone=A", "x", "y")
	f("[a=2]", "a", "1", "A", "2")
}

func FuzzParseOptions(f *testing.F) {
	for _, s := range []string{"-c a=b --c-d=e", `-c a=\ b\`, "-ca=", "--", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, options string) {
		params, err := ParseOptions(options)
		if err != nil {
			return
		}
		// Written out canonically, the same settings are read again.
		var b strings.Builder
		for _, p := range params {
			b.WriteString("-c ")
			for _, c := range []byte(p.Name + "=" + p.Value) {
				b.Write([]byte{'\\', c})
			}
			b.WriteByte(' ')
		}
		again, err := ParseOptions(b.String())
		if err != nil || list(again) != list(params) {
			t.Fatalf("%q: %s, again %s, %v", options, list(params), list(again), err)
		}
	})
}
