package engine

// Housekeeping of a worker, once per tick: idle and lifetime limits of servers, what
// may be forgotten, the process-wide buffer bound, queued cancels, admission's own
// clock.

import (
	"slices"

	"pgkinetic/admission"
	"pgkinetic/engine/reactor"
)

// tickHandler makes the worker's tick a timer.
type tickHandler struct{ w *worker }

// Fire is the worker's tick.
func (t tickHandler) Fire(now int64) int64 {
	w := t.w
	w.turned.Store(now)
	w.slow.set(w.eng.settings.Load().cfg)
	w.adm.Tick(w.id, now)
	w.cancels.pump()
	w.checkMemory()
	if w.id == 0 {
		w.probeHosts(now)
		w.refreshNames(now)
		w.watchHosts(now)
	}
	w.sweepOn(now)
	w.drainTick(now)
	w.leaveTick()
	w.drainTodo()
	return now + tickInterval
}

const (
	sweepInterval = 1000 * ms
	// poolsPerTick and closedPerTick bound what one tick sweeps, closedPerPool what a
	// round closes in one pool on one loop, so that a whole pool does not end at once.
	poolsPerTick  = 64
	closedPerTick = 64
	closedPerPool = 8
	// A route that nobody used in the last two rounds over all routes is forgotten.
	// routesPerSweep of them are looked at in each sweep of a round.
	routesInterval = 30000 * ms
	routesPerSweep = 1024
)

// sweepRound is one look at all pools: every tick goes on where the last one has
// stopped, so each pool has its turn, however much there is to close in others.
type sweepRound struct {
	begun int64
	pools []*pool // those still to come
}

// sweepOn goes on with the round over all pools, or begins one.
func (w *worker) sweepOn(now int64) {
	r := &w.round
	if n := w.eng.silences.Load(); n != w.silences { // what is suspect is asked without delay
		w.silences = n
		*r = sweepRound{}
	}
	if len(r.pools) == 0 {
		if now-r.begun < sweepInterval {
			return
		}
		r.begun, r.pools = now, *w.eng.registry.all.Load()
		w.adm.Trim(w.id, now)
		if w.id == 0 {
			w.sweepRoutes(now)
			w.sweepNames(now)
		}
	}
	closed := 0
	for n := poolsPerTick; n > 0 && closed < closedPerTick && len(r.pools) > 0; n-- {
		p := r.pools[0]
		r.pools = r.pools[1:]
		closed += w.sweepPool(p, now)
		w.topUp(p, now)
		w.checks(p, now)
	}
}

// sweepRoutes goes on with the round over all routes, or begins one.
func (w *worker) sweepRoutes(now int64) {
	if now >= w.routesAt && w.eng.registry.routes.Sweep(routesPerSweep) {
		w.routesAt = now + routesInterval
	}
}

// sweepNames forgets pools and users that nobody uses.
func (w *worker) sweepNames(now int64) {
	if now >= w.namesAt {
		w.namesAt = now + forgetInterval
		w.eng.registry.forget(now)
	}
}

// sweepPool closes idle servers of p on this loop whose time is over, oldest first,
// a bounded number.
func (w *worker) sweepPool(p *pool, now int64) (closed int) {
	keep, abandoned := p.minIdle(now), p.abandoned()
	p.adm.EachIdle(w.id, func(pl *admission.Place) bool {
		s := pl.Owner.(*server)
		var r closeReason
		switch {
		case abandoned && w.adm.TakeIdle(w.id, now, pl):
			r = reasonServerOutdated
		case s.displaced() && w.adm.TakeIdle(w.id, now, pl):
			r = reasonServerDisplaced
		case s.lifeOver(now) && w.adm.TakeIdle(w.id, now, pl):
			r = reasonServerLifetime
		case s.idleOver(now) && w.adm.TakeSpare(w.id, now, pl, keep):
			r = reasonServerIdle
		default:
			return true
		}
		s.discard(r, "")
		closed++
		return closed < closedPerPool
	})
	return closed
}

// memoryFull: the process holds as much as max_buffer_memory allows, so clients
// are not read until it has fallen; servers are, as long as their own client's
// buffer has room, since their answers free memory. Who has not logged in yet may be
// an operator who is to see to it; max_unauthenticated bounds what these hold.
func (w *worker) memoryFull(c *client) bool {
	if reactor.BufferBytes() < w.eng.server().MaxBufferMemory || c.up == nil {
		return false
	}
	if !c.memWait {
		c.memWait = true
		w.stats.buffersFull[bufferProcess].inc()
		w.paused = append(w.paused, c)
	}
	return true
}

// checkMemory lets paused clients go on, or, above 110 %, closes the client of
// this loop with most unread output if no other loop has a larger one.
func (w *worker) checkMemory() {
	held, limit := reactor.BufferBytes(), w.eng.server().MaxBufferMemory
	if held < limit {
		list := w.paused
		w.paused = nil
		for _, c := range list {
			c.memWait = false
			if c.state < clientClosing {
				w.later(c)
			}
		}
		w.largest.Store(0)
		return
	}
	w.paused = slices.DeleteFunc(w.paused, func(c *client) bool { return c.state == clientGone })
	if held <= limit+limit/10 {
		return
	}
	var worst *client
	for _, c := range w.all.items {
		if c.state < clientClosing && c.out.Len() > 0 && (worst == nil || c.out.Len() > worst.out.Len()) {
			worst = c
		}
	}
	if worst == nil {
		w.largest.Store(0)
		return
	}
	mine := int64(worst.out.Len())
	w.largest.Store(mine)
	for _, peer := range w.eng.workers {
		if peer.largest.Load() > mine {
			return
		}
	}
	worst.fatal(reasonBufferMemory, errBufferMemory)
}
