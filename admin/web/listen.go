package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
)

// State: a listener that hands out connections as long as there is room.
// Owner: any goroutine. Invariants: room holds one token per connection that is open;
// who finds none waits in the kernel's queue.

type listener struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	close  func() error
}

func listen(addr string, connections int) (*listener, error) {
	inner, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError(addr, err)
	}
	l := &listener{Listener: inner, room: make(chan struct{}, connections), closed: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		return inner.Close()
	})
	return l, nil
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
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &conn{TCPConn: c.(*net.TCPConn), leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *listener) Close() error { return l.close() }

// conn is one connection; it embeds a TCPConn so that net/http sees what it can do.
type conn struct {
	*net.TCPConn
	leave func()
}

func (c *conn) Close() error {
	c.leave()
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
