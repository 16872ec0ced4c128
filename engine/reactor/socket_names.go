package reactor

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Local returns the socket's own address; the zero value for a Unix socket. It is a
// system call. Loop only.
func (s *Socket) Local() netip.AddrPort { return s.name(unix.SYS_GETSOCKNAME) }

// Peer is Local of the other side.
func (s *Socket) Peer() netip.AddrPort { return s.name(unix.SYS_GETPEERNAME) }

// name makes the system call. unix.Getsockname would ask for the protocol too and
// allocate twice, and a view asks for the address of each client.
func (s *Socket) name(call uintptr) netip.AddrPort {
	if s.flags&flagOpen == 0 {
		return netip.AddrPort{}
	}
	var sa unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, errno := unix.RawSyscall(call, uintptr(s.fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return netip.AddrPort{}
	}
	port := func(p *uint16) uint16 { return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:]) }
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), port(&in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&sa))
		return netip.AddrPortFrom(netip.AddrFrom16(in.Addr), port(&in.Port))
	}
	return netip.AddrPort{}
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
