package engine

// What a pool's servers are made of: the database entry, the host, the login.
//
// A backing is immutable and is replaced as a whole: by RECONNECT, by a reload
// that changes the entry, by a change of the host. With most of these begins another
// era. A server remembers the backing that it was opened under; one of another era
// than the pool's present one is outdated: it serves the
// client that it has, and ends instead of becoming idle; those that are idle are
// claimed and closed at once, those under way begin anew. So nobody but the pool's
// pointer has to know which servers are old.
//
// Owner: pool.backing is replaced under pool.renewing and read by all loops; the
// counts are atomics, raised and lowered by the loop of the server.
//
// Invariants:
//   - within an era neither the present candidate changes nor what is sent to open a
//     server;
//   - pool.servers is at least the servers of its present era; what it is more are
//     the outdated ones.

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/configs"
)

type backing struct {
	entry      *configs.Database
	hosts      []*candidate // of the entry, in the order of trying
	*candidate              // the present one of them
	lenient    bool         // no preferred one was to be had: any does
	login      backend.LoginConfig
	*era
}

// era is the time during which a pool's servers are made of the same.
type era struct {
	servers atomic.Int32 // made in it and not closed yet
	live    atomic.Int32 // of them, those that have logged in
}

// host is the one to which the pool's servers are opened now.
func (p *pool) host() *host { return p.backing.Load().host }

// entry is the database entry that they are made of.
func (p *pool) entry() *configs.Database { return p.backing.Load().entry }

// renew replaces what the pool's servers are made of. The caller has the loops
// retire what is outdated by it.
func (p *pool) renew(change func(b *backing) *backing) {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	p.backing.Store(change(p.backing.Load()))
}

// outdated tells whether a server was made of something else than its pool's
// servers are now: it is not to become idle.
func (s *server) outdated() bool { return s.basis.era != s.pool.backing.Load().era }

// takeBasis notes what s is opened under.
func (s *server) takeBasis() {
	s.basis = s.pool.backing.Load()
	s.pool.servers.Add(1) // in this order, and out in the other: outdated is never too low
	s.basis.servers.Add(1)
}

// dropBasis: s is closed.
func (s *server) dropBasis() {
	if s.basis != nil {
		if s.live {
			s.live = false
			s.basis.live.Add(-1)
		}
		s.basis.servers.Add(-1)
		s.pool.servers.Add(-1)
	}
}

// outdated tells how many of the pool's servers are.
func (p *pool) outdated() int {
	present := p.backing.Load()
	all := p.servers.Load()
	return int(all - present.servers.Load())
}

// retire has each loop close or begin anew what is outdated of the pools' servers,
// and listeners connect anew. It does not wait: any goroutine.
func (e *Engine) retire(pools []*pool) {
	if len(pools) == 0 {
		return
	}
	e.listeners.renewed(pools)
	for _, w := range e.workers {
		if !w.loop.Stopped() {
			w.submit(retirer(slices.Clone(pools)))
		}
	}
}

// retirer is what retire does on one loop, a bounded part per turn.
func retirer(pools []*pool) func(*worker) bool {
	begun := false
	return func(w *worker) bool {
		if !begun {
			begun = true
			w.restartOutdated()
		}
		for budget := stepPerTurn; len(pools) > 0 && budget > 0; {
			n := w.closeOutdated(pools[0], budget)
			if budget -= n + 1; n == 0 {
				pools = pools[1:]
			}
		}
		return len(pools) > 0
	}
}

// closeOutdated closes idle servers of p on this loop that are outdated, at most n.
func (w *worker) closeOutdated(p *pool, n int) (closed int) {
	for closed < n {
		var old *server
		p.adm.EachIdle(w.id, func(pl *admission.Place) bool {
			if s := pl.Owner.(*server); s.outdated() {
				old = s
			}
			return old == nil
		})
		if old == nil || !w.adm.TakeIdle(w.id, w.now(), old.place) { // then all are promised: they end at their release
			break
		}
		old.discard(reasonServerOutdated, "")
		closed++
	}
	return closed
}

// restartOutdated lets attempts to connect that are outdated begin anew.
func (w *worker) restartOutdated() {
	for s := range w.servers.each {
		if s.basis != nil && s.outdated() {
			switch s.state {
			case serverConnecting, serverLoggingIn:
				s.restart()
			case serverBackoff:
				w.loop.Wheel().Cancel(&s.timer)
				s.retry(w.now())
			}
		}
	}
}

// restart ends an attempt that is outdated. It counts as no failure, and whoever
// waits for it gets another one at once.
func (s *server) restart() {
	w, now := s.w, s.w.now()
	s.endAttempt()
	w.loop.Wheel().Cancel(&s.timer)
	s.setState(serverBackoff)
	if !w.adm.Failed(w.id, now, s.place) {
		s.forgotten()
		return
	}
	s.retry(now)
}

// Reconnect has the servers of a database, of all if it is empty, opened anew: those
// that are idle are closed at once, those in use when they are released, and what
// is opened from now on chooses among the hosts and finds their addresses anew. No client notices; what
// listeners and look-ups of users have open is renewed too. It does not wait. Any
// goroutine but a loop's.
func (e *Engine) Reconnect(database string) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	pools, err := e.poolsNamed(database)
	if err == nil {
		err = each(e, pools, func(w *worker, p *pool) { p.reconsider(w) })
	}
	if err != nil {
		return err
	}
	e.retire(pools)
	e.log.Info("servers are opened anew", "scope", view.Scope{Database: database}.String(), "pools", len(pools))
	return nil
}

// WaitClose returns when no server of a database, of all if it is empty, is older
// than the latest Reconnect, reload or switch of its host; or when ctx ends, with
// its error. Any goroutine but a loop's.
func (e *Engine) WaitClose(ctx context.Context, database string) error {
	pools, err := e.poolsNamed(database)
	if err != nil {
		return err
	}
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for slices.ContainsFunc(pools, func(p *pool) bool { return p.outdated() > 0 }) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("servers are still in use: %w", ctx.Err())
		case <-poll.C:
			if e.allStopped() {
				return ErrNotRunning
			}
		}
	}
	return nil
}

// poolsNamed gives the pools of a database, by its entry's name or the name that
// clients ask for; all pools if it is empty.
func (e *Engine) poolsNamed(database string) ([]*pool, error) {
	if !e.started.Load() {
		return nil, ErrNotRunning
	}
	r := e.registry
	if database == "" {
		return *r.all.Load(), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := e.checkDatabase(database); err != nil {
		return nil, err
	}
	return r.poolsIn(database), nil
}
