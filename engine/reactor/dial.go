package reactor

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unixPathMax is the longest path of a Unix socket: sun_path less its final NUL.
const unixPathMax = 107

// DialOptions are the TCP options of a connection.
type DialOptions struct {
	KeepaliveMs   int // idle time before the first probe; 0: no keepalive
	UserTimeoutMs int // TCP_USER_TIMEOUT; 0: the system's
}

// Set gives the options to a TCP socket.
func (o DialOptions) Set(fd int) error { return SetTCPOptions(fd, o.KeepaliveMs, o.UserTimeoutMs) }

// Dial connects without keepalive; see DialOptions.Dial.
func Dial(network, address string) (fd int, inProgress bool, err error) {
	return DialOptions{}.Dial(network, address)
}

// Dial begins a non-blocking connect and returns a descriptor that belongs to
// the caller. network is "tcp" with an address "IP:port" (no name: resolving
// blocks), or "unix" with a path; a path that begins with @ is an abstract one.
// inProgress: the outcome comes as Writable or Hangup, see Socket.Error. A Unix
// connect ends at once, with unix.EAGAIN if the listener's backlog is full.
func (o DialOptions) Dial(network, address string) (fd int, inProgress bool, err error) {
	sa, domain, err := dialAddress(network, address)
	if err != nil {
		return -1, false, err
	}
	fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, false, os.NewSyscallError("socket", err)
	}
	if domain != unix.AF_UNIX {
		if err := o.Set(fd); err != nil {
			_ = unix.Close(fd)
			return -1, false, err
		}
	}
	switch err := unix.Connect(fd, sa); err {
	case nil:
		return fd, false, nil
	case unix.EINPROGRESS, unix.EINTR:
		return fd, true, nil
	default:
		_ = unix.Close(fd)
		return -1, false, os.NewSyscallError("connect", err)
	}
}

func dialAddress(network, address string) (unix.Sockaddr, int, error) {
	switch network {
	case "unix":
		if len(address) == 0 || len(address) > unixPathMax || strings.IndexByte(address, 0) >= 0 {
			return nil, 0, fmt.Errorf("connect to %q: not a Unix socket path of 1 to %d bytes", address, unixPathMax)
		}
		return &unix.SockaddrUnix{Name: address}, unix.AF_UNIX, nil
	case "tcp":
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, 0, fmt.Errorf("connect to %q: not an IP address and port: %w", address, err)
		}
		sa, domain, err := sockaddr(ap)
		return sa, domain, err
	}
	return nil, 0, fmt.Errorf("connect to %q: unknown network %q", address, network)
}

// sockaddr turns an address into the system's form; a zone is an interface's
// number or name.
func sockaddr(ap netip.AddrPort) (unix.Sockaddr, int, error) {
	a := ap.Addr().Unmap()
	if a.Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: a.As4()}, unix.AF_INET, nil
	}
	zone, err := zoneID(a.Zone())
	if err != nil {
		return nil, 0, fmt.Errorf("address %s: %w", ap, err)
	}
	return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: a.As16(), ZoneId: zone}, unix.AF_INET6, nil
}

// addrPort is the inverse of sockaddr; Unix peers have no address.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

const (
	keepaliveProbes = 3
	// A dead peer is noticed after the idle time and three probes that are a
	// sixth of it apart, at most the system's default of 75 s.
	keepaliveShare       = 6
	keepaliveIntervalMax = 75
)

// SetTCPOptions sets TCP_NODELAY, keepalive after keepaliveMs of silence (whole
// seconds, at least one; 0: off) and TCP_USER_TIMEOUT (milliseconds; 0: the
// system's) on a TCP socket, whatever it had before: a listener stays when they change.
func SetTCPOptions(fd, keepaliveMs, userTimeoutMs int) error {
	type option struct{ level, name, value int }
	options := []option{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, max(userTimeoutMs, 0)},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, min(max(keepaliveMs, 0), 1)},
	}
	if keepaliveMs > 0 {
		idle := max(1, keepaliveMs/1000)
		options = append(
			options,
			option{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, min(max(1, idle/keepaliveShare), keepaliveIntervalMax)},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepaliveProbes},
		)
	}
	for _, o := range options {
		err := unix.SetsockoptInt(fd, o.level, o.name, o.value)
		if err == unix.ENOPROTOOPT && o.value == 0 { // a listener that was passed in may be of MPTCP
			continue
		}
		if err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// CloseFD closes a descriptor that no socket owns, such as one of Dial or of
// Accepted that will not be registered.
func CloseFD(fd int) { _ = unix.Close(fd) }
