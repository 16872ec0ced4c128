package load

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgmock"
)

func serving(t *testing.T) *pgmock.Server {
	t.Helper()
	return pgmock.Start(t, pgmock.Login(), pgmock.Serve("1"))
}

func TestIdleClientsStay(t *testing.T) {
	mock := serving(t)
	i, err := NewIdle(mocked(mock), "idle", "select 1")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for _, n := range []int{3, 50, 20} {
		if err := i.Grow(context.Background(), n); err != nil {
			t.Fatal(err)
		}
		want := max(n, mock.Logins())
		if got, err := i.Alive(); got != want || err != nil {
			t.Errorf("%d of %d clients are there, %v", got, want, err)
		}
	}
	if mock.Logins() != 50 {
		t.Errorf("%d clients came for 50", mock.Logins())
	}
	mock.Down()
	for deadline := time.Now().Add(Silence); ; {
		got, err := i.Alive()
		if got == 0 && err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d clients are left without a server, %v", got, err)
		}
	}
	if err := i.Grow(context.Background(), 51); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
}

func TestIdleClientsSeeErrors(t *testing.T) {
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(other, ready), pgmock.Hang())
	i, err := NewIdle(mocked(mock), "idle", "select 1")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if err := i.Grow(context.Background(), 1); err == nil || err.Error() != "the first query of a session: ERROR 42P01: no such table" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := i.Grow(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestSourceAddresses: after so many connections that the ports of one address run short, the next ones come from another.
func TestSourceAddresses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	end, err := Server{Network: "tcp", Address: ln.Addr().String()}.endpoint("")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]byte{0: 1, perSource - 1: 1, perSource: 2, 250 * perSource: 251} {
		fd, err := end.socket(n)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, end.address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		if got := name.(*unix.SockaddrInet4).Addr; got != [4]byte{127, 0, 0, want} {
			t.Errorf("connection %d comes from %v", n, got)
		}
	}
	if _, err := end.socket(251 * perSource); err == nil {
		t.Error("more addresses than there are")
	}
}

// TestUnixSocketWithAFullBacklog: connect to a Unix socket does not wait for the server to accept, it fails.
func TestUnixSocketWithAFullBacklog(t *testing.T) {
	ln, path := shortBacklog(t)
	end, err := Server{Network: "unix", Address: path, User: "u", Database: "d"}.endpoint("")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	e := &entry{loop: l}
	for range 10 {
		e.under++
		if err := l.connect(&conn{end: end}, e); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.retry) == 0 {
		t.Fatal("ten connections fit into a backlog of none")
	}
	go acceptAll(ln)
	for e.under > 0 {
		if err := l.turn(int64(poll), e.under, e); err != nil {
			t.Fatal(err)
		}
	}
}

func shortBacklog(t *testing.T) (ln net.Listener, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	if ln, err = net.FileListener(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln, path
}

// acceptAll lets everybody in who says something.
func acceptAll(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1024)); err != nil {
			return
		}
		if _, err := c.Write(slices.Concat(pgmock.AuthenticationOk(), ready)); err != nil {
			return
		}
	}
}
