package engine

// Recovery: a client leaves, a clock fires or a limit trips while its backend is
// busy. What is missing (CopyFail, Sync) is added, a running query is
// cancelled, the answers are drained to ReadyForQuery, an open block is rolled back,
// what is dirty is cleaned, and only then is the server used again. In doubt it
// is closed. The permit stays with the server all the while.

import (
	"pgkinetic/protocol"
)

const (
	// cancelGrace is how long a query whose client has gone may end by itself
	// before it is cancelled: most do, and a cancel costs PostgreSQL a process.
	// A query that ends by itself while its cancel travels lets that cancel strike
	// what the client had pipelined behind it. Should that be a BEGIN, the rest of
	// the pipeline runs outside a block: the window is the journey of one packet,
	// and closing it would cost every such client a login to PostgreSQL.
	cancelGrace  = 50 * ms
	maxRollbacks = 2
	// cancelAgain is when a query that still runs is cancelled once more: PostgreSQL
	// ignores a cancel that reaches it before it has read the query.
	cancelAgain = 250 * ms
)

// recover takes the server away from its client c, which goes for good.
func (s *server) recover(c *client) {
	s.left |= leftovers(c.pins)
	c.settings.Leave(&s.applied)
	if s.unseen || s.question == askLeft { // nobody is there to wait for the answer
		s.unseen = false
		s.left |= leftHidden
		s.applied.Stray()
	}
	s.question = askNothing
	if s.held.Leaked() {
		s.left |= leftStatements
	}
	s.probe = nil
	s.unlink()
	if s.torn {
		s.w.stats.recoveries[c.reason][recoveryDirty].inc()
		s.discard(reasonServerUnclean, "the client left inside a message")
		return
	}
	s.startRecovery(c.reason)
}

// What makes a recovery necessary, other than that its client ends for a reason.
const (
	triggerCleanup = reasonCount + iota // the client has left something behind
	triggerCancel                       // its request was cancelled before it was sent
	triggers
)

// triggerName is what views call a trigger.
func triggerName(r closeReason) string {
	switch r {
	case triggerCleanup:
		return "cleanup"
	case triggerCancel:
		return "cancel"
	}
	return r.String()
}

// recoveryOutcome is how a recovery has ended.
type recoveryOutcome uint8

const (
	recoveryReused recoveryOutcome = iota
	recoveryDirty                  // it could not be brought back to a clean state
	recoveryTimedOut
	recoveryLost   // PostgreSQL closed it
	recoveryClosed // by us, for another reason
	recoveryOutcomes
)

var recoveryNames = [recoveryOutcomes]string{"reused", "dirty", "timed_out", "lost", "closed"}

// recovered counts the end of a recovery, if there is one under way.
func (s *server) recovered(o recoveryOutcome) {
	if s.state == serverRecovering {
		s.w.stats.recoveries[s.trigger][o].inc()
	}
}

// recoveryEnd is how a recovery ends whose server is closed for a reason.
func recoveryEnd(r closeReason) recoveryOutcome {
	switch r {
	case reasonServerUnclean:
		return recoveryDirty
	case reasonRecoveryTimeout:
		return recoveryTimedOut
	case reasonServerGone, reasonServerVanished:
		return recoveryLost
	}
	return recoveryClosed
}

func (s *server) startRecovery(trigger closeReason) {
	now := s.w.now()
	s.setState(serverRecovering)
	s.trigger = trigger
	s.cancelled, s.rollbacks, s.cleaning, s.await = false, 0, false, false
	if s.applied.Pending() {
		s.applied.Uncertain()
	}
	s.until = now + int64(s.pool.limits.Load().RecoveryTimeoutMs)*ms
	s.restSwal = true
	s.tracker.Orphan()
	s.w.answer = s.tracker.Recover(s.w.answer[:0])
	if len(s.w.answer) > 0 {
		s.queue(s.w.answer)
	}
	s.flush()
	if s.tracker.Busy() {
		s.w.loop.Wheel().Schedule(&s.timer, min(now+cancelGrace, s.until))
	}
	if s.wantRead {
		s.w.loop.Later(&s.sock)
	}
	s.recoverOn()
}

// recoverOn takes the next step once everything owed has been answered.
func (s *server) recoverOn() {
	if s.tracker.Owed() > 0 || s.rest > 0 {
		if !s.cancelled && s.rollbacks == 0 && !s.cleaning { // a further query of the client has begun
			s.w.loop.Wheel().ScheduleBefore(&s.timer, min(s.w.now()+cancelGrace, s.until))
		}
		return
	}
	switch {
	case s.tracker.Status() != 'I':
		if s.rollbacks++; s.rollbacks > maxRollbacks {
			s.discard(reasonServerUnclean, "ROLLBACK did not end the transaction")
			return
		}
		s.inject(rollbackMessage)
	case s.left&leftLibrary != 0:
		s.discard(reasonServerUnclean, "a client has loaded a library")
	case s.left != 0:
		s.w.answer, s.cleanedAll = s.pool.appendClean(s.w.answer[:0], s.left)
		s.inject(s.w.answer)
		if s.cleanedAll || s.left&(leftSQLPrepare|leftStatements) != 0 {
			s.held.Clear(s.tracker.Sent())
		}
		s.left = 0
		s.cleaning = true
	default:
		s.w.loop.Wheel().Cancel(&s.timer)
		if s.cleaning {
			s.cleaning = false
			s.cleaned()
		}
		s.free()
	}
}

// cleaned: what reset_query asks for has been done.
func (s *server) cleaned() {
	switch {
	case s.cleanedAll:
		s.applied.Cleared(s.params)
	case s.pool.resetAlways: // SQL of the user's own
		s.applied.Uncertain()
	}
}

// inject sends a Query of our own during recovery.
func (s *server) inject(query []byte) {
	s.tracker.Inject(protocol.FrontendQuery)
	s.held.Query(s.tracker.Sent())
	s.send(query)
	s.w.loop.Wheel().Schedule(&s.timer, s.until)
}

var rollbackMessage = protocol.AppendQuery(nil, "ROLLBACK")

// injectedFailed: a Query of ours was answered by an error. The state of the
// server is then not what we believe.
func (s *server) injectedFailed(body []byte) {
	e := protocol.DecodeError(body)
	s.w.log.Warn("statement of pg-kinetic failed on the server", "server", s.number, "database", s.pool.key.database,
		"sqlstate", e.Code, "message", e.Message)
	c := s.client
	if c == nil {
		s.discard(reasonServerUnclean, "clean-up failed")
		return
	}
	s.applied.Failed()
	s.pool.verdicts.Clear()
	// The client's settings could not be applied: nothing of its request may run
	// under somebody else's.
	s.unlink()
	s.discard(reasonServerUnclean, "settings of the client could not be applied")
	e.Detail = "pg-kinetic could not apply the settings of this session on a backend."
	c.fatal(reasonBackendLost, &e)
}

// Fire is the server's timer: deadlines of connecting, recovery and closing.
func (s *server) Fire(now int64) int64 {
	w := s.w
	switch s.state {
	case serverBackoff:
		s.retry(now)
	case serverConnecting, serverLoggingIn:
		if s.lookupDue() {
			break
		}
		w.stats.timeouts[timeoutConnect].inc()
		s.openFailed(reasonConnectTimeout, s.connectTimeout())
	case serverRecovering:
		s.recoveryDue(now)
	case serverTesting:
		s.checkDue(now)
	case serverClosing:
		s.ended()
	case serverIdle, serverLinked: // no event will ever tell of it (Attach)
		if !s.sock.Alive() {
			s.end(nil)
		}
	}
	w.drainTodo()
	return 0
}

func (s *server) recoveryDue(now int64) {
	if now >= s.until {
		s.w.stats.timeouts[timeoutRecovery].inc()
		s.discard(reasonRecoveryTimeout, "recovery_timeout_ms exceeded")
		return
	}
	next := s.until
	switch {
	case !s.tracker.Busy():
	case s.cancel != nil: // one is under way
		next = now + cancelGrace
	case s.cancelled && now < s.cancelAt+cancelAgain:
		next = s.cancelAt + cancelAgain
	default:
		s.cancelled, s.cancelAt = true, now
		s.w.cancels.start(s, nil)
		next = now + cancelAgain
	}
	s.w.loop.Wheel().Schedule(&s.timer, min(next, s.until))
}
