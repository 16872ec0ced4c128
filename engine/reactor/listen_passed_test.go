package reactor

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// passed listens as a service manager does, and gives a descriptor as it would be passed: blocking, not to be closed on exec.
func passed(t *testing.T, network, address string) (fd int, bound string) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	t.Cleanup(func() { _ = ln.Close() }) // it keeps its own
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err = unix.Dup(int(file.Fd()))
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd, ln.Addr().String()
}

func port(t *testing.T, address string) int {
	t.Helper()
	_, text, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPassedListeners: they are served, in the place of addresses of their own and beside others, and so are clients that
// came before.
func TestPassedListeners(t *testing.T) {
	dir := t.TempDir()
	tcp, address := passed(t, "tcp4", "127.0.0.1:0")
	other, otherAddress := passed(t, "tcp4", "127.0.0.2:0")
	path := unixPath(dir, port(t, address))
	local, _ := passed(t, "unix", path)
	early, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	a := echoServer(t, AcceptorOptions{
		Passed: []int{tcp, other, local}, Addresses: []string{address, "127.0.0.1:0"}, UnixDir: dir + "/", UnixPort: port(t, address),
		KeepaliveMs: 5000,
	}, 1)
	lns := a.Listeners()
	if len(lns) != 4 || lns[0].Address != address || lns[1].Address != otherAddress || lns[2].Address != path {
		t.Fatalf("%v", lns)
	}
	ping(t, early)
	for _, ln := range lns {
		conn := connect(t, ln)
		ping(t, conn)
		_ = conn.Close()
	}
	if n, err := unix.GetsockoptInt(lns[0].fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); err != nil || n != 5 {
		t.Errorf("TCP_KEEPIDLE is %d, %v", n, err)
	}
	a.Close()
	if names := dirNames(t, dir); len(names) != 1 {
		t.Errorf("%v in the directory after the end, want the passed socket alone", names)
	}
}

// TestPassedWildcardServesAllAddresses of its port, and the peers of one for both families have IPv4 addresses.
func TestPassedWildcardServesAllAddresses(t *testing.T) {
	dual, address := passed(t, "tcp", "[::]:0")
	v4, address4 := passed(t, "tcp4", "0.0.0.0:0")
	p, p4 := strconv.Itoa(port(t, address)), strconv.Itoa(port(t, address4))
	peers := make(chan string, 1)
	a := echoServer(t, AcceptorOptions{
		Passed: []int{dual, v4}, Addresses: []string{"127.0.0.1:" + p, ":" + p, "[::1]:" + p, "127.0.0.1:" + p4, "[::1]:" + p4},
		OnAccept: func(l *Loop, c *Accepted) {
			peers <- c.Peer.Addr().String()
			echoClient(l, c)
		},
	}, 1)
	if lns := a.Listeners(); len(lns) != 3 || lns[2].Address != "[::1]:"+p4 {
		t.Fatalf("%v", lns)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+p)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ping(t, conn)
	if peer := <-peers; peer != "127.0.0.1" {
		t.Errorf("the peer is %s", peer)
	}
}

// TestPassedDescriptorsThatAreNoListeners are named, and nothing stays open.
func TestPassedDescriptorsThatAreNoListeners(t *testing.T) {
	before := openDescriptors(t)
	good, _ := passed(t, "tcp", "127.0.0.1:0")
	idle, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(AcceptorOptions{Passed: []int{good, idle, datagrams, null}})
	for _, fd := range []int{idle, datagrams, null} {
		if err == nil || !strings.Contains(err.Error(), "passed descriptor "+strconv.Itoa(fd)+": it is no listening stream socket") {
			t.Errorf("%v does not name %d", err, fd)
		}
	}
	if now := openDescriptors(t); now != before+1 { // that of the test
		t.Errorf("%d descriptors are open, before %d", now, before)
	}
}
