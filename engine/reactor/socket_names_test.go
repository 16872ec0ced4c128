package reactor

import (
	"net"
	"net/netip"
	"testing"
)

// The names of a socket's two ends are those that the peer knows, the other way round.
func TestNamesOfSockets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		defer ln.Close()
		l := startLoop(t)
		here := netip.MustParseAddrPort(ln.Addr().String())
		fd, _, err := Dial("tcp", here.String())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		e := &echo{limit: 64}
		on(t, l, func() {
			if err := l.Add(&e.Socket, fd, false, e); err != nil {
				t.Error(err)
				return
			}
			if local, other := e.Local(), e.Peer(); local.String() != peer.RemoteAddr().String() || other != here {
				t.Errorf("from %v to %v, the peer says from %v to %v", local, other, peer.RemoteAddr(), here)
			}
		})
		on(t, l, func() {
			e.Close()
			if e.Local().IsValid() || e.Peer().IsValid() {
				t.Error("a closed socket has names")
			}
		})
	}
}

func TestUnixSocketsHaveNoAddress(t *testing.T) {
	fd, _ := pair(t, "unix")
	l := startLoop(t)
	e := &echo{limit: 64}
	on(t, l, func() {
		if err := l.Add(&e.Socket, fd, true, e); err != nil {
			t.Error(err)
			return
		}
		if e.Local().IsValid() || e.Peer().IsValid() {
			t.Errorf("%v, %v", e.Local(), e.Peer())
		}
	})
}
