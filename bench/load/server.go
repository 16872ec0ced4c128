package load

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgwire"
)

// Server is what a load is sent to, and as whom.
type Server struct {
	Network  string // "tcp" or "unix"
	Address  string // "127.0.0.1:6432", "/dir/.s.PGSQL.6432"
	User     string
	Database string
	// Parameters are further ones of the StartupMessage: name, value, name, value…
	Parameters []string
	// TLS has clients ask for TLS, and be content with any certificate (sslmode=require).
	TLS bool
	// Authenticate makes the Authenticator of one login. nil: a server that asks for anything is an error.
	Authenticate func() Authenticator
}

// Authenticator answers what a server asks for during one login.
type Authenticator interface {
	// Answer gets the body of an Authentication message, code included (PostgreSQL documentation, "Message Formats"), of
	// any kind but AuthenticationOk; it is valid until Answer returns. It gives the whole message to be sent, nil for none.
	Answer(body []byte) ([]byte, error)
}

// endpoint is a Server made ready for many logins: its socket address, and the StartupMessage.
type endpoint struct {
	family   int
	address  unix.Sockaddr
	loopback bool // of IPv4: every address 127.x.y.z is one to come from
	startup  []byte
	// receiveBuffer is SO_RCVBUF of its sockets, bytes; 0: what the kernel gives.
	receiveBuffer int
	authenticate  func() Authenticator
	tls           bool
}

// endpoint resolves the address.
func (s Server) endpoint(application string) (*endpoint, error) {
	params := append([]string{"user", s.User, "database", s.Database}, s.Parameters...)
	if application != "" {
		params = append(params, "application_name", application)
	}
	e := &endpoint{startup: pgwire.Startup(0, params...), authenticate: s.Authenticate, tls: s.TLS}
	switch s.Network {
	case "unix":
		e.family, e.address = unix.AF_UNIX, &unix.SockaddrUnix{Name: s.Address}
		return e, nil
	case "tcp":
		a, err := net.ResolveTCPAddr("tcp", s.Address)
		if err != nil {
			return nil, err
		}
		if ip := a.IP.To4(); ip != nil {
			e.family, e.address, e.loopback = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip)}, ip[0] == 127
		} else {
			e.family, e.address = unix.AF_INET6, &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
		}
		return e, nil
	}
	return nil, fmt.Errorf("network %q: want tcp or unix", s.Network)
}

// perSource is how many connections to one server come from one address: less than half of the ports that Linux gives out
// (28 232), since its search for a free one is slow once half are taken.
const perSource = 12_000

// socket makes a socket that does not block, to be the n-th one open to this server.
func (e *endpoint) socket(n int) (int, error) {
	fd, err := unix.Socket(e.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := e.prepare(fd, n/perSource); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (e *endpoint) prepare(fd, source int) error {
	if e.receiveBuffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, e.receiveBuffer); err != nil {
			return err
		}
	}
	if e.family == unix.AF_UNIX {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if source == 0 || !e.loopback {
		return nil
	}
	if source > 250 {
		return fmt.Errorf("no more than %d connections", 250*perSource)
	}
	// The port is chosen at connect: it need be free for this server only.
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(1 + source)}})
}
