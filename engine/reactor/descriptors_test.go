package reactor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The limit of open files belongs to a process, so the server of this test is a
// process of its own: the test binary, started again with childEnv set. Its
// clients live in the parent and do not count against the limit.
const (
	childEnv   = "PGKINETIC_TEST_FEW_DESCRIPTORS"
	childSpare = 20 // descriptors that the child may open beside those it starts with
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := fewDescriptorsServer(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fewDescriptorsServer echoes until its standard input ends. It prints its
// address, and "stall" and the error each time accepting pauses.
func fewDescriptorsServer() error {
	l, err := NewLoop(0, LoopOptions{OnMessage: onCall})
	if err != nil {
		return err
	}
	go func() { _ = l.Run() }()
	a, err := Listen(AcceptorOptions{
		Addresses: []string{"127.0.0.1:0"}, Loops: []*Loop{l}, OnAccept: echoClient,
		OnStall: func(err error) { fmt.Println("stall", err) },
	})
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: uint64(len(entries) + childSpare), Max: uint64(len(entries) + childSpare)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	start := Now()
	a.Start()
	fmt.Println(a.Listeners()[0].Address)
	_, _ = io.Copy(io.Discard, os.Stdin)
	a.Close()
	most := uint64(Now()-start)/stallNanos + 1
	fmt.Println("paused", a.AcceptPaused() > 0, "spun", a.AcceptPaused() > most, "refused", a.Refused() > 0)
	return nil
}

type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
}

func startChild(t *testing.T) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	return c
}

// TestOutOfDescriptors: accepting pauses instead of spinning or ending, the
// clients that are connected are served on, one that cannot be accepted is
// turned away, and when descriptors are free again new clients get in.
func TestOutOfDescriptors(t *testing.T) {
	c := startChild(t)
	address := await(t, c.lines, "the child's address")
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		return conn
	}
	var conns []net.Conn
	served := dial()
	ping(t, served)
	for range 3 * childSpare {
		conns = append(conns, dial())
	}
	if line := await(t, c.lines, "a pause"); !strings.HasPrefix(line, "stall") || !strings.Contains(line, "too many open files") {
		t.Fatalf("the child says %q", line)
	}
	ping(t, served) // the loops go on
	turnedAway(t, conns)
	for _, conn := range conns {
		_ = conn.Close()
	}
	late := dial() // waits in the backlog until the pause ends
	ping(t, late)
	ping(t, served)
	_ = late.Close()
	_ = served.Close()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range c.lines {
		last = line
	}
	if last != "paused true spun false refused true" {
		t.Errorf("the child's last word is %q", last)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// turnedAway returns when one of the connections was closed by the server.
func turnedAway(t *testing.T, conns []net.Conn) {
	t.Helper()
	ended := make(chan struct{}, len(conns))
	for _, conn := range conns {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
				ended <- struct{}{}
			}
		}()
	}
	await(t, ended, "a client to be turned away")
}

func TestErrorsOfOneClientAreIgnored(t *testing.T) {
	for _, err := range []error{unix.ECONNABORTED, unix.EINTR, unix.EPROTO, unix.EPERM} {
		if !ofOneClient(err) {
			t.Errorf("%v pauses accepting", err)
		}
	}
	for _, err := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EINVAL} {
		if ofOneClient(err) {
			t.Errorf("%v does not pause accepting", err)
		}
	}
}
