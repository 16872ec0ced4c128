package reactor

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echoServer accepts on the given places and echoes on its loops.
func echoServer(t testing.TB, opts AcceptorOptions, loops int) *Acceptor {
	t.Helper()
	for range loops {
		opts.Loops = append(opts.Loops, startLoop(t))
	}
	if opts.OnAccept == nil {
		opts.OnAccept = echoClient
	}
	opts.OnFailure = func(err error) { t.Error(err) }
	a, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	a.Start()
	t.Cleanup(a.Close)
	return a
}

func echoClient(l *Loop, c *Accepted) {
	e := &echo{limit: 64 << 10}
	if err := l.Add(&e.Socket, c.FD, c.Unix, e); err != nil {
		CloseFD(c.FD)
	}
}

func connect(t testing.TB, ln *Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial(ln.Network, ln.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ping proves that somebody serves conn.
func ping(t testing.TB, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestAcceptorServesAllItsListeners(t *testing.T) {
	seen := make(chan *Accepted, 10)
	a := echoServer(t, AcceptorOptions{
		Addresses: []string{"127.0.0.1:0", "127.0.0.2:0", "localhost:0"},
		UnixDir:   t.TempDir(),
		OnAccept: func(l *Loop, c *Accepted) {
			seen <- c
			echoClient(l, c)
		},
	}, 2)
	if n := len(a.Listeners()); n < 4 {
		t.Fatalf("%d listeners", n)
	}
	for i, ln := range a.Listeners() {
		if strings.HasSuffix(ln.Address, ":0") {
			t.Errorf("%v: the port is not resolved", ln)
		}
		conn := connect(t, ln)
		ping(t, conn)
		c := await(t, seen, "OnAccept")
		if c.Listener != ln || c.Unix != (ln.Network == "unix") {
			t.Errorf("%v: accepted on %v, Unix %v", ln, c.Listener, c.Unix)
		}
		if !c.Unix && c.Peer.String() != conn.LocalAddr().String() {
			t.Errorf("%v: peer %v, want %v", ln, c.Peer, conn.LocalAddr())
		}
		if a.Accepted() != uint64(i)+1 {
			t.Errorf("%d accepted, want %d", a.Accepted(), i+1)
		}
		_ = conn.Close()
	}
}

func TestAcceptorListensOnAllAddresses(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"*:0"}}, 1)
	ln := a.Listeners()[0]
	if !strings.HasPrefix(ln.Address, "0.0.0.0:") {
		t.Fatalf("first listener %v", ln)
	}
	conn := connect(t, ln)
	defer func() { _ = conn.Close() }()
	ping(t, conn)
}

// TestAcceptorSpreadsByLoad: with one loop already busy the other one gets the
// clients until both have the same number, also in a burst that is accepted
// before any loop has counted its new sockets, and which takes several turns.
func TestAcceptorSpreadsByLoad(t *testing.T) {
	const head, burst = 5, 2*acceptsPerTurn + 5
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 2)
	loops := a.opts.Loops
	for range head {
		fd, _ := pair(t, "tcp")
		add(t, loops[0], fd, false, handlerFunc(func(*Socket, Events) {}))
	}
	a.Pause()
	var conns []net.Conn
	for range burst {
		conns = append(conns, connect(t, a.Listeners()[0]))
	}
	a.Resume()
	for _, conn := range conns {
		ping(t, conn)
		defer func() { _ = conn.Close() }()
	}
	if x, y := loops[0].Sockets(), loops[1].Sockets(); x != y || x+y != head+burst {
		t.Errorf("%d and %d sockets", x, y)
	}
}

// TestAcceptorPause: while paused, clients wait in the backlog.
func TestAcceptorPause(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 1)
	a.Pause()
	conn := connect(t, a.Listeners()[0])
	defer func() { _ = conn.Close() }()
	on(t, a.opts.Loops[0], func() {})
	if a.Accepted() != 0 {
		t.Fatal("accepted while paused")
	}
	a.Resume()
	a.Resume()
	ping(t, conn)
}

// TestAcceptorResumeAfterClose does nothing.
func TestAcceptorResumeAfterClose(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}}, 1)
	a.Close()
	a.Resume()
	settle(t, a.opts.Loops[0])
}

// TestAcceptorPacesAStorm: while more wait than a few, they are accepted a few at a
// time, a pace apart; those that are left after that at once.
func TestAcceptorPacesAStorm(t *testing.T) {
	const clients = 3 * stormBacklog
	loop := startLoop(t)
	accepted := make(chan int64, clients)
	a, err := Listen(AcceptorOptions{
		Addresses: []string{"127.0.0.1:0"}, Loops: []*Loop{loop},
		OnAccept: func(l *Loop, c *Accepted) {
			CloseFD(c.FD)
			accepted <- l.Now()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	for range clients {
		conn := connect(t, a.Listeners()[0])
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("x")); err != nil { // accepted with its first byte
			t.Fatal(err)
		}
	}
	a.Start()
	var turns []int64 // when each turn was
	var sizes []int
	for range clients {
		if at := <-accepted; len(turns) == 0 || at != turns[len(turns)-1] {
			turns, sizes = append(turns, at), append(sizes, 1)
		} else {
			sizes[len(sizes)-1]++
		}
	}
	for i, left := 0, clients; left-acceptsPerTurn > stormBacklog; i++ {
		if sizes[i] > acceptsPerTurn {
			t.Fatalf("turn %d: %d accepted", i, sizes[i])
		}
		if apart := turns[i+1] - turns[i]; apart < stormPace {
			t.Fatalf("turn %d: %d ns before the next", i, apart)
		}
		left -= sizes[i]
	}
}

// TestAcceptorWaitsForACrowd: while there is one nobody is accepted; after it, everybody.
func TestAcceptorWaitsForACrowd(t *testing.T) {
	var crowded atomic.Bool
	crowded.Store(true)
	asked := make(chan struct{}, 1)
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}, Crowded: func() bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return crowded.Load()
	}}, 1)
	conn := connect(t, a.Listeners()[0])
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-asked
	}
	if n := a.Accepted(); n != 0 {
		t.Errorf("%d accepted", n)
	}
	crowded.Store(false)
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Error(err)
	}
}

func TestAcceptorAdmit(t *testing.T) {
	a := echoServer(t, AcceptorOptions{Addresses: []string{"127.0.0.1:0"}, Admit: func() bool { return false }}, 1)
	conn := connect(t, a.Listeners()[0])
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if a.Refused() != 1 || a.Accepted() != 0 {
		t.Errorf("refused %d, accepted %d", a.Refused(), a.Accepted())
	}
}

// TestAcceptorAfterItsLoop: when the loop has ended the listeners are closed, and
// Close does not wait for it.
func TestAcceptorAfterItsLoop(t *testing.T) {
	for _, started := range []bool{true, false} {
		failed := make(chan error, 1)
		l, err := NewLoop(0, LoopOptions{OnFailure: func(_ *Loop, err error) { failed <- err }})
		if err != nil {
			t.Fatal(err)
		}
		a, err := Listen(AcceptorOptions{
			Addresses: []string{"127.0.0.1:0"}, Loops: []*Loop{l}, Admit: func() bool { panic("a hook's mistake") },
		})
		if err != nil {
			t.Fatal(err)
		}
		if started {
			a.Start()
			go func() { _ = l.Run() }()
			conn := connect(t, a.Listeners()[0])
			if err := await(t, failed, "OnFailure"); !strings.Contains(err.Error(), "a hook's mistake") {
				t.Error(err)
			}
			_ = conn.Close()
		} else {
			l.Stop()
			_ = l.Run()
			a.Start()
		}
		a.Close()
		if _, err := net.Dial("tcp", a.Listeners()[0].Address); err == nil {
			t.Error("the listener still answers")
		}
	}
}

// TestAcceptedSocketsHaveTheOptions of their listener.
func TestAcceptedSocketsHaveTheOptions(t *testing.T) {
	seen := make(chan int, 1)
	a := echoServer(t, AcceptorOptions{
		Addresses: []string{"127.0.0.1:0"}, KeepaliveMs: 7000, UserTimeoutMs: 9000,
		OnAccept: func(l *Loop, c *Accepted) {
			seen <- c.FD
			echoClient(l, c)
		},
	}, 1)
	conn := connect(t, a.Listeners()[0])
	defer func() { _ = conn.Close() }()
	fd := await(t, seen, "OnAccept")
	for _, o := range []struct{ level, name, want int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 7},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 9000},
	} {
		if got, err := unix.GetsockoptInt(fd, o.level, o.name); got != o.want || err != nil {
			t.Errorf("option %d of level %d: %d, %v, want %d", o.name, o.level, got, err, o.want)
		}
	}
}

// TestAcceptorCloseLeavesNothing, whether or not it ran.
func TestAcceptorCloseLeavesNothing(t *testing.T) {
	l := startLoop(t)
	f := func(run bool) {
		t.Helper()
		dir := t.TempDir()
		before := openDescriptors(t)
		a, err := Listen(AcceptorOptions{Addresses: []string{"127.0.0.1:0"}, UnixDir: dir, Loops: []*Loop{l}, OnAccept: echoClient})
		if err != nil {
			t.Fatal(err)
		}
		if run {
			a.Start()
			conn := connect(t, a.Listeners()[1])
			ping(t, conn)
			_ = conn.Close()
		}
		a.Close()
		a.Close()
		for _, ln := range a.Listeners() {
			if conn, err := net.Dial(ln.Network, ln.Address); err == nil {
				_ = conn.Close()
				t.Errorf("%v still answers", ln)
			}
		}
		if left := dirNames(t, dir); len(left) != 0 {
			t.Errorf("files left: %v", left)
		}
		for l.Sockets() != 0 {
			settle(t, l)
		}
		settle(t, l)
		if after := openDescriptors(t); after > before+1 { // the loop's eventfd
			t.Errorf("run %v: %d descriptors before, %d after", run, before, after)
		}
	}
	f(true)
	f(false)
}

// TestNoDescriptorIsLeft: 10 000 connections, ended by either side, orderly and
// by reset.
func TestNoDescriptorIsLeft(t *testing.T) {
	const connections = 10_000
	a := echoServer(t, AcceptorOptions{
		Addresses: []string{"127.0.0.1:0"}, UnixDir: t.TempDir(),
		OnAccept: func(l *Loop, c *Accepted) {
			e := &echo{limit: 1}
			if err := l.Add(&e.Socket, c.FD, c.Unix, e); err != nil {
				t.Error(err)
			}
			if c.Peer.Port()%4 == 3 {
				e.CloseReset()
			}
		},
	}, 2)
	before := openDescriptors(t)
	seen := uint64(0) // without the TCP clients that are gone before they have said a word
	for i := range connections {
		ln := a.Listeners()[i%2]
		conn := connect(t, ln)
		speaks, resets := i%3 == 0, i%4 == 0 // those of TCP
		if speaks {
			_, _ = conn.Write([]byte("x")) // some are reset already
		}
		if resets {
			_ = reset(conn)
		} else {
			_ = conn.Close()
		}
		if speaks || !resets {
			seen++
		}
	}
	for _, l := range a.opts.Loops {
		for a.Accepted() < seen || l.Sockets() != 0 || l.incoming.Load() != 0 {
			settle(t, l)
		}
		settle(t, l)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
