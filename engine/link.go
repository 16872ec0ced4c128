package engine

// The single place where a client and a server meet and part.
//
// Invariant: c.srv == s exactly when s.client == c. The permit lies in s.place
// from before link until after unlink, and goes back to admission only by free
// (the server is clean) or by its closing.

import (
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
)

// link joins c, whose request was granted, and the idle server s on the same
// loop. Settings that differ leave with the client's first message.
func (s *server) link(c *client) {
	s.setState(serverLinked)
	s.client, c.srv = c, s
	c.traffic.inc(trafficAssigned)
	s.held.SetLimits(s.pool.limits.Load().MaxPreparedStatements, heldBytes)
	s.cycleAt, s.xactAt = 0, 0
	s.recent.clear()
	s.fresh = true
	c.strange = true
	s.groupAt = s.tracker.Sent() + 1
	s.waitAt = s.w.now()
	if c.state == clientLoginWait {
		c.setState(clientLoginLink)
		c.askBackend(s)
		return
	}
	c.setState(clientLinked)
	if c.up.pool.mode == modeSession {
		c.pins |= pinSticky
	}
	s.apply(c.prof)
}

// apply queues one batch that makes the settings of p hold on s, where they do
// not.
func (s *server) apply(p *session.Profile) {
	w := s.w
	buf, plan := s.applied.Batch(w.answer[:0], p, s.params)
	w.answer = buf
	if plan == session.Nothing {
		return
	}
	s.tracker.Inject(protocol.FrontendQuery)
	s.held.Query(s.tracker.Sent())
	s.groupAt = s.tracker.Sent() + 1
	s.await = plan == session.Await
	s.queue(buf)
	if s.await {
		s.flush()
	}
	s.beginCycle(w.now())
	w.stats.settingBatches.inc()
}

// batchDone: the ReadyForQuery of the batch of settings has come.
func (s *server) batchDone() {
	s.applied.Confirm(s.params)
	s.goOn()
}

// goOn: what the client's messages have waited for has been answered.
func (s *server) goOn() {
	if s.await {
		s.await = false
		if s.client != nil {
			s.w.later(s.client)
		}
	}
}

// unlink parts s from its client.
func (s *server) unlink() *client {
	s.push()
	c := s.client
	c.catalog().Lost()
	if c.prep != nil {
		if len(c.prep.raw.strays) > 0 {
			s.left |= leftStatements
		}
		c.prep.raw.clear()
	}
	c.follow = nil
	s.later, s.told, s.ends, s.pinAt, s.dropParameters = laterAnswers{}, nil, ending{}, 0, false
	if s.again.bytes != nil {
		c.disarm()
	}
	s.torn = c.rest > 0 && !c.restDrop
	s.client, c.srv = nil, nil
	return c
}

// release is called when the answers to the linked client are complete and
// nothing pins it: the server is free for the next request.
func (s *server) release() {
	c := s.unlink()
	if c.state == clientLinked {
		c.setState(clientIdle)
	}
	c.deliverNotices()
	if s.pool.resetAlways {
		s.left |= leftAlways
	}
	if s.left != 0 {
		s.startRecovery(triggerCleanup)
	} else {
		s.free()
	}
	if c.in.Len() > 0 || c.wantRead {
		c.w.later(c) // not s.w: s may be another loop's now
	}
	c.armTimer()
}

// free hands a clean server back to admission, once no cancel travels. The
// caller must not touch the server any more: it may be another loop's.
func (s *server) free() {
	if s.doomed || !s.tracker.Idle() {
		s.discard(reasonServerUnclean, "a cancel may still be on its way, or the server has said it ends")
		return
	}
	s.recovered(recoveryReused)
	if s.cancel != nil {
		s.setState(serverSettling)
		return
	}
	now := s.w.now()
	if r := s.unfit(now); r != reasonNone {
		s.discard(r, "")
		return
	}
	s.setState(serverIdle)
	s.idleAt = now
	s.w.adm.Release(s.w.id, s.idleAt, s.place)
}

// unfit tells why s, which is clean, is not to be used again.
func (s *server) unfit(now int64) closeReason {
	switch {
	case s.outdated(), s.pool.abandoned():
		return reasonServerOutdated
	case s.displaced():
		return reasonServerDisplaced
	case s.wrongRole:
		return reasonServerRole
	case s.lifeOver(now): // under load it may never rest for long enough to be swept
		return reasonServerLifetime
	}
	return reasonNone
}
