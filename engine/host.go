package engine

// A host is one PostgreSQL server, shared by all pools that point to it: its
// admission limit, its failure memory, its bound on cancels, its address.
//
// Any worker may use a host: its fields are atomics or fixed.

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// backendSockets are the options of connections to PostgreSQL.
var backendSockets = reactor.DialOptions{KeepaliveMs: 60000}

type host struct {
	name          string
	target        configs.Host
	adm           *admission.Host
	state         backend.HostState
	cancels       atomic.Int32 // cancel connections open
	cancelsQueued atomic.Int32
	lastLog       atomic.Int64 // when a failure was last logged
	address       atomic.Pointer[resolved]
	fixed         bool // the address needs no look-up
}

// resolved is the outcome of one name look-up.
type resolved struct {
	addr string // ip:port
	at   int64
}

// dnsTTL is how long a looked-up address serves new connects.
const dnsTTL = int64(30 * time.Second)

func newHost(t configs.Host, adm *admission.Host) *host {
	h := &host{name: t.String(), target: t, adm: adm}
	if t.Network == "unix" {
		h.fixed = true
	} else if ap, err := netip.ParseAddrPort(t.Address); err == nil && ap.IsValid() {
		h.fixed = true
	}
	return h
}

// resolve finds the address for s and calls s.dial, at once or after a look-up
// on a helper.
func (h *host) resolve(s *server) {
	if h.fixed {
		s.dial(h.target.Network, h.target.Address)
		return
	}
	if r := h.address.Load(); r != nil && s.w.now()-r.at < dnsTTL {
		s.peer = r.addr
		s.dial("tcp", r.addr)
		return
	}
	look := &lookup{srv: s}
	look.msg.Kind, look.msg.Ref = msgResolved, look
	w := s.w
	timeout := time.Duration(s.pool.limits.ConnectTimeoutMs) * time.Millisecond
	go func() { // waits for bytes, so it takes no helper's token
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		look.addr, look.err = lookupHost(ctx, h.target.Address)
		w.loop.Post(&look.msg)
	}()
}

// lookup carries the answer of a name look-up to the loop that asked.
type lookup struct {
	msg  reactor.Message
	srv  *server
	addr string
	err  error
}

func (l *lookup) arrived() {
	s := l.srv
	if s.state != serverConnecting {
		return
	}
	if l.err != nil {
		s.openFailed(reasonConnectFailed, connectError(s.pool.host, l.err))
		return
	}
	s.pool.host.address.Store(&resolved{addr: l.addr, at: s.w.now()})
	s.peer = l.addr
	s.dial("tcp", l.addr)
}

func lookupHost(ctx context.Context, hostport string) (string, error) {
	name, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", err
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(addrs[0], port), nil
}

// dialAgain opens a further connection to where s is connected (a cancel).
func (h *host) dialAgain(s *server) (fd int, unixDomain bool, err error) {
	network, address := h.target.Network, h.target.Address
	if !h.fixed {
		address = s.peer
	}
	fd, _, err = backendSockets.Dial(network, address)
	return fd, network == "unix", err
}

// takeCancel takes one of the host's places for cancel connections.
func (h *host) takeCancel() bool {
	if h.cancels.Add(1) > cancelsPerHost {
		h.cancels.Add(-1)
		return false
	}
	return true
}

// failureLogEvery bounds the log lines about a host that does not answer.
const failureLogEvery = int64(time.Second)

func (h *host) logFailure(w *worker, s *server, r closeReason, cause error) {
	now := w.now()
	last := h.lastLog.Load()
	if now-last < failureLogEvery || !h.lastLog.CompareAndSwap(last, now) {
		return
	}
	w.log.Error("cannot open a server connection", "host", h.name, "database", s.pool.key.database,
		"user", s.pool.key.user, "cause", r.String(), "error", cause.Error())
}
