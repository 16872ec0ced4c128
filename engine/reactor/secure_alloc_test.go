//go:build !race

package reactor

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
)

// secureBench is an echo on a secure socket and a client that allocates as little
// as crypto/tls lets it.
type secureBench struct {
	peer *tls.Conn
	buf  []byte
}

func newSecureBench(t testing.TB, c secureCase, size int) *secureBench {
	t.Helper()
	_, peer := c.echo(t, startLoop(t), 256<<10)
	return &secureBench{peer, make([]byte, size)}
}

func (b *secureBench) round(t testing.TB) {
	if _, err := b.peer.Write(b.buf); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b.peer, b.buf); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSecureEcho is a round trip of 100 bytes and of 16 KiB: in clear, and in
// TLS.
func BenchmarkSecureEcho(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprint("plain ", size), func(b *testing.B) {
			l := startLoop(b)
			fd, peer := pair(b, "tcp")
			e := &echo{limit: 256 << 10}
			on(b, l, func() {
				if err := l.Add(&e.Socket, fd, false, e); err != nil {
					b.Error(err)
				}
			})
			buf := make([]byte, size)
			for b.Loop() {
				if _, err := peer.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(peer, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			b.Run(fmt.Sprint(tls.VersionName(version), " ", size), func(b *testing.B) {
				bench := newSecureBench(b, secureCase{version, false, "tcp"}, size)
				b.ReportAllocs()
				for b.Loop() {
					bench.round(b)
				}
			})
		}
	}
}

// BenchmarkSecureCalls is the loop's half of a message of 100 bytes, without its
// wake-ups: Put and its sending, read raw by the peer; and what the peer writes, read
// raw or by Read. The differences are what TLS costs.
func BenchmarkSecureCalls(b *testing.B) {
	const size = 100
	for _, version := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		name, running := "plain", startLoop(b)
		var s *sender
		var peer, conn net.Conn
		if version == 0 {
			s = new(sender)
			var fd int
			fd, conn = pair(b, "unix")
			peer = conn
			on(b, running, func() { fatal(b, running.Add(&s.Socket, fd, true, s)) })
		} else {
			secure, client := secureCase{version, false, "unix"}.sender(b, running)
			name, s, peer, conn = tls.VersionName(version), &secure.sender, client, client.NetConn()
		}
		on(b, running, func() { s.Detach() })
		l, err := NewLoop(0, LoopOptions{})
		if err != nil {
			b.Fatal(err)
		}
		fatal(b, l.Attach(&s.Socket))
		message, buf := [][]byte{make([]byte, size)}, make([]byte, 2*size)
		f := func(what string, fn func() (int, error)) {
			b.Run(name+" "+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if n, err := fn(); n < size || err != nil {
						b.Fatal(n, err)
					}
				}
			})
		}
		write := func() {
			_, err := peer.Write(message[0])
			fatal(b, err)
		}
		f("write, Read", func() (int, error) { write(); return s.Read(buf) })
		f("write, raw read", func() (int, error) { write(); return rawRead(s.FD(), buf) })
		f("Put, raw read", func() (int, error) {
			_, err := s.Put(message)
			fatal(b, err)
			s.Flush()
			return conn.Read(buf)
		})
		l.Stop()
		_ = l.Run()
	}
}

// BenchmarkHandshake is a handshake and its connection, client included.
func BenchmarkHandshake(b *testing.B) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b.Run(tls.VersionName(version), func(b *testing.B) {
			c := secureCase{version, false, "tcp"}
			l, helpers := startLoop(b), testHelpers(b)
			ln := listener(b, "tcp")
			defer func() { _ = ln.Close() }()
			config := c.serverConfig()
			b.ReportAllocs()
			for b.Loop() {
				fd, _, err := Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				conn, err := ln.Accept()
				if err != nil {
					b.Fatal(err)
				}
				h := c.begin(b, l, fd, helpers, config, nil)
				if err := tls.Client(conn, c.clientConfig()).Handshake(); err != nil {
					b.Fatal(err)
				}
				<-h.secured
				on(b, l, h.Close)
				_ = conn.Close()
			}
		})
	}
}

// TestSecureAlloc: a small message costs crypto/tls a value of 24 bytes in each look
// for bytes, of which Read makes two, and nothing else.
func TestSecureAlloc(t *testing.T) {
	const rounds, size, perRead = 400, 100, 2
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		l := startLoop(t)
		s, peer := secureCase{version, false, "unix"}.sender(t, l)
		message, buf := [][]byte{make([]byte, 40), make([]byte, size-40)}, make([]byte, 2*size)
		raw := make([]byte, 2*size)
		check := func(n int, err error) {
			if n != size || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		put := func() {
			check(s.Put(message))
			s.Flush()
			_, err := peer.NetConn().Read(raw)
			fatal(t, err)
		}
		write := func() { check(peer.Write(buf[:size])) }
		times := func(fn func()) uint64 {
			fn()
			return mallocs(func() {
				for range rounds {
					fn()
				}
			})
		}
		on(t, l, func() {
			if n := times(put); n > background {
				t.Errorf("%s: %d allocations in %d writes", tls.VersionName(version), n, rounds)
			}
			both := times(func() {
				write()
				check(s.Read(buf))
			})
			alone := times(func() {
				write()
				_, err := rawRead(s.FD(), raw)
				fatal(t, err)
			})
			if n := both - alone; n > rounds*perRead+background {
				t.Errorf("%s: %d allocations in %d reads", tls.VersionName(version), n, rounds)
			}
		})
	}
}
