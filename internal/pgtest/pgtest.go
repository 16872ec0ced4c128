// Package pgtest starts throw-away PostgreSQL servers for tests, for `make run` and for the benchmarks.
//
// A Server is one postmaster with a private temporary directory (data, socket, log), a port outside the ephemeral range
// and trust authentication. It runs as an unprivileged user when we are root, because PostgreSQL refuses to run as root.
//
// Owner of everything a Server leaves on the machine is its watchdog, a shell in a session of its own that waits on a
// pipe held by this process: when this process ends, however it ends, the pipe closes, and the watchdog stops the
// postmaster and removes the directory. Stop does the same at once and lets the watchdog find nothing to do.
package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout bounds start and stop of a server: crash recovery on a busy machine included.
const startTimeout = 60 * time.Second

// Option changes how a Server is started.
type Option func(*options)

type options struct {
	settings [][2]string
	files    map[string][]byte // by name in the data directory
}

// Setting puts one line into postgresql.conf, after (and so above) the defaults of this package.
func Setting(name, value string) Option {
	return func(o *options) { o.settings = append(o.settings, [2]string{name, value}) }
}

// MaxConnections sets max_connections (default 100, of which PostgreSQL keeps 3 for superusers).
func MaxConnections(n int) Option { return Setting("max_connections", fmt.Sprint(n)) }

// Certificate switches TLS on, with a certificate (its chain behind it) and its key in PEM.
func Certificate(cert, key []byte) Option {
	return func(o *options) {
		Setting("ssl", "on")(o)
		o.files = map[string][]byte{"server.crt": cert, "server.key": key} // the names that PostgreSQL looks for
	}
}

// Server is a running PostgreSQL. Its methods may be used from several goroutines, except Stop, StartAgain, Restart and
// HBA, which belong to one test at a time.
type Server struct {
	Port int    // of 127.0.0.1 and of the Unix socket's name
	Bin  string // directory of the server and client programs

	dir      string
	owner    owner
	process  *process // nil while stopped
	watchdog *watchdog
}

// Start starts a server that is stopped and removed when the test ends. It fails the test where there is no PostgreSQL.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(opts...)
	if err != nil {
		t.Fatalf("starting PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PostgreSQL's log ends:\n%s", tail(s.Log(), 20))
		}
		s.Remove()
	})
	return s
}

// New starts a server for a program that is no test; the caller calls Remove.
func New(opts ...Option) (*Server, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	bin, err := Programs()
	if err != nil {
		return nil, err
	}
	s := &Server{Bin: bin, owner: unprivileged()}
	if s.dir, err = s.owner.privateDir(); err != nil {
		return nil, err
	}
	if s.watchdog, err = watch(s.dir); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	if err := s.initialise(o); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// initialise makes the data directory and starts the postmaster, with another port when ours was taken meanwhile.
func (s *Server) initialise(o options) error {
	if err := s.initdb(o); err != nil {
		return err
	}
	var err error
	for range 5 {
		if s.Port, err = FreePort(); err != nil {
			return err
		}
		if err = s.StartAgain(); err == nil {
			return nil
		}
	}
	return err
}

func (s *Server) initdb(o options) error {
	out, err := s.command("initdb", "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C",
		"--no-instructions", "-D", s.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	lines := []string{
		"listen_addresses = '127.0.0.1'",
		fmt.Sprintf("unix_socket_directories = '%s'", s.dir),
		"fsync = off", "synchronous_commit = off", "full_page_writes = off",
		"shared_buffers = '32MB'", "max_connections = 100", "autovacuum = off", "jit = off",
		"log_connections = on", "timezone = 'UTC'", "log_timezone = 'UTC'",
	}
	for _, setting := range o.settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'", setting[0], strings.ReplaceAll(setting[1], "'", "''")))
	}
	if err := s.appendFile("postgresql.conf", lines); err != nil {
		return err
	}
	for name, text := range o.files {
		if err := s.owner.writeFile(filepath.Join(s.data(), name), text); err != nil {
			return err
		}
	}
	return s.writeHBA(nil)
}

// Addr is the TCP address, 127.0.0.1:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// SocketDir is the directory of the Unix socket; SocketPath is the socket itself.
func (s *Server) SocketDir() string { return s.dir }

// SocketPath is the path of the Unix socket.
func (s *Server) SocketPath() string {
	return filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d", s.Port))
}

// DSN is a libpq URL for the TCP address, without TLS.
func (s *Server) DSN(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, s.Addr(), database)
}

// Log is everything that the server has logged.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Logins is the number of sessions that PostgreSQL has let in since the directory was made, this package's own excepted.
// It is read from the log, so a login shows up a moment after the client has been told.
func (s *Server) Logins() int {
	n := 0
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "connection authorized:") && !strings.Contains(line, "application_name="+adminName) {
			n++
		}
	}
	return n
}

// Remove stops the server at once and removes its directory. Later calls do nothing.
func (s *Server) Remove() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
	os.RemoveAll(s.dir)
	s.watchdog.release()
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared is one server for all tests of a package that calls Main from its TestMain. A test that stops or damages its
// server takes Start instead.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := New(MaxConnections(300))
		if err != nil {
			t.Fatalf("starting PostgreSQL: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Main runs the tests and removes the shared server; it does not return.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.Remove()
	}
	os.Exit(code)
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
