package engine

// How a server ends, and what its client is told.
//
// A closing server counts in every limit until PostgreSQL has closed its side:
// Terminate is sent, then EOF is awaited, at most closeTime.

import (
	"pgkinetic/protocol"
)

const closeTime = 1000 * ms

// broken: PostgreSQL broke the protocol, or the count of answers was lost.
func (s *server) broken(why string) {
	s.reason = reasonServerProtocol
	s.w.log.Error("server broke the protocol; closing it", "server", s.number, "pid", s.pid,
		"database", s.pool.key.database, "why", why)
}

// finish ends a walk that cannot go on: the server said FATAL, or broke the
// protocol.
func (s *server) finish() {
	if s.state >= serverClosing {
		return
	}
	if s.reason == reasonServerProtocol {
		s.lost(reasonServerProtocol)
		return
	}
	s.lost(reasonServerGone)
}

// lost: the connection has ended (EOF, reset, FATAL) or is not to be trusted.
func (s *server) lost(r closeReason) {
	if s.reason == reasonNone {
		s.reason = r
	}
	switch s.state {
	case serverConnecting, serverLoggingIn:
		s.openFailed(s.reason, s.connectError(errClosedInLogin))
	case serverIdle:
		s.lostIdle()
	case serverLinked:
		c := s.client
		s.tellLoss(c)
		s.discard(s.reason, "")
	case serverRecovering, serverSettling, serverTesting:
		s.discard(s.reason, "")
	case serverClosing:
		s.ended()
	}
}

// end: there is nothing more to be had from PostgreSQL, as a read has told.
func (s *server) end(err error) {
	s.eof = true
	if s.failed(err); s.vanished {
		s.lost(reasonServerVanished)
	} else {
		s.lost(reasonServerGone)
	}
}

// lostIdle: an idle server has ended, or is not to be trusted. Its place counts
// until PostgreSQL has closed its side, unless it is promised to somebody, who
// then opens it anew.
func (s *server) lostIdle() {
	w := s.w
	if !s.eof && w.adm.TakeIdle(w.id, w.now(), s.place) {
		s.discard(s.reason, "")
		return
	}
	s.setState(serverClosed)
	s.dropBasis()
	w.loop.Wheel().Cancel(&s.timer)
	s.sock.Close()
	w.dropServer(s)
	s.logEnd()
	w.adm.Died(w.id, w.now(), s.place)
}

func (s *server) logEnd() {
	s.w.stats.backendsClosed.inc()
	if k, ok := evictionOf(s.reason); ok {
		s.w.stats.evictions[k].inc()
	}
	line := []any{
		"server", s.number, "pid", s.pid, "host", s.basis.host.name,
		"database", s.pool.key.database, "user", s.pool.key.user, "cause", s.reason.String(),
	}
	if s.fatal.Code != "" {
		line = append(line, "sqlstate", s.fatal.Code) // not the message: it may hold what is nobody's business
	}
	s.w.logServer("server disconnected", line...)
}

// lastWords is what is told to whom the loss concerns: the server's FATAL, or
// that it closed without one.
func (s *server) lastWords() *protocol.ErrorFields {
	if s.fatal.Code != "" {
		return &s.fatal
	}
	e := errBackendGone
	if s.reason == reasonServerVanished {
		e = errBackendVanished
	}
	return &e
}

// tellLoss: the session stays only if no block was open, nothing was pinned and
// the client's stream is at a message boundary; then each owed ReadyForQuery
// comes with the error before it. Never ReadyForQuery(I) after a lost block: the
// application would go on in autocommit.
//
// A SET of the client that is not yet part of its profile is lost with the server,
// as what is pinned is; so is a RESET whose ReadyForQuery is held.
func (s *server) tellLoss(c *client) {
	e := *s.lastWords()
	midAnswer := s.rest > 0 && !s.restSwal
	stays := c.pins == 0 && c.srv.told == nil && !c.settings.Lost() && s.tracker.Status() == 'I' && c.rest == 0 && !midAnswer
	ready, open := s.tracker.ReadyOwed(), s.tracker.SyncOwed()
	s.unlink()
	s.w.stats.backendsLost.inc()
	switch {
	case c.state == clientLoginLink:
		c.fatal(reasonBackendLost, &e)
		return
	case midAnswer:
		c.close(reasonBackendLost)
		return
	case !stays || e.Code == protocol.CodeProtocolViolation: // the latter is the client's own doing
		c.fatal(reasonBackendLost, &e)
		return
	}
	e.Severity = "ERROR"
	for range ready {
		c.sendError(&e)
		c.sendReady('I')
	}
	if open {
		c.sendError(&e)
		c.setState(clientSkipping)
	} else {
		c.setState(clientIdle)
	}
	c.held = false
	c.w.later(c)
}

// discard closes a server that is in use or was claimed: Terminate, then EOF.
// Inside a message there is no Terminate: PostgreSQL would read it as the rest of
// that message and might execute what the client never sent.
func (s *server) discard(r closeReason, why string) {
	if s.state == serverClosing || s.state == serverClosed {
		return
	}
	if s.reason == reasonNone {
		s.reason = r
	}
	if why != "" {
		s.w.log.Info("server closing", "server", s.number, "pid", s.pid, "database", s.pool.key.database,
			"cause", s.reason.String(), "why", why)
	}
	s.checkEnded()
	s.sock.Flush()
	s.recovered(recoveryEnd(s.reason))
	s.setState(serverClosing)
	inside := s.torn || s.out.Len() > 0 // the first bytes in out may be the rest of a message
	s.in.Release(s.w.loop)
	s.out.Release(s.w.loop)
	s.rest = 0
	if s.eof {
		s.ended()
		return
	}
	if s.fatal.Code == "" && !inside {
		_, _ = s.sock.Write(terminateMessage) // best effort: it is closed in any case
	}
	_ = s.sock.ShutdownWrite()
	s.w.loop.Wheel().Schedule(&s.timer, s.w.now()+closeTime)
	s.w.loop.Later(&s.sock) // an EOF that is already there gives no further edge
}

// ended: PostgreSQL has closed its side, or had its time.
func (s *server) ended() {
	w := s.w
	s.setState(serverClosed)
	s.dropBasis()
	w.loop.Wheel().Cancel(&s.timer)
	s.sock.Close()
	w.dropServer(s)
	s.logEnd()
	w.adm.Closed(w.id, w.now(), s.place)
}
