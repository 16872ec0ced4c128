package engine

// A host is one PostgreSQL server, shared by all pools that point to it: its
// admission limit, its failure memory, its bound on cancels, its address
// (names.go).
//
// Any worker may use a host: its fields are atomics or fixed.

import (
	"net/netip"
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
	watched       atomic.Int64 // when it was last looked at while no pool's own attempts did
	lastLog       atomic.Int64 // when a failure was last logged
	silentAt      atomic.Int64 // when a server did not answer server_check_query; 0: never
	address       atomic.Pointer[resolved]
	listening     chan struct{} // a place per login of a listener that is under way
	fixed         bool          // the address needs no look-up
	names         *nameService  // else what looks it up
	look          lookupRun
}

func newHost(t configs.Host, adm *admission.Host, n *nameService) *host {
	h := &host{name: t.String(), target: t, adm: adm, names: n, listening: make(chan struct{}, listenerLogins)}
	if t.Network == "unix" {
		h.fixed = true
	} else if ap, err := netip.ParseAddrPort(t.Address); err == nil && ap.IsValid() {
		h.fixed = true
	}
	return h
}

// down tells whether h does not answer, as far as anybody knows. As long as a pool
// uses it, it is tried every few seconds; what was found out before that is not
// known any more. Else a process without clients would not be ready for ever.
func (h *host) down(now int64, cfg *configs.Config) bool {
	return h.state.FailedLately(now, max(hostMemory, 3*int64(cfg.Capacity.ConnectTimeoutMs)*ms))
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
