package reactor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var networks = []string{"tcp", "unix"}

// TestEchoToASlowReader: far more than the kernel and the echo's limit hold goes
// in before the peer reads; then it reads in small pieces.
func TestEchoToASlowReader(t *testing.T) {
	const bytes, limit = 8 << 20, 100 << 10
	for _, network := range networks {
		l := startLoop(t)
		fd, peer := pair(t, network)
		e := &echo{limit: limit}
		on(t, l, func() {
			if err := l.Add(&e.Socket, fd, network == "unix", e); err != nil {
				t.Error(err)
			}
		})
		sent := writePattern(peer, bytes)
		awaitPaused(t, l, e)
		readPattern(t, peer, bytes, 3000)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		on(t, l, func() {
			if e.high < limit || e.high >= limit+ScratchBytes {
				t.Errorf("%s: held up to %d bytes, limit %d", network, e.high, limit)
			}
			if e.out.Len() != 0 || e.out.head != nil {
				t.Errorf("%s: %d bytes held at the end", network, e.out.Len())
			}
			e.Close()
		})
	}
	if n := BufferBytes(); n != 0 {
		t.Errorf("%d buffer bytes in use at the end", n)
	}
}

// awaitPaused returns when the echo has stopped reading.
func awaitPaused(t *testing.T, l *Loop, e *echo) {
	t.Helper()
	for paused := false; !paused; {
		on(t, l, func() { paused = e.paused })
	}
}

// TestHangupWithoutReading: the peer's end is reported although nobody reads and
// bytes lie unread before it.
func TestHangupWithoutReading(t *testing.T) {
	f := func(network string, end func(net.Conn) error, last error) {
		t.Helper()
		l := startLoop(t)
		fd, peer := pair(t, network)
		hung := make(chan struct{}, 1)
		s := add(t, l, fd, network == "unix", handlerFunc(func(_ *Socket, ev Events) {
			if ev&Hangup != 0 {
				select {
				case hung <- struct{}{}:
				default:
				}
			}
		}))
		if _, err := peer.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		on(t, l, func() {
			if !s.Alive() || len(hung) != 0 {
				t.Error("hang-up before the end")
			}
		})
		if err := end(peer); err != nil {
			t.Fatal(err)
		}
		await(t, hung, "the hang-up")
		on(t, l, func() {
			buf := make([]byte, 100)
			n, err := s.Read(buf)
			if err == nil {
				if string(buf[:n]) != "unread" {
					t.Errorf("read %q", buf[:n])
				}
				_, err = s.Read(buf)
			}
			if !errors.Is(err, last) {
				t.Errorf("%s: last read: %v, want %v", network, err, last)
			}
		})
	}
	f("tcp", func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }, io.EOF)
	f("unix", func(c net.Conn) error { return c.(*net.UnixConn).CloseWrite() }, io.EOF)
	f("tcp", net.Conn.Close, io.EOF)
	f("unix", net.Conn.Close, io.EOF)
	f("tcp", reset, unix.ECONNRESET)
}

func reset(c net.Conn) error {
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}

func TestCloseAndCloseReset(t *testing.T) {
	f := func(closeIt func(*Socket), want error) {
		t.Helper()
		l := startLoop(t)
		fd, peer := pair(t, "tcp")
		s := add(t, l, fd, false, handlerFunc(func(*Socket, Events) {}))
		on(t, l, func() {
			closeIt(s)
			closeIt(s) // once is enough
			if s.Alive() || s.FD() != -1 || l.Sockets() != 0 {
				t.Error("still registered")
			}
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, unix.EBADF) {
				t.Errorf("read: %v", err)
			}
			if _, err := s.Write([]byte{1}); !errors.Is(err, unix.EBADF) {
				t.Errorf("write: %v", err)
			}
			if _, err := s.Writev([][]byte{{1}}); !errors.Is(err, unix.EBADF) {
				t.Errorf("writev: %v", err)
			}
			var c Chain
			c.Append(l, []byte{1})
			if _, err := c.WriteTo(s); !errors.Is(err, unix.EBADF) {
				t.Errorf("chain: %v", err)
			}
			c.Release(l)
			s.WantWrite(true)
		})
		if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("the peer reads %v, want %v", err, want)
		}
	}
	f((*Socket).Close, io.EOF)
	f((*Socket).CloseReset, unix.ECONNRESET)
}

func TestShutdownWriteLetsThePeerReadToTheEnd(t *testing.T) {
	l := startLoop(t)
	fd, peer := pair(t, "tcp")
	s := add(t, l, fd, false, handlerFunc(func(*Socket, Events) {}))
	if _, err := peer.Write([]byte("never read")); err != nil {
		t.Fatal(err)
	}
	on(t, l, func() {
		if _, err := s.Write([]byte("last words")); err != nil {
			t.Error(err)
		}
		if err := s.ShutdownWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(peer)
	if err != nil || string(got) != "last words" {
		t.Errorf("%q, %v", got, err)
	}
}

// batchOfTwo registers two sockets and lets an event of each arrive in one batch:
// the handler of whichever comes first gets the other one.
func batchOfTwo(t *testing.T, l *Loop, stimulus func(net.Conn) error, first func(self, other *Socket)) {
	t.Helper()
	var pairs [2]*Socket
	var peers [2]net.Conn
	armed, events := false, 0
	for i := range pairs {
		var fd int
		fd, peers[i] = pair(t, "tcp")
		pairs[i] = add(t, l, fd, false, handlerFunc(func(s *Socket, _ Events) {
			if !armed {
				return
			}
			if events++; events == 1 {
				first(s, pairs[1-i])
			}
		}))
	}
	on(t, l, func() {}) // their first events are over
	hold, holding := make(chan struct{}), make(chan struct{})
	held := begin(l, func() { armed = true; close(holding); <-hold })
	await(t, holding, "the loop to hold still")
	for _, peer := range peers {
		// On the loopback an event is there when the call returns.
		if err := stimulus(peer); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	await(t, held, "the loop")
	for seen := false; !seen; { // the stimulus may take its time on a busy machine
		on(t, l, func() { seen = events > 0 })
	}
	settle(t, l)
	on(t, l, func() {
		if events != 1 {
			t.Errorf("%d events reached the handlers, want 1", events)
		}
	})
}

// TestCloseInsideABatch: the closed one's event is still to come in the batch; it
// must reach neither it nor a new socket, which cannot get its number.
func TestCloseInsideABatch(t *testing.T) {
	l := startLoop(t)
	ln := listener(t, "tcp")
	defer func() { _ = ln.Close() }()
	var fresh Socket
	hangups := 0
	batchOfTwo(t, l, net.Conn.Close, func(self, other *Socket) {
		number := other.FD()
		other.Close()
		self.Close()
		fd, _, err := Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		if fd == number {
			t.Error("a closed descriptor's number came back within the batch")
		}
		if err := l.Add(&fresh, fd, false, handlerFunc(func(_ *Socket, ev Events) {
			if ev&Hangup != 0 {
				hangups++
			}
		})); err != nil {
			t.Error(err)
		}
	})
	on(t, l, func() {
		if hangups != 0 || !fresh.Alive() {
			t.Errorf("%d hang-ups of the new socket, alive %v", hangups, fresh.Alive())
		}
	})
}

// TestNumberReusedInsideABatch: a detached socket can be closed by its new owner
// while our batch lasts, so its number can come back with a stale event behind
// it. A hang-up among those must not hit the new socket.
func TestNumberReusedInsideABatch(t *testing.T) {
	l := startLoop(t)
	ln := listener(t, "tcp")
	defer func() { _ = ln.Close() }()
	var fresh Socket
	var got Events
	batchOfTwo(t, l, net.Conn.Close, func(_, other *Socket) {
		number := other.Detach()
		fd, _, err := Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		// Closed by the loop it went to, and its number given to a new socket.
		if err := unix.Dup3(fd, number, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
		CloseFD(fd)
		if err := l.Add(&fresh, number, false, handlerFunc(func(_ *Socket, ev Events) { got |= ev })); err != nil {
			t.Error(err)
		}
	})
	on(t, l, func() {
		if got&Hangup != 0 {
			t.Error("the new socket got the old one's hang-up")
		}
		if got == 0 {
			t.Error("the new socket got no event at all")
		}
	})
}

// TestMoveBetweenLoops: bytes that arrived before, during and after the move are
// all read, in order, on the loop of the moment.
func TestMoveBetweenLoops(t *testing.T) {
	for _, network := range networks {
		loops := [2]*Loop{startLoop(t), startLoop(t)}
		fd, peer := pair(t, network)
		e := &echo{limit: 1 << 20}
		on(t, loops[0], func() {
			if err := loops[0].Add(&e.Socket, fd, network == "unix", e); err != nil {
				t.Error(err)
			}
		})
		moveEcho(t, loops, e, peer)
	}
}

// moveEcho moves an echo of the first loop to and fro.
func moveEcho(t *testing.T, loops [2]*Loop, e *echo, peer net.Conn) {
	t.Helper()
	const moves, piece = 50, 1000
	var fd int
	on(t, loops[0], func() { fd = e.FD() })
	sent := writePattern(peer, moves*piece)
	for i := range moves {
		from, to := loops[i%2], loops[(i+1)%2]
		on(t, from, func() {
			if e.Loop() != from || e.FD() != fd {
				t.Errorf("move %d: wrong loop or descriptor", i)
			}
			from.Later(&e.Socket) // must be forgotten
			if got := e.Detach(); got != fd || e.Alive() || e.FD() != -1 {
				t.Errorf("move %d: detached %d, alive %v", i, got, e.Alive())
			}
		})
		on(t, to, func() {
			if err := to.Attach(&e.Socket); err != nil {
				t.Error(err)
			}
		})
		readAt(t, peer, i*piece, piece)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		on(t, l, func() {
			if want := 1 - min(1, moves%2); l == loops[0] && l.Sockets() != want {
				t.Errorf("%d sockets, want %d", l.Sockets(), want)
			}
		})
	}
}

// readAt reads n bytes of the pattern that begin at offset.
func readAt(t *testing.T, r io.Reader, offset, n int) {
	t.Helper()
	got, want := make([]byte, n), make([]byte, n)
	pattern(want, offset)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("bytes %d to %d differ", offset, offset+n)
	}
}

// TestMoveWithBytesPending: what arrived while the socket belonged to no loop is
// reported by the next one, also a hang-up.
func TestMoveWithBytesPending(t *testing.T) {
	for _, network := range networks {
		a, b := startLoop(t), startLoop(t)
		fd, peer := pair(t, network)
		events := make(chan Events, 8)
		s := add(t, a, fd, network == "unix", handlerFunc(func(_ *Socket, ev Events) {
			if ev&Readable != 0 {
				events <- ev
			}
		}))
		on(t, a, func() { s.Detach() })
		if _, err := peer.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := peer.Close(); err != nil {
			t.Fatal(err)
		}
		on(t, b, func() {
			if err := b.Attach(s); err != nil {
				t.Error(err)
			}
		})
		if ev := await(t, events, "the event"); ev&Hangup == 0 {
			t.Errorf("%s: events %b without hang-up", network, ev)
		}
		on(t, b, func() {
			buf := make([]byte, 10)
			if n, err := s.Read(buf); err != nil || string(buf[:n]) != "hello" {
				t.Errorf("%s: read %q, %v", network, buf[:n], err)
			}
		})
	}
}

// TestMoveWithOutputPending: the next loop reports the room that comes.
func TestMoveWithOutputPending(t *testing.T) {
	for _, network := range networks {
		a, b := startLoop(t), startLoop(t)
		fd, peer := pair(t, network)
		var out Chain
		sent := make(chan struct{})
		s := add(t, a, fd, network == "unix", handlerFunc(func(s *Socket, ev Events) {
			if ev&Writable == 0 || out.Len() == 0 {
				return
			}
			if _, err := out.WriteTo(s); err != nil {
				t.Error(err)
			}
			if out.Len() == 0 {
				close(sent)
			}
		}))
		const size = 8 << 20
		on(t, a, func() {
			p := make([]byte, size)
			pattern(p, 0)
			out.Append(a, p)
			if _, err := out.WriteTo(s); err != nil || out.Len() == 0 {
				t.Errorf("%s: %d bytes left, %v", network, out.Len(), err)
			}
			s.WantWrite(true)
			s.Detach()
		})
		on(t, b, func() {
			if err := b.Attach(s); err != nil {
				t.Error(err)
			}
		})
		readPattern(t, peer, size, 100_000)
		await(t, sent, "the rest to be written")
	}
}

// TestUnixWriteEvents: a Unix socket reports Writable only while output is
// pending, and then also when room came before it was asked for.
func TestUnixWriteEvents(t *testing.T) {
	l := startLoop(t)
	fd, peer := pair(t, "unix")
	writable := make(chan struct{}, 100)
	s := add(t, l, fd, true, handlerFunc(func(_ *Socket, ev Events) {
		if ev&Writable != 0 {
			writable <- struct{}{}
		}
	}))
	filled := 0
	fill := func() {
		for {
			n, err := s.Write(l.Scratch())
			filled += n
			if errors.Is(err, unix.EAGAIN) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
	on(t, l, fill)
	if _, err := io.ReadFull(peer, make([]byte, filled)); err != nil {
		t.Fatal(err)
	}
	settle(t, l)
	if len(writable) != 0 {
		t.Fatal("Writable although nothing was pending")
	}
	on(t, l, func() { s.WantWrite(true) }) // there is room already
	await(t, writable, "Writable at once")
	filled = 0
	on(t, l, fill)
	settle(t, l)
	for len(writable) > 0 {
		<-writable
	}
	if _, err := io.ReadFull(peer, make([]byte, filled)); err != nil {
		t.Fatal(err)
	}
	await(t, writable, "Writable after room came")
	on(t, l, func() { s.WantWrite(false); s.WantWrite(false) })
}

func TestPartialWriteAndWritev(t *testing.T) {
	for _, network := range networks {
		l := startLoop(t)
		fd, peer := pair(t, network)
		s := add(t, l, fd, network == "unix", handlerFunc(func(*Socket, Events) {}))
		on(t, l, func() {
			if n, err := s.Write(nil); n != 0 || err != nil {
				t.Errorf("nothing: %d, %v", n, err)
			}
			if n, err := s.Writev(nil); n != 0 || err != nil {
				t.Errorf("no vectors: %d, %v", n, err)
			}
			many := make([][]byte, VectorsMax+3)
			for i := range many {
				many[i] = []byte{byte('a' + i), byte('a' + i)}
			}
			many[1] = nil // takes no place
			if n, err := s.Writev(many); n != 2*VectorsMax || err != nil {
				t.Errorf("writev: %d, %v", n, err)
			}
			big := make([]byte, 64<<20)
			if n, err := s.Write(big); n <= 0 || n >= len(big) || err != nil {
				t.Errorf("write of %d: %d, %v", len(big), n, err)
			}
			if n, err := s.Write(big); n != 0 || !errors.Is(err, unix.EAGAIN) {
				t.Errorf("write to a full socket: %d, %v", n, err)
			}
			if n, err := s.Read(big); n != 0 || !errors.Is(err, unix.EAGAIN) {
				t.Errorf("read of nothing: %d, %v", n, err)
			}
			if n, err := s.Read(nil); n != 0 || err != nil {
				t.Errorf("read into nothing: %d, %v", n, err)
			}
		})
		got := make([]byte, 2*VectorsMax)
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != "aaccddeeffgghhiijjkkllmmnnooppqq" {
			t.Errorf("%s: %q, %v", network, got, err)
		}
	}
}

// TestWriteToAClosedPeer: an error, no signal.
func TestWriteToAClosedPeer(t *testing.T) {
	l := startLoop(t)
	fd, peer := pair(t, "unix")
	s := add(t, l, fd, true, handlerFunc(func(*Socket, Events) {}))
	_ = peer.Close()
	on(t, l, func() {
		if _, err := s.Write([]byte{1}); !errors.Is(err, unix.EPIPE) {
			t.Errorf("write: %v", err)
		}
		if _, err := s.Writev([][]byte{{1}}); !errors.Is(err, unix.EPIPE) {
			t.Errorf("writev: %v", err)
		}
	})
}

func TestMisuseOfSocketsPanics(t *testing.T) {
	l := startLoop(t)
	fd, _ := pair(t, "tcp")
	s := add(t, l, fd, false, handlerFunc(func(*Socket, Events) {}))
	f := func(name string, misuse func()) {
		on(t, l, func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		})
	}
	f("Add twice", func() { _ = l.Add(s, fd, false, nil) })
	f("Attach while attached", func() { _ = l.Attach(s) })
	f("Detach of nothing", func() { new(Socket).Detach() })
	on(t, l, func() {
		if err := l.Add(new(Socket), 1<<20, false, nil); !errors.Is(err, unix.EBADF) {
			t.Errorf("Add of a bad descriptor: %v", err)
		}
	})
}

// TestAbandon: a detached socket that no loop takes does not keep its descriptor.
func TestAbandon(t *testing.T) {
	l := startLoop(t)
	fd, peer := pair(t, "tcp")
	s := add(t, l, fd, false, handlerFunc(func(*Socket, Events) {}))
	on(t, l, func() {
		s.Detach()
		s.Abandon()
	})
	if err := peer.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the peer got %v, want the end of the stream", err)
	}
}

// TestHungUp: what the peer has done is known before any event tells it.
func TestHungUp(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn) error{
		"end":   (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			peer, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = peer.Close() }()
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			f, err := conn.(*net.TCPConn).File()
			_ = conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			s := &Socket{fd: int32(f.Fd())}
			if s.HungUp() {
				t.Error("hung up while the peer is there")
			}
			if _, err := peer.Write([]byte("unread")); err != nil || s.HungUp() {
				t.Errorf("hung up with bytes to read: %v", err)
			}
			if err := leave(peer.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(10 * time.Second); !s.HungUp(); {
				if time.Now().After(end) {
					t.Fatal("not seen")
				}
			}
		})
	}
}
