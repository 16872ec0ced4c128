package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// State: a listener that hands out connections as long as there is room. Owner: any
// goroutine; mu has open. Invariants: room holds one token per connection that is
// handed out; who finds none takes the place of the connection that has rested for the
// longest, and waits while all are being answered. One that waits so is accepted, the
// others are in the kernel's queue.

type listener struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	close  func() error

	mu   sync.Mutex
	open map[*conn]struct{}
}

// listen opens an address; beside is a listener of ours that may have its port, and
// leaves soon, or nil.
func listen(addr string, connections int, beside *listener) (*listener, error) {
	inner, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) && beside != nil {
		inner, err = beside.share(addr)
	}
	if err != nil {
		return nil, listenError(addr, err)
	}
	l := &listener{Listener: inner, room: make(chan struct{}, connections), closed: make(chan struct{}), open: map[*conn]struct{}{}}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		return inner.Close()
	})
	return l, nil
}

// share opens an address that l's forbids, since it is a wider or a narrower one with
// the same port. Sockets of the same user may stand beside each other while all of
// them allow it; these do for this moment only.
func (l *listener) share(addr string) (net.Listener, error) {
	ours := l.Listener.(*net.TCPListener)
	raw, err := ours.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := setReusePort(raw, 1); err != nil {
		return nil, err
	}
	defer func() { _ = setReusePort(raw, 0) }() // of a socket that has just taken it
	with := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setReusePort(c, 1) }}
	next, err := with.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	if raw, err = next.(*net.TCPListener).SyscallConn(); err == nil {
		err = setReusePort(raw, 0)
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}

func setReusePort(c syscall.RawConn, value int) error {
	var err error
	if failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, value) }); failed != nil {
		return failed
	}
	return os.NewSyscallError("setsockopt", err)
}

// listenError names the setting, the address and the remedy.
func listenError(addr string, err error) error {
	remedy := `choose another address, or "" for none`
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another process has that port, perhaps another pg-kinetic: " + remedy
	case errors.Is(err, syscall.EACCES):
		remedy = "this user may not use that port: " + remedy
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the address, which the text has
	}
	return fmt.Errorf("admin.listen: cannot listen on %s: %w; %s", addr, err, remedy)
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: accepted.(*net.TCPConn), listener: l, restsSince: time.Now()}
	select {
	case l.room <- struct{}{}:
	default:
		l.displace()
		select {
		case l.room <- struct{}{}:
		case <-l.closed:
			_ = c.TCPConn.Close()
			return nil, net.ErrClosed
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c, nil
}

// displace closes the connection that has rested for the longest: a peer that keeps
// many, or sends no whole request, must not keep away whoever asks whether the process
// lives.
func (l *listener) displace() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest *conn
	for c := range l.open {
		if !c.restsSince.IsZero() && (oldest == nil || c.restsSince.Before(oldest.restsSince)) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.forget()
		_ = oldest.TCPConn.Close() // its owner finds it closed
	}
}

func (l *listener) Close() error { return l.close() }

// conn is one connection; it embeds a TCPConn so that net/http sees what it can do.
type conn struct {
	*net.TCPConn
	listener   *listener
	restsSince time.Time // no request of it is being answered; under the listener's mu. Zero: one is
}

// answers tells that a request has come whole; rests, that it has been answered.
func (c *conn) answers() { c.rest(time.Time{}) }
func (c *conn) rests()   { c.rest(time.Now()) }

func (c *conn) rest(since time.Time) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.restsSince = since
}

// forget gives c's place back, once. The listener's mu is held.
func (c *conn) forget() {
	if _, there := c.listener.open[c]; there {
		delete(c.listener.open, c)
		<-c.listener.room
	}
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.forget()
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

// warnOfStrangers tells that an address is open to more than this machine.
func warnOfStrangers(at net.Addr, log *slog.Logger) {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	log.Warn("admin.listen is open to other machines, and nobody has to log in: it shows names of databases, users and "+
		"applications, and clients' addresses; let a firewall or a reverse proxy keep others away", "address", at.String())
}
