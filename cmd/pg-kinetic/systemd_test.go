package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine"
)

// notices is a service manager's end of NOTIFY_SOCKET.
type notices struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newNotices(t *testing.T) *notices {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &notices{t, conn, path}
}

// next is the next message that is no ping of the watchdog, or if ping is set, the next that is.
func (n *notices) next(ping bool) string {
	n.t.Helper()
	message := make([]byte, 4096)
	if err := n.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		n.t.Fatal(err)
	}
	for {
		size, err := n.conn.Read(message)
		if err != nil {
			n.t.Fatal(err)
		}
		if text := string(message[:size]); (text == "WATCHDOG=1") == ping {
			return text
		}
	}
}

func (n *notices) expect(what string, want ...string) {
	n.t.Helper()
	got := n.next(false)
	for _, text := range want {
		if !strings.Contains(got, text) {
			n.t.Errorf("%s: the service manager was told %q, want %q", what, got, text)
		}
	}
}

func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	n := newNotices(t)
	r := serving(t, func(_ *running, cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+n.path, "WATCHDOG_USEC=200000")
	})
	serves := fmt.Sprintf("STATUS=Serving clients on 127.0.0.1:%d", r.port)
	n.expect("start", "READY=1\n"+serves)
	n.next(true)
	r.reload(reloaded, 1)
	n.expect("reload", "RELOADING=1\nMONOTONIC_USEC=")
	n.expect("end of the reload", "READY=1\n"+serves)
	r.write("pg-kinetic.yaml", "serevr: {}\n")
	r.reload(notReloaded, 1)
	n.expect("another reload", "RELOADING=1")
	n.expect("a reload that fails", "READY=1\n"+serves, `; not reloaded: `+r.config+`:1:1: unknown section "serevr"`)
	r.stop(exitOK)
	n.expect("the end", "STOPPING=1")
}

// The watchdog is fed as long as the loops turn, and no longer.
func TestWatchdog(t *testing.T) {
	n := newNotices(t)
	t.Setenv("NOTIFY_SOCKET", n.path)
	t.Setenv("WATCHDOG_USEC", "20000")
	cfg, _, problems := configs.Load("", nil, []string{"--server.listen=127.0.0.1:0", trust})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := engine.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	m := &manager{log: slog.New(slog.NewTextHandler(&log, nil)), engine: e}
	done, ended := make(chan struct{}), make(chan struct{})
	watch := func() {
		defer close(ended)
		m.watchdog(done)
	}
	e.Start()
	go watch()
	n.next(true)
	n.next(true)
	close(done)
	<-ended
	if log.Len() > 0 {
		t.Errorf("the log of loops that turn:\n%s", log.String())
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for n.conn.SetReadDeadline(time.Now()) == nil { // what is left
		if _, err := n.conn.Read(make([]byte, 16)); err != nil {
			break
		}
	}
	done, ended = make(chan struct{}), make(chan struct{})
	go watch()
	time.AfterFunc(100*time.Millisecond, func() { close(done) }) // five of its limits
	<-ended
	if got := strings.Count(log.String(), "event loop 0 has ended"); got != 1 {
		t.Errorf("%d lines about loops that have ended:\n%s", got, log.String())
	}
	if err := n.conn.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if size, err := n.conn.Read(make([]byte, 16)); err == nil {
		t.Errorf("%d bytes told though no loop turns", size)
	}
}

// A service manager that does not read keeps nobody waiting for ever.
func TestManagerThatDoesNotRead(t *testing.T) {
	n := newNotices(t)
	t.Setenv("NOTIFY_SOCKET", n.path)
	var log bytes.Buffer
	m := &manager{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 1000 { // the kernel's queue of datagrams is much shorter
		if m.tell("STATUS=x"); log.Len() > 0 {
			break
		}
	}
	m.stopping()
	if got := strings.Count(log.String(), "cannot tell the service manager"); got != 1 || !strings.Contains(log.String(), "timeout") {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
}

// A wrong number of passed sockets is told.
func TestPassedSocketsWrongNumber(t *testing.T) {
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	for _, number := range []string{"", "-1", "x", "1001", "100000000"} {
		t.Setenv("LISTEN_FDS", number)
		if got, err := passedSockets(); err == nil || !strings.Contains(err.Error(), "LISTEN_FDS") {
			t.Errorf("%q: %v, %v", number, got, err)
		}
	}
	t.Setenv("LISTEN_PID", "1") // of somebody else
	if got, err := passedSockets(); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Sockets of a socket unit: clients that come before the process get in, and the Unix socket's file stays behind.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var address, path string
	r := serving(t, func(r *running, cmd *exec.Cmd) {
		address = fmt.Sprintf("127.0.0.1:%d", r.port)
		path = filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(r.port))
		for _, at := range [][2]string{{"tcp", address}, {"unix", path}} {
			ln, err := net.Listen(at[0], at[1])
			if err != nil {
				t.Fatal(err)
			}
			if u, ok := ln.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false)
			}
			file, err := ln.(interface{ File() (*os.File, error) }).File()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ln.Close(); _ = file.Close() })
			cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		}
		// The variable names the process, whose number only a shell knows before it is there.
		cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Path = "/bin/sh"
		cmd.Env = append(cmd.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES=tcp:unix")
	})
	r.enter("first")
	if got := strings.Count(r.Log(), "msg=listening"); got != 2 {
		t.Errorf("%d listeners:\n%s", got, r.Log())
	}
	local, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if _, err := local.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil { // SSLRequest
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if err := local.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Read(answer); err != nil || answer[0] != 'N' && answer[0] != 'S' {
		t.Errorf("the Unix socket answers %q, %v", answer, err)
	}
	r.stop(exitOK)
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("the passed socket's file after the end: %v", err)
	}
}
