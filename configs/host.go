package configs

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	defaultPostgresPort = "5432"
	defaultListenPort   = 6432
	// maxSocketPath is sun_path of unix(7) less its closing NUL.
	maxSocketPath = 107
)

// Host is where a PostgreSQL listens, ready for net.Dial: Network is "tcp" with Address host:port, or "unix" with the
// path of the socket. It is comparable, so it serves as a key.
type Host struct {
	Network, Address string
}

// String returns the host as it would be written in the settings.
func (h Host) String() string {
	if h.Network != "unix" {
		return h.Address
	}
	dir, file := filepath.Split(h.Address)
	port := strings.TrimPrefix(file, socketName(""))
	if len(dir) > 1 {
		dir = strings.TrimSuffix(dir, "/")
	}
	if port == defaultPostgresPort {
		return dir
	}
	return dir + ":" + port
}

// UnmarshalText is ParseHost, for decoders.
func (h *Host) UnmarshalText(text []byte) error {
	parsed, err := ParseHost(string(text))
	if err != nil {
		return err
	}
	*h = parsed
	return nil
}

// ParseHost reads host:port, [v6]:port (the port may be left out: 5432) or a socket directory with an optional :port. The
// error says what is expected and does not repeat the text, which may hold a password when it is a URL.
func ParseHost(s string) (Host, error) {
	if strings.HasPrefix(s, "/") {
		return parseSocketDir(s)
	}
	if strings.Contains(s, "://") || strings.Contains(s, "@") {
		return Host{}, errors.New(`must be host:port, not a URL; user, password and dbname are settings of their own`)
	}
	if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
		return Host{}, errors.New(`must have an IPv6 address in brackets, such as "[::1]:5432"`)
	}
	host, port := s, defaultPostgresPort
	if bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"); len(bare) == len(s)-2 {
		host = bare
	} else if strings.Contains(s, ":") {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return Host{}, errors.New(`must be host:port, such as "127.0.0.1:5432" or "[::1]:5432", or a socket directory`)
		}
	}
	if err := checkHostName(host); err != nil {
		return Host{}, err
	}
	if err := checkPort(port, 1); err != nil {
		return Host{}, err
	}
	return Host{Network: "tcp", Address: net.JoinHostPort(host, port)}, nil
}

func parseSocketDir(s string) (Host, error) {
	dir, port := s, defaultPostgresPort
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		dir, port = s[:i], s[i+1:]
	}
	if err := checkPort(port, 1); err != nil {
		return Host{}, err
	}
	if strings.HasPrefix(filepath.Base(dir), socketName("")) {
		return Host{}, errors.New("must be the directory of the socket, not the socket itself; a port other than 5432 follows as :port")
	}
	path := filepath.Join(dir, socketName(port))
	if len(path) > maxSocketPath {
		return Host{}, fmt.Errorf("has a socket path of %d bytes, but the system allows %d", len(path), maxSocketPath)
	}
	return Host{Network: "unix", Address: path}, nil
}

// socketName is the file name that PostgreSQL gives its Unix socket.
func socketName(port string) string { return ".s.PGSQL." + port }

func checkHostName(host string) error {
	if host == "" {
		return errors.New(`has no host name before the port`)
	}
	if net.ParseIP(host) != nil {
		return nil
	}
	if address, zone, ok := strings.Cut(host, "%"); ok && zone != "" && net.ParseIP(address) != nil {
		return nil
	}
	if len(host) > 253 {
		return errors.New("has a host name above 253 characters")
	}
	for _, r := range host {
		if !isHostRune(r) {
			return fmt.Errorf("has %q in its host name; a host name has letters, digits, '-', '_' and '.'", r)
		}
	}
	return nil
}

func isHostRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

func checkPort(port string, lowest int) error {
	n, err := strconv.Atoi(port)
	if err != nil || n < lowest || n > 65535 || strconv.Itoa(n) != port {
		return fmt.Errorf("must have a port from %d to 65535", lowest)
	}
	return nil
}

// checkListen accepts host:port for net.Listen: the host may be empty (every address), the port 0 (any free one).
func checkListen(s string) error {
	if strings.HasPrefix(s, "/") {
		return errors.New("must be host:port; the directory of the Unix socket is server.unix_socket_dir")
	}
	if strings.HasPrefix(s, "*:") {
		return fmt.Errorf(`must leave the host out to listen on every address: %q`, s[1:])
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.Contains(s, "@") {
		return errors.New(`must be host:port, such as "127.0.0.1:6432", "[::1]:6432" or ":6432"`)
	}
	if host != "" {
		if err := checkHostName(host); err != nil {
			return err
		}
	}
	return checkPort(port, 0)
}

func checkAdminListen(s string) error {
	if s == "" {
		return nil
	}
	if strings.HasPrefix(s, "/") {
		return errors.New("must be host:port")
	}
	return checkListen(s)
}

func checkHost(s string) error {
	_, err := ParseHost(s)
	return err
}

// SocketPort returns the port that names the Unix socket that clients connect to: the first one of listen, else 6432. It
// is 0 where listen asks for any free port, which only the listener knows.
func (s *Server) SocketPort() int {
	if len(s.Listen) == 0 {
		return defaultListenPort
	}
	_, port, err := net.SplitHostPort(s.Listen[0])
	if err != nil {
		return defaultListenPort
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return defaultListenPort
	}
	return n
}

// SocketPath returns the path of the Unix socket for clients, as libpq looks for it, with the given port; empty when
// unix_socket_dir is not set.
func (s *Server) SocketPath(port int) string {
	if s.UnixSocketDir == "" {
		return ""
	}
	return filepath.Join(s.UnixSocketDir, socketName(strconv.Itoa(port)))
}

// SocketMode returns the permission bits of the Unix socket for clients.
func (s *Server) SocketMode() uint32 {
	mode, err := strconv.ParseUint(s.UnixSocketMode, 8, 32)
	if err != nil {
		return 0 // not reached with a loaded Config; the strictest mode is the safe answer
	}
	return uint32(mode)
}
