package engine

// Walking the server's messages: each passes the tracker, which says whose it
// is. Runs of messages for the client leave in one write.

import (
	"pgkinetic/backend"
	"pgkinetic/protocol"
)

// feed walks p and keeps an incomplete message that must be seen whole.
func (s *server) feed(p []byte) {
	if s.state >= serverClosing {
		return // only its end is awaited
	}
	if s.state == serverLoggingIn {
		s.feedLogin(p)
		return
	}
	used := s.walk(p)
	s.w.pushClient()
	if s.state >= serverClosing {
		s.in.Release(s.w.loop)
		return
	}
	if used < len(p) {
		s.in.Append(s.w.loop, p[used:])
	}
	s.settle()
}

// walk returns how many bytes of p it has dealt with.
func (s *server) walk(p []byte) int {
	i, run := 0, 0
	for i < len(p) {
		if s.rest > 0 {
			n := int(min(s.rest, int64(len(p)-i)))
			if s.restSwal {
				s.toClient(p[run:i])
				run = i + n
			}
			i += n
			s.rest -= int64(n)
			continue
		}
		typ, size, err := protocol.PeekBackend(p[i:])
		if err == protocol.ErrShort {
			break
		}
		if err != nil {
			s.toClient(p[run:i])
			s.broken("absurd message length or type")
			s.finish()
			return len(p)
		}
		n := min(size, len(p)-i)
		if n < size && size <= protocol.SmallMessage && s.mustSeeWhole(typ) {
			break
		}
		if c := s.client; c != nil && c.due.n > 0 {
			s.toClient(p[run:i])
			run = i
			c.putDue()
		}
		forward, ok := s.answer(typ, p[i:i+n], n == size)
		if !ok {
			s.toClient(p[run:i])
			s.finish()
			return len(p)
		}
		s.rest = int64(size - n)
		s.restSwal = !forward
		if forward {
			i += n
			continue
		}
		s.toClient(p[run:i])
		s.putInstead()
		i += n
		run = i
	}
	s.toClient(p[run:i])
	if c := s.client; c != nil && s.rest == 0 {
		c.putDue()
	}
	return i
}

// putInstead puts what the client gets in the place of the message in hand.
func (s *server) putInstead() {
	if w := s.w; w.instead != nil {
		s.toClient(w.instead)
		w.pushClient() // it lies in a scratch
		w.instead = nil
	}
}

// mustSeeWhole: messages whose body decides something.
func (s *server) mustSeeWhole(typ byte) bool {
	switch typ {
	case protocol.BackendReadyForQuery, protocol.BackendErrorResponse, protocol.BackendParameterStatus,
		protocol.BackendCommandComplete:
		return true
	}
	return s.probe != nil || s.question != askNothing
}

// answer takes one message (m: all of it, or its first part when it is large)
// through the tracker. ok is false when the connection is at its end.
func (s *server) answer(typ byte, m []byte, whole bool) (forward, ok bool) {
	body := m[protocol.HeaderLen:]
	var (
		status byte
		code   []byte
	)
	switch typ {
	case protocol.BackendReadyForQuery:
		if status, ok = protocol.DecodeReady(body); !ok {
			s.broken("malformed ReadyForQuery")
			return false, false
		}
	case protocol.BackendErrorResponse:
		s.w.stats.serverErrors.inc()
		code = protocol.ErrorCode(body)
		copy(s.failCode[:], code)
		s.countError(code)
		if string(code) == protocol.CodeReadOnlyTransaction {
			s.cannotWrite()
		}
		if protocol.ErrorEndsSession(body) {
			s.fatal = protocol.DecodeError(body)
			return false, false
		}
	case protocol.BackendParameterStatus:
		if name, value, good := protocol.DecodeParameterStatus(body); good && whole {
			s.params.Set(name, value)
			if s.state == serverIdle || s.state == serverTesting || !backend.Settable(string(name)) {
				s.pool.reported(name, value)
			}
			s.reportedRole(name)
		}
	}
	c := s.client
	head := s.tracker.Done() + 1
	a, err := s.tracker.Receive(typ, status, code)
	if err != nil {
		s.broken(err.Error())
		return false, false
	}
	if c != nil && !a.Swallow && (typ == protocol.BackendCommandComplete || typ == protocol.BackendPortalSuspended) {
		s.stepped(c, head, typ, body)
	}
	s.settleStatements(c)
	if c != nil && c.srv.again.number == head && !a.Swallow {
		if !s.retrying(c, head, m, code, whole) {
			return false, true
		}
	}
	forward, ok = s.answered(typ, body, &a)
	if typ == protocol.BackendParameterDescription && c != nil && c.srv.dropParameters {
		c.srv.dropParameters, forward = false, false
	}
	if forward && code != nil && c != nil && whole {
		s.w.instead = s.errorFor(c, head, body, code)
		forward = s.w.instead == nil
	}
	return forward, ok
}

// countError counts an ErrorResponse; one that stands for an error of ours as that.
func (s *server) countError(code []byte) {
	c := s.client
	switch {
	case c == nil:
		s.w.faults.answered(code, nil, s.w.now())
	case s.swapAt == s.tracker.Done()+1:
		c.told(s.swap)
	default:
		s.w.faults.answered(code, c.route, s.w.now())
	}
}

// answered acts on what the tracker has said of a message.
func (s *server) answered(typ byte, body []byte, a *protocol.Answer) (forward, ok bool) {
	c := s.client
	if a.InjectedError && s.state == serverTesting {
		s.checkFailed(body)
		return false, false
	}
	probing := s.probe != nil && !s.applied.Pending()
	if a.InjectedError && (s.applied.Pending() || s.cleaning || s.question == askRestore) {
		s.injectedFailed(body)
		return false, s.state < serverClosing
	}
	if probing {
		s.probed(typ, body)
	}
	for range a.Syncs {
		s.queue(syncMessage)
	}
	if a.Swallow && c != nil {
		switch s.question {
		case askSettings:
			c.settings.Answer(typ, body)
		case askPins, askLeft:
			c.pinsAnswered(typ, body)
		}
	}
	last := s.tracker.Owed() == 0 // before something of ours is added
	if a.Ready {
		s.endCycle(a)
		if c != nil {
			s.settingsReady(c, a.Status, last)
		}
	}
	if c == nil {
		return false, true
	}
	if a.Ready && c.srv.again.failed {
		c.sendAgain()
		return false, true
	}
	if c.srv.told != nil && typ == protocol.BackendParameterStatus {
		return false, true
	}
	if a.Ready && !a.Swallow && last && s.holdsReady(c, a.Status) {
		return false, true
	}
	if a.Ready && !a.Swallow && c.listensReady(a.Status, last) {
		return false, true
	}
	if a.Resume {
		s.w.later(c)
	}
	switch typ {
	case protocol.BackendErrorResponse:
		c.marks.Failed()
		c.recheck = c.recheck || c.pins&pinsChecked != 0
		if c.settings != nil {
			c.settings.Error()
		}
		if c.follow != nil {
			c.follow.log.fail()
		}
	case protocol.BackendNotificationResponse:
		return !c.virtual() || s.left&leftUnknown != 0, true // else the pool's listener tells it
	}
	return !a.Swallow, true
}

// beginCycle: the first byte of a Sync group or Query goes to the server.
func (s *server) beginCycle(now int64) {
	s.cycleAt, s.requestAt = now, now
	if s.xactAt == 0 {
		s.xactAt = now
	}
}

// endCycle: a ReadyForQuery has come.
func (s *server) endCycle(a *protocol.Answer) {
	now := s.w.now()
	took := now - s.cycleAt
	if c := s.client; c != nil && !a.Swallow && !s.again.failed {
		c.answeredCycle(s, a.Status, now)
	}
	s.waitAt, s.cycleAt, s.cancelled = now, 0, false
	owed := s.tracker.Owed()
	if owed > 0 {
		s.cycleAt = now
	}
	if a.Status == protocol.StatusIdle {
		s.xactAt = s.cycleAt
	}
	switch {
	case s.applied.Pending():
		s.batchDone()
	case a.Swallow && s.question != askNothing:
		if c := s.client; c != nil && c.srv.told != nil && s.question == askRestore {
			s.w.instead = c.appendTold(s.w.answer[:0], a.Status)
			s.w.answer = s.w.instead
		}
		s.question = askNothing
		s.goOn()
	}
	c := s.client
	if c == nil {
		return
	}
	if c.held {
		s.w.later(c)
	}
	if a.Swallow {
		return
	}
	s.cycleTook(took)
	if a.Status == protocol.StatusIdle {
		c.localSet = false
	}
	c.since = now
	if owed == 0 && a.Status == protocol.StatusIdle && c.prep != nil { // no portal outlives its transaction
		clear(c.prep.portals)
		c.prep.portals = c.prep.portals[:0]
	}
	if owed == 0 {
		c.marks.Settle()
	}
}

// answeredCycle counts a query cycle of c, which ends now, and the transaction that
// ends with it. Time in queues is in neither, nor is that of settings which went
// before.
func (c *client) answeredCycle(s *server, status byte, now int64) {
	t, d := c.traffic, &c.route.stats.durations[c.w.id]
	spent := now - s.cycleAt
	s.queries++
	t.inc(trafficQueries)
	t.add(trafficQueryTime, uint64(spent))
	d[durationQuery].observe(spent)
	if status != protocol.StatusIdle {
		return
	}
	spent = now - s.xactAt
	t.inc(trafficXacts)
	t.add(trafficXactTime, uint64(spent))
	d[durationXact].observe(spent)
}

// toClient writes p to the linked client.
func (s *server) toClient(p []byte) {
	if len(p) > 0 && s.client != nil {
		s.client.put(p)
	}
}

// settle looks, after a batch of answers, what the server is to do next.
func (s *server) settle() {
	if s.out.Len() > 0 {
		s.flush()
	}
	switch s.state {
	case serverLinked:
		s.settleLinked()
	case serverRecovering:
		s.recoverOn()
	case serverTesting:
		s.checkOn()
	}
}

func (s *server) settleLinked() {
	c := s.client
	if c.reason != reasonNone { // a write to it failed
		c.close(c.reason)
		return
	}
	if !s.tracker.Idle() {
		if c.up.pool.mode == modeStatement && s.tracker.Owed() == 0 && s.tracker.AtBoundary() && s.tracker.Status() != 'I' {
			c.fatal(reasonStatementMode, errStatementModeBlock)
			return
		}
		if c.held && !s.tracker.Busy() {
			s.w.later(c) // a Terminate or a malformed message behind a Flush waits for its answers only
		}
		c.armTimer()
		return
	}
	if c.state == clientLoginLink {
		c.backendAnswered()
		return
	}
	if c.srv.again.again {
		c.disarm()
		c.held = false
		s.w.later(c)
		return
	}
	if s.fresh {
		c.armTimer() // the batch of settings is done; the client's request is yet to be sent
		return
	}
	if c.departs() && c.goesNow() {
		c.leaveAtBoundary()
		return
	}
	if !c.resolve(s) || s.tellReset(c) || s.askPins(c) || s.checkReset(c) || s.shedCopies() {
		return
	}
	if c.pins == 0 {
		s.release()
		return
	}
	if c.virtual() {
		s.apply(c.prof)
	}
	c.deliverNotices()
	c.refresh()
	c.armTimer()
}
