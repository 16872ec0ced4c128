//go:build !race

package reactor

import (
	"net"
	"testing"
)

// round puts a message to each of several sockets and reads it at their peers.
type putRound struct {
	l       *Loop
	senders []*sender
	peers   []net.Conn
	buf     [64]byte
}

var putMessage = [][]byte{make([]byte, 40), make([]byte, 20)}

func (r *putRound) round(t testing.TB) {
	done := begin(r.l, func() {
		for _, s := range r.senders {
			if n, err := s.Put(putMessage); n != 60 || err != nil {
				t.Error(n, err)
			}
		}
	})
	<-done
	for _, peer := range r.peers {
		for n := 0; n < 60; {
			k, err := peer.Read(r.buf[n:60])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
}

func TestPutDoesNotAlloc(t *testing.T) {
	const rounds, perRound = 1000, 3 // the test's own: a message, its channel, its function
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		r := &putRound{l: l}
		for range 8 {
			s, peer := newSender(t, l, network)
			r.senders, r.peers = append(r.senders, s), append(r.peers, peer)
		}
		r.round(t)
		if n := mallocs(func() {
			for range rounds {
				r.round(t)
			}
		}); n > rounds*perRound+background {
			t.Errorf("%d allocations in %d rounds of 8 writes", n, rounds)
		}
	})
}

// BenchmarkPut is a round of 16 small writes, by a system call each and by one
// io_uring call.
func BenchmarkPut(b *testing.B) {
	for _, writer := range writers {
		b.Run(writer.name, func(b *testing.B) {
			l := startLoopWith(b, LoopOptions{OnMessage: onCall, Ring: writer.ring})
			if err := l.RingError(); err != nil {
				b.Skip("no io_uring here:", err)
			}
			r := &putRound{l: l}
			for range 16 {
				fd, peer := pair(b, "tcp")
				s := new(sender)
				on(b, l, func() {
					if err := l.Add(&s.Socket, fd, false, s); err != nil {
						b.Error(err)
					}
				})
				r.senders, r.peers = append(r.senders, s), append(r.peers, peer)
			}
			b.ReportAllocs()
			for b.Loop() {
				r.round(b)
			}
		})
	}
}
