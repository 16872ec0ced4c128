package reactor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Listener is one listening socket. Its fields do not change after Listen.
type Listener struct {
	// Network is "tcp" or "unix".
	Network string
	// Address is "IP:port" with the port that the system gave, or the path of
	// the Unix socket (an abstract one with a leading @).
	Address string

	socket     Socket
	fd         int
	configured string // the address that it was opened for, as it is written
	leaving    bool   // the loop's: it is closed when its backlog is empty
	passed     bool   // opened by whoever started the process
	dual       bool   // IPv6, and gets IPv4 connections too
	acceptor   *Acceptor
	file       *unixFile // the socket's file and lock; nil for TCP and abstract
}

func resolveListen(address string) (targets []netip.AddrPort, wildcard bool, err error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false, fmt.Errorf("listen address %q: %w; write it as host:port, [IPv6]:port or *:port", address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, false, fmt.Errorf("listen address %q: the port must be a number from 0 to 65535", address)
	}
	if host == "" || host == "*" {
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)),
			netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)),
		}, true, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err != nil {
		return nil, false, fmt.Errorf("listen address %q: %w; use an address of this machine, or only :port for all", address, err)
	}
	for _, a := range addrs {
		targets = append(targets, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return targets, false, nil
}

// listenAddrPort opens one listener; shared: beside others that allow it.
func listenAddrPort(ap netip.AddrPort, backlog int, shared bool) (*Listener, error) {
	sa, domain, err := sockaddr(ap)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := bindTCP(fd, sa, domain, backlog, shared); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("getsockname", err)
	}
	got := addrPort(local)
	bound := netip.AddrPortFrom(ap.Addr(), got.Port()) // keeps the zone
	return &Listener{Network: "tcp", Address: bound.String(), fd: fd}, nil
}

func bindTCP(fd int, sa unix.Sockaddr, domain, backlog int, shared bool) error {
	// Without it a restart would fail while old connections are in TIME_WAIT.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if domain == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// A client speaks first: it is accepted when its first bytes are there, or after
	// about a second.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if shared {
		if err := setReusePort(fd, true); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return os.NewSyscallError("listen", err)
	}
	if shared { // beside those, and nobody else beside us; listen checks once more what bind has checked
		return setReusePort(fd, false)
	}
	return nil
}

// listenError names the address and what can be done about it.
func listenError(address string, err error) error {
	remedy := "check server.listen"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		remedy = "another process listens there: stop it or choose another address in server.listen"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		remedy = "this machine has no such address: use one that it has, or only :port for all"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		remedy = "no permission: use a port above 1023 or give the process CAP_NET_BIND_SERVICE"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		remedy = "no descriptors left: raise the limit of open files"
	}
	return fmt.Errorf("listen on %q: %w; %s", address, err, remedy)
}

// closeListeners closes listeners that no loop owns.
func closeListeners(lns []*Listener) {
	for _, ln := range lns {
		_ = unix.Close(ln.fd)
		ln.file.remove()
	}
}

// zoneID returns the interface number of an IPv6 zone, 0 for none.
func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifc, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("interface %q: %w", zone, err)
	}
	return uint32(ifc.Index), nil
}
