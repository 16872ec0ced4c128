package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a started postmaster; ended is closed once it has been waited for.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func start(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the exit status of a server that is told to stop says nothing; its log does
		close(p.ended)
	}()
	return p, nil
}

func (p *process) wait(limit time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill stops without a checkpoint, and by force when that takes longer than 10 s.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	if !p.wait(10 * time.Second) {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Mode is a way to stop PostgreSQL.
type Mode syscall.Signal

// The three ways: Smart waits for the clients, Fast ends their sessions (57P01), Immediate is a crash.
const (
	Smart     = Mode(syscall.SIGTERM)
	Fast      = Mode(syscall.SIGINT)
	Immediate = Mode(syscall.SIGQUIT)
)

// Stop stops the server and keeps its data, port and socket directory for StartAgain.
func (s *Server) Stop(mode Mode) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.cmd.Process.Signal(syscall.Signal(mode)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !s.process.wait(startTimeout) {
		return fmt.Errorf("PostgreSQL has not stopped in %v:\n%s", startTimeout, tail(s.Log(), 20))
	}
	s.process = nil
	return nil
}

// StartAgain starts a stopped server on the same port and returns when it accepts connections.
func (s *Server) StartAgain() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// A crashed server's file would be read as the new one's until it is overwritten.
	_ = os.Remove(s.pidFile())
	cmd := s.command("postgres", "-D", s.data(), "-p", fmt.Sprint(s.Port))
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = start(cmd); err != nil {
		return err
	}
	if err := s.awaitReady(); err != nil {
		s.process.kill()
		s.process = nil
		return err
	}
	return nil
}

// Restart is Stop and StartAgain.
func (s *Server) Restart(mode Mode) error {
	if err := s.Stop(mode); err != nil {
		return err
	}
	return s.StartAgain()
}

// awaitReady polls the status line of postmaster.pid, as pg_ctl does.
func (s *Server) awaitReady() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		lines := strings.Split(readFile(s.pidFile()), "\n")
		if len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-s.process.ended:
			return fmt.Errorf("PostgreSQL ended at start:\n%s", tail(s.Log(), 10))
		case <-deadline:
			return fmt.Errorf("PostgreSQL was not ready in %v:\n%s", startTimeout, tail(s.Log(), 10))
		case <-tick.C:
		}
	}
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) pidFile() string { return filepath.Join(s.data(), "postmaster.pid") }

// command prepares one of PostgreSQL's programs, run by the server's owner in a session of its own, so that a Ctrl-C
// meant for the test does not reach the server before the test has ended.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.Bin, program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	if lib := os.Getenv("LD_LIBRARY_PATH"); lib != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+lib)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.owner.credential}
	return cmd
}

func (s *Server) appendFile(name string, lines []string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), name), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
