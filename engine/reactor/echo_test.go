package reactor

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// echoBench is an echo on a loop and a client on raw descriptors in this
// goroutine, which allocates nothing.
type echoBench struct {
	fd  int
	buf [64]byte
}

func newEchoBench(t testing.TB, l *Loop, network string) *echoBench {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if network == "tcp" {
		CloseFD(fds[0])
		CloseFD(fds[1])
		fds = tcpDescriptors(t)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	e := &echo{limit: 64 << 10}
	on(t, l, func() {
		if err := l.Add(&e.Socket, fds[0], network == "unix", e); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { CloseFD(fds[1]) })
	return &echoBench{fd: fds[1]}
}

// tcpDescriptors returns both ends of a TCP connection, the second blocking.
func tcpDescriptors(t testing.TB) (fds [2]int) {
	t.Helper()
	ln, err := listenAddrPort(netip.MustParseAddrPort("127.0.0.1:0"), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closeListeners([]*Listener{ln})
	if err := unix.SetNonblock(ln.fd, false); err != nil {
		t.Fatal(err)
	}
	if fds[1], _, err = Dial("tcp", ln.Address); err != nil {
		t.Fatal(err)
	}
	if fds[0], _, err = unix.Accept4(ln.fd, unix.SOCK_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	return fds
}

// round sends 64 bytes and waits for them.
func (b *echoBench) round(t testing.TB) {
	if _, err := unix.Write(b.fd, b.buf[:]); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < len(b.buf); {
		n, err := unix.Read(b.fd, b.buf[got:])
		if n <= 0 || err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
		got += n
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, network := range networks {
		b.Run(network, func(b *testing.B) {
			e := newEchoBench(b, startLoop(b), network)
			for b.Loop() {
				e.round(b)
			}
		})
	}
}

// BenchmarkMailboxRoundTrip sends one message to and fro between two loops.
func BenchmarkMailboxRoundTrip(b *testing.B) {
	p := newPingPong(b)
	p.rounds(b.N)
}

type pingPong struct {
	loops [2]*Loop
	m     Message
	done  chan struct{}
}

func newPingPong(t testing.TB) *pingPong {
	p := &pingPong{done: make(chan struct{})}
	for i := range p.loops {
		p.loops[i] = startLoopWith(t, LoopOptions{OnMessage: func(m *Message) {
			if m.Arg--; m.Arg == 0 {
				p.done <- struct{}{}
				return
			}
			p.loops[1-i].Post(m)
		}})
	}
	return p
}

// rounds makes n round trips.
func (p *pingPong) rounds(n int) {
	p.m.Arg = uint64(2 * n)
	p.loops[0].Post(&p.m)
	<-p.done
}

// BenchmarkMailboxPost is the sender's side of a mailbox that is not empty.
func BenchmarkMailboxPost(b *testing.B) {
	var box mailbox
	messages := make([]Message, 256)
	for i := 0; b.Loop(); i++ {
		box.push(&messages[i%len(messages)])
		if i%len(messages) == len(messages)-1 {
			for box.pop() != nil {
			}
		}
	}
}

func BenchmarkChainAppendDiscard(b *testing.B) {
	for _, size := range []int{100, 8192} {
		b.Run(map[int]string{100: "100B", 8192: "8KiB"}[size], func(b *testing.B) {
			l := idleLoop()
			var c Chain
			p := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				c.Append(l, p)
				c.Append(l, p)
				c.Discard(l, 2*size)
			}
		})
	}
}

// BenchmarkMove takes a socket from one loop to another, on one goroutine.
func BenchmarkMove(b *testing.B) {
	var loops [2]*Loop
	for i := range loops {
		l, err := NewLoop(i, LoopOptions{})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			l.Stop()
			_ = l.Run()
		}()
		loops[i] = l
	}
	fd, _ := pair(b, "tcp")
	var s Socket
	if err := loops[1].Add(&s, fd, false, handlerFunc(func(*Socket, Events) {})); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		s.Detach()
		if err := loops[i%2].Attach(&s); err != nil {
			b.Fatal(err)
		}
	}
}
