package engine

// What the tests of LISTEN reach in from outside.

import "time"

// Noticed is how many notifications wait for the client with a process number.
func (e *Engine) Noticed(pid uint32) (n int) {
	w := e.workers[LoopOf(pid)]
	w.submit(func(w *worker) bool {
		if c := w.slots.get(uint16(pid), uint8(pid>>24)); c != nil && c.listens != nil {
			n = len(c.listens.queue)
		}
		return false
	}).wait(w)
	return n
}

// SetListenerClocks changes how long a listener stays without a channel, and how often it asks for an answer. Before the
// first client.
func (e *Engine) SetListenerClocks(idle, probes time.Duration) {
	e.listeners.idle, e.listeners.probes = int64(idle), int64(probes)
}
