package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"pgkinetic/engine"
)

// manager tells the service manager (systemd, or whoever else listens on NOTIFY_SOCKET) how the process fares; where there is
// none it does nothing. Any goroutine but a loop's.
type manager struct {
	log     *slog.Logger
	engine  *engine.Engine
	failing sync.Once
}

// tellWithin bounds how long a message waits for a manager that does not read: whoever tells it has clients to see to.
const tellWithin = time.Second

// tell sends a message of sd_notify(3).
func (m *manager) tell(assignments ...string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := notify(path, strings.Join(assignments, "\n")); err != nil {
		m.failing.Do(func() { m.log.Warn("cannot tell the service manager", "error", err) })
	}
}

func notify(path, message string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(tellWithin)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(message))
	return err
}

// ready: clients are served. err is why settings were not read anew, if that was tried.
func (m *manager) ready(err error) {
	var addresses []string
	for _, l := range m.engine.Listeners() {
		addresses = append(addresses, l.Address)
	}
	status := "STATUS=Serving clients on " + strings.Join(addresses, ", ")
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		status += "; not reloaded: " + first
	}
	m.tell(daemon.SdNotifyReady, status)
}

// reloading lasts until ready.
func (m *manager) reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // always there
	m.tell(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS=Reading the settings")
}

func (m *manager) stopping() { m.tell(daemon.SdNotifyStopping, "STATUS=Draining") }

// watchdog keeps the manager from restarting the process as long as the loops turn; it ends when done is closed, or at once
// if the manager does not ask for it.
func (m *manager) watchdog(done <-chan struct{}) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Warn("no watchdog", "error", err)
	}
	if err != nil || limit == 0 {
		return
	}
	stuck := false
	for pause(max(limit/2, time.Millisecond), done) {
		err := m.engine.Alive()
		if err == nil {
			m.tell(daemon.SdNotifyWatchdog)
		} else if !stuck {
			m.log.Error("the service manager's watchdog is not told that all is well", "error", err)
		}
		stuck = err != nil
	}
}

// passedMost is more sockets than a unit has; a number above it, or none, is a mistake of whoever has set LISTEN_FDS.
const passedMost = 1000

// passedSockets gives the listening sockets of a socket unit. They belong to the caller.
func passedSockets() (descriptors []int, err error) {
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) {
		text := os.Getenv("LISTEN_FDS")
		if n, err := strconv.Atoi(text); err != nil || n < 0 || n > passedMost {
			return nil, fmt.Errorf("LISTEN_FDS is %q: it tells how many sockets are passed, from 0 to %d", text, passedMost)
		}
	}
	for _, file := range activation.Files(true) {
		fd, e := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the file closes its own
		if e != nil {
			err = fmt.Errorf("cannot take over the socket %s that was passed: %w", file.Name(), e)
		} else {
			descriptors = append(descriptors, fd)
		}
		_ = file.Close()
	}
	return descriptors, err
}
