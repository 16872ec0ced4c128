package engine

// A census counts the clients and backends of every pool by what they do: each loop
// counts its own, a bounded number per turn, into a part of the census of its own.
// Nothing is counted while nobody looks.

import (
	"pgkinetic/engine/reactor"
)

// poolCensus is what is known of one pool at about one moment.
type poolCensus struct {
	clients                        int // that have logged in, or wait for that
	waiting                        int // of them
	cancelsSent, cancelsUnsent     int // CancelRequests under way for its backends
	servers                        [serverStates]int
	used                           int // idle ones that are looked at before they serve
	canceling                      int // servers for which a cancel is under way
	oldestWait, oldestCheckout     int64
	clientStatements, serverCopies int
}

type census struct {
	now    int64
	pools  map[*pool]*poolCensus
	states [clientStates]int // clients of the process, consoles included
	total  poolCensus
}

func (n *census) of(p *pool) *poolCensus {
	return cached(n.pools, p, func() *poolCensus { return &poolCensus{} })
}

// takeCensus asks all loops. When one does not turn, nobody is waited for, and
// nothing counted. Any goroutine but a loop's.
func (e *Engine) takeCensus() *census {
	sum := newCensus()
	if e.Alive() != nil {
		return sum
	}
	parts := make([]*census, len(e.workers))
	for i := range parts {
		parts[i] = newCensus()
	}
	if !e.look(func(w *worker) {
		for _, s := range w.servers.items {
			parts[w.id].server(s)
		}
	}, func(c *client) { parts[c.w.id].client(c) }) {
		return sum
	}
	for _, part := range parts {
		sum.add(part)
	}
	return sum
}

func newCensus() *census { return &census{now: reactor.Now(), pools: map[*pool]*poolCensus{}} }

func (n *census) client(c *client) {
	n.states[c.state]++
	if c.up == nil || c.state >= clientClosing {
		return
	}
	k := n.of(c.up.pool)
	k.clients++
	k.clientStatements += c.catalog().Len()
	if c.waiter != nil {
		k.waiting++
		k.oldestWait = max(k.oldestWait, n.now-c.waiter.Since)
	}
}

func (n *census) server(s *server) {
	k := n.of(s.pool)
	k.servers[s.state]++
	k.used += number(s.used(n.now))
	if s.state == serverLinked {
		k.oldestCheckout = max(k.oldestCheckout, n.now-s.stateAt)
	}
	if s.held != nil {
		k.serverCopies += s.held.Len()
	}
	if s.cancel == nil {
		return
	}
	k.canceling++
	for r := s.cancel.waiters; r != nil; r = r.next {
		if s.cancel.sent {
			k.cancelsSent++
		} else {
			k.cancelsUnsent++
		}
	}
}

func (n *census) add(part *census) {
	for i := range n.states {
		n.states[i] += part.states[i]
	}
	for p, k := range part.pools {
		n.of(p).add(k)
		n.total.add(k)
	}
}

func (k *poolCensus) add(part *poolCensus) {
	k.clients += part.clients
	k.waiting += part.waiting
	k.cancelsSent += part.cancelsSent
	k.cancelsUnsent += part.cancelsUnsent
	for i := range k.servers {
		k.servers[i] += part.servers[i]
	}
	k.used += part.used
	k.canceling += part.canceling
	k.oldestWait = max(k.oldestWait, part.oldestWait)
	k.oldestCheckout = max(k.oldestCheckout, part.oldestCheckout)
	k.clientStatements += part.clientStatements
	k.serverCopies += part.serverCopies
}

// sum is how many of the servers are in one of these states.
func (k *poolCensus) sum(states ...serverState) (n int) {
	for _, s := range states {
		n += k.servers[s]
	}
	return n
}

// connecting and recovering are servers that are not to be had yet, or not any more.
func (k *poolCensus) connecting() int {
	return k.sum(serverConnecting, serverLoggingIn, serverBackoff)
}

func (k *poolCensus) recovering() int {
	return k.sum(serverRecovering, serverSettling, serverTesting, serverClosing)
}
