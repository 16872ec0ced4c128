package reactor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// changed carries a change out that must succeed.
func changed(t *testing.T, a *Acceptor, next AcceptorOptions) (opened, closed []*Listener) {
	t.Helper()
	opened, closed, err := a.Change(next)
	if err != nil {
		t.Fatal(err)
	}
	return opened, closed
}

func pings(t *testing.T, lns ...*Listener) {
	t.Helper()
	for _, ln := range lns {
		conn := connect(t, ln)
		ping(t, conn)
		_ = conn.Close()
	}
}

func refuses(t *testing.T, ln *Listener) {
	t.Helper()
	if conn, err := net.Dial(ln.Network, ln.Address); err == nil {
		_ = conn.Close()
		t.Errorf("%v still answers", ln)
	}
}

// TestChangeOfAddresses: what is new answers, what is gone refuses, what stays is the same socket; clients stay.
func TestChangeOfAddresses(t *testing.T) {
	const stays, goes, comes = "127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"
	a := echoServer(t, AcceptorOptions{Addresses: []string{stays, goes}}, 2)
	before := openDescriptors(t)
	first := a.Listeners()
	old := connect(t, first[1])
	defer func() { _ = old.Close() }()
	ping(t, old)
	opened, closed := changed(t, a, AcceptorOptions{Addresses: []string{comes, stays}})
	now := a.Listeners()
	if len(now) != 2 || now[0] != first[0] || len(opened) != 1 || now[1] != opened[0] || len(closed) != 1 || closed[0] != first[1] {
		t.Fatalf("%v, opened %v, closed %v", now, opened, closed)
	}
	pings(t, now...)
	refuses(t, first[1])
	ping(t, old)
	if opened, closed = changed(t, a, AcceptorOptions{Addresses: []string{comes, stays}}); len(opened)+len(closed) != 0 {
		t.Errorf("the same again: opened %v, closed %v", opened, closed)
	}
	// The same address, written as what the system has given: it stays, and so does the one that is written as before.
	opened, closed = changed(t, a, AcceptorOptions{Addresses: []string{now[1].Address, stays}})
	if len(opened)+len(closed) != 0 {
		t.Errorf("written otherwise: opened %v, closed %v", opened, closed)
	}
	_ = old.Close()
	for _, l := range a.opts.Loops {
		for l.Sockets() > 2 {
			settle(t, l)
		}
		settle(t, l)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestChangeToAWiderAddress and back: both have the same port.
func TestChangeToAWiderAddress(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 1)
	narrow := a.Listeners()[0]
	_, port, _ := net.SplitHostPort(narrow.Address)
	for range 2 {
		for _, address := range []string{"0.0.0.0:" + port, "127.0.0.1:" + port} {
			opened, closed := changed(t, a, AcceptorOptions{Addresses: []string{address}})
			if len(opened) != 1 || len(closed) != 1 || opened[0].Address != address {
				t.Fatalf("opened %v, closed %v", opened, closed)
			}
			pings(t, &Listener{Network: "tcp", Address: "127.0.0.1:" + port})
			if _, err := net.Listen("tcp4", address); err == nil {
				t.Errorf("%s can be listened on by others", address)
			}
		}
	}
	refuses(t, &Listener{Network: "tcp", Address: "127.0.0.2:" + port})
}

// TestChangeThatFails changes nothing.
func TestChangeThatFails(t *testing.T) {
	dir := t.TempDir()
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0", "127.0.0.2:0"}, UnixDir: dir, UnixPort: 1}, 1)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	first, before := a.Listeners(), openDescriptors(t)
	_, port, _ := net.SplitHostPort(first[1].Address)
	for _, next := range []AcceptorOptions{
		{Addresses: []string{"127.0.0.3:0", "0.0.0.0:" + port, taken.Addr().String()}},
		{Addresses: []string{"127.0.0.3:0"}, UnixDir: dir + "/absent", UnixPort: 1},
		{},
		{Addresses: []string{"nonsense"}},
	} {
		if _, _, err := a.Change(next); err == nil || len(next.Addresses) == 3 && !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%+v: %v", next, err)
		}
		if now := a.Listeners(); len(now) != 3 || now[0] != first[0] || now[1] != first[1] || now[2] != first[2] {
			t.Errorf("%+v: %v", next, now)
		}
		pings(t, first...)
	}
	if v, err := unix.GetsockoptInt(first[1].fd, unix.SOL_SOCKET, unix.SO_REUSEPORT); err != nil || v != 0 {
		t.Errorf("SO_REUSEPORT %d, %v", v, err)
	}
	settle(t, a.opts.Loops[0])
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestChangeServesTheBacklog of a listener that leaves, also in several turns.
func TestChangeServesTheBacklog(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 1)
	old := a.Listeners()[0]
	a.Pause()
	var conns []net.Conn
	for range 3*acceptsPerTurn + 1 {
		conn := connect(t, old)
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("pi")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	changed(t, a, AcceptorOptions{Addresses: []string{"127.0.0.2:0"}})
	refuses(t, old)
	a.Resume()
	for _, conn := range conns {
		if _, err := conn.Write([]byte("ng")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4)
		for n := 0; n < len(got); {
			m, err := conn.Read(got[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
	}
	pings(t, a.Listeners()...)
}

// TestChangeDoesNotWaitForEver: a listener that leaves while nobody is accepted is closed all the same.
func TestChangeDoesNotWaitForEver(t *testing.T) {
	var crowded atomic.Bool
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}, Crowded: crowded.Load}, 1)
	old := a.Listeners()[0]
	crowded.Store(true)
	changed(t, a, AcceptorOptions{Addresses: []string{"127.0.0.2:0"}})
	refuses(t, old)
	crowded.Store(false)
	pings(t, a.Listeners()...)
}

// TestChangeOfTheUnixSocket: its directory, its mode.
func TestChangeOfTheUnixSocket(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	o := AcceptorOptions{UnixDir: one, UnixPort: 7, UnixMode: 0o777}
	a := echoServer(t, o, 1)
	first := a.Listeners()[0]
	o.UnixMode = 0o700
	changed(t, a, o)
	if info, err := os.Stat(first.Address); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	o.UnixDir = two
	changed(t, a, o)
	pings(t, a.Listeners()...)
	if names := dirNames(t, one); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	if want := filepath.Join(two, ".s.PGSQL.7"); a.Listeners()[0].Address != want {
		t.Errorf("%v, want %s", a.Listeners()[0], want)
	}
	o.UnixPort = 8
	changed(t, a, o)
	if names := dirNames(t, two); len(names) != 2 || names[0] != ".s.PGSQL.8" {
		t.Errorf("%v", names)
	}
}

// TestChangeOfOptions holds for those who are accepted afterwards, on listeners that stay and new ones.
func TestChangeOfOptions(t *testing.T) {
	seen := make(chan int, 1)
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}, KeepaliveMs: 7000, OnAccept: func(l *Loop, c *Accepted) {
		seen <- c.FD
		echoClient(l, c)
	}}, 1)
	changed(t, a, AcceptorOptions{Addresses: []string{"127.0.0.1:0", "127.0.0.2:0"}, KeepaliveMs: 9000, UserTimeoutMs: 5000, Backlog: 5})
	for _, ln := range a.Listeners() {
		conn := connect(t, ln)
		ping(t, conn)
		fd := await(t, seen, "OnAccept")
		idle, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		timeout, err2 := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if idle != 9 || timeout != 5000 || err != nil || err2 != nil {
			t.Errorf("%v: idle %d s, time-out %d ms, %v, %v", ln, idle, timeout, err, err2)
		}
		info, err := unix.GetsockoptTCPInfo(ln.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || info.Sacked != 5 { // of a listening socket: its backlog
			t.Errorf("%v: backlog %d, %v", ln, info.Sacked, err)
		}
		_ = conn.Close()
	}
	changed(t, a, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}})
	ping(t, connect(t, a.Listeners()[0]))
	fd := await(t, seen, "OnAccept")
	alive, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
	timeout, err2 := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	if alive != 0 || timeout != 0 || err != nil || err2 != nil {
		t.Errorf("turned off: keepalive %d, time-out %d ms, %v, %v", alive, timeout, err, err2)
	}
}

// TestChangeKeepsPassedListeners, whatever the settings say.
func TestChangeKeepsPassedListeners(t *testing.T) {
	fd, address := passed(t, "tcp4", "127.0.0.1:0")
	a := echoServer(t, AcceptorOptions{Passed: []int{fd}, Addresses: []string{address, "127.0.0.2:0"}}, 1)
	changed(t, a, AcceptorOptions{Addresses: []string{"127.0.0.3:0"}})
	lns := a.Listeners()
	if len(lns) != 2 || lns[0].Address != address {
		t.Fatalf("%v", lns)
	}
	pings(t, lns...)
}

// TestChangeWithoutALoop answers.
func TestChangeWithoutALoop(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 1)
	next := AcceptorOptions{Addresses: []string{"127.0.0.2:0"}}
	a.Close()
	if _, _, err := a.Change(next); err == nil {
		t.Error("changed after Close")
	}
	a, err := Listen(AcceptorOptions{Addresses: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, _, err := a.Change(next); err == nil {
		t.Error("changed before Start")
	}
}
