package console

import (
	"pgkinetic/protocol"
)

// What drivers send around a command: transactions, which in a console are no more
// than the status that ReadyForQuery tells, and the cleaning of a session that goes
// back to a pool. Commands take effect when they are run; ROLLBACK takes nothing
// back.

// dialogue has the readers by the first word.
var dialogue map[string]parse

func init() { // as with commands
	dialogue = map[string]parse{
		"BEGIN": parseBegin("BEGIN"), "START": parseBegin("START TRANSACTION"),
		"COMMIT": parseEnd("COMMIT"), "END": parseEnd("COMMIT"),
		"ROLLBACK": parseRollback, "ABORT": parseEnd("ROLLBACK"),
		"SAVEPOINT": parseSavepoint("SAVEPOINT"), "RELEASE": parseSavepoint("RELEASE"),
		"RESET": parseReset, "DISCARD": parseDiscard, "DEALLOCATE": parseDeallocate,
		"CLOSE": parseCloseAll, "UNLISTEN": parseUnlisten, "SELECT": parseSelect,
	}
}

// ignored takes the rest of a statement that has no effect.
func (p *parser) ignored(tag string) (*statement, error) {
	for p.more() {
		p.next()
	}
	return &statement{run: func(*session, *command) (result, error) { return done(tag) }}, nil
}

func parseBegin(tag string) parse {
	return func(p *parser) (*statement, error) {
		if tag != "BEGIN" {
			if err := p.expect("TRANSACTION"); err != nil {
				return nil, err
			}
		}
		st, err := p.ignored(tag) // the mode of the transaction
		st.run = func(s *session, _ *command) (result, error) {
			if s.status != protocol.StatusIdle {
				s.warn(codeActiveBlock, "there is already a transaction in progress")
			}
			s.status = protocol.StatusBlock
			return done(tag)
		}
		return st, err
	}
}

// parseEnd reads the end of a transaction. COMMIT of one that has failed is a
// ROLLBACK, and says so.
func parseEnd(tag string) parse {
	return func(p *parser) (*statement, error) {
		p.acceptAny("WORK", "TRANSACTION")
		return &statement{ends: true, run: func(s *session, _ *command) (result, error) {
			tag := tag
			switch s.status {
			case protocol.StatusIdle:
				s.warn(codeNoBlock, "there is no transaction in progress")
			case protocol.StatusFailed:
				tag = "ROLLBACK"
			}
			s.status = protocol.StatusIdle
			s.closePortals()
			return done(tag)
		}}, nil
	}
}

// parseRollback reads ROLLBACK and ROLLBACK TO, after which a failed transaction
// goes on.
func parseRollback(p *parser) (*statement, error) {
	st, err := parseEnd("ROLLBACK")(p)
	if !p.accept("TO") {
		return st, err
	}
	st, err = parseSavepoint("ROLLBACK")(p)
	if err != nil {
		return nil, err
	}
	st.ends = true
	return st, nil
}

// parseSavepoint reads what concerns a savepoint. Since there is nothing to go back
// to, their names do not matter.
func parseSavepoint(tag string) parse {
	return func(p *parser) (*statement, error) {
		if tag != "SAVEPOINT" {
			p.accept("SAVEPOINT")
		}
		if _, err := p.nameOf("a savepoint"); err != nil {
			return nil, err
		}
		return &statement{run: func(s *session, _ *command) (result, error) {
			if s.status == protocol.StatusIdle {
				return result{}, &problem{code: codeNoBlock, message: tag + " can only be used in transaction blocks"}
			}
			s.status = protocol.StatusBlock
			return done(tag)
		}}, nil
	}
}

func parseDiscard(p *parser) (*statement, error) {
	if p.accept("ALL") {
		return &statement{run: func(s *session, _ *command) (result, error) {
			s.resetAll()
			s.statements.clear()
			return done("DISCARD ALL")
		}}, nil
	}
	for word, tag := range map[string]string{
		"PLANS": "DISCARD PLANS", "SEQUENCES": "DISCARD SEQUENCES", "TEMP": "DISCARD TEMP", "TEMPORARY": "DISCARD TEMP",
	} {
		if p.accept(word) {
			return p.ignored(tag)
		}
	}
	return nil, unexpected(p.peek())
}

func parseDeallocate(p *parser) (*statement, error) {
	p.accept("PREPARE")
	if p.accept("ALL") {
		return &statement{run: func(s *session, _ *command) (result, error) {
			s.statements.clear()
			return done("DEALLOCATE ALL")
		}}, nil
	}
	name, err := p.nameOf("a prepared statement")
	return &statement{run: func(s *session, _ *command) (result, error) {
		if !s.statements.close(name) {
			return result{}, noStatement(name)
		}
		return done("DEALLOCATE")
	}}, err
}

func parseCloseAll(p *parser) (*statement, error) {
	if err := p.expect("ALL"); err != nil {
		return nil, err
	}
	return &statement{run: func(s *session, _ *command) (result, error) {
		s.closePortals()
		return done("CLOSE CURSOR ALL")
	}}, nil
}

func parseUnlisten(p *parser) (*statement, error) {
	if _, err := p.nameOf("a channel"); err != nil {
		return nil, err
	}
	return p.ignored("UNLISTEN")
}
