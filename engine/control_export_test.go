package engine

// What the tests of operators' commands reach in from outside.

// StateNow is what readiness goes by.
func (e *Engine) StateNow() (draining, paused, suspended bool) { return e.stateNow() }

// ClientID is the number of the client with a process number; 0 for none.
func (e *Engine) ClientID(pid uint32) (id uint64) {
	w := e.workers[LoopOf(pid)]
	w.submit(func(w *worker) bool {
		if c := w.slots.get(uint16(pid), uint8(pid>>24)); c != nil {
			id = c.id
		}
		return false
	}).wait(w)
	return id
}
