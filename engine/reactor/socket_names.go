package reactor

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Local returns the socket's own address; the zero value for a Unix socket. It is a
// system call. Loop only.
func (s *Socket) Local() netip.AddrPort {
	if s.flags&flagOpen == 0 {
		return netip.AddrPort{}
	}
	sa, err := unix.Getsockname(int(s.fd))
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(sa)
}

// Peer is Local of the other side.
func (s *Socket) Peer() netip.AddrPort {
	if s.flags&flagOpen == 0 {
		return netip.AddrPort{}
	}
	sa, err := unix.Getpeername(int(s.fd))
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(sa)
}

// PeerPID returns the process on the other side of a Unix socket, as the kernel
// tells it; 0 if it does not. It is a system call. Loop only.
func (s *Socket) PeerPID() int {
	if s.flags&flagOpen == 0 {
		return 0
	}
	cred, err := unix.GetsockoptUcred(int(s.fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

// FD returns the listener's descriptor.
func (ln *Listener) FD() int { return ln.fd }
