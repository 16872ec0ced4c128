package reactor

import (
	"errors"
	"io"
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
