package engine

// A RESET of a client leads to its own startup values, which the server does not
// know: it reports its own, and is then given the client's. What the client is told
// is the difference between before and after, before the ReadyForQuery.
//
// State: client.told, the values of the server's parameters, in their order, as the
// client knows them, from a RESET on until
// its ReadyForQuery is sent. Meanwhile no ParameterStatus passes.

import "pgkinetic/protocol"

// resetting notes that a RESET of c's has been sent.
func (c *client) resetting() {
	if c.srv.told == nil && c.settings.Waits(c.first) {
		p := c.srv.params
		c.srv.told = make([]string, p.Len())
		for i := range c.srv.told {
			name, value, base := p.At(i)
			c.srv.told[i] = string(value)
			if !c.srv.applied.Pending() {
				continue
			}
			if own, ok := c.prof.Get(name); ok { // the server is yet to report what it was given
				c.srv.told[i] = own
			} else if p.SettableAt(i) {
				c.srv.told[i] = string(base)
			}
		}
	}
}

// holdsReady takes the ReadyForQuery behind a RESET. true: it is not for the client
// as it is.
func (s *server) holdsReady(c *client, status byte) bool {
	if c.srv.told == nil {
		return false
	}
	if status != protocol.StatusIdle && s.question != askRestore {
		s.w.instead = c.appendTold(s.w.answer[:0], status)
		s.w.answer = s.w.instead
	}
	return true
}

// appendTold appends what has changed, and the ReadyForQuery, unless a LISTEN holds
// that back.
func (c *client) appendTold(dst []byte, status byte) []byte {
	p := c.srv.params
	for i := range p.Len() {
		name, value, _ := p.At(i)
		if i >= len(c.srv.told) || c.srv.told[i] != string(value) {
			dst = protocol.AppendParameterStatus(dst, name, string(value))
		}
	}
	c.srv.told = nil
	if c.listening() {
		return dst
	}
	return protocol.AppendReadyForQuery(dst, status)
}

// tellReset ends a RESET outside a block: the client's own values hold.
func (s *server) tellReset(c *client) (busy bool) {
	if c.srv.told == nil {
		return false
	}
	s.apply(c.prof)
	if s.applied.Pending() {
		s.await = true // what is behind the RESET is answered behind its ReadyForQuery
		s.flush()
		return true
	}
	s.w.answer = c.appendTold(s.w.answer[:0], protocol.StatusIdle)
	c.send(s.w.answer)
	c.w.later(c) // what it has sent since was held
	return false
}
