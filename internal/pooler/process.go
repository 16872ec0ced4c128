package pooler

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a program in front of PostgreSQL, in a session of its own: a Ctrl-C is for us, who stop it in order, and Linux
// may share the CPU between sessions (sched_autogroup), so that programs which are compared each need one.
//
// Owner: who launched it. Invariant: ended is closed once the process has been waited for; before, its number is its own.
type Process struct {
	cmd     *exec.Cmd
	ended   chan struct{}
	logPath string
	pidPath string
}

// startTimeout bounds the time until a program listens.
const startTimeout = 30 * time.Second

// Launch starts the command and returns when ready says so. What it prints goes to base.log; its number stands in base.pid,
// so that the watchdog of base's directory ends it when our process is killed. The error holds the end of its log; then the
// process has ended.
func Launch(cmd *exec.Cmd, base string, ready func() bool) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{}), logPath: base + ".log", pidPath: base + ".pid"}
	log, err := os.Create(p.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // End reads the exit status from ProcessState
		close(p.ended)
	}()
	if err := os.WriteFile(p.pidPath, fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		p.Kill()
		return nil, err
	}
	return p, p.await(ready)
}

func (p *Process) await(ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended at start (%v):\n%s", p.name(), p.cmd.ProcessState, p.LogTail(20))
		case <-deadline:
			p.Kill()
			return fmt.Errorf("%s does not listen:\n%s", p.name(), p.LogTail(20))
		case <-tick.C:
		}
	}
	return nil
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// PID is the process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// ExitCode waits for the end of the process.
func (p *Process) ExitCode(limit time.Duration) (int, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s has not ended within %v", p.name(), limit)
	}
}

// Kill ends the process by force.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = os.Remove(p.pidPath)
}

// End ends the process in order (a drain, and after ten seconds an immediate end) and tells whether it still ran.
func (p *Process) End() (ran bool) {
	defer os.Remove(p.pidPath)
	select {
	case <-p.ended:
		return false
	default:
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig)
		select {
		case <-p.ended:
			return true
		case <-time.After(10 * time.Second):
		}
	}
	<-p.ended
	return true
}

// Log is everything that the process has printed.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail is the last lines of the log; nothing where there is no process.
func (p *Process) LogTail(lines int) string {
	if p == nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
