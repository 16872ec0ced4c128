package engine

// What a client SETs follows it from server to server (package session, whose
// documentation has the calls and their moments).
//
// State: client.settings, nil until the client changes something; server.question,
// what a query of ours asks that is under way.

import (
	"bytes"
	"slices"
	"strconv"

	"pgkinetic/engine/session"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// question is what a query of ours is for.
type question uint8

const (
	askNothing  question = iota
	askSettings          // reads the client's settings back
	askRestore           // gives the client its startup values back within a block
	askLeft              // what the client has left that nothing shows
	askPins              // whether the causes of its pins are still there
)

// sets tells of the operations of a text that is executed by message n.
func (c *client) sets(n uint64, flags sqllex.Flags, sql []byte) {
	if flags&session.Changes == 0 && !(c.settings.Live() && flags&session.WhileLive != 0) {
		return
	}
	if c.settings == nil {
		c.settings = &session.Settings{}
	}
	c.settings.Sent(n, c.w.ops, sql)
	c.moved = c.moved || movesNames(sql)
	c.resetting()
	c.doubts++
}

// mustWait: what c sends behind a complete group is held until that is answered: a
// RESET leads to its own startup values, which the server does not know, or a
// LISTEN must hold before more is answered, or a statement is used for the first
// time, and that may have to be done again.
func (c *client) mustWait() bool {
	return c.srv.told != nil || c.follow != nil || c.srv.again.first && c.srv.again.number != 0 || c.settings.Waits(c.first)
}

// settingsReady: a ReadyForQuery has come; last tells that no other is owed.
func (s *server) settingsReady(c *client, status byte, last bool) {
	if c.settings == nil {
		return
	}
	c.settings.Ready(status)
	if !last {
		return
	}
	if q := c.settings.Restore(s.w.answer[:0], status, c.first); len(q) > 0 {
		s.w.answer = q
		s.ask(q, askRestore)
	}
}

// ask sends a Query of ours while the client keeps the server.
func (s *server) ask(query []byte, q question) {
	s.question = q
	s.tracker.Inject(protocol.FrontendQuery)
	s.held.Query(s.tracker.Sent())
	s.groupAt = s.tracker.Sent() + 1
	s.queue(query)
	s.beginCycle(s.w.now())
	s.await = true
}

// resolve makes what c has set a part of its profile. false: the server is asked
// first.
func (c *client) resolve(s *server) bool {
	if c.settings == nil {
		return true
	}
	prof, r := c.settings.Resolve(c.prof, c.first, &s.applied, s.params)
	switch r {
	case session.AskServer:
		if c.unkept() {
			return true // a Query of ours would take the statement away
		}
		s.w.answer = c.settings.AppendReadBack(s.w.answer[:0])
		s.ask(s.w.answer, askSettings)
		s.flush()
		return false
	case session.KeepServer:
		c.pin(pinUnknown)
		return true
	}
	if s.left&(leftLibrary|leftUnknown) == 0 {
		c.unpin(pinUnknown)
	}
	c.settings = nil
	c.changeProfile(prof)
	return true
}

func (c *client) changeProfile(prof *session.Profile) {
	if prof == c.prof {
		return
	}
	before := c.application()
	c.prof = prof
	if c.application() != before {
		c.forgetChoices()
	}
}

// environment is what decides on the meaning of a text of c's. While settings of c
// are in doubt, it is one that no other client has.
func (c *client) environment() statements.Environment {
	p := c.prepares()
	if c.settings.Live() || c.localSet {
		if p.envOf != nil || p.doubts != c.doubts {
			p.envOf, p.doubts = nil, c.doubts
			unique := strconv.FormatUint(c.id, 10) + "/" + strconv.FormatUint(c.doubts, 10)
			p.env = statements.NewEnvironment(func(name string) (string, bool) {
				if !c.moved && slices.Contains(statements.NameSettings[:], name) {
					return c.prof.Get(name)
				}
				return unique, true
			})
		}
		if c.pins&pinTempTable != 0 {
			return c.alone()
		}
		return p.env
	}
	c.moved = false
	if p.envOf != c.prof {
		p.envOf = c.prof
		p.env = statements.NewEnvironment(c.prof.Get)
	}
	if c.pins&pinTempTable != 0 { // a name may be that of a temporary table
		return c.alone()
	}
	return p.env
}

// alone is c's environment while nobody else's names mean what c's do.
func (c *client) alone() statements.Environment {
	p := c.prep
	if p.aloneAt != c.doubts || p.aloneOf != p.env {
		p.aloneAt, p.aloneOf = c.doubts, p.env
		p.aloneEnv = p.env.Alone(strconv.FormatUint(c.id, 10) + "/" + strconv.FormatUint(c.doubts, 10))
	}
	return p.aloneEnv
}

// movesNames tells whether a text that changes settings may change what names mean.
func movesNames(sql []byte) bool {
	lower := bytes.ToLower(sql)
	for _, word := range [...]string{"search_path", "schema", "role", "authorization", "reset", "discard", "\\"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}
