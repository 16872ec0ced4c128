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
	"syscall"
	"testing"
	"time"

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
	Binary   string   // "" = built here, with the race detector when the test has it
	Env      []string // further environment
}

// Pooler is a running pooler.
type Pooler struct {
	Target Target
	Port   int

	server  *pgtest.Server
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has been waited for
	logPath string
	pidPath string
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
	name := fmt.Sprintf("%s-%d-%d", o.Target, os.Getpid(), serial.Add(1))
	p.logPath = filepath.Join(s.SocketDir(), name+".log")
	p.pidPath = filepath.Join(s.SocketDir(), name+".pid")
	cmd, err := p.command(o, filepath.Join(s.SocketDir(), name))
	if err != nil {
		return nil, err
	}
	return p, p.run(cmd)
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

func (p *Pooler) run(cmd *exec.Cmd) error {
	log, err := os.Create(p.logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // a Ctrl-C is for us: we stop it in order
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // Stop reads the exit status from ProcessState
		close(p.ended)
	}()
	if err := os.WriteFile(p.pidPath, fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		p.Kill()
		return err
	}
	return p.awaitListening()
}

func (p *Pooler) awaitListening() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if answers("tcp", p.Addr()) && answers("unix", p.SocketPath()) {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended at start (%v):\n%s", p.Target, p.cmd.ProcessState, p.LogTail(20))
		case <-deadline:
			p.Kill()
			return fmt.Errorf("%s does not listen on %s:\n%s", p.Target, p.Addr(), p.LogTail(20))
		case <-tick.C:
		}
	}
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

// SocketPath is the path of the pooler's Unix socket.
func (p *Pooler) SocketPath() string {
	return filepath.Join(p.server.SocketDir(), fmt.Sprintf(".s.PGSQL.%d", p.Port))
}

// DSN is a libpq URL for the TCP address, without TLS.
func (p *Pooler) DSN(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, p.Addr(), database)
}

// PID is the process number.
func (p *Pooler) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Pooler) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal to the process.
func (p *Pooler) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// ExitCode waits for the end of the process.
func (p *Pooler) ExitCode(limit time.Duration) (int, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s has not ended within %v", p.Target, limit)
	}
}

// Kill ends the process by force.
func (p *Pooler) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = os.Remove(p.pidPath)
}

// Stop ends the process in order (a drain, and after ten seconds an immediate end) and tells what was wrong with its life.
// A process that a test has ended itself is only judged by its log. Later calls do nothing.
func (p *Pooler) Stop() error {
	if p.cmd == nil {
		return nil
	}
	byUs := false
	select {
	case <-p.ended:
	default:
		byUs = true
		p.terminate()
	}
	_ = os.Remove(p.pidPath)
	state, log := p.cmd.ProcessState, p.Log()
	p.cmd = nil
	for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if strings.Contains(log, bad) {
			return fmt.Errorf("the log contains %q:\n%s", bad, log)
		}
	}
	// Exit status 1 tells that a transaction was cut, which is in order when a test leaves one open.
	if code := state.ExitCode(); byUs && p.Target == Kinetic && code != 0 && code != 1 {
		return fmt.Errorf("exit status %d (%v)", code, state)
	}
	return nil
}

func (p *Pooler) terminate() {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig)
		select {
		case <-p.ended:
			return
		case <-time.After(10 * time.Second):
		}
	}
	<-p.ended
}

// Log is everything that the pooler has printed.
func (p *Pooler) Log() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail is the last lines of the log.
func (p *Pooler) LogTail(lines int) string {
	if p.Target == Direct {
		return ""
	}
	all := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
