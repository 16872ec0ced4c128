package reactor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tap is the peer's connection with another Write.
type tap struct {
	net.Conn
	write func(p []byte) (int, error)
}

func (c *tap) Write(p []byte) (int, error) { return c.write(p) }

// SetWriteDeadline: close_notify sets one that is over at once.
func (c *tap) SetWriteDeadline(time.Time) error { return nil }

// awaitGoroutines waits until there are no more than before.
func awaitGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestHandshakeByteByByte: everything that the peer sends comes in single bytes,
// what it says afterwards too.
func TestHandshakeByteByByte(t *testing.T) {
	eachSecure(t, func(t *testing.T, c secureCase) {
		l := startLoop(t)
		ours, theirs := c.configs()
		fd, conn := pair(t, c.network)
		e := &secureEcho{echo: echo{limit: 64 << 10}, secured: make(chan error, 1)}
		on(t, l, func() {
			fatal(t, l.Add(&e.Socket, fd, c.network == "unix", e))
			e.Secure(Security{Config: ours, Client: c.client, Helpers: testHelpers(t)})
		})
		peer := c.peer(&tap{conn, func(p []byte) (int, error) {
			for i := range p {
				if _, err := conn.Write(p[i : i+1]); err != nil {
					return i, err
				}
			}
			return len(p), nil
		}}, theirs)
		roundTrip(t, peer, "hello")
		roundTrip(t, peer, "again")
		if err := await(t, e.secured, "the handshake"); err != nil {
			t.Error(err)
		}
	})
}

// TestHandshakeCut: the peer ends after each number of bytes; the owner is told,
// and no goroutine is left.
func TestHandshakeCut(t *testing.T) {
	for _, c := range secureCases {
		if c.network == "unix" {
			continue
		}
		l, helpers := startLoop(t), testHelpers(t)
		ours, theirs := c.configs()
		before := runtime.NumGoroutine()
		for limit, whole := 0, false; !whole; limit += 1 + limit/8 {
			fd, conn := pair(t, c.network)
			left := limit
			peer := c.peer(&tap{conn, func(p []byte) (int, error) {
				n := min(len(p), left)
				left -= n
				_, _ = conn.Write(p[:n])
				if n < len(p) {
					_ = conn.(*net.TCPConn).CloseWrite()
					return n, io.ErrClosedPipe
				}
				return n, nil
			}}, theirs)
			h := c.begin(t, l, fd, helpers, ours, nil)
			whole = peer.Handshake() == nil
			if err := await(t, h.secured, "the end of the handshake"); (err == nil) != whole {
				t.Fatalf("%v: after %d bytes: %v", c, limit, err)
			}
			on(t, l, h.Close)
			_ = conn.Close()
		}
		awaitGoroutines(t, before)
	}
}

func TestHandshakeOfStrangers(t *testing.T) {
	l, helpers := startLoop(t), testHelpers(t)
	f := func(sent, want string) {
		t.Helper()
		for _, c := range secureCases {
			fd, conn := pair(t, c.network)
			ours, _ := c.configs()
			h := c.begin(t, l, fd, helpers, ours, nil)
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if err := await(t, h.secured, "the end of the handshake"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %.20q: %v, want %s", c, sent, err, want)
			}
			on(t, l, func() {
				if _, err := h.Put([][]byte{[]byte("secret")}); err == nil || err == unix.EAGAIN || h.IsSecure() {
					t.Errorf("a write after a failed handshake: %v", err)
				}
				if _, err := h.Read(l.Scratch()); err != unix.EAGAIN { // may linger
					t.Errorf("a read after a failed handshake: %v", err)
				}
				h.Close()
			})
			answer, _ := io.ReadAll(conn)
			if strings.Contains(string(answer), "secret") {
				t.Error("bytes in clear")
			}
		}
	}
	f("\x00\x00\x00\x08\x00\x03\x00\x00", "first record does not look like a TLS handshake")
	f("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "first record does not look like a TLS handshake")
	f("\x16\x03\x01\xff\xff"+strings.Repeat("x", 100), "oversized record")
	f("\x16\x03\x01\x00\x04\x01\xff\xff\xff", "exceeds maximum")
	f("\x15\x03\x01\x00\x02\x02\x28", "handshake failure")
	f("\x15\x03\x01\x00\x02\x01\x00", "EOF")
	f("\x16\x03\x01\x00\x04\x63\x00\x00\x00", "unexpected message")
}

// TestHandshakeEarly: the owner has read the first bytes, any number of them.
func TestHandshakeEarly(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := secureCase{version, false, "tcp"}
		l, helpers := startLoop(t), testHelpers(t)
		for _, first := range []int{1, 5, 100, recordBytes} {
			fd, conn := pair(t, "tcp")
			h := &secureSocket{secured: make(chan error, 1)}
			var early []byte
			h.onReady = func(s *Socket, ev Events) {
				if s.secure != nil || ev&Readable == 0 {
					return
				}
				buf := make([]byte, first-len(early))
				n, err := s.Read(buf)
				if early = append(early, buf[:n]...); err == nil && (len(early) == first || n < len(buf)) {
					s.Secure(Security{Config: c.serverConfig(), Helpers: helpers, Early: early})
				}
			}
			on(t, l, func() { fatal(t, l.Add(&h.Socket, fd, false, h)) })
			if err := tls.Client(conn, c.clientConfig()).Handshake(); err != nil {
				t.Errorf("%d early bytes: %v", first, err)
			}
			if err := await(t, h.secured, "the handshake"); err != nil {
				t.Errorf("%d early bytes: %v", first, err)
			}
			on(t, l, h.Close)
		}
	}
}

// TestHandshakeAfterAnswer: what was written in clear, and has not left yet, leaves
// before the handshake.
func TestHandshakeAfterAnswer(t *testing.T) {
	eachWriter(t, func(t *testing.T, l *Loop, network string) {
		c := secureCase{tls.VersionTLS13, false, network}
		fd, conn := pair(t, network)
		helpers := testHelpers(t)
		h := &secureSocket{secured: make(chan error, 1)}
		h.onReady = func(s *Socket, ev Events) {
			if n, _ := s.Read(make([]byte, 100)); n == len("may I?") && s.secure == nil {
				_, err := s.Put([][]byte{[]byte("yes")})
				fatal(t, err)
				s.Secure(Security{Config: c.serverConfig(), Helpers: helpers})
			}
		}
		on(t, l, func() { fatal(t, l.Add(&h.Socket, fd, network == "unix", h)) })
		_, err := io.WriteString(conn, "may I?")
		fatal(t, err)
		expect(t, conn, []byte("yes"))
		fatal(t, tls.Client(conn, c.clientConfig()).Handshake())
		fatal(t, await(t, h.secured, "the handshake"))
	})
}

// TestHandshakeWithBytesBehind: the peer's first words come in one read with the end
// of its handshake.
func TestHandshakeWithBytesBehind(t *testing.T) {
	c := secureCase{tls.VersionTLS13, false, "tcp"}
	l := startLoop(t)
	fd, conn := pair(t, "tcp")
	e := &secureEcho{echo: echo{limit: 64 << 10}, secured: make(chan error, 1)}
	on(t, l, func() {
		fatal(t, l.Add(&e.Socket, fd, false, e))
		e.Secure(Security{Config: c.serverConfig(), Helpers: testHelpers(t)})
	})
	var held []byte
	hello := false
	peer := tls.Client(&tap{conn, func(p []byte) (int, error) {
		if !hello {
			hello = true
			return conn.Write(p)
		}
		held = append(held, p...)
		return len(p), nil
	}}, c.clientConfig())
	fatal(t, peer.Handshake())
	words := bytes.Repeat([]byte("first words "), 1000) // more than crypto/tls reads ahead
	_, err := peer.Write(words)
	fatal(t, err)
	_, err = conn.Write(held)
	fatal(t, err)
	expect(t, peer, words)
	fatal(t, <-e.secured)
}

// TestHandshakeClosed: sockets closed in the middle of their handshakes leave no
// goroutine and no memory of theirs, also while every token is taken.
func TestHandshakeClosed(t *testing.T) {
	f := func(stage string, taken bool, sent int) {
		t.Helper()
		c := secureCase{tls.VersionTLS13, false, "tcp"}
		l, helpers := startLoop(t), testHelpers(t)
		if taken {
			token, err := helpers.Acquire(context.Background())
			fatal(t, err)
			defer helpers.Release(token)
		}
		hello := clientHello(t, c)
		before := runtime.NumGoroutine()
		var sockets []*secureSocket
		for range 20 {
			fd, conn := pair(t, "tcp")
			sockets = append(sockets, c.begin(t, l, fd, helpers, c.serverConfig(), nil))
			if _, err := conn.Write(hello[:min(sent, len(hello))]); err != nil {
				t.Fatal(err)
			}
			if !taken && sent > len(hello) { // the server's answer has come: the goroutine waits
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, h := range sockets {
			on(t, l, h.Close)
			if len(h.secured) > 0 {
				t.Errorf("%s: told of %v", stage, <-h.secured)
			}
		}
		awaitGoroutines(t, before)
	}
	f("nothing sent", false, 0)
	f("half a hello", false, 100)
	f("between flights", false, 1<<20)
	f("no token", true, 1<<20)
}

// clientHello is what a client sends first.
func clientHello(t *testing.T, c secureCase) (hello []byte) {
	peer := tls.Client(&tap{nil, func(p []byte) (int, error) {
		hello = append(hello, p...)
		return 0, io.ErrClosedPipe
	}}, c.clientConfig())
	if err := peer.Handshake(); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	return hello
}

// TestHandshakeStalled: one that waits for bytes holds no token.
func TestHandshakeStalled(t *testing.T) {
	c := secureCase{tls.VersionTLS13, false, "tcp"}
	l, helpers := startLoop(t), testHelpers(t) // of one token
	fd, conn := pair(t, "tcp")
	stalled := c.begin(t, l, fd, helpers, c.serverConfig(), nil)
	if _, err := conn.Write(clientHello(t, c)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fd, conn := pair(t, "tcp")
		h := c.begin(t, l, fd, helpers, c.serverConfig(), nil)
		if err := tls.Client(conn, c.clientConfig()).Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := await(t, h.secured, "the handshake"); err != nil {
			t.Fatal(err)
		}
	}
	if len(stalled.secured) > 0 {
		t.Error("the stalled one has ended:", <-stalled.secured)
	}
}

// TestHandshakeRefusals: either side refuses; the owner learns why, and the peer
// gets the alert although bytes of its are on their way.
func TestHandshakeRefusals(t *testing.T) {
	f := func(c secureCase, change func(server, client *tls.Config), ours, theirs string) {
		t.Helper()
		server, client := c.serverConfig(), c.clientConfig()
		change(server, client)
		config, other := server, client
		if c.client {
			config, other = client, server
		}
		l := startLoop(t)
		fd, conn := pair(t, "tcp")
		linger := func(s *Socket, _ Events) {
			for {
				if _, err := s.Read(l.Scratch()); err != nil {
					if err != unix.EAGAIN {
						s.Close()
					}
					return
				}
				t.Error("bytes after a failed handshake")
			}
		}
		h := c.begin(t, l, fd, testHelpers(t), config, linger)
		peer := c.peer(conn, other)
		err := peer.Handshake()
		if err == nil { // TLS 1.3: a client has done its part before it is judged
			_, _ = peer.Write(make([]byte, 100<<10))
		}
		if err := await(t, h.secured, "the end of the handshake"); err == nil || !strings.Contains(err.Error(), ours) {
			t.Errorf("%v: we fail with %v, want %s", c, err, ours)
		}
		on(t, l, func() {
			if h.Alive() {
				fatal(t, h.ShutdownWrite())
				linger(&h.Socket, Readable)
			}
		})
		if err == nil {
			_, err = peer.Read(make([]byte, 1))
		}
		if err == nil || !strings.Contains(err.Error(), theirs) {
			t.Errorf("%v: the peer fails with %v, want %s", c, err, theirs)
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		asServer, asClient := secureCase{version, false, "tcp"}, secureCase{version, true, "tcp"}
		noCertificate := "certificate required"
		if version == tls.VersionTLS12 {
			noCertificate = "handshake failure"
		}
		f(asServer, func(s, _ *tls.Config) { s.ClientAuth = tls.RequireAnyClientCert },
			"client didn't provide a certificate", noCertificate)
		f(asServer, func(s, c *tls.Config) { s.NextProtos, c.NextProtos = []string{"postgresql"}, []string{"http/1.1"} },
			"application protocol", "no application protocol")
		f(asServer, func(_, c *tls.Config) { c.RootCAs = x509.NewCertPool() }, "bad certificate", "unknown authority")
		f(asClient, func(_, c *tls.Config) { c.RootCAs = x509.NewCertPool() }, "unknown authority", "bad certificate")
		f(asClient, func(_, c *tls.Config) { c.ServerName = "elsewhere" }, "not elsewhere", "bad certificate")
		f(asServer, func(s, _ *tls.Config) { s.MaxVersion, s.MinVersion = tls.VersionTLS12^1, tls.VersionTLS12^1 },
			"unsupported versions", "protocol version")
	}
}

// TestHandshakeClientCertificate: the certificate of the peer is known afterwards.
func TestHandshakeClientCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := secureCase{version, false, "tcp"}
		server, client := c.serverConfig(), c.clientConfig()
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, keysOnce().authority
		client.Certificates = []tls.Certificate{keysOnce().client}
		l := startLoop(t)
		fd, conn := pair(t, "tcp")
		h := c.begin(t, l, fd, testHelpers(t), server, nil)
		if err := tls.Client(conn, client).Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := await(t, h.secured, "the handshake"); err != nil {
			t.Fatal(err)
		}
		on(t, l, func() {
			state, _ := h.ConnectionState()
			if len(state.VerifiedChains) != 1 || state.PeerCertificates[0].Subject.CommonName != "alice" {
				t.Errorf("%d chains, certificates %v", len(state.VerifiedChains), state.PeerCertificates)
			}
		})
	}
}

// TestHandshakeThenHangUp: what was sent before the end is read, and the hang-up,
// which came during the handshake or at once after it, is reported.
func TestHandshakeThenHangUp(t *testing.T) {
	eachSecure(t, func(t *testing.T, c secureCase) {
		l := startLoop(t)
		ours, theirs := c.configs()
		fd, conn := pair(t, c.network)
		hung, got := make(chan struct{}), ""
		h := &secureSocket{secured: make(chan error, 1)}
		h.onReady = func(s *Socket, ev Events) {
			for {
				n, err := s.Read(l.Scratch())
				if got += string(l.Scratch()[:n]); err != nil {
					break
				}
			}
			if ev&Hangup != 0 {
				s.Close()
				close(hung)
			}
		}
		peer := c.peer(conn, theirs)
		go func() {
			_, _ = peer.Write([]byte("last words"))
			_ = peer.Close()
		}()
		on(t, l, func() {
			fatal(t, l.Add(&h.Socket, fd, c.network == "unix", h))
			h.Secure(Security{Config: ours, Client: c.client, Helpers: testHelpers(t)})
		})
		await(t, hung, "the hang-up")
		if err := <-h.secured; err != nil || got != "last words" {
			t.Errorf("handshake %v, read %q", err, got)
		}
	})
}
