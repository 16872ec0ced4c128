package reactor

import (
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDialReportsTheOutcome: the socket is registered while the connect runs;
// its end comes as an event and SO_ERROR tells which.
func TestDialReportsTheOutcome(t *testing.T) {
	ln := listener(t, "tcp")
	defer func() { _ = ln.Close() }()
	dead := listener(t, "tcp")
	refusing := dead.Addr().String()
	_ = dead.Close()

	f := func(address string, want error) {
		t.Helper()
		l := startLoop(t)
		fd, _, err := Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		outcome := make(chan error, 10)
		add(t, l, fd, false, handlerFunc(func(s *Socket, ev Events) {
			err := s.Error()
			if err == nil && ev&Hangup != 0 {
				err = errors.New("hang-up without an error")
			}
			s.Close()
			if s.Error() != unix.EBADF {
				t.Error("a closed socket has an error to tell")
			}
			outcome <- err
		}))
		if err := await(t, outcome, "the connect"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	f(ln.Addr().String(), nil)
	f(refusing, unix.ECONNREFUSED)
}

func TestDialUnix(t *testing.T) {
	dir := t.TempDir()
	f := func(path string) {
		t.Helper()
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		fd, inProgress, err := Dial("unix", path)
		if err != nil || inProgress {
			t.Fatalf("%s: in progress %v, %v", path, inProgress, err)
		}
		CloseFD(fd)
		_ = ln.Close()
		if _, _, err := Dial("unix", path); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v", path, err)
		}
	}
	f(dir + "/s")
	f("@" + dir + "/abstract")
}

func TestDialOfABadAddress(t *testing.T) {
	f := func(network, address string) {
		t.Helper()
		fd, _, err := Dial(network, address)
		if err == nil || fd != -1 || !strings.Contains(err.Error(), address) {
			t.Errorf("%s %q: %d, %v", network, address, fd, err)
		}
	}
	f("tcp", "localhost:5432") // a name
	f("tcp", "127.0.0.1")
	f("tcp", "[fe80::1%nosuchinterface]:5432")
	f("udp", "127.0.0.1:5432")
	f("unix", "")
	f("unix", "/"+strings.Repeat("x", unixPathMax))
	if fd, _, err := Dial("unix", "/a\x00b"); err == nil || fd != -1 {
		t.Errorf("a path with a NUL: %d, %v", fd, err)
	}
}

func TestTCPOptions(t *testing.T) {
	ln := listener(t, "tcp")
	defer func() { _ = ln.Close() }()
	f := func(o DialOptions, want map[int]int, alive int) {
		t.Helper()
		fd, _, err := o.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer CloseFD(fd)
		for name, value := range want {
			if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, name); err != nil || got != value {
				t.Errorf("%+v: option %d is %d, want %d (%v)", o, name, got, value, err)
			}
		}
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE); err != nil || got != alive {
			t.Errorf("%+v: keepalive %d, want %d (%v)", o, got, alive, err)
		}
	}
	f(DialOptions{}, map[int]int{unix.TCP_NODELAY: 1}, 0)
	f(DialOptions{KeepaliveMs: 60_000, UserTimeoutMs: 9000}, map[int]int{
		unix.TCP_NODELAY: 1, unix.TCP_KEEPIDLE: 60, unix.TCP_KEEPINTVL: 10, unix.TCP_KEEPCNT: 3, unix.TCP_USER_TIMEOUT: 9000,
	}, 1)
	f(DialOptions{KeepaliveMs: 1}, map[int]int{unix.TCP_KEEPIDLE: 1, unix.TCP_KEEPINTVL: 1}, 1)
	f(DialOptions{KeepaliveMs: 7_200_000}, map[int]int{unix.TCP_KEEPINTVL: 75}, 1)
	if err := SetTCPOptions(-1, 0, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("options of no socket: %v", err)
	}
}
