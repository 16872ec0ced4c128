package configs

import (
	"strings"
	"testing"
)

func TestParseHostValid(t *testing.T) {
	f := func(text, network, address, printed string) {
		t.Helper()
		h, err := ParseHost(text)
		if err != nil || h != (Host{network, address}) || h.String() != printed {
			t.Errorf("%q: %+v (printed %q), %v", text, h, h.String(), err)
		}
		again, err := ParseHost(h.String())
		if err != nil || again != h {
			t.Errorf("%q printed as %q reads as %+v, %v", text, h.String(), again, err)
		}
	}
	f("127.0.0.1:5432", "tcp", "127.0.0.1:5432", "127.0.0.1:5432")
	f("db.example.com:6000", "tcp", "db.example.com:6000", "db.example.com:6000")
	f("db-1", "tcp", "db-1:5432", "db-1:5432")
	f("[::1]:5433", "tcp", "[::1]:5433", "[::1]:5433")
	f("[::1]", "tcp", "[::1]:5432", "[::1]:5432")
	f("[fe80::1%eth0]:5432", "tcp", "[fe80::1%eth0]:5432", "[fe80::1%eth0]:5432")
	f("/run/postgresql", "unix", "/run/postgresql/.s.PGSQL.5432", "/run/postgresql")
	f("/run/postgresql/", "unix", "/run/postgresql/.s.PGSQL.5432", "/run/postgresql")
	f("/run/postgresql:6000", "unix", "/run/postgresql/.s.PGSQL.6000", "/run/postgresql:6000")
	f("/", "unix", "/.s.PGSQL.5432", "/")
}

func TestParseHostInvalid(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		h, err := ParseHost(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error shows the password: %v", text, err)
		}
	}
	f("", "no host name")
	f(":5432", "no host name")
	f("host:", "port from 1 to 65535")
	f("host:0", "port from 1 to 65535")
	f("host:65536", "port from 1 to 65535")
	f("host:05432", "port from 1 to 65535")
	f("host:pg", "port from 1 to 65535")
	f("::1", "brackets")
	f("::1:5432", "brackets")
	f("[::1", "must be host:port")
	f("[::1]5432", "must be host:port")
	f("a b:1", `has ' '`)
	f("postgres://u:hunter2@h:5432/db", "not a URL")
	f("u:hunter2@h:5432", "not a URL")
	f("/run/.s.PGSQL.5432", "directory of the socket")
	f("/run:x", "port from 1 to 65535")
	f("/"+strings.Repeat("x", 100), "socket path of 115 bytes")
	f(strings.Repeat("x", 254)+":1", "above 253")
}

func TestSocketPort(t *testing.T) {
	f := func(want int, listen ...string) {
		t.Helper()
		s := Server{Listen: listen, UnixSocketDir: "/tmp"}
		if got := s.SocketPort(); got != want {
			t.Errorf("%v: %d, want %d", listen, got, want)
		}
	}
	f(6432)
	f(0, ":0", ":7000")
	f(7000, "[::1]:7000", ":8000")
	if path := (&Server{}).SocketPath(6432); path != "" {
		t.Errorf("a socket without a directory: %q", path)
	}
}
