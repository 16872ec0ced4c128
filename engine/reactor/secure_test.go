package reactor

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSecureEcho(t *testing.T) {
	eachSecure(t, func(t *testing.T, c secureCase) {
		l := startLoop(t)
		e, peer := c.echo(t, l, 64<<10)
		for range 3 {
			roundTrip(t, peer, "hello")
		}
		on(t, l, func() {
			state, ok := e.ConnectionState()
			if !ok || !e.IsSecure() || state.Version != c.version || state.NegotiatedProtocol != "postgresql" {
				t.Errorf("secure %v %v, version %x, protocol %q", ok, e.IsSecure(), state.Version, state.NegotiatedProtocol)
			}
		})
		if err := peer.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after close_notify the peer reads %v", err)
		}
		if n := BufferBytes(); n != 0 {
			t.Errorf("%d buffer bytes in use", n)
		}
	})
}

// TestSecureToASlowReader is TestEchoToASlowReader.
func TestSecureToASlowReader(t *testing.T) {
	const bytes, limit = 1 << 20, 100 << 10
	eachSecure(t, func(t *testing.T, c secureCase) {
		l := startLoop(t)
		e, peer := c.echo(t, l, limit)
		sent := writePattern(peer, bytes)
		awaitPaused(t, l, &e.echo)
		on(t, l, func() {
			if n := e.secure.pending.Len(); n == 0 || n > sealedBytes {
				t.Errorf("%d bytes are pending", n)
			}
		})
		readPattern(t, peer, bytes, 3000)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		on(t, l, func() {
			if e.high < limit || e.high >= limit+ScratchBytes {
				t.Errorf("held up to %d bytes, limit %d", e.high, limit)
			}
			if e.flags&flagWantWrite != 0 {
				t.Error("still waits to be writable")
			}
			e.Close()
			e.Close()
			if _, err := e.Read(make([]byte, 1)); !errors.Is(err, unix.EBADF) {
				t.Errorf("read after close: %v", err)
			}
		})
		if n := BufferBytes(); n != 0 {
			t.Errorf("%d buffer bytes in use", n)
		}
	})
}

// secureSender is a sender on a secure socket.
type secureSender struct {
	sender
	secured chan error
}

func (s *secureSender) OnSecured(_ *Socket, err error) { s.secured <- err }

// sender starts a sender on the loop and returns its peer after the handshake.
func (c secureCase) sender(t testing.TB, l *Loop) (*secureSender, *tls.Conn) {
	t.Helper()
	ours, theirs := c.configs()
	fd, conn := smallPair(t, c.network)
	s := &secureSender{secured: make(chan error, 1)}
	on(t, l, func() {
		fatal(t, l.Add(&s.Socket, fd, c.network == "unix", s))
		s.Secure(Security{Config: ours, Client: c.client, Helpers: testHelpers(t)})
	})
	peer := c.peer(conn, theirs)
	if err := peer.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := await(t, s.secured, "the handshake"); err != nil {
		t.Fatal(err)
	}
	return s, peer
}

// TestSecurePutLosesNothing is TestPutLosesNothing.
func TestSecurePutLosesNothing(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		eachWriter(t, func(t *testing.T, l *Loop, network string) {
			var senders []*sender
			var peers []net.Conn
			for i := range 5 {
				s, peer := secureCase{version, i%2 == 0, network}.sender(t, l)
				senders, peers = append(senders, &s.sender), append(peers, peer)
			}
			loseNothing(t, l, senders, peers)
		})
	}
}

// TestSecurePutIsOneSend: what is put in a round is sealed message by message and
// leaves together, after it.
func TestSecurePutIsOneSend(t *testing.T) {
	l := startLoop(t)
	s, peer := secureCase{tls.VersionTLS13, false, "unix"}.sender(t, l)
	on(t, l, func() {
		for range 3 {
			s.write([]byte("mess"), []byte("age"))
		}
		if s.staged == 0 {
			t.Fatal("nothing waits for the end of the round")
		}
		const record = 5 + 7 + 1 + 16 // header, message, type, tag
		if e := l.outbox.entries[s.staged-1]; e.size != 3*record {
			t.Errorf("%d bytes wait", e.size)
		}
	})
	expect(t, peer, []byte("messagemessagemessage"))
}

func TestSecurePutTellsOfAFailure(t *testing.T) {
	l := startLoop(t)
	s, peer := secureCase{tls.VersionTLS13, false, "tcp"}.sender(t, l)
	failed := make(chan struct{})
	on(t, l, func() { s.after = func() { close(failed) } })
	fatal(t, reset(peer.NetConn()))
	for done := false; !done; {
		on(t, l, func() {
			s.write([]byte("x"))
			done = s.failed != nil
		})
	}
	on(t, l, func() {
		if !errors.Is(s.failed, unix.EPIPE) && !errors.Is(s.failed, unix.ECONNRESET) {
			t.Error(s.failed)
		}
		if _, err := s.Write([]byte("x")); err == nil || err == unix.EAGAIN {
			t.Errorf("a later write: %v", err)
		}
		l.Later(&s.Socket)
	})
	await(t, failed, "an event")
}

// TestSecureShutdown: all that was written, close_notify and the end come in this
// order, also when the socket is full.
func TestSecureShutdown(t *testing.T) {
	eachSecure(t, func(t *testing.T, c secureCase) {
		l := startLoop(t)
		s, peer := c.sender(t, l)
		size := 0
		on(t, l, func() {
			p := make([]byte, 50_000)
			for s.secure.pending.Len() == 0 {
				pattern(p, size)
				n, err := s.Write(p)
				fatal(t, err)
				size += n
			}
			for range 2 {
				fatal(t, s.ShutdownWrite())
			}
			if _, err := s.Write(p); err != unix.EPIPE {
				t.Errorf("write after the end: %v", err)
			}
		})
		readPattern(t, peer, size, 1000)
		if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the peer's end: %v", err)
		}
		if _, err := peer.NetConn().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection's end: %v", err)
		}
		on(t, l, func() {
			if s.flags&flagWantWrite != 0 {
				t.Error("still waits to be writable")
			}
		})
	})
}

// TestSecureEnds: how the peer's side can end, with bytes before the end that come
// together with it.
func TestSecureEnds(t *testing.T) {
	f := func(c secureCase, end func(peer *tls.Conn, held *[]byte), closes bool, want string) {
		t.Helper()
		l := startLoop(t)
		ours, theirs := c.configs()
		fd, conn := pair(t, c.network)
		var got []byte
		ended := make(chan error, 1)
		h := c.begin(t, l, fd, testHelpers(t), ours, func(s *Socket, ev Events) {
			for more := true; more; more = ev&Hangup != 0 && s.Alive() { // else a short read is the last
				n, err := s.Read(l.Scratch())
				if got = append(got, l.Scratch()[:n]...); err != nil && err != unix.EAGAIN {
					ended <- err
					s.Close()
				}
			}
		})
		var held *[]byte
		peer := c.peer(&tap{conn, func(p []byte) (int, error) {
			if held != nil {
				*held = append(*held, p...)
				return len(p), nil
			}
			return conn.Write(p)
		}}, theirs)
		fatal(t, peer.Handshake())
		if err := await(t, h.secured, "the handshake"); err != nil {
			t.Fatal(err)
		}
		held = new([]byte)
		_, err := peer.Write([]byte("last words"))
		fatal(t, err)
		end(peer, held)
		_, err = conn.Write(*held)
		fatal(t, err)
		if closes {
			fatal(t, conn.Close())
		}
		if err := await(t, ended, "the end"); !strings.HasSuffix(err.Error(), want) || string(got) != "last words" {
			t.Errorf("%v: %q, %v; want %s", c, got, err, want)
		}
		if want == "bad record MAC" {
			if _, err := peer.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: the peer is told %v", c, err)
			}
		}
	}
	for _, c := range secureCases {
		f(c, func(peer *tls.Conn, _ *[]byte) { fatal(t, peer.CloseWrite()) }, false, "EOF")
		f(c, func(*tls.Conn, *[]byte) {}, true, "EOF")
		f(c, func(peer *tls.Conn, held *[]byte) {
			_, _ = peer.Write([]byte("lost"))
			*held = (*held)[:len(*held)-1]
		}, true, "unexpected EOF")
		f(c, func(peer *tls.Conn, held *[]byte) {
			_, _ = peer.Write([]byte("lost"))
			(*held)[len(*held)-1] ^= 1
		}, false, "bad record MAC")
		f(c, func(_ *tls.Conn, held *[]byte) { *held = append(*held, "plain text"...) }, false, "version 6c61 when expecting version 303")
	}
}

// TestSecureMoves is TestMoveBetweenLoops.
func TestSecureMoves(t *testing.T) {
	eachSecure(t, func(t *testing.T, c secureCase) {
		loops := [2]*Loop{startLoop(t), startLoop(t)}
		e, peer := c.echo(t, loops[0], 1<<20)
		moveEcho(t, loops, &e.echo, peer)
	})
}

// TestSecureMoveWithBytesDecrypted: what the TLS layer holds, of which the kernel
// knows nothing, is reported by the next loop. A socket that no loop takes leaves
// no chunks behind.
func TestSecureMoveWithBytesDecrypted(t *testing.T) {
	a, b := startLoop(t), startLoop(t)
	ours, theirs := secureCases[0].configs()
	fd, conn := pair(t, "tcp")
	got := ""
	moved, told, whole := false, false, make(chan struct{})
	h := secureCases[0].begin(t, a, fd, testHelpers(t), ours, func(s *Socket, ev Events) {
		buf := make([]byte, 1)
		for ev&Readable != 0 {
			n, err := s.Read(buf)
			if got += string(buf[:n]); err != nil || !moved {
				break
			}
		}
		if got == "hello" && !told {
			told = true
			close(whole)
		}
	})
	peer := tls.Client(conn, theirs)
	fatal(t, peer.Handshake())
	fatal(t, await(t, h.secured, "the handshake"))
	_, err := peer.Write([]byte("hello"))
	fatal(t, err)
	for read := false; !read; {
		on(t, a, func() { read = got != "" })
	}
	on(t, a, func() { h.Detach() })
	on(t, b, func() {
		moved = true
		fatal(t, b.Attach(&h.Socket))
	})
	await(t, whole, "the rest")
	on(t, b, func() {
		for err := error(nil); err == nil; {
			_, err = h.Write(make([]byte, 1<<20))
		}
		if h.secure.pending.Len() == 0 || BufferBytes() == 0 {
			t.Error("nothing is pending")
		}
		h.Detach()
		h.Abandon()
	})
	if n := BufferBytes(); n != 0 {
		t.Errorf("%d buffer bytes in use", n)
	}
}

// TestSecureTinyRecords: records of a byte each are read in order, a bounded number
// at a time, and none is forgotten.
func TestSecureTinyRecords(t *testing.T) {
	const count = 20_000
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := secureCase{version, false, "tcp"}
		l := startLoop(t)
		ours, theirs := c.configs()
		fd, conn := pair(t, "tcp")
		var got []byte
		most, whole := 0, make(chan struct{})
		h := c.begin(t, l, fd, testHelpers(t), ours, func(s *Socket, _ Events) {
			n, err := s.Read(l.Scratch())
			got, most = append(got, l.Scratch()[:n]...), max(most, n)
			if len(got) == count && err == nil {
				close(whole)
			}
		})
		var all []byte
		gather := false
		peer := tls.Client(&tap{conn, func(p []byte) (int, error) {
			if gather {
				all = append(all, p...)
				return len(p), nil
			}
			return conn.Write(p)
		}}, theirs)
		fatal(t, peer.Handshake())
		fatal(t, await(t, h.secured, "the handshake"))
		gather = true
		text := make([]byte, count)
		pattern(text, 0)
		for i := range text {
			_, err := peer.Write(text[i : i+1])
			fatal(t, err)
		}
		hold := make(chan struct{})
		begin(l, func() { <-hold }) // the kernel gets as much as it takes
		go func() { _, _ = conn.Write(all) }()
		close(hold)
		await(t, whole, "all records")
		on(t, l, func() {
			if string(got) != string(text) || most > takenMax/16 {
				t.Errorf("in order: %v; up to %d records at a time", string(got) == string(text), most)
			}
		})
	}
}
