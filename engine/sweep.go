package engine

// Housekeeping of a worker, once per tick: idle and lifetime limits of servers,
// the process-wide buffer bound, queued cancels, admission's own clock.

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
	if now-w.lastScan >= sweepInterval {
		w.lastScan = now
		w.adm.Trim(w.id, now)
		w.sweepIdle(now)
		if w.id == 0 {
			w.sweepRoutes(now)
		}
	}
	w.drainTick(now)
	w.drainTodo()
	return now + tickInterval
}

const (
	sweepInterval = 1000 * ms
	// A route that nobody used in the last two rounds over all routes is forgotten.
	// routesPerSweep of them are looked at in each sweep of a round.
	routesInterval = 30000 * ms
	routesPerSweep = 1024
)

// sweepRoutes goes on with the round over all routes, or begins one.
func (w *worker) sweepRoutes(now int64) {
	if now >= w.routesAt && w.eng.registry.routes.Sweep(routesPerSweep) {
		w.routesAt = now + routesInterval
	}
}

// sweepIdle closes idle servers that are too old or idle for too long. It closes
// a bounded number per sweep, so that a whole pool does not end at once.
func (w *worker) sweepIdle(now int64) {
	for _, p := range *w.eng.registry.all.Load() {
		budget := sweepBudget
		for budget > 0 {
			s, r := w.sweepVictim(p, now)
			if s == nil || !w.adm.TakeIdle(w.id, now, s.place) {
				break
			}
			s.discard(r, "")
			budget--
		}
	}
}

const sweepBudget = 8

// sweepVictim finds an idle server of p on this loop whose time is over.
func (w *worker) sweepVictim(p *pool, now int64) (victim *server, r closeReason) {
	idle := int64(p.limits.Load().PoolIdleTimeoutMs) * ms
	p.adm.EachIdle(w.id, func(pl *admission.Place) bool {
		s := pl.Owner.(*server)
		switch {
		case now >= s.endAt:
			victim, r = s, reasonServerLifetime
		case idle > 0 && now-s.idleAt >= idle:
			victim, r = s, reasonServerIdle
		}
		return victim == nil
	})
	return victim, r
}

// memoryFull: the process holds as much as max_buffer_memory allows, so clients
// are not read until it has fallen; servers are, as long as their own client's
// buffer has room, since their answers free memory.
func (w *worker) memoryFull(c *client) bool {
	if reactor.BufferBytes() < w.eng.server().MaxBufferMemory || c.console != nil {
		return false
	}
	if !c.memWait {
		c.memWait = true
		w.stats.bufferFull.inc()
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
