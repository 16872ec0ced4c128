package protocol

// Offer takes a client's message by its type, which PeekFrontend has accepted
// and which is not Terminate, and says what is to be done with it. mayCopy
// matters for Query and Execute only: the statement may be COPY FROM STDIN. It
// may be wrong in that direction, never in the other.
//
// A message that was answered with Hold or Full has not been offered: it is
// offered again, with the same arguments, before any other.
func (t *Tracker) Offer(typ byte, mayCopy bool) Verdict {
	t.orphan = false
	v := t.offer(typ, mayCopy)
	if v == Hold || v == Full {
		t.waiting = true
		return v
	}
	t.flushed = typ == FrontendFlush
	return v
}

func (t *Tracker) offer(typ byte, mayCopy bool) Verdict {
	switch t.gate {
	case gateMarked, gateEnded:
		return Hold
	case gateCopyIn:
		return t.offerCopyIn(typ, mayCopy)
	}
	k := kindOf[typ]
	switch {
	case t.skip && k != kindSync:
		return Drop // the backend would discard it
	case typ == FrontendFlush:
		t.loose = 0
		return Forward
	case k == kindNone:
		return Drop // copy data without a COPY, which the backend would ignore
	case t.queue.n >= MaxOwed:
		return Full
	}
	return t.sendClient(k, mayCopy)
}

// offerCopyIn is offer while the backend reads copy data. Sync and Flush are
// not sent: the COPY would read and ignore them, the main loop would not, and
// which of the two reads them is not known until the COPY has ended.
func (t *Tracker) offerCopyIn(typ byte, mayCopy bool) Verdict {
	switch typ {
	case FrontendCopyData:
		t.held = 0
		return Forward
	case FrontendCopyDone, FrontendCopyFail:
		t.held = 0
		t.gate = gateEnded
		if typ == FrontendCopyDone && t.queue.head().kind == kindExecute {
			// The Flush behind the Execute was read, and ignored, by the COPY.
			return ForwardFlush
		}
		return Forward
	case FrontendSync:
		t.held = min(t.held+1, maxHeldSyncs)
		return Drop
	case FrontendFlush:
		return Drop
	}
	// Any other type fails the COPY. It is counted as if it did not: when the
	// COPY has failed before, the main loop reads it.
	t.foreign = true
	t.gate = gateEnded
	return t.sendClient(kindOf[typ], mayCopy)
}

// sendClient counts a client's message and decides whether a Flush must follow.
func (t *Tracker) sendClient(k kind, mayCopy bool) Verdict {
	if !mayCopy || (k != kindExecute && k != kindQuery) {
		t.send(k, 0)
		return t.pushIfFull()
	}
	t.send(k, flagMarked)
	if t.gate == gateOpen {
		t.gate = gateMarked
	}
	if t.loose == 0 {
		return Forward
	}
	t.loose = 0
	return ForwardFlush
}

// MayInject reports whether a message of ours may go before the client's next
// one: nothing is held, no COPY reads, and there is so much room that neither
// fills the queue. So, where Inject then says Forward, Offer says it as well, or
// ForwardFlush to what may be COPY FROM STDIN, or Drop to stray copy data.
func (t *Tracker) MayInject() bool {
	return t.gate == gateOpen && t.queue.n < MaxOwed-2
}

// Inject counts a message of ours by its type: its answers are Swallow. It is
// to be sent where nothing is held, and not inside a COPY. The verdict is
// Forward, ForwardFlush, or Drop where the backend would discard the message.
func (t *Tracker) Inject(typ byte) Verdict {
	switch k := kindOf[typ]; {
	case t.skip && k != kindSync:
		return Drop
	case typ == FrontendFlush:
		t.loose = 0
		return Forward
	case k == kindNone:
		return Drop
	default:
		t.send(k, flagInjected)
		return t.pushIfFull()
	}
}

// pushIfFull keeps invariant 6: a full queue has been pushed.
func (t *Tracker) pushIfFull() Verdict {
	if t.queue.n < MaxOwed || t.loose == 0 {
		return Forward
	}
	t.loose = 0
	return ForwardFlush
}

// send counts a message that is sent to the main loop of the backend.
func (t *Tracker) send(k kind, flags uint8) {
	if t.queue.n == 0 {
		t.phase = phaseStart
	}
	t.queue.push(entry{kind: k, flags: flags})
	t.sent++
	if k.ready() {
		t.ready++
	}
	switch {
	case k.extended():
		t.group = groupOpen
		t.loose++
		return
	case k == kindSync:
		t.group = groupClosed
		t.skip = false
	case t.group == groupLocal:
		t.group = groupClosed // nothing before it that could fail
	case t.group != groupClosed:
		t.group = groupTail
	}
	t.loose = 0
}
