package admission

// State: for how long a pool, and each of its routes, stood still because of pauses. A waiter stands still while its
// route, its pool or the process is paused: the union of the three. The pool's clock measures the union of its own and
// the process's pauses; a route's adds the time during which only the route was paused, as the difference between its own
// pause and what the pool's clock went on meanwhile. So neither a pause nor a resume of a pool visits its routes.
// Owner: the pool's critical section; times are the pool's (Pool.tick), which never go back.
// Invariants: both totals never shrink; poolPauses.on says the same as the pool's word, routePauses.on as the route's.

// poolPauses is a pool's clock.
type poolPauses struct {
	on    bool
	since int64  // when the present pause began
	ended int64  // ns of those that have ended
	begun uint64 // how many have begun
}

func (k *poolPauses) set(on bool, now int64) {
	switch {
	case on == k.on:
		return
	case on:
		k.since = now
		k.begun++
	default:
		k.ended = k.total(now)
	}
	k.on = on
}

// total is for how long the pool stood still up to now.
func (k *poolPauses) total(now int64) int64 {
	if !k.on {
		return k.ended
	}
	return k.ended + max(now-k.since, 0)
}

// routePauses is a route's clock.
type routePauses struct {
	on       bool
	since    int64  // when the route's present or last own pause began
	poolThen int64  // the pool's total at that time
	alone    int64  // ns of ended own pauses during which the pool was not paused
	run      int64  // when the unbroken run of pauses began that the present or last own pause belongs to
	covered  uint64 // the pool's pause, by number, during which the last own pause ended; 0 for none
}

func (k *routePauses) set(on bool, now int64, pool *poolPauses) {
	switch {
	case on == k.on:
		return
	case on:
		began, paused := k.running(pool)
		if !paused {
			began = now
		}
		k.since, k.poolThen, k.run = now, pool.total(now), began
	default:
		k.alone = k.total(pool, now) - pool.total(now)
		k.covered = 0
		if pool.on {
			k.covered = pool.begun
		}
	}
	k.on = on
}

// total is for how long the route stood still up to now, for whatever pause.
func (k *routePauses) total(pool *poolPauses, now int64) int64 {
	n := pool.total(now)
	if k.on {
		n += max(now-k.since-(n-k.poolThen), 0)
	}
	return n + k.alone
}

// running tells whether the route stands still, and when the unbroken run of pauses began.
func (k *routePauses) running(pool *poolPauses) (began int64, paused bool) {
	switch {
	case k.on, pool.on && k.covered == pool.begun:
		return k.run, true
	default:
		return pool.since, pool.on
	}
}

// tick moves the pool's time on: the latest that any loop told, whose clocks differ by a little. In the critical section.
func (p *Pool) tick(l *loop) int64 {
	p.now = max(p.now, l.now)
	return p.now
}
