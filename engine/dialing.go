package engine

// Connections to PostgreSQL of goroutines that may block: listeners, look-ups of
// users. Where, how encrypted and as whom is what it is for the pools' backends.

import (
	"context"
	"net"
	"syscall"

	"pgkinetic/backend"
	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/tlsconfig"
)

// dialing is for connections to h that are logged in as login says.
func (e *Engine) dialing(x *security, h *host, login backend.LoginConfig) dial.Config {
	return dial.Config{
		Host: h.target, Connect: func(ctx context.Context) (net.Conn, error) { return h.connect(ctx, e.backendSockets()) }, Mode: x.tls.ServerMode(), TLS: x.tls.Server(h.target), EndPoint: tlsconfig.EndPoint,
		Login: login, Compute: e.compute,
	}
}

// dialControl sets the options of connections to PostgreSQL that a Dialer opens.
func dialControl(o reactor.DialOptions) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) (err error) {
		if network == "unix" {
			return nil
		}
		if failed := c.Control(func(fd uintptr) { err = o.Set(int(fd)) }); failed != nil {
			return failed
		}
		return err
	}
}

// compute does the CPU work of a login within the bound of all.
func (e *Engine) compute(ctx context.Context, work func()) error {
	token, err := e.helpers.Acquire(ctx)
	if err != nil {
		return err
	}
	defer e.helpers.Release(token)
	work()
	return nil
}
