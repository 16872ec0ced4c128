package engine

// What the tests of LISTEN reach in from outside.

import "time"

// listenOps turns words into operations: +a listens to a, -a does so no more, -* not to anything.
func listenOps(words []string) (ops []listenOp) {
	for _, word := range words {
		switch {
		case word == "-*":
			ops = append(ops, listenOp{kind: unlistenEvery})
		case word[0] == '+':
			ops = append(ops, listenOp{listenName, word[1:]})
		default:
			ops = append(ops, listenOp{unlistenName, word[1:]})
		}
	}
	return ops
}

// Listen does for the client with a process number, which is idle, what a request does that has committed these operations.
// The client gets the end of such a request: an error, if any, and ReadyForQuery. waits: not at once.
func (e *Engine) Listen(pid uint32, words ...string) (waits bool) {
	e.onClient(pid, func(c *client) {
		wait, fault := c.listen(listenOps(words))
		if waits = wait; wait {
			return
		}
		if fault != nil {
			c.sendError(fault)
		}
		c.sendReady('I')
		c.deliverNotices()
	})
	return waits
}

// Settle does for a client what its ReadyForQuery does that ends a transaction.
func (e *Engine) Settle(pid uint32) { e.onClient(pid, (*client).deliverNotices) }

// Noticed is how many notifications wait for a client.
func (e *Engine) Noticed(pid uint32) (n int) {
	e.onClient(pid, func(c *client) {
		if c.listens != nil {
			n = len(c.listens.queue)
		}
	})
	return n
}

func (e *Engine) onClient(pid uint32, f func(c *client)) {
	w := e.workers[LoopOf(pid)]
	w.submit(func(w *worker) bool {
		if c := w.slots.get(uint16(pid), uint8(pid>>24)); c != nil {
			f(c)
		}
		return false
	}).wait(w)
}

// SetListenerClocks changes how long a listener stays without a channel, and how often it asks for an answer. Before the
// first client.
func (e *Engine) SetListenerClocks(idle, probes time.Duration) {
	e.listeners.idle, e.listeners.probes = int64(idle), int64(probes)
}
