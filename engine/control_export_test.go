package engine

// What the tests of operators' commands reach in from outside.

import "time"

// SetDrainLog changes how often a drain tells how far it is. Before it begins.
func (e *Engine) SetDrainLog(every time.Duration) { e.drain.logEvery = every }

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
