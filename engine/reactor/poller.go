package reactor

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// State: poller is one epoll instance and the events of the present batch.
// Owner: its loop.
//
// Every descriptor is registered once and edge-triggered, for reading and the
// peer's hang-up, and for writing where that is asked for. An event carries the
// descriptor and the generation of its registration: a number that has been given
// away and come back is not taken for the one before.

const (
	// eventsMax is the size of one batch.
	eventsMax = 256

	readInterest  = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLRDHUP | unix.EPOLLET
	writeInterest = unix.EPOLLOUT

	readableEvents = unix.EPOLLIN | unix.EPOLLPRI
	writableEvents = unix.EPOLLOUT
	goneEvents     = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

type poller struct {
	fd     int
	events [eventsMax]unix.EpollEvent
}

func openPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) add(fd int, generation int32, write bool) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, generation, write)
}

func (p *poller) modify(fd int, generation int32, write bool) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, generation, write)
}

// remove is for a descriptor that lives on; closing one removes it.
func (p *poller) remove(fd int) { _ = p.control(unix.EPOLL_CTL_DEL, fd, 0, false) }

func (p *poller) control(op, fd int, generation int32, write bool) error {
	ev := unix.EpollEvent{Fd: int32(fd), Pad: generation, Events: readInterest} // Pad: the other half of the event's data
	if write {
		ev.Events |= writeInterest
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// look gives what is there, without waiting and without the Go scheduler's entry
// and exit hooks.
func (p *poller) look() (n int, err error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events)), eventsMax, 0, 0, 0)
	return batch(r, errno)
}

// forEver is no limit of a wait.
const forEver = -1

// wait blocks until there is an event, or for so many milliseconds.
func (p *poller) wait(ms int) (n int, err error) {
	r, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events)), eventsMax, uintptr(ms), 0, 0)
	return batch(r, errno)
}

func batch(r uintptr, errno unix.Errno) (n int, err error) {
	switch errno {
	case 0:
		return int(r), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("epoll_pwait", errno)
}

func (p *poller) close() error { return os.NewSyscallError("close", unix.Close(p.fd)) }

// yield lets other threads run before the loop looks again.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
