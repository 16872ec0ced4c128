package engine

// The addresses of hosts that are given by name: looked up off the loops, again when
// an answer's time is over, and what becomes of servers at addresses that are gone.
//
// State: host.address, the last good answer. Owner: it is replaced by the look-up
// under way, of which there is one per host at a time, or marked by any goroutine;
// host.names.mu guards who waits for it.
//
// Invariants:
//   - an answer is only replaced by another one: where a look-up fails the last good
//     answer holds on, so name servers that are down take nothing away;
//   - nobody waits for a look-up for longer than lookupWait if there is an older
//     answer, nor at all once look-ups have begun to fail.

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/resolve"
)

const (
	// lookupTime is what a look-up may take.
	lookupTime = 5 * time.Second
	// lookupWait is how long a connect waits for it that could go to the last known address.
	lookupWait = 1000 * ms
	// lookupRetry is the pause after a failed look-up of a name whose last answer is at hand.
	lookupRetry = 5000 * ms
	// lookupLeast is the least time between two look-ups of a name, whatever its TTL.
	lookupLeast = 1000 * ms
)

// nameService is what looks names up.
type nameService struct {
	resolver resolve.Resolver
	settings func() *configs.Reaper
	log      *slog.Logger
	changed  func(*host) // the addresses of a host are others now
	work     *background
	found    atomic.Uint64 // look-ups with an answer
	failed   atomic.Uint64 // and without
}

// WithNameServer has all names looked up at one name server, host:port, in place of
// those of the system.
func WithNameServer(address string) Option {
	return func(e *Engine) { e.names.resolver.Server = address }
}

func newNameService(e *Engine) *nameService {
	return &nameService{
		settings: func() *configs.Reaper { return &e.settings.Load().cfg.Reaper }, log: e.log,
		changed: e.addressesChanged, work: e.background,
	}
}

// resolved is the outcome of a look-up.
type resolved struct {
	addrs  []string     // ip:port, at least one
	next   atomic.Int32 // the one to try
	missed atomic.Int32 // of how many in a row an attempt came to nothing
	round  atomic.Int64 // when that was last so of all
	at     int64        // when it was heard
	until  atomic.Int64 // when it is to be looked up again
	stale  bool         // the latest look-up has failed: this is what was heard before
}

// address is the one to try: the first, or the one behind those that failed.
func (r *resolved) address() string { return r.addrs[int(r.next.Load())%len(r.addrs)] }

// failed: an attempt at addr, begun at a time, came to nothing, so the next address is
// tried. left tells whether there is one that has not been tried meanwhile.
func (r *resolved) failed(addr string, began, now int64) (left bool) {
	all := int32(len(r.addrs))
	n := r.next.Load()
	if r.addrs[int(n)%len(r.addrs)] != addr || !r.next.CompareAndSwap(n, (n+1)%all) {
		return r.round.Load() < began // another attempt has found out
	}
	if r.missed.Add(1) < all {
		return true
	}
	r.missed.Store(0)
	r.round.Store(now)
	return false
}

// served: an attempt at the present address has succeeded.
func (r *resolved) served() {
	if r.missed.Load() != 0 {
		r.missed.Store(0)
	}
}

// missedAt: an attempt at addr, begun at a time, came to nothing. left tells whether the
// host has another address that is to be tried before it counts as failing; if not, its
// name is looked up before the next attempt.
func (h *host) missedAt(addr string, began, now int64) (left bool) {
	r := h.address.Load()
	if r == nil {
		return false
	}
	if left = r.failed(addr, began, now); !left && now-r.at >= lookupLeast {
		r.until.Store(min(r.until.Load(), now))
	}
	return left
}

// forgetAddress lets the next connect look the name up.
func (h *host) forgetAddress() {
	if r := h.address.Load(); r != nil {
		r.until.Store(0)
	}
}

// known gives the answer that a connect may use without waiting; nil: it has to ask.
func (h *host) known(now int64) *resolved {
	r := h.address.Load()
	switch {
	case r == nil:
		return nil
	case now < r.until.Load():
		return r
	case r.stale:
		h.lookUp(nil)
		return r
	}
	return nil
}

// lookupRun is a look-up under way, and who waits for it.
type lookupRun struct {
	mu      sync.Mutex
	running bool
	told    []func(r *resolved, err error)
}

func (l *lookupRun) underWay() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// lookUp begins a look-up, unless one is under way. told, if there is one, is called
// on a goroutine of its own, with the answer that holds by then or why there is none.
func (h *host) lookUp(told func(r *resolved, err error)) {
	l := &h.look
	l.mu.Lock()
	defer l.mu.Unlock()
	if told != nil {
		l.told = append(l.told, told)
	}
	if !l.running {
		l.running = true
		h.names.work.running.Go(h.ask)
	}
}

// ask looks the name up; it waits for bytes, so it takes no helper's token.
func (h *host) ask() {
	n, l := h.names, &h.look
	ctx, stop := context.WithTimeout(n.work.ctx, lookupTime)
	defer stop()
	name, port, err := net.SplitHostPort(h.target.Address)
	var a *resolve.Answer
	if err == nil {
		a, err = n.resolver.Lookup(ctx, name)
	}
	now := reactor.Now()
	var r *resolved
	if err != nil {
		r = h.lookupFailed(now, err)
	} else {
		r = h.learn(a, port, now)
	}
	l.mu.Lock()
	l.running = false
	waiting := l.told
	l.told = nil
	l.mu.Unlock()
	for _, told := range waiting {
		told(r, err)
	}
}

// lookupFailed goes on with the last answer, if there is one.
func (h *host) lookupFailed(now int64, err error) *resolved {
	n, old := h.names, h.address.Load()
	if n.work.ctx.Err() == nil {
		n.failed.Add(1)
	}
	if old == nil {
		return nil
	}
	if !old.stale {
		n.log.Warn("cannot look up a host's name; going on with its last addresses", "host", h.name,
			"addresses", strings.Join(old.addrs, ","), "error", err.Error())
	}
	return h.keep(&resolved{addrs: old.addrs, at: old.at, stale: true}, old, now+lookupRetry)
}

// learn keeps an answer. It goes on with the address that is in use, as long as that is among them.
func (h *host) learn(a *resolve.Answer, port string, now int64) *resolved {
	n, old := h.names, h.address.Load()
	n.found.Add(1)
	r := &resolved{at: now}
	for _, address := range a.Addresses {
		r.addrs = append(r.addrs, net.JoinHostPort(address, port))
	}
	if a.Partial && old != nil {
		for _, address := range old.addrs {
			if !slices.Contains(r.addrs, address) {
				r.addrs = append(r.addrs, address)
			}
		}
	}
	holds := int64(n.settings().DNSMaxTTLMs) * ms
	if a.Timed {
		holds = max(min(holds, int64(a.TTL)), lookupLeast)
	}
	h.keep(r, old, now+holds)
	if old == nil {
		return r
	}
	if old.stale {
		n.log.Info("a host's name is answered again", "host", h.name)
	}
	if !sameAddresses(old.addrs, r.addrs) {
		n.log.Info("a host's name stands for other addresses", "host", h.name, "addresses", strings.Join(r.addrs, ","),
			"before", strings.Join(old.addrs, ","))
		n.changed(h)
	}
	return r
}

func (h *host) keep(r, old *resolved, until int64) *resolved {
	r.until.Store(until)
	if old != nil {
		if i := slices.Index(r.addrs, old.address()); i > 0 {
			r.next.Store(int32(i))
		}
	}
	h.address.Store(r)
	return r
}

// sameAddresses compares without regard to the order, which name servers change.
func sameAddresses(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// nameLookup carries the answer of a look-up to the loop that asked.
type nameLookup struct {
	msg reactor.Message
	srv *server
	r   *resolved
	err error
}

// resolve finds the address for s and has it dialled, at once or after a look-up.
func (h *host) resolve(s *server) {
	if h.fixed {
		s.dial(h.target.Network, h.target.Address)
		return
	}
	now := s.w.now()
	if r := h.known(now); r != nil {
		s.dialResolved(r)
		return
	}
	s.looking = true
	if h.address.Load() != nil {
		s.w.loop.Wheel().Schedule(&s.timer, min(s.until, now+lookupWait))
	}
	answer, loop := &nameLookup{srv: s}, s.w.loop
	answer.msg.Kind, answer.msg.Ref = msgResolved, answer
	h.lookUp(func(r *resolved, err error) {
		answer.r, answer.err = r, err
		loop.Post(&answer.msg)
	})
}

func (l *nameLookup) arrived() {
	s := l.srv
	switch {
	case !s.looking || s.state != serverConnecting: // it has given up, or gone on without
	case l.r == nil:
		s.looking = false
		s.openFailed(reasonConnectFailed, s.connectError(l.err))
	default:
		s.dialResolved(l.r)
	}
}

// lookupDue: the answer is late. The last one does, if there is one.
func (s *server) lookupDue() (goesOn bool) {
	if !s.looking {
		return false
	}
	r := s.basis.host.address.Load()
	if r == nil {
		return false
	}
	s.dialResolved(r)
	return true
}

func (s *server) dialResolved(r *resolved) {
	s.looking = false
	s.resolved, s.peer = r, r.address()
	s.dial("tcp", s.peer)
}

// displaced tells whether the name of s's host does not stand for its address any
// more, and such backends are not to be kept. On its loop.
func (s *server) displaced() bool {
	r := s.basis.host.address.Load()
	if r == s.resolved {
		return false
	}
	if slices.Contains(r.addrs, s.peer) {
		s.resolved = r
		return false
	}
	return s.w.eng.names.displaced(s.basis.host, s.peer)
}

// displaced tells the same of any connection to h that leads to peer.
func (n *nameService) displaced(h *host, peer string) bool {
	r := h.address.Load()
	return r != nil && !h.fixed && !slices.Contains(r.addrs, peer) && n.settings().DNSVanished == configs.VanishedRetire
}

// refreshNames looks up again, once a second, what pools are opened at or have open, so that an
// address that is gone is noticed, and no connect has to wait for a look-up.
func (w *worker) refreshNames(now int64) {
	if now-w.namesLooked < lookupLeast {
		return
	}
	w.namesLooked = now
	for _, p := range *w.eng.registry.all.Load() {
		h := p.host()
		if h.fixed {
			continue
		}
		if r := h.address.Load(); r != nil && now >= r.until.Load() && (p.live() > 0 || p.clients.Load() > 0) {
			h.lookUp(nil)
		}
	}
}

// addressesChanged has listeners at h look whether their address is still one of it.
// Loops do so with each sweep and release.
func (e *Engine) addressesChanged(h *host) {
	var pools []*pool
	for _, p := range *e.registry.all.Load() {
		if p.host() == h {
			pools = append(pools, p)
		}
	}
	e.listeners.renewed(pools)
}

// connect dials the host, at each of its addresses until one accepts; ctx is shared out
// evenly among those left. The goroutine may block.
func (h *host) connect(ctx context.Context, o reactor.DialOptions) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Control: dialControl(o)}
	if h.fixed {
		return d.DialContext(ctx, h.target.Network, h.target.Address)
	}
	r, err := h.addresses(ctx)
	if err != nil {
		return nil, err
	}
	for left := len(r.addrs); ; left-- {
		address, began := r.address(), reactor.Now()
		c, err := h.dialInTime(ctx, &d, address, left)
		if err == nil {
			r.served()
			return c, nil
		}
		if h.missedAt(address, began, reactor.Now()); left == 1 || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (h *host) dialInTime(ctx context.Context, d *net.Dialer, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer stop()
	}
	return d.DialContext(ctx, "tcp", address)
}

// addresses gives the present answer, or waits for one.
func (h *host) addresses(ctx context.Context) (*resolved, error) {
	if r := h.known(reactor.Now()); r != nil {
		return r, nil
	}
	type outcome struct {
		r   *resolved
		err error
	}
	heard := make(chan outcome, 1)
	h.lookUp(func(r *resolved, err error) { heard <- outcome{r, err} })
	late := time.NewTimer(time.Duration(lookupWait))
	defer late.Stop()
	for {
		select {
		case o := <-heard:
			if o.r != nil {
				return o.r, nil
			}
			return nil, o.err
		case <-late.C:
			if r := h.address.Load(); r != nil {
				return r, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
