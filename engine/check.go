package engine

// server_check_query: a backend that nobody has used for server_check_delay_ms is asked
// whether it still answers, before anybody is given it.
//
// State: pool.checking, pool.asked, host.silentAt, Engine.silences, which tells all loops of a new
// silentAt; of a server: testedAt, alone. Owner: checking is whose it is that set it,
// from the question to its end; the rest as in host and server.
// Invariants:
//   - a server that is asked is set aside (admission.SetAside), so no request waits for its
//     answer, and none is given it before that;
//   - one server of a pool is asked at a time, the next one when it has answered, so that
//     the others serve meanwhile; but once a server has been silent, all idle ones of its host
//     that have not been heard of since are asked at once.
//
// The reaper asks, not the request that is given the backend: that one would wait for a round
// trip each time, and for the deadline when the answer does not come.

import (
	"pgkinetic/admission"
	"pgkinetic/protocol"
)

const (
	// checkTime is how long an answer may take; connect_timeout_ms if that is shorter.
	checkTime = 1000 * ms
	// checksPerPool bounds how many servers of a pool one look asks on one loop.
	checksPerPool = 64
)

// heardAt is when s was last known to be alive.
func (s *server) heardAt() int64 { return max(s.idleAt, s.testedAt) }

// used tells whether s has been idle for so long that it is asked before it serves.
func (s *server) used(now int64) bool {
	delay := int64(s.w.eng.settings.Load().cfg.Reaper.ServerCheckDelayMs) * ms
	return s.state == serverIdle && now-s.heardAt() >= delay
}

// suspect: another server of the host has been silent, and s has not been heard of since.
func (s *server) suspect() bool { return s.heardAt() < s.basis.host.silentAt.Load() }

// checks asks the idle servers of p on this loop of which it is time to know more. A
// paused pool is left alone: PostgreSQL may be about to go; so are all during a
// suspension, when nothing is to move, and a drain.
func (w *worker) checks(p *pool, now int64) {
	r := &w.eng.settings.Load().cfg.Reaper
	if r.ServerCheckQuery == "" || p.adm.Counts().Paused || w.suspended != suspendedNot || w.eng.draining.Load() {
		return
	}
	left := checksPerPool
	p.adm.EachIdle(w.id, func(pl *admission.Place) bool {
		s := pl.Owner.(*server)
		switch {
		case s.suspect():
		case !s.used(now) || now-s.heardAt() < sweepInterval, // not all the time, where the delay is 0
			!p.checking.CompareAndSwap(false, true):
			return true // suspects may come behind it
		default:
			s.alone = true
		}
		if !w.adm.SetAside(w.id, now, pl) {
			s.checkEnded()
			return false
		}
		s.check(r.ServerCheckQuery, now)
		left--
		return left > 0
	})
}

// check asks s, which is set aside.
func (s *server) check(query string, now int64) {
	w := s.w
	s.setState(serverTesting)
	s.pool.asked.Add(1)
	s.tracker.Inject(protocol.FrontendQuery)
	s.held.Query(s.tracker.Sent())
	w.answer = protocol.AppendQuery(w.answer[:0], query)
	s.send(w.answer)
	limit := min(checkTime, int64(s.pool.limits.Load().ConnectTimeoutMs)*ms)
	w.loop.Wheel().Schedule(&s.timer, now+limit)
}

// checkOn: answers have come. When it was the last, s is as good as any other idle one.
func (s *server) checkOn() {
	if s.tracker.Owed() > 0 || s.rest > 0 {
		return
	}
	w, now := s.w, s.w.now()
	w.loop.Wheel().Cancel(&s.timer)
	if !s.tracker.Idle() {
		s.discard(reasonServerSilent, "server_check_query leaves a transaction open")
		return
	}
	s.testedAt = now
	if r := s.unfit(now); r != reasonNone {
		s.discard(r, "")
		return
	}
	p := s.pool
	s.checkEnded()
	s.setState(serverIdle)
	w.adm.PutBack(w.id, now, s.place) // the last look at s
	w.checks(p, now)
}

// checkFailed: PostgreSQL has answered with an error.
func (s *server) checkFailed(body []byte) {
	e := protocol.DecodeError(body)
	s.w.log.Warn("server_check_query failed", "server", s.number, "pid", s.pid, "host", s.basis.host.name,
		"database", s.pool.key.database, "sqlstate", e.Code, "message", e.Message)
	s.discard(reasonServerSilent, "")
}

// checkDue: there is no answer. What else is idle on the host is asked at once.
func (s *server) checkDue(now int64) {
	w, p := s.w, s.pool
	w.log.Warn("no answer to server_check_query; asking all idle servers of the host", "server", s.number, "pid", s.pid,
		"host", s.basis.host.name, "database", p.key.database)
	s.basis.host.silentAt.Store(now)
	w.eng.silences.Add(1)
	s.discard(reasonServerSilent, "")
	w.checks(p, now)
}

// checkEnded lets the next server of the pool be asked. Before s leaves its state.
func (s *server) checkEnded() {
	if s.state == serverTesting {
		s.pool.asked.Add(-1)
	}
	if s.alone {
		s.alone = false
		s.pool.checking.Store(false)
	}
}
