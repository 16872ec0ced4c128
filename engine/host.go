package engine

// A host is one PostgreSQL server, shared by all pools that point to it: its
// admission limit, its failure memory, its bound on cancels, its address.
//
// Any worker may use a host: its fields are atomics or fixed.

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
)

// backendSockets are the options of connections to PostgreSQL that are opened now.
func (e *Engine) backendSockets() reactor.DialOptions {
	r := &e.settings.Load().cfg.Reaper
	return reactor.DialOptions{KeepaliveMs: r.BackendTCPKeepaliveMs, UserTimeoutMs: r.BackendTCPUserTimeoutMs}
}

type host struct {
	name          string
	target        configs.Host
	adm           *admission.Host
	state         backend.HostState
	cancels       atomic.Int32 // cancel connections open
	cancelsQueued atomic.Int32
	lastLog       atomic.Int64 // when a failure was last logged
	silentAt      atomic.Int64 // when a server did not answer server_check_query; 0: never
	address       atomic.Pointer[resolved]
	listening     chan struct{} // a place per login of a listener that is under way
	fixed         bool          // the address needs no look-up
}

// resolved is the outcome of one name look-up.
type resolved struct {
	addrs []string // ip:port, at least one
	next  atomic.Int32
	at    int64
}

// address is the one to try: the first, or the one behind those that failed.
func (r *resolved) address() string { return r.addrs[int(r.next.Load())%len(r.addrs)] }

// forgetAddress lets the next connect look the name up.
func (h *host) forgetAddress() {
	if r := h.address.Load(); r != nil {
		old := &resolved{addrs: r.addrs, at: reactor.Now() - dnsTTL}
		old.next.Store(r.next.Load())
		h.address.CompareAndSwap(r, old)
	}
}

// failed: addr did not answer, so the next one is tried.
func (r *resolved) failed(addr string) {
	if n := r.next.Load(); r.addrs[int(n)%len(r.addrs)] == addr {
		r.next.CompareAndSwap(n, (n+1)%int32(len(r.addrs)))
	}
}

// dnsTTL is how long a looked-up address serves new connects.
const dnsTTL = int64(30 * time.Second)

func newHost(t configs.Host, adm *admission.Host) *host {
	h := &host{name: t.String(), target: t, adm: adm, listening: make(chan struct{}, listenerLogins)}
	if t.Network == "unix" {
		h.fixed = true
	} else if ap, err := netip.ParseAddrPort(t.Address); err == nil && ap.IsValid() {
		h.fixed = true
	}
	return h
}

// resolve finds the address for s and calls s.dial, at once or after a look-up
// on a goroutine of its own.
func (h *host) resolve(s *server) {
	if h.fixed {
		s.dial(h.target.Network, h.target.Address)
		return
	}
	if r := h.address.Load(); r != nil && s.w.now()-r.at < dnsTTL {
		s.peer = r.address()
		s.dial("tcp", s.peer)
		return
	}
	look := &nameLookup{srv: s}
	look.msg.Kind, look.msg.Ref = msgResolved, look
	w := s.w
	timeout := time.Duration(s.pool.limits.Load().ConnectTimeoutMs) * time.Millisecond
	go func() { // waits for bytes, so it takes no helper's token
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		look.addrs, look.err = lookupHost(ctx, h.target.Address)
		w.loop.Post(&look.msg)
	}()
}

// nameLookup carries the answer of a name look-up to the loop that asked.
type nameLookup struct {
	msg   reactor.Message
	srv   *server
	addrs []string
	err   error
}

func (l *nameLookup) arrived() {
	s := l.srv
	if s.state != serverConnecting {
		return
	}
	if l.err != nil {
		s.openFailed(reasonConnectFailed, connectError(s.basis.host, l.err))
		return
	}
	r := s.basis.host.learn(l.addrs, s.w.now())
	s.peer = r.address()
	s.dial("tcp", s.peer)
}

// learn keeps what a look-up has found, an answer without error. It goes on with
// the address that answers now, as long as that is among them.
func (h *host) learn(addrs []string, now int64) *resolved {
	r := &resolved{addrs: addrs, at: now}
	if old := h.address.Load(); old != nil {
		if i := slices.Index(addrs, old.address()); i > 0 {
			r.next.Store(int32(i))
		}
	}
	h.address.Store(r)
	return r
}

// lookupHost gives all addresses of a name, each with the port.
func lookupHost(ctx context.Context, hostport string) ([]string, error) {
	name, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, name)
	for i := range addrs {
		addrs[i] = net.JoinHostPort(addrs[i], port)
	}
	return addrs, err
}

// dialAgain opens a further connection to where s is connected (a cancel).
func (h *host) dialAgain(s *server) (fd int, unixDomain bool, err error) {
	network, address := h.target.Network, h.target.Address
	if !h.fixed {
		address = s.peer
	}
	fd, _, err = s.w.eng.backendSockets().Dial(network, address)
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
