package engine

// Connections to PostgreSQL of goroutines that may block: listeners, look-ups of
// users. Where, how encrypted and as whom is what it is for the pools' backends.

import (
	"context"
	"net"
	"time"

	"pgkinetic/backend"
	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/tlsconfig"
)

// dialing is for connections to h that are logged in as login says.
func (e *Engine) dialing(x *security, h *host, login backend.LoginConfig) dial.Config {
	return dial.Config{
		Host: h.target, Connect: h.connect, Mode: x.tls.ServerMode(), TLS: x.tls.Server(h.target), EndPoint: tlsconfig.EndPoint,
		Login: login, Compute: e.compute,
	}
}

// connect dials the host's address, which is looked up if it is a name.
func (h *host) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: time.Duration(backendSockets.KeepaliveMs) * time.Millisecond,
	}}
	if h.fixed {
		return d.DialContext(ctx, h.target.Network, h.target.Address)
	}
	r := h.address.Load()
	if r == nil || reactor.Now()-r.at >= dnsTTL {
		addrs, err := lookupHost(ctx, h.target.Address)
		if err != nil {
			return nil, err
		}
		r = h.learn(addrs, reactor.Now())
	}
	address := r.address()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		r.failed(address)
	}
	return conn, err
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
