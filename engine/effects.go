package engine

// Effects: what executing a text does to the client's session, beyond its answer:
// it pins, it sets, it takes prepared statements away. It is noted when the text is
// sent (a Query, or the Execute of a portal that was made of it), in the safe
// direction; what undoes a pin counts when the server has answered that it did.

import (
	"bytes"

	"pgkinetic/engine/session"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// ending is a statement under way that certainly ends pins when it is executed.
type ending struct {
	number uint64 // of its message; 0: none
	pins   pinSet
}

// statementFlags are those of texts that name prepared statements, or end pins.
const statementFlags = sqllex.Prepare | sqllex.Execute | sqllex.Deallocate | sqllex.Discard | sqllex.AdvisoryUnlock

// passQuery passes on a Query.
func (c *client) passQuery(m []byte, l *look) disposition {
	if d := c.readyText(protocol.FrontendQuery, l.flags, l.sql); d != take {
		return d
	}
	d := c.passAsIs(protocol.FrontendQuery, m, l)
	if d == take || d == takeFlush {
		s := c.srv
		n := s.tracker.Sent()
		c.replacesUnnamed()
		c.catalog().Query(n)
		s.held.Query(n)
		c.strange = false
		c.executed(n, sqllex.Result{Flags: l.flags, Class: l.class}, l.sql)
	}
	return d
}

// passExecute passes on an Execute.
func (c *client) passExecute(m []byte, l *look) disposition {
	portal, _ := protocol.ExecutePortal(m[protocol.HeaderLen:])
	st, unseen := c.prep.portal(portal)
	if st == nil {
		return c.passUnseen(m, l, unseen)
	}
	if d := c.readyText(protocol.FrontendExecute, st.Flags(), st.Text()); d != take {
		return d
	}
	d := c.passAsIs(protocol.FrontendExecute, m, l)
	if d == take || d == takeFlush {
		c.executed(c.srv.tracker.Sent(), st.Lexed(), st.Text())
	}
	return d
}

// passUnseen passes on an Execute of a portal of which no more is known than flags
// that its statement may have.
func (c *client) passUnseen(m []byte, l *look, flags sqllex.Flags) disposition {
	if p := pinsOf(flags); !c.mayPin(p) || !c.pin(p) {
		return c.failInPlace(protocol.FrontendExecute, c.pinRefused(p))
	}
	d := c.passAsIs(protocol.FrontendExecute, m, l)
	if flags != 0 && (d == take || d == takeFlush) {
		c.executedUnseen(flags)
		c.recheck = true
	}
	return d
}

// readyText prepares for a text that is to be executed next. d is take if it may
// be.
func (c *client) readyText(typ byte, flags sqllex.Flags, sql []byte) (d disposition) {
	if p := pinsOfText(flags, sql); !c.mayPin(p) || !c.pin(p) {
		return c.failInPlace(typ, c.pinRefused(p))
	}
	if flags&(sqllex.Prepare|sqllex.Execute|sqllex.Deallocate) == 0 || !c.virtual() {
		return take
	}
	w := c.w
	extended := typ == protocol.FrontendExecute
	w.ops = sqllex.AppendOps(w.ops[:0], sql)
	for i := range w.ops {
		op := &w.ops[i]
		switch op.Kind {
		case sqllex.OpDeallocate:
			d = c.exposeDeallocated(w.nameOf(op, sql), extended)
		case sqllex.OpPrepare, sqllex.OpExecute:
			d = c.expose(w.nameOf(op, sql), extended)
		default:
			continue
		}
		if d != take {
			return d
		}
	}
	return take
}

// nameOf gives the name of an operation, folded; empty if the text does not show
// it. It is valid until the next call.
func (w *worker) nameOf(op *sqllex.Op, sql []byte) []byte {
	name, ok := op.AppendName(w.name[:0], sql)
	if !ok {
		return nil
	}
	w.name = name
	return name
}

// exposeDeallocated: DEALLOCATE of a name must find it; what it means does not
// matter.
func (c *client) exposeDeallocated(name []byte, extended bool) disposition {
	if st, d := c.mentioned(name); st == nil {
		return d
	}
	if c.strayFor(name) != nil { // it was made when this message was held
		return take
	}
	n, d := c.materialise(name, emptyStatement, extended)
	if n != 0 {
		c.strayed(n, name)
	}
	return d
}

// executed notes that a text with these flags is executed by message n.
func (c *client) executed(n uint64, r sqllex.Result, sql []byte) {
	flags := r.Flags
	if p := pinsOfText(flags, sql); p != 0 {
		c.pin(p)
		c.srv.pinAt = n
	}
	c.mayEndPins(flags, r.Class)
	if c.limits.ResetCheck && bytes.IndexByte(sql, '(') >= 0 {
		c.srv.unseen = true
	}
	if flags == 0 {
		return
	}
	c.leaves(flags)
	if flags&sqllex.SetLocal != 0 {
		c.moved = c.moved || movesNames(sql)
	}
	const follows = statementFlags | session.Changes | listenFlags
	live := c.follow != nil || c.settings.Live()
	if !c.virtual() || flags&follows == 0 && !(live && flags&session.WhileLive != 0) {
		return
	}
	w := c.w
	w.ops = sqllex.AppendOps(w.ops[:0], sql)
	c.sets(n, flags, sql)
	if flags&listenFlags != 0 || c.follow != nil {
		if c.follow == nil {
			c.follow = &listenFollow{}
			c.follow.log.block = c.srv.tracker.Status() != protocol.StatusIdle
		}
		c.follow.send(w, n, w.ops, sql)
	}
	if flags&sqllex.Listen != 0 {
		c.srv.left |= leftListen
	}
	for i := range w.ops {
		c.execute(n, &w.ops[i], sql)
	}
}

// leaves notes what a text with these flags may leave on the server, and that texts
// may have another meaning behind it.
func (c *client) leaves(flags sqllex.Flags) {
	if flags&sqllex.Load != 0 {
		c.srv.left |= leftLibrary
	}
	if flags&sqllex.Do != 0 {
		c.srv.left |= leftHidden
	}
	if flags&sqllex.SetLocal != 0 {
		c.localSet = true
	}
	if flags&(sqllex.SetLocal|sqllex.TempTable) != 0 {
		c.doubts++
	}
}

// executedUnseen is executed for a text of which only the flags are known: one too
// large to be kept, which has passed through, or that of a portal beyond those that
// are remembered.
func (c *client) executedUnseen(flags sqllex.Flags) {
	s := c.srv
	n := s.tracker.Sent()
	c.pin(pinsOf(flags))
	s.unseen = s.unseen || c.limits.ResetCheck
	c.mayEndPins(flags, sqllex.ClassMaintenance)
	c.leaves(flags)
	c.moved = c.moved || flags&sqllex.SetLocal != 0
	if !c.virtual() {
		return
	}
	if flags&session.Changes != 0 || c.settings.Live() && flags&session.WhileLive != 0 {
		if c.settings == nil {
			c.settings = &session.Settings{}
		}
		c.settings.Unfollowed(n)
		c.moved = true
		c.doubts++
	}
	if flags&(sqllex.Listen|sqllex.Deallocate|sqllex.Discard|sqllex.Prepare) != 0 {
		c.pin(pinUnknown)
		s.left |= leftUnknown
	}
}

func (c *client) execute(n uint64, op *sqllex.Op, sql []byte) {
	s := c.srv
	switch op.Kind {
	case sqllex.OpPrepare, sqllex.OpExecute:
		c.addRaw(n, c.w.nameOf(op, sql), op.Kind == sqllex.OpPrepare)
	case sqllex.OpDeallocate:
		name := c.w.nameOf(op, sql)
		if len(name) == 0 {
			return // PostgreSQL refuses it
		}
		c.catalog().Close(n, name)
		c.dropRaw(n, name)
		if c.prep != nil {
			if k := c.strayFor(name); k != nil {
				k.number = n
			}
		}
		s.stepAt = n
	case sqllex.OpDeallocateAll, sqllex.OpDiscardAll:
		c.catalog().Clear(n)
		s.held.Clear(n)
		s.stepAt = n
		c.dropAllRaw(n)
		c.srv.ends = ending{n, pinSQLPrepare | pinLargeParse}
		if op.Kind == sqllex.OpDiscardAll {
			c.srv.ends.pins = pinReason
			if s.left&leftLibrary != 0 { // PostgreSQL keeps what was loaded
				c.srv.ends.pins &^= pinUnknown
			}
		}
	case sqllex.OpAdvisoryUnlockAll:
		c.srv.ends = ending{n, pinAdvisoryLock}
	case sqllex.OpCloseAll:
		c.srv.ends = ending{n, pinHoldCursor}
	}
}

// endPins ends pins whose causes a statement has taken away. DEALLOCATE ALL and DISCARD
// ALL leave an unnamed statement.
func (c *client) endPins(p pinSet) {
	if c.unkept() {
		p &^= pinLargeParse
	}
	c.unpin(p)
}

// settleStatements takes account of what an answer has settled.
func (s *server) settleStatements(c *client) {
	t := &s.tracker
	s.held.Settle(t, s.failCode[:])
	if parsed := s.held.Parsed(); len(parsed) > 0 {
		for _, st := range parsed {
			s.pool.known.add(st)
		}
		clear(parsed)
	}
	if st := s.held.Failed(); st != nil {
		s.pool.known.remove(st)
	}
	if c == nil {
		return
	}
	if c.prep != nil {
		c.prep.catalog.Settle(t)
		c.settleRaw(t)
	}
	if c.srv.later.n > 0 {
		c.settleLater(t)
	}
	if c.follow != nil {
		c.follow.settle(t)
	}
	if c.settings != nil {
		c.settings.Settle(t)
	}
}

// stepped: within a Query of several statements, one that takes prepared
// statements away has been executed.
func (s *server) stepped(c *client, n uint64, typ byte, body []byte) {
	var tag []byte
	if typ == protocol.BackendCommandComplete {
		tag, _ = protocol.CommandTag(body)
	}
	if c.settings != nil {
		c.settings.Step(n, tag)
	}
	if c.follow != nil {
		c.follow.step(n, tag)
	}
	if c.srv.ends.number == n { // the last statement that ends pins, or one before it
		if c.srv.pinAt < n {
			c.endPins(c.srv.ends.pins)
		}
		c.srv.ends = ending{}
	}
	if string(tag) == "DISCARD ALL" && s.tracker.Sent() <= n+1 { // nothing of consequence behind it
		s.left &= leftLibrary
	}
	if s.stepAt != n {
		return
	}
	switch string(tag) {
	case "DEALLOCATE ALL", "DISCARD ALL":
		s.held.Step(n)
		c.catalog().Step(n)
	case "DEALLOCATE":
		c.catalog().Step(n)
	}
}
