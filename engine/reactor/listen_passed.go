package reactor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Listening sockets that whoever started the process has opened and passed on: a service manager that listens before we
// run and goes on while we restart. They are served whatever the settings say, and an address that one of them serves is
// not opened again. Their files are not ours: they stay when we end.

// errNotListening is about a descriptor that is no use here.
var errNotListening = errors.New("it is no listening stream socket of TCP or Unix; in a socket unit use ListenStream= and Accept=no")

// takeOver makes listeners of passed descriptors. They belong to the acceptor, also if there is an error.
func takeOver(fds []int, backlog int) (all []*Listener, err error) {
	for _, fd := range fds {
		ln, e := takeOverOne(fd, backlog)
		if e != nil {
			_ = unix.Close(fd)
			err = errors.Join(err, fmt.Errorf("listen on passed descriptor %d: %w", fd, e))
			continue
		}
		all = append(all, ln)
	}
	if err != nil {
		closeListeners(all)
		return nil, err
	}
	return all, nil
}

func takeOverOne(fd, backlog int) (*Listener, error) {
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || accepts == 0 {
		return nil, errNotListening
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, errNotListening
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	ln := &Listener{fd: fd, passed: true}
	switch local := local.(type) {
	case *unix.SockaddrUnix:
		ln.Network, ln.Address = "unix", local.Name
	case *unix.SockaddrInet4, *unix.SockaddrInet6:
		ln.Network, ln.Address = "tcp", addrPort(local).String()
		if _, ok := local.(*unix.SockaddrInet6); ok {
			v6only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
			ln.dual = err == nil && v6only == 0
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 1); err != nil { // as in bindTCP
			return nil, os.NewSyscallError("setsockopt", err)
		}
	default:
		return nil, errNotListening
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return ln, os.NewSyscallError("listen", unix.Listen(fd, backlog)) // again: for the backlog
}

// serves reports whether one of listeners gets the connections to an address.
func serves(listeners []*Listener, ap netip.AddrPort) bool {
	for _, ln := range listeners {
		own, err := netip.ParseAddrPort(ln.Address)
		if err != nil || own.Port() != ap.Port() {
			continue
		}
		every := own.Addr().IsUnspecified() && (ln.dual || own.Addr().Is4() == ap.Addr().Is4())
		if every || own.Addr() == ap.Addr() {
			return true
		}
	}
	return false
}
