//go:build !race

package reactor

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
)

// inUse returns the bytes of live objects and of stacks.
func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestSecureMemory: what an idle connection keeps beside its socket, whose peer's
// half is thrown away before it is measured.
func TestSecureMemory(t *testing.T) {
	const count = 100
	f := func(c secureCase, size int, limit int64) {
		t.Helper()
		ours, theirs := c.configs()
		l, helpers := startLoop(t), testHelpers(t)
		echoes, conns := make([]*secureEcho, count), make([]net.Conn, count)
		for i := range echoes {
			var fd int
			fd, conns[i] = pair(t, c.network)
			e := &secureEcho{echo: echo{limit: 64 << 10}, secured: make(chan error, 1)}
			on(t, l, func() { fatal(t, l.Add(&e.Socket, fd, false, e)) })
			echoes[i] = e
		}
		buf := make([]byte, size)
		before := inUse()
		for i, e := range echoes {
			on(t, l, func() { e.Secure(Security{Config: ours, Client: c.client, Helpers: helpers}) })
			peer := c.peer(conns[i], theirs)
			for range 2 {
				if _, err := peer.Write(buf); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(peer, buf); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-e.secured; err != nil {
				t.Fatal(err)
			}
		}
		on(t, l, func() {})
		each := (inUse() - before) / count
		t.Logf("%v: %d bytes after records of %d", c, each, size)
		if each > limit {
			t.Errorf("%v: %d bytes are kept by an idle connection after records of %d, more than %d", c, each, size, limit)
		}
		runtime.KeepAlive(echoes)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, client := range []bool{false, true} {
			f(secureCase{version, client, "tcp"}, 100, 12<<10)
			f(secureCase{version, client, "tcp"}, recordBytes, 24<<10)
		}
	}
}

// TestHandshakeMemory: what a handshake keeps that waits for its peer, and one whose
// peer has said nothing yet.
func TestHandshakeMemory(t *testing.T) {
	const count = 100
	f := func(version uint16, hello []byte, limit int64) {
		t.Helper()
		c := secureCase{version, false, "tcp"}
		config := c.serverConfig()
		l, helpers := startLoop(t), testHelpers(t)
		fds, conns, sockets := make([]int, count), make([]net.Conn, count), make([]*secureSocket, count)
		for i := range fds {
			fds[i], conns[i] = pair(t, "tcp")
		}
		before := inUse()
		for i, fd := range fds {
			sockets[i] = c.begin(t, l, fd, helpers, config, nil)
			if hello == nil {
				continue
			}
			if _, err := conns[i].Write(hello); err != nil {
				t.Fatal(err)
			}
			if _, err := conns[i].Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		each := (inUse() - before) / count
		t.Logf("%s: %d bytes after a hello of %d", tls.VersionName(version), each, len(hello))
		if each > limit {
			t.Errorf("%s: a handshake keeps %d bytes after a hello of %d, more than %d", tls.VersionName(version), each, len(hello), limit)
		}
		runtime.KeepAlive(sockets)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f(version, nil, 4<<10)
		f(version, clientHello(t, secureCase{version, false, "tcp"}), 40<<10)
	}
}

// TestSecureStreamMemory: 64 MiB in both directions at once in constant memory.
func TestSecureStreamMemory(t *testing.T) {
	const size, limit, piece = 64 << 20, 256 << 10, 1 << 20
	l := startLoop(t)
	e, peer := secureCase{tls.VersionTLS13, false, "tcp"}.echo(t, l, limit)
	before := inUse()
	sent := make(chan error, 1)
	go func() {
		p := make([]byte, piece)
		for at := 0; at < size; at += piece {
			pattern(p, at)
			if _, err := peer.Write(p); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	most := int64(0)
	for at := 0; at < size; at += size / 8 {
		p := make([]byte, piece)
		for got := 0; got < size/8; got += piece {
			if _, err := io.ReadFull(peer, p); err != nil {
				t.Fatal(err)
			}
			want := make([]byte, piece)
			pattern(want, at+got)
			if string(p) != string(want) {
				t.Fatal("bytes changed")
			}
		}
		most = max(most, BufferBytes())
	}
	fatal(t, <-sent)
	on(t, l, func() {
		if e.high > limit+ScratchBytes || most > int64(limit+ScratchBytes+sealedBytes+2*largeChunk) {
			t.Errorf("%d bytes were held, in buffers of %d", e.high, most)
		}
	})
	if grown := inUse() - before; grown > 1<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
}
