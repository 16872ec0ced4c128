package reactor

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets are non-blocking, so these calls skip the scheduler's entry and
// exit hooks (RawSyscall). An errno below 256 becomes an error without an
// allocation.

// VectorsMax is the number of pieces that one gathering write takes.
const VectorsMax = 16

// vectors is the argument of a gathering write. Owner: the loop. Between calls
// it is empty and refers to nothing.
type vectors struct {
	iov   [VectorsMax]unix.Iovec
	msg   unix.Msghdr
	count int
	bytes int
}

// add appends p and reports whether there was room; an empty p takes none.
func (v *vectors) add(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if v.count == VectorsMax {
		return false
	}
	v.iov[v.count].Base = &p[0]
	v.iov[v.count].SetLen(len(p))
	v.count++
	v.bytes += len(p)
	return true
}

// send writes the pieces and forgets them.
func (v *vectors) send(fd int) (n int, err error) {
	if v.count == 0 {
		return 0, nil
	}
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(v.count)
	for {
		r, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.msg)), unix.MSG_NOSIGNAL)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			err = errno
		} else {
			n = int(r)
		}
		break
	}
	clear(v.iov[:v.count])
	v.count, v.bytes = 0, 0
	return n, err
}

func rawRead(fd int, p []byte) (n int, err error) {
	for {
		r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

func rawSend(fd int, p []byte) (n int, err error) {
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

var wakeOne = binary.NativeEndian.AppendUint64(nil, 1)

// writeWake adds one to an eventfd. Each write is an edge of its own, so nobody
// needs to read it; the counter would be full after 2^64 - 2 wake-ups.
func writeWake(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&wakeOne[0])), 8)
}

// drainCounter reads a timerfd's expiry count.
func drainCounter(fd int) {
	var count [8]byte
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count[0])), 8)
}

// accept takes a client of a listening socket: non-blocking, close-on-exec. peer is
// the zero value for a Unix socket.
func accept(listener int) (fd int, peer netip.AddrPort, err error) {
	var sa unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	r, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, peer, errno
	}
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sa))
		peer = netip.AddrPortFrom(netip.AddrFrom4(in.Addr), networkOrder(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&sa))
		peer = netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), networkOrder(in.Port)) // IPv4 on a socket for both
	}
	return int(r), peer, nil
}

// networkOrder reads a port as it lies in a socket address.
func networkOrder(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}

// closeRaw closes a socket. It does not block: no socket lingers.
func closeRaw(fd int32) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }
