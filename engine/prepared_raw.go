package engine

// Statements that exist on the present server as the client calls them, and nowhere
// else: those of PREPARE, those that SQL names, and those that cannot be kept.
//
// State: client.prep.raw. Owner: the client's loop. Like a Catalog it is told of what
// is sent, and settles it when the answers come: an error may have removed it.
//
// Invariants: ops are in the order of their numbers; strays are copies for the sake
// of a DEALLOCATE which that may not have taken away, and are closed before the
// server serves anybody else.

import "pgkinetic/protocol"

type rawNames struct {
	names  map[string]struct{} // certain
	ops    []rawOp             // in flight
	strays []stray
}

type rawOp struct {
	number  uint64
	name    string
	gone    bool // it is taken away; all of them where name is empty
	prepare bool // by PREPARE, which is not undone where it is a part of a Query that fails
}

// stray is a name that was made to exist so that a DEALLOCATE finds it.
type stray struct {
	name   string
	parse  uint64 // number of its Parse
	number uint64 // of the DEALLOCATE's message, 0 while that is not sent
	left   bool   // it has failed, or was removed
}

// rawOf tells whether a name exists on the server as the client calls it, behind all
// that was sent, and the number of what that rests on, 0 if it is certain.
func (c *client) rawOf(name []byte) (raw bool, since uint64) {
	if c.prep == nil || len(name) == 0 {
		return false, 0
	}
	r := &c.prep.raw
	for i := len(r.ops) - 1; i >= 0; i-- {
		if op := &r.ops[i]; op.name == string(name) || op.gone && op.name == "" {
			return !op.gone, op.number
		}
	}
	_, raw = r.names[string(name)]
	return raw, 0
}

func (c *client) isRaw(name []byte) bool {
	raw, _ := c.rawOf(name)
	return raw
}

// rawUndecided tells that what is in flight in an earlier group decides on a name.
func (c *client) rawUndecided(name []byte) bool {
	_, since := c.rawOf(name)
	return c.srv.undecided(since)
}

func (c *client) addRaw(n uint64, name []byte, prepare bool) {
	if len(name) > 0 {
		r := &c.prepares().raw
		r.ops = append(r.ops, rawOp{number: n, name: string(name), prepare: prepare})
	}
}

func (c *client) dropRaw(n uint64, name []byte) {
	if c.isRaw(name) {
		c.prep.raw.ops = append(c.prep.raw.ops, rawOp{number: n, name: string(name), gone: true})
	}
}

func (c *client) dropAllRaw(n uint64) {
	if c.prep != nil && (len(c.prep.raw.names) > 0 || len(c.prep.raw.ops) > 0) {
		c.prep.raw.ops = append(c.prep.raw.ops, rawOp{number: n, gone: true})
	}
}

// settleRaw takes account of what an answer has settled.
func (c *client) settleRaw(t *protocol.Tracker) {
	r := &c.prep.raw
	if len(r.ops) == 0 && len(r.strays) == 0 {
		return
	}
	done := t.Done()
	i := 0
	for ; i < len(r.ops) && r.ops[i].number <= done; i++ {
		r.settle(&r.ops[i], t.Outcome(r.ops[i].number), c)
	}
	if i > 0 {
		r.ops = append(r.ops[:0], r.ops[i:]...)
	}
	kept := r.strays[:0]
	for _, s := range r.strays {
		if s.parse != 0 && s.parse <= done {
			if t.Outcome(s.parse) != protocol.Executed {
				continue
			}
			s.parse = 0
		}
		if s.number != 0 && s.number <= done && !s.left {
			if t.Outcome(s.number) == protocol.Executed {
				continue
			}
			s.left = true
		}
		kept = append(kept, s)
	}
	r.strays = kept
}

func (r *rawNames) settle(op *rawOp, o protocol.Outcome, c *client) {
	switch {
	case o == protocol.Executed && op.gone && op.name == "":
		r.names = nil
	case o == protocol.Executed && op.gone:
		delete(r.names, op.name)
	case o == protocol.Executed,
		o == protocol.Failed && op.prepare && c.prep.catalog.Lookup([]byte(op.name)).Statement == nil:
		if r.names == nil {
			r.names = map[string]struct{}{}
		}
		r.names[op.name] = struct{}{}
	}
}

// clear: nothing of it exists any more, or the server is another.
func (r *rawNames) clear() { *r = rawNames{} }

// strayed notes that a name was made for the DEALLOCATE that is sent next.
func (c *client) strayed(n uint64, name []byte) {
	c.prep.raw.strays = append(c.prep.raw.strays, stray{name: string(name), parse: n})
}

// strayFor gives the stray of a name that the next DEALLOCATE of it finds: one that
// was made for it, or that an earlier one has left.
func (c *client) strayFor(name []byte) *stray {
	for i := range c.prep.raw.strays {
		if s := &c.prep.raw.strays[i]; (s.number == 0 || s.left) && s.name == string(name) {
			s.number, s.left = 0, false
			return s
		}
	}
	return nil
}

// closeStrays closes what DEALLOCATE was to take away and has not. true: the server
// is busy with that.
func (s *server) closeStrays(c *client) (busy bool) {
	if c == nil || c.prep == nil || len(c.prep.raw.strays) == 0 {
		return false
	}
	for _, k := range c.prep.raw.strays {
		if s.tracker.Inject(protocol.FrontendClose) == protocol.Forward {
			s.put(protocol.AppendClose(nil, protocol.TargetStatement, k.name))
			busy = true
		}
	}
	c.prep.raw.strays = nil
	return busy
}
