package reactor

import (
	"encoding/binary"
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

// hungUp asks the kernel whether the peer of fd has gone (shut down its side,
// reset, or refused): an event may be left over from another socket that had
// the same number on this loop, and unlike a read that finds nothing, a wrong
// hang-up would cost a connection.
func hungUp(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	for {
		n, err := unix.Poll(p[:], 0)
		if err == unix.EINTR {
			continue
		}
		return err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	}
}
