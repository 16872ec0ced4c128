package engine

// A Parse that is larger than what is walked in place and small enough to be kept
// (max_client_buffer_bytes) is gathered here, and then goes its way as any other.
//
// State: client.large, its bytes so far, with room for all of it; nil otherwise.
// Invariant: while it is not nil, it is the client's first unread message, and
// nothing of it has been sent.

import "pgkinetic/protocol"

// mustGather tells whether a message is to be gathered.
func (c *client) mustGather(typ byte, size int) bool {
	return typ == protocol.FrontendParse && size > wholeParse && c.state >= clientIdle && c.keeps(size)
}

// gather takes the part of the large message that p begins with. done: the message
// has been dealt with, and p[n:] is behind it; else the walk ends.
func (c *client) gather(p []byte) (n int, done bool) {
	n = min(cap(c.large)-len(c.large), len(p))
	c.large = append(c.large, p[:n]...)
	if len(c.large) < cap(c.large) {
		return n, false
	}
	m := c.large
	c.w.ahead, c.w.run = p[n:], p[n:n]
	switch d := c.dispose(protocol.FrontendParse, m, len(m)); d {
	case stop:
		return n, false
	case take, takeFlush:
		c.forward(m)
		if d == takeFlush {
			c.forward(flushMessage)
		}
	case sentFlush:
		c.forward(flushMessage)
	case exclude:
		c.large = nil
		c.fatal(reasonStatementMode, c.w.refusal)
		return n, false
	case gone:
		return n, false
	}
	c.large = nil
	return n, true
}

// gathered tells that a large message is complete and waits for its turn.
func (c *client) gathered() bool { return c.large != nil && len(c.large) == cap(c.large) }
