package reactor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// writers are the ways in which a loop sends what was put.
var writers = []struct {
	name string
	ring bool
}{{"system calls", false}, {"io_uring", true}}

// eachWriter runs fn for every writer and network.
func eachWriter(t *testing.T, fn func(t *testing.T, l *Loop, network string)) {
	for _, writer := range writers {
		for _, network := range networks {
			t.Run(writer.name+" "+network, func(t *testing.T) {
				l := startLoopWith(t, LoopOptions{OnMessage: onCall, Ring: writer.ring, OnFailure: func(_ *Loop, err error) { t.Error(err) }})
				if err := l.RingError(); err != nil {
					t.Skip("no io_uring here:", err)
				}
				fn(t, l, network)
			})
		}
	}
}

// sender writes as the engine does: by Put while it holds nothing, else behind
// what it holds.
type sender struct {
	Socket
	out    Chain
	failed error
	after  func() // an event of its own after a failure
}

func (s *sender) OnReady(_ *Socket, ev Events) {
	if ev&Writable != 0 && s.out.Len() > 0 {
		if _, err := s.out.WriteTo(&s.Socket); err != nil {
			s.failed = err
		}
		s.WantWrite(s.out.Len() > 0)
	}
	if s.failed != nil && s.after != nil {
		s.after()
		s.after = nil
	}
}

func (s *sender) OnUnsent(sock *Socket, rest []byte, err error) {
	if err != nil {
		s.failed = err
		sock.Loop().Later(sock)
		return
	}
	if s.out.Len() > 0 {
		panic("told of unsent bytes behind others")
	}
	s.out.Append(sock.Loop(), rest)
	sock.WantWrite(true)
}

func (s *sender) write(pieces ...[]byte) {
	total, taken := 0, 0
	for _, p := range pieces {
		total += len(p)
	}
	if s.out.Len() == 0 {
		n, err := s.Put(pieces)
		if err != nil && err != unix.EAGAIN {
			s.failed = err
			return
		}
		if taken = n; taken == total {
			return
		}
		s.WantWrite(true)
	}
	rest := bytes.Join(pieces, nil)[taken:]
	s.out.Append(s.Loop(), rest)
}

// newSender registers a sender whose peer is returned.
func newSender(t *testing.T, l *Loop, network string) (*sender, net.Conn) {
	t.Helper()
	fd, peer := pair(t, network)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10)
	s := new(sender)
	on(t, l, func() {
		if err := l.Add(&s.Socket, fd, network == "unix", s); err != nil {
			t.Error(err)
		}
	})
	return s, peer
}

func expect(t *testing.T, peer net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(peer, got); err != nil {
		t.Fatalf("%v after %.80q, want %.80q", err, got[:n], want)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("read %.80q, want %.80q", got, want)
	}
}

func TestPutKeepsOrderInARound(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		const sockets = outboxEntries + 10
		var senders []*sender
		var peers []net.Conn
		for range sockets {
			s, peer := newSender(t, l, network)
			senders, peers = append(senders, s), append(peers, peer)
		}
		on(t, l, func() {
			for turn := range 3 {
				for i, s := range senders {
					s.write([]byte{byte(turn)}, fmt.Appendf(nil, "%4d", i))
				}
			}
		})
		for i, peer := range peers {
			expect(t, peer, fmt.Appendf(nil, "\x00%4[1]d\x01%4[1]d\x02%4[1]d", i))
		}
	})
}

// TestPutLosesNothing: random writes of any size to several slow readers.
func TestPutLosesNothing(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		var senders []*sender
		var peers []net.Conn
		for range 5 {
			s, peer := newSender(t, l, network)
			senders, peers = append(senders, s), append(peers, peer)
		}
		loseNothing(t, l, senders, peers)
	})
}

func loseNothing(t *testing.T, l *Loop, senders []*sender, peers []net.Conn) {
	random := rand.New(rand.NewPCG(1, 2))
	want := make([][]byte, len(senders))
	unsent := 0
	for range 60 {
		on(t, l, func() {
			for range random.IntN(40) {
				i := random.IntN(len(senders))
				s := senders[i]
				p := make([]byte, random.IntN([]int{8, 300, PutMax + 100, 3 * PutMax}[random.IntN(4)]))
				for k := range p {
					p[k] = byte(len(want[i]) + k)
				}
				cut := random.IntN(len(p) + 1)
				s.write(p[:cut], p[cut:])
				if random.IntN(20) == 0 {
					s.Flush()
				}
				want[i] = append(want[i], p...)
				if s.out.Len() > 0 {
					unsent++
				}
			}
		})
		i := random.IntN(len(peers))
		n := min(random.IntN(20_000), len(want[i]))
		expect(t, peers[i], want[i][:n])
		want[i] = want[i][n:]
	}
	for i, peer := range peers {
		expect(t, peer, want[i])
	}
	if unsent == 0 {
		t.Error("no socket was ever full: the test has not tested that")
	}
}

func TestPutThenLeave(t *testing.T) {
	text := []byte("last words")
	leave := map[string]func(t *testing.T, l *Loop, s *sender){
		"close":    func(_ *testing.T, _ *Loop, s *sender) { s.Close() },
		"shutdown": func(t *testing.T, _ *Loop, s *sender) { fatal(t, s.ShutdownWrite()) },
		"detach": func(t *testing.T, l *Loop, s *sender) {
			s.Detach()
			fatal(t, l.Attach(&s.Socket))
			s.Close()
		},
		"write": func(t *testing.T, _ *Loop, s *sender) {
			_, err := s.Write([]byte(", and more"))
			fatal(t, err)
			s.Close()
		},
	}
	for how, fn := range leave {
		eachWriter(t, func(t *testing.T, l *Loop, network string) {
			s, peer := newSender(t, l, network)
			other, otherPeer := newSender(t, l, network)
			on(t, l, func() {
				s.write(text)
				fn(t, l, s)
				other.write(text)
			})
			want := text
			if how == "write" {
				want = []byte("last words, and more")
			}
			got, err := io.ReadAll(peer)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %q, %v", how, got, err)
			}
			expect(t, otherPeer, text)
		})
	}
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestPutToAnotherSocketInItsPlace: a socket that closes and is added anew in one
// round is not told what became of its first descriptor's bytes.
func TestPutToAnotherSocketInItsPlace(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		s, peer := newSender(t, l, network)
		fd, second := pair(t, network)
		fatal(t, peer.Close())
		on(t, l, func() {
			s.write([]byte("nobody reads this"))
			s.Close()
			fatal(t, l.Add(&s.Socket, fd, network == "unix", s))
			s.write([]byte("new"))
		})
		expect(t, second, []byte("new"))
		on(t, l, func() { fatal(t, s.failed) })
	})
}

func TestPutTellsOfAFailure(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		s, peer := newSender(t, l, network)
		other, otherPeer := newSender(t, l, network)
		failed := make(chan struct{})
		on(t, l, func() { s.after = func() { close(failed) } })
		fatal(t, peer.Close())
		for done := false; !done; {
			on(t, l, func() {
				s.write([]byte("x")) // a reset comes after the first write to a closed TCP peer
				other.write([]byte("y"))
			})
			expect(t, otherPeer, []byte("y"))
			on(t, l, func() { done = s.failed != nil })
		}
		await(t, failed, "an event of the failed socket")
		on(t, l, func() {
			if !errors.Is(s.failed, unix.EPIPE) && !errors.Is(s.failed, unix.ECONNRESET) {
				t.Error(s.failed)
			}
		})
	})
}

// TestPutOverfull: more in one round than the outbox holds.
func TestPutOverfull(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		a, peerA := newSender(t, l, network)
		b, peerB := newSender(t, l, network)
		p := bytes.Repeat([]byte("0123456789"), PutMax/10)
		var want []byte
		on(t, l, func() {
			for range 3 * outboxBytes / PutMax {
				a.write(p)
				b.write(p)
				want = append(want, p...)
			}
		})
		expect(t, peerA, want)
		expect(t, peerB, want)
	})
}

// TestPutWaitsNoLonger than outboxTime for the rest of its round, whatever the rest
// is: events, messages, sockets of the ready list.
func TestPutWaitsNoLonger(t *testing.T) {
	rest := map[string]func(t *testing.T, l *Loop, fns []func()){
		"messages": func(_ *testing.T, l *Loop, fns []func()) {
			for _, fn := range fns {
				begin(l, fn)
			}
		},
		"ready sockets": func(t *testing.T, l *Loop, fns []func()) {
			for _, fn := range fns {
				fd, _ := pair(t, "unix")
				s := new(Socket)
				ran := false
				fatal(t, l.Add(s, fd, true, handlerFunc(func(*Socket, Events) {
					if !ran {
						fn()
					}
					ran = true
				})))
				l.Later(s)
			}
		},
	}
	for what, begin := range rest {
		t.Run(what, func(t *testing.T) {
			l := startLoop(t)
			s, peer := newSender(t, l, "unix")
			done := make(chan struct{})
			on(t, l, func() {
				begin(t, l, []func(){
					func() { s.write([]byte("now")) },
					func() {
						for began := Now(); Now()-began <= outboxTime; { // a callback that takes long
						}
					},
					func() {
						if s.staged != 0 {
							t.Error("still not sent")
						}
						close(done)
					},
				})
			})
			await(t, done, "the rest of the round")
			expect(t, peer, []byte("now"))
		})
	}
}

// panicker makes a mistake when it is told that its socket is full.
type panicker struct{ Socket }

func (*panicker) OnReady(*Socket, Events) {}

func (*panicker) OnUnsent(*Socket, []byte, error) { panic("a handler's mistake") }

// TestPanicInOnUnsent stops the loop as any other panic of a handler does.
func TestPanicInOnUnsent(t *testing.T) {
	failed := make(chan error, 1)
	l := startLoopWith(t, LoopOptions{OnMessage: onCall, OnFailure: func(_ *Loop, err error) { failed <- err }})
	fd, _ := pair(t, "unix")
	s := new(panicker)
	begin(l, func() {
		fatal(t, l.Add(&s.Socket, fd, true, s))
		for err := error(nil); err == nil; {
			_, err = s.Write(make([]byte, 1<<16))
		}
		_, err := s.Put([][]byte{[]byte("no room for this")})
		fatal(t, err)
	})
	if err := await(t, failed, "OnFailure"); !strings.Contains(err.Error(), "a handler's mistake") {
		t.Error(err)
	}
}
