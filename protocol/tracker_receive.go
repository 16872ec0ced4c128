package protocol

// Receive takes a message of the backend by its type and says what it means.
// status is the status byte of ReadyForQuery, code the SQLSTATE of
// ErrorResponse (see ErrorCode); for other types they are not looked at. After
// an error the count is lost and the backend is to be closed.
func (t *Tracker) Receive(typ byte, status byte, code []byte) (a Answer, err error) {
	switch typ {
	case BackendNoticeResponse, BackendParameterStatus:
		return Answer{Swallow: t.swallow(flagSwallow)}, nil
	case BackendNotificationResponse:
		// The session's, not the head's: sent while a message of ours runs, it
		// is still for the client.
		return Answer{Swallow: t.swallow(flagOrphan)}, nil
	case BackendCopyBothResponse:
		return Answer{}, ErrCopyBoth
	}
	if t.queue.n == 0 || t.doomed {
		return t.receiveUnowed(typ)
	}
	head := t.queue.head()
	next := phaseNone
	if typ < 128 {
		next = grammar[head.kind][t.phase][typ]
	}
	a.Swallow = head.flags&flagSwallow != 0
	switch {
	case next == phaseNone:
		return Answer{}, ErrUnexpected
	case typ == BackendErrorResponse:
		if err := t.receiveError(&a, next, code); err != nil {
			return Answer{}, err
		}
		return a, nil
	case next == t.phase:
		return a, nil // a row, copy data
	case next == phaseCopyIn:
		if head.flags&flagMarked == 0 || (t.gate == gateEnded && !t.recovered) {
			return Answer{}, ErrCopyUnmarked
		}
		if t.gate == gateMarked {
			t.gate = gateCopyIn
		}
	case t.phase == phaseCopyIn:
		if t.gate != gateEnded || t.foreign {
			return Answer{}, ErrUnexpected // complete without CopyDone
		}
		t.held = 0
		if !t.recovered {
			t.gate = gateMarked // a Query may hold another COPY
		}
	case typ == BackendReadyForQuery:
		if status != StatusIdle && status != StatusBlock && status != StatusFailed {
			return Answer{}, ErrStatus
		}
		t.status = status
		a.Ready, a.Status = true, status
		if t.phase == phaseFailed {
			t.failed = t.Done() + 1
			t.removed = t.failed
		}
	}
	t.phase = next
	if next == phaseDone {
		t.pop()
		if t.queue.n > 0 {
			a.Local = t.popLocal()
		}
	}
	a.Resume = t.resume()
	return a, nil
}

// swallow tells for whom a message is that answers nothing.
func (t *Tracker) swallow(flags uint8) bool {
	if t.queue.n == 0 {
		return t.orphan
	}
	return t.queue.head().flags&flags != 0
}

// receiveUnowed handles a message that no entry can have caused. Only an error
// can be that: the server ends the session (FATAL), or goes on to end it after
// a message that failed a COPY.
func (t *Tracker) receiveUnowed(typ byte) (Answer, error) {
	if typ != BackendErrorResponse {
		return Answer{}, ErrUnexpected
	}
	a := Answer{Swallow: t.swallow(flagSwallow)}
	if t.group == groupOpen {
		t.skip = true
	} else {
		t.doomed = true
	}
	return a, nil
}

// receiveError applies invariants 3 and 4 and settles the COPY.
func (t *Tracker) receiveError(a *Answer, next phase, code []byte) error {
	head := t.queue.head()
	inCopy := t.phase == phaseCopyIn
	if inCopy && t.foreign {
		if string(code) == CodeProtocolViolation {
			// The COPY has read the message that cannot be part of it. PostgreSQL
			// 14 and later end the session, older ones go on, having lost it.
			t.doomed = true
			return nil
		}
		if t.held > 0 && string(code) != CodeQueryCanceled {
			return ErrCopyDoubt // those Syncs belong before that message
		}
	}
	syncs := t.held
	t.held = 0
	if string(code) == CodeQueryCanceled {
		syncs = 0 // raised while the COPY waits for data: it has read them
	}
	a.InjectedError = head.flags&flagInjected != 0
	a.Swallow = head.flags&flagOurs != 0
	if next == phaseSkip {
		t.failed = t.Done() + 1
		a.InjectedError = t.popToSync() || a.InjectedError
		t.removed = t.Done()
	} else {
		t.phase = phaseFailed
		if head.flags&flagMarked != 0 {
			head.flags &^= flagMarked
			t.openGate()
		}
	}
	for range syncs {
		t.send(kindSync, 0)
	}
	a.Syncs = syncs
	a.Resume = t.resume()
	return nil
}

// popToSync removes the head and all entries behind it up to a Sync, and sets
// skip if there is none. It reports whether one of them was injected.
func (t *Tracker) popToSync() (injected bool) {
	for t.queue.n > 0 && t.queue.head().kind != kindSync {
		injected = injected || t.queue.head().flags&flagInjected != 0
		t.pop()
	}
	if t.queue.n == 0 {
		t.skip = true
		t.group = groupOpen
	}
	return injected
}

// pop removes the head.
func (t *Tracker) pop() {
	head := *t.queue.head()
	t.queue.pop()
	if head.kind.ready() {
		t.ready--
	}
	t.phase = phaseStart
	t.loose = min(t.loose, t.queue.n)
	if t.queue.n == 0 && t.group == groupTail {
		t.group = groupClosed
	}
	if head.flags&flagMarked != 0 {
		t.openGate()
	}
}

// openGate: what was sent last cannot be COPY FROM STDIN any more. A message
// that was sent to fail that COPY, and did not, may be one itself.
func (t *Tracker) openGate() {
	t.gate = gateOpen
	t.foreign = false
	t.recovered = false
	if t.queue.n > 0 && t.queue.newest().flags&flagMarked != 0 {
		t.gate = gateMarked
	}
}

// popLocal removes the local entries that have become the head (invariant 7) and
// counts those whose client is still there.
func (t *Tracker) popLocal() (complete int) {
	for t.queue.n > 0 && t.queue.head().flags&flagLocal != 0 {
		if t.queue.head().flags&flagOrphan == 0 {
			complete++
		}
		t.pop()
	}
	return complete
}

// resume reports whether a message that was held may be offered from now on.
func (t *Tracker) resume() bool {
	if !t.waiting || !t.Resume() {
		return false
	}
	t.waiting = false
	return true
}
