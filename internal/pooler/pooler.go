// Package pooler runs pg-kinetic as a process of its own in front of a throw-away PostgreSQL, for the end-to-end tests, for
// `make run` and for the benchmarks. The environment variable E2E_TARGET chooses another target with which the tests
// themselves can be checked: "pgbouncer" (where the semantics agree) or "direct" (PostgreSQL without a pooler).
//
// A Pooler belongs to the pgtest.Server behind it: its files lie in that server's directory and its process number in a
// .pid file there, so the server's watchdog ends it too when our process is killed.
package pooler

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"pgkinetic/internal/pgtest"
)

// Target names what stands between client and PostgreSQL.
type Target string

// The targets of E2E_TARGET.
const (
	Kinetic   Target = "pg-kinetic"
	PgBouncer Target = "pgbouncer"
	Direct    Target = "direct"
)

// Chosen is the target that E2E_TARGET names.
func Chosen() Target {
	if name := os.Getenv("E2E_TARGET"); name != "" {
		return Target(name)
	}
	return Kinetic
}

// Options of a pooler; the zero value is transaction mode with the product's defaults.
type Options struct {
	Target   Target   // "" = Chosen()
	Mode     string   // "transaction" (default), "session", "statement"
	PoolSize int      // backends per (database, user); 0 = 20
	Port     int      // 0 = a free one
	Flags    []string // further flags for pg-kinetic: "--capacity.query-timeout-ms=100"
	HTTP     string   // pg-kinetic's admin.listen; "" = none
	Binary   string   // "" = built here, with the race detector when the test has it
	Env      []string // further environment

	// Databases are pg-kinetic's entries of databases, each as the YAML of a mapping without its hosts: `name: app, user: other`.
	// None: one for all databases.
	Databases []string
}

// Pooler is a running pooler. It has no Process where the target is PostgreSQL itself.
type Pooler struct {
	*Process
	Target Target
	Port   int

	server  *pgtest.Server
	base    string // of the paths of its files
	stopped bool
}

var serial atomic.Int64

// Start starts a pooler in front of the server for a test. When the test ends it is stopped, and the test fails if it did
// not end in order: exit status 0, no data race, no panic.
func Start(t testing.TB, s *pgtest.Server, o Options) *Pooler {
	t.Helper()
	p, err := New(s, o)
	if err != nil {
		t.Fatalf("starting the pooler: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stopping the pooler: %v", err)
		}
		if t.Failed() {
			t.Logf("the pooler's log ends:\n%s", p.LogTail(40))
		}
	})
	return p
}

// New starts a pooler for a program that is no test; the caller calls Stop.
func New(s *pgtest.Server, o Options) (*Pooler, error) {
	if o.Target == "" {
		o.Target = Chosen()
	}
	if o.Mode == "" {
		o.Mode = "transaction"
	}
	if o.PoolSize == 0 {
		o.PoolSize = 20
	}
	p := &Pooler{Target: o.Target, Port: o.Port, server: s}
	if o.Target == Direct {
		p.Port = s.Port
		return p, nil
	}
	if p.Port == 0 {
		var err error
		if p.Port, err = pgtest.FreePort(); err != nil {
			return nil, err
		}
	}
	p.base = filepath.Join(s.SocketDir(), fmt.Sprintf("%s-%d-%d", o.Target, os.Getpid(), serial.Add(1)))
	cmd, err := p.command(o, p.base)
	if err != nil {
		return nil, err
	}
	p.Process, err = Launch(cmd, p.base, func() bool { return answers("tcp", p.Addr()) && answers("unix", p.SocketPath()) })
	return p, err
}

func (p *Pooler) command(o Options, base string) (*exec.Cmd, error) {
	switch o.Target {
	case Kinetic:
		return p.kineticCommand(o, base)
	case PgBouncer:
		return p.pgbouncerCommand(o, base)
	}
	return nil, fmt.Errorf("unknown target %q: want pg-kinetic, pgbouncer or direct", o.Target)
}

func answers(network, address string) bool {
	c, err := net.Dial(network, address)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was sent
	return true
}

// Addr is the TCP address, 127.0.0.1:port.
func (p *Pooler) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.Port) }

// ConfigPath is pg-kinetic's file of settings, for tests that change them.
func (p *Pooler) ConfigPath() string { return p.base + ".yaml" }

// SocketPath is the path of the pooler's Unix socket.
func (p *Pooler) SocketPath() string {
	return filepath.Join(p.server.SocketDir(), fmt.Sprintf(".s.PGSQL.%d", p.Port))
}

// DSN is a libpq URL for the TCP address, without TLS.
func (p *Pooler) DSN(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, p.Addr(), database)
}

// Stop ends the process in order (a drain, and after ten seconds an immediate end) and tells what was wrong with its life.
// A process that a test has ended itself is only judged by its log. Later calls do nothing.
func (p *Pooler) Stop() error {
	if p.stopped || p.Process == nil {
		return nil
	}
	p.stopped = true
	byUs := p.End()
	log := p.Log()
	for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if strings.Contains(log, bad) {
			return fmt.Errorf("the log contains %q:\n%s", bad, log)
		}
	}
	// Exit status 1 tells that a transaction was cut, which is in order when a test leaves one open.
	if code := p.cmd.ProcessState.ExitCode(); byUs && p.Target == Kinetic && code != 0 && code != 1 {
		return fmt.Errorf("exit status %d (%v)", code, p.cmd.ProcessState)
	}
	return nil
}
