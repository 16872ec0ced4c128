package engine

// When the life and the idle time of a backend are over, and why one whose time is
// over is still there.

import "pgkinetic/engine/reactor"

// lifeSpread is by how much lives differ at most, in ‰, so that backends which were
// opened together do not end together.
const lifeSpread = 100

// lifeOver: pool_max_lifetime_ms, as it is now, has passed, so s is closed as soon as
// nobody uses it.
func (s *server) lifeOver(now int64) bool {
	limit := int64(s.pool.limits.Load().PoolMaxLifetimeMs) * ms
	return limit > 0 && now-s.openedAt >= limit+limit/1000*s.spread
}

// idleOver: s has been idle for pool_idle_timeout_ms.
func (s *server) idleOver(now int64) bool {
	limit := int64(s.pool.limits.Load().PoolIdleTimeoutMs) * ms
	return s.state == serverIdle && limit > 0 && now-s.idleAt >= limit
}

// keptReason tells why s is open although its life is over or it has been idle for
// too long: in_use, pool_min_idle, or next_sweep for one that is about to be closed;
// empty where neither is so. On the loop of s.
func keptReason(s *server) string {
	now := reactor.Now()
	switch {
	case s.state < serverIdle || s.state >= serverClosing:
		return ""
	case s.lifeOver(now) && s.state != serverIdle:
		return "in_use"
	case s.lifeOver(now):
		return "next_sweep"
	case !s.idleOver(now):
		return ""
	case s.pool.adm.Counts().Idle() <= s.pool.minIdle(now):
		return "pool_min_idle"
	}
	return "next_sweep"
}
