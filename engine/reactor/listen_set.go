package reactor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// State: a listenSet is the listeners that options ask for: those that are open
// already and stay, and those that are opened for it. Owner: who makes it, until a
// loop takes it over.
//
// Invariants:
//   - what was passed to the process stays, and nothing is opened beside it where it
//     serves
//   - a listener stays if it was opened for an address that is written the same, or
//     listens on one that is asked for
//   - what is open is not touched before all that is missing is there

type listenSet struct {
	all    []*Listener
	opened []*Listener // of all
	missed []missing
}

// missing is an address on which nobody listens yet.
type missing struct {
	address  string // as it is configured
	at       netip.AddrPort
	wildcard bool
}

// openListeners makes the set that o asks for out of what is open. After an error
// nothing has changed.
func openListeners(o *AcceptorOptions, have []*Listener) (*listenSet, error) {
	s := &listenSet{}
	for _, ln := range have {
		if ln.passed {
			s.all = append(s.all, ln)
		}
	}
	err := s.find(o, have)
	if err == nil {
		leaving := s.leaving(have)
		if err = s.openTCP(o, leaving); err == nil {
			err = s.findUnix(o, have)
		}
		if err != nil {
			share(leaving, 0, false)
		}
	}
	if err == nil && len(s.all) == 0 {
		err = errors.New("nothing to listen on: set server.listen or server.unix_socket_dir")
	}
	if err != nil {
		closeListeners(s.opened)
		return nil, err
	}
	return s, nil
}

// leaving gives those of have that are not in s.
func (s *listenSet) leaving(have []*Listener) []*Listener {
	return slices.DeleteFunc(slices.Clone(have), func(ln *Listener) bool { return slices.Contains(s.all, ln) })
}

// keep adds those of have of which is is true; it tells whether there are any.
func (s *listenSet) keep(have []*Listener, is func(*Listener) bool) (found bool) {
	for _, ln := range have {
		if is(ln) {
			found = true
			if !slices.Contains(s.all, ln) {
				s.all = append(s.all, ln)
			}
		}
	}
	return found
}

// find keeps what listens on an address that is asked for, and notes what is missing.
func (s *listenSet) find(o *AcceptorOptions, have []*Listener) error {
	passed := s.all
	for _, address := range o.Addresses {
		if s.keep(have, func(ln *Listener) bool { return ln.configured == address }) {
			continue
		}
		targets, wildcard, err := resolveListen(address)
		if err != nil {
			return err
		}
		for _, at := range targets {
			if !serves(passed, at) && !s.keep(have, func(ln *Listener) bool { return ln.Address == at.String() }) {
				s.missed = append(s.missed, missing{address, at, wildcard})
			}
		}
	}
	return nil
}

// openTCP opens what is missing. An address whose port one of the leaving listeners
// has can be listened on beside it: a wider or a narrower one.
func (s *listenSet) openTCP(o *AcceptorOptions, leaving []*Listener) error {
	for i := range s.missed {
		m := &s.missed[i]
		ln, err := listenAddrPort(m.at, o.Backlog, false)
		if errors.Is(err, unix.EADDRINUSE) && share(leaving, m.at.Port(), true) {
			ln, err = listenAddrPort(m.at, o.Backlog, true)
		}
		if m.wildcard && m.at.Addr().Is6() && errors.Is(err, unix.EAFNOSUPPORT) {
			continue // a machine without IPv6
		}
		if err != nil {
			return listenError(m.address, err)
		}
		ln.configured = m.address
		s.add(ln)
	}
	for _, ln := range s.all {
		if !slices.Contains(s.opened, ln) && !ln.passed || ln.Network != "tcp" {
			continue // those that stay get theirs when all is well
		}
		if err := SetTCPOptions(ln.fd, o.KeepaliveMs, o.UserTimeoutMs); err != nil { // accepted sockets inherit them
			return listenError(ln.Address, err)
		}
	}
	return nil
}

func (s *listenSet) add(ln *Listener) {
	s.all = append(s.all, ln)
	s.opened = append(s.opened, ln)
}

// share lets others of this user listen beside those listeners that have a port (0:
// any), or does not any more; it tells whether there are any.
func share(listeners []*Listener, port uint16, on bool) (found bool) {
	for _, ln := range listeners {
		own, err := netip.ParseAddrPort(ln.Address)
		if err == nil && (port == 0 || own.Port() == port) {
			found = setReusePort(ln.fd, on) == nil || found
		}
	}
	return found
}

func setReusePort(fd int, on bool) error {
	v := 0
	if on {
		v = 1
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, v))
}

// findUnix keeps or opens the Unix socket, unless it has been passed.
func (s *listenSet) findUnix(o *AcceptorOptions, have []*Listener) error {
	if o.UnixDir == "" {
		return nil
	}
	port, err := s.unixPort(o)
	if err != nil {
		return err
	}
	path := unixPath(o.UnixDir, port)
	if s.keep(have, func(ln *Listener) bool { return ln.Network == "unix" && ln.Address == path }) {
		return s.setMode(path, o.UnixMode)
	}
	ln, err := listenUnix(path, o.UnixMode, o.Backlog)
	if err != nil {
		return err
	}
	s.add(ln)
	return nil
}

// setMode gives a socket's file that is ours its permissions.
func (s *listenSet) setMode(path string, mode fs.FileMode) error {
	i := slices.IndexFunc(s.all, func(ln *Listener) bool { return ln.Address == path })
	if s.all[i].file == nil {
		return nil
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		return unixError(path, err)
	}
	return nil
}

// unixPort returns the number in the Unix socket's name.
func (s *listenSet) unixPort(o *AcceptorOptions) (int, error) {
	if o.UnixPort != 0 {
		return o.UnixPort, nil
	}
	for _, ln := range s.all {
		if ap, err := netip.ParseAddrPort(ln.Address); err == nil {
			return int(ap.Port()), nil
		}
	}
	return 0, fmt.Errorf("listen in %q: no port for the socket's name without a TCP listener", o.UnixDir)
}
