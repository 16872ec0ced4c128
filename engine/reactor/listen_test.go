package reactor

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func dirNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestUnixSocketFileAndMode(t *testing.T) {
	old := unix.Umask(0o077) // must not matter
	defer unix.Umask(old)
	for _, mode := range []os.FileMode{0o777, 0o700, 0o770} {
		dir := t.TempDir()
		a, err := Listen(AcceptorOptions{UnixDir: dir, UnixPort: 6432, UnixMode: mode})
		if err != nil {
			t.Fatal(err)
		}
		path := dir + "/.s.PGSQL.6432"
		info, err := os.Stat(path)
		if err != nil || info.Mode() != os.ModeSocket|mode || a.Listeners()[0].Address != path {
			t.Errorf("mode %o: %v, %v", mode, info.Mode(), err)
		}
		lock, err := os.ReadFile(path + ".lock")
		if first, _, _ := strings.Cut(string(lock), "\n"); err != nil || first != strconv.Itoa(os.Getpid()) {
			t.Errorf("lock file %q, %v", lock, err)
		}
		a.Close()
	}
}

func TestUnixPortIsTheFirstTCPListeners(t *testing.T) {
	dir := t.TempDir()
	a, err := Listen(AcceptorOptions{Addresses: []string{"127.0.0.1:0", "127.0.0.1:0"}, UnixDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, port, _ := net.SplitHostPort(a.Listeners()[0].Address)
	if want := dir + "/.s.PGSQL." + port; a.Listeners()[2].Address != want {
		t.Errorf("%v, want %s", a.Listeners()[2], want)
	}
}

// TestStaleUnixSocketIsReplaced: a file whose server died without removing it,
// with and without its lock file.
func TestStaleUnixSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/.s.PGSQL.1"
	for _, lockLeft := range []bool{false, true} {
		leaveSocketFile(t, path)
		if lockLeft {
			if err := os.WriteFile(path+".lock", []byte("1234567\nand more\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := Listen(AcceptorOptions{UnixDir: dir, UnixPort: 1})
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
}

func leaveSocketFile(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = ln.Close()
}

// TestLiveUnixSocketIsLeftAlone: somebody answers, though without a lock.
func TestLiveUnixSocketIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", dir+"/.s.PGSQL.1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	listenFails(t, AcceptorOptions{UnixDir: dir, UnixPort: 1}, ".s.PGSQL.1", "another process serves this socket")
	if names := dirNames(t, dir); len(names) != 1 {
		t.Errorf("files: %v", names)
	}
}

// TestSecondInstanceIsLockedOut, also when the socket's file is gone.
func TestSecondInstanceIsLockedOut(t *testing.T) {
	dir := t.TempDir()
	a, err := Listen(AcceptorOptions{UnixDir: dir, UnixPort: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.Remove(a.Listeners()[0].Address); err != nil {
		t.Fatal(err)
	}
	listenFails(t, AcceptorOptions{UnixDir: dir, UnixPort: 1}, ".s.PGSQL.1", "another process serves this socket", "another port")
}

func TestAbstractUnixSocket(t *testing.T) {
	dir := "@pgkinetic-test-" + strconv.Itoa(os.Getpid())
	a := echoServer(t, AcceptorOptions{UnixDir: dir, UnixPort: 1}, 1)
	conn := connect(t, a.Listeners()[0])
	defer func() { _ = conn.Close() }()
	ping(t, conn)
	listenFails(t, AcceptorOptions{UnixDir: dir, UnixPort: 1}, dir, "address already in use")
}

func listenFails(t *testing.T, opts AcceptorOptions, want ...string) {
	t.Helper()
	a, err := Listen(opts)
	if err == nil {
		a.Close()
		t.Fatalf("%+v: no error", opts)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error %q", w, err)
		}
	}
}

// TestListenErrorsNameAddressAndRemedy, and leave nothing open.
func TestListenErrorsNameAddressAndRemedy(t *testing.T) {
	before := openDescriptors(t)
	f := func(address string, want ...string) {
		t.Helper()
		listenFails(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0", address}}, append(want, strconv.Quote(address))...)
	}
	taken := listener(t, "tcp")
	f(taken.Addr().String(), "another process listens there", "server.listen")
	_ = taken.Close()
	f("192.0.2.1:5432", "no such address", "only :port for all") // TEST-NET-1
	f("127.0.0.1", "host:port")
	f("127.0.0.1:port", "from 0 to 65535")
	f("127.0.0.1:65536", "from 0 to 65535")
	f("a..b:5432", "use an address of this machine")

	dir := t.TempDir()
	listenFails(t, AcceptorOptions{}, "server.listen", "server.unix_socket_dir")
	listenFails(t, AcceptorOptions{UnixDir: dir}, dir, "no port")
	listenFails(t, AcceptorOptions{UnixDir: dir + "/none", UnixPort: 1}, dir+"/none", "create the directory")
	long := dir + strings.Repeat("/x", 60)
	listenFails(t, AcceptorOptions{UnixDir: long, UnixPort: 1}, long, "107 are possible", "shorter")
	if err := os.WriteFile(dir+"/.s.PGSQL.1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listenFails(t, AcceptorOptions{UnixDir: dir, UnixPort: 1}, dir, "not a socket")
	if after := openDescriptors(t); after > before+1 { // the resolver may keep one
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestErrorsOfPermissionNameTheRemedy(t *testing.T) {
	if err := listenError("127.0.0.1:1", unix.EACCES); !strings.Contains(err.Error(), "CAP_NET_BIND_SERVICE") {
		t.Error(err)
	}
	if err := listenError("127.0.0.1:1", unix.EMFILE); !strings.Contains(err.Error(), "limit of open files") {
		t.Error(err)
	}
	if err := unixError("/run/x", os.ErrPermission); !strings.Contains(err.Error(), "write permission") {
		t.Error(err)
	}
}
