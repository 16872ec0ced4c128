package reactor

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of these tests; it is reached only by a failure.
const patience = 20 * time.Second

// call is a message that runs a function on the loop.
type call struct {
	Message
	fn   func()
	done chan struct{}
}

func onCall(m *Message) {
	c := m.Ref.(*call)
	c.fn()
	close(c.done)
}

// startLoop runs a loop until the test ends.
func startLoop(t testing.TB) *Loop {
	t.Helper()
	return startLoopWith(t, LoopOptions{OnMessage: onCall, OnFailure: func(_ *Loop, err error) { t.Error(err) }})
}

func startLoopWith(t testing.TB, opts LoopOptions) *Loop {
	t.Helper()
	l, err := NewLoop(0, opts)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = l.Run()
		close(ended)
	}()
	t.Cleanup(func() {
		l.Stop()
		<-ended
	})
	return l
}

// begin runs fn on the loop and returns at once.
func begin(l *Loop, fn func()) (done <-chan struct{}) {
	c := &call{fn: fn, done: make(chan struct{})}
	c.Ref = c
	l.Post(&c.Message)
	return c.done
}

// on runs fn on the loop and waits for it.
func on(t testing.TB, l *Loop, fn func()) {
	t.Helper()
	await(t, begin(l, fn), "the loop to run a function")
}

// settle waits until descriptors closed on the loop so far are closed.
func settle(t testing.TB, l *Loop) {
	t.Helper()
	for range 2 { // the first batch's closes come after its functions
		done := make(chan struct{})
		on(t, l, func() { l.Defer(func() { close(done) }) })
		await(t, done, "the end of a batch")
	}
}

func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// handlerFunc is a Handler in one function.
type handlerFunc func(s *Socket, ev Events)

func (f handlerFunc) OnReady(s *Socket, ev Events) { f(s, ev) }

// pair returns a non-blocking descriptor and the peer's connection.
func pair(t testing.TB, network string) (fd int, peer net.Conn) {
	t.Helper()
	ln := listener(t, network)
	defer func() { _ = ln.Close() }()
	fd, _, err := Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	if err := peer.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return fd, peer
}

func listener(t testing.TB, network string) net.Listener {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = t.TempDir() + "/s"
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// add registers fd with l.
func add(t testing.TB, l *Loop, fd int, unixDomain bool, h Handler) *Socket {
	t.Helper()
	s := new(Socket)
	on(t, l, func() {
		if err := l.Add(s, fd, unixDomain, h); err != nil {
			t.Error(err)
		}
	})
	return s
}

// echo sends back what it reads. It holds at most limit bytes, plus one read.
type echo struct {
	Socket
	out    Chain
	limit  int
	high   int // most bytes ever held
	paused bool
	closed func()
}

func (e *echo) OnReady(s *Socket, ev Events) {
	if err := e.relay(s); err != nil || (ev&Hangup != 0 && e.out.Len() == 0) {
		e.out.Release(s.Loop())
		s.Close()
		if e.closed != nil {
			e.closed()
		}
	}
}

func (e *echo) relay(s *Socket) error {
	for {
		if _, err := e.out.WriteTo(s); err != nil {
			return err
		}
		s.WantWrite(e.out.Len() > 0)
		if e.out.Len() >= e.limit {
			e.paused = true
			return nil
		}
		e.paused = false
		buf := s.Loop().Scratch()
		n, err := s.Read(buf)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		e.out.Append(s.Loop(), buf[:n])
		e.high = max(e.high, e.out.Len())
	}
}

// openDescriptors counts this process's descriptors.
func openDescriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// pattern fills p with bytes that depend on their position in the stream.
func pattern(p []byte, offset int) {
	for i := range p {
		at := offset + i
		p[i] = byte(at ^ at>>8 ^ at>>16)
	}
}

// readPattern reads n bytes of the pattern in pieces of piece bytes.
func readPattern(t testing.TB, r io.Reader, n, piece int) {
	t.Helper()
	got, want := make([]byte, piece), make([]byte, piece)
	for offset := 0; offset < n; offset += piece {
		size := min(piece, n-offset)
		if _, err := io.ReadFull(r, got[:size]); err != nil {
			t.Fatalf("after %d bytes: %v", offset, err)
		}
		pattern(want, offset)
		for i := range size {
			if got[i] != want[i] {
				t.Fatalf("byte %d is %d, want %d", offset+i, got[i], want[i])
			}
		}
	}
}

// writePattern writes n bytes of the pattern and reports when done.
func writePattern(w io.Writer, n int) <-chan error {
	done := make(chan error, 1)
	go func() {
		p := make([]byte, n)
		pattern(p, 0)
		_, err := w.Write(p)
		done <- err
	}()
	return done
}
