package engine

// pool_min_idle: backends are opened ahead of need, so that a request after a quiet
// time, or the first one of all, finds an idle one.
//
// State: pool.ahead. Owner: whoever has set busy, which is one loop at a time, from
// the beginning of an attempt to its end; the others read at.
//
// One backend of a pool is opened ahead at a time, and the next one as soon as it is
// there. It takes only what nobody wants (admission.Warm), so a request never waits
// longer for it, but for this: one that finds the pool full while its last place is
// being opened waits for that.

import "sync/atomic"

// ahead is how a pool fares with its connects ahead of need.
type ahead struct {
	busy  atomic.Bool  // one is under way
	at    atomic.Int64 // ns, before which no further one begins
	host  atomic.Bool  // because of the host: one may begin as soon as that serves again
	pause int64        // ns, after the next failure
}

// The pause after a failure doubles from the first to the second.
const (
	aheadFirst = 1000 * ms
	aheadMost  = 30_000 * ms
)

// minIdle is how many idle backends p keeps: none once it has lost its clients for
// good, unless its entry alone says who it is.
func (p *pool) minIdle(now int64) int {
	n := p.limits.Load().PoolMinIdle
	switch standing(p.standing.Load()) {
	case permanent:
	case removed:
		return 0
	default:
		if p.deserted(now) {
			return 0
		}
	}
	return n
}

// topUp opens one more backend of p on this loop, if it has too few idle ones. Each
// loop brings its part.
func (w *worker) topUp(p *pool, now int64) {
	want := p.minIdle(now)
	if want == 0 || !p.aheadDue(now) || w.eng.draining.Load() || w.suspended != suspendedNot {
		return
	}
	n, loops := p.adm.Counts(), len(w.eng.workers)
	if n.Idle()+int(p.asked.Load()) >= want || n.Size >= n.Max || p.adm.IdleOn(w.id) >= (want+loops-1)/loops {
		return
	}
	w.openAhead(p, now)
}

// openAhead opens one backend of p on this loop, unless one is being opened so.
func (w *worker) openAhead(p *pool, now int64) {
	if p.ahead.busy.CompareAndSwap(false, true) && !w.adm.Warm(w.id, now, p.adm) {
		p.ahead.busy.Store(false)
	}
}

// aheadDue tells whether the pause after a failure is over. A host's failures end it
// when the host is back, which others find out: else a restart of PostgreSQL would
// leave quiet pools empty for long.
func (p *pool) aheadDue(now int64) bool {
	a := &p.ahead
	return now >= a.at.Load() || a.host.Load() && p.backing.Load().failingFor(now) == 0
}

// succeeded and failed tell how the attempt went; ended lets the next one begin.
func (a *ahead) succeeded() {
	a.pause = 0
	a.at.Store(0) // it may have been a probe, before the pause after the last failure was over
}

func (a *ahead) failed(now int64, host bool) {
	a.pause = min(max(2*a.pause, aheadFirst), aheadMost)
	a.host.Store(host)
	a.at.Store(now + a.pause)
}

func (a *ahead) ended() { a.busy.Store(false) }
