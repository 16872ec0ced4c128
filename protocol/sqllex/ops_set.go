package sqllex

// SET, RESET and set_config.

// set takes what is behind SET.
func (p *opParser) set() {
	local, session := false, false
	at := p.at
	switch {
	case p.take("local"):
		local = true
	case p.take("session"):
		session = true
	}
	if (local || session) && p.assigned() {
		local, session, p.at = false, false, at // SET local.name
	}
	if !p.setGeneric(local) && !p.setSpecial(local, session) {
		p.rest |= SetSession // nothing that PostgreSQL takes, as far as is known here
	}
}

// assigned says whether what comes next is what follows a parameter's name.
func (p *opParser) assigned() bool {
	t := p.peek()
	return t.c == '.' || t.c == '=' || p.is(t, "to") || p.is(t, "from")
}

// setName appends a SET or, to DEFAULT, a RESET of the parameter in o. The value
// is what comes next.
func (p *opParser) setName(o Op) {
	p.rest &^= SetSession | SetReported | SetLocal
	l := p.lexer
	t := l.next()
	o.Kind = OpSet
	if t.kind == tokenEnd || p.is(t, "default") && l.next().kind == tokenEnd {
		o.Kind = OpReset
	} else {
		o.Value = p.valueSpan()
	}
	p.add(o)
}

// valueSpan is the rest of the statement up to its last token.
func (p *opParser) valueSpan() Span {
	s := span(p.at, p.at)
	for t := p.next(); t.kind != tokenEnd; t = p.next() {
		if s.Empty() {
			s.Start = t.Start
		}
		s.End = t.End
	}
	return s
}

// setGeneric takes name TO value, name = value, name FROM CURRENT.
func (p *opParser) setGeneric(local bool) bool {
	at := p.at
	name := p.parameter()
	o := Op{Name: name, Local: local}
	switch {
	case name.Empty():
	case p.take("to"):
		p.setName(o)
		return true
	case p.peek().c == '=':
		p.next()
		p.setName(o)
		return true
	case p.take("from") && p.take("current"):
		o.Kind, o.form = OpSet, formOpaque
		p.account(SetSession|SetReported|SetLocal, o)
		return true
	}
	p.at = at
	return false
}

// parameter takes the name of a parameter, which may have parts.
func (p *opParser) parameter() Span {
	s := p.name()
	for !s.Empty() && p.peek().c == '.' {
		p.next()
		part := p.name()
		if part.Empty() {
			return Span{}
		}
		s.End = part.End
	}
	return s
}

// setSpecial takes the forms of SET that have words of their own.
func (p *opParser) setSpecial(local, session bool) bool {
	switch t := p.next(); {
	case p.is(t, "time") && p.take("zone"):
		p.setTimeZone(local)
	case p.is(t, "names"):
		p.setName(Op{known: "client_encoding", Local: local})
	case p.is(t, "schema"):
		p.setName(Op{known: "search_path", Local: local})
	case p.is(t, "role"):
		p.setName(Op{known: "role", Local: local})
	case p.is(t, "xml") && p.take("option"):
		p.setName(Op{known: "xmloption", Local: local})
	case p.is(t, "session") && p.take("authorization"), session && p.is(t, "authorization"):
		p.setName(Op{known: "session_authorization", Local: local})
	case p.is(t, "session") && p.take("characteristics"), session && p.is(t, "characteristics"):
		return p.take("as") && p.take("transaction") && p.characteristics()
	case p.is(t, "transaction"), p.is(t, "constraints"):
		p.rest &^= SetSession | SetLocal
	default:
		return false
	}
	return true
}

func (p *opParser) setTimeZone(local bool) {
	o := Op{known: "timezone", Local: local}
	l := p.lexer
	switch t := l.next(); {
	case p.is(t, "local") && l.next().kind == tokenEnd:
		o.Kind = OpReset
		p.account(SetSession|SetLocal, o)
	case p.is(t, "interval"):
		o.Kind, o.form = OpSet, formOpaque
		p.account(SetSession|SetLocal, o)
	default:
		p.setName(o)
	}
}

// characteristics takes the modes of SET SESSION CHARACTERISTICS: each is the
// default of a parameter.
func (p *opParser) characteristics() bool {
	n := len(p.ops)
	for t := p.next(); t.kind != tokenEnd; t = p.next() {
		o := Op{Kind: OpSet}
		switch {
		case t.c == ',':
			continue
		case p.is(t, "isolation") && p.take("level"):
			o.known, o.fixed = "default_transaction_isolation", p.isolation()
		case p.is(t, "read") && p.take("only"):
			o.known, o.fixed = "default_transaction_read_only", "E'on'"
		case p.is(t, "read") && p.take("write"):
			o.known, o.fixed = "default_transaction_read_only", "E'off'"
		case p.is(t, "deferrable"):
			o.known, o.fixed = "default_transaction_deferrable", "E'on'"
		case p.is(t, "not") && p.take("deferrable"):
			o.known, o.fixed = "default_transaction_deferrable", "E'off'"
		}
		if o.fixed == "" {
			p.ops = p.ops[:n]
			return false
		}
		p.add(o)
	}
	p.rest &^= SetSession
	return len(p.ops) > n
}

func (p *opParser) isolation() string {
	switch {
	case p.take("serializable"):
		return "E'serializable'"
	case p.take("repeatable") && p.take("read"):
		return "E'repeatable read'"
	case p.take("read") && p.take("committed"):
		return "E'read committed'"
	case p.take("uncommitted"): // behind the READ of the case before
		return "E'read uncommitted'"
	}
	return ""
}

// reset takes what is behind RESET.
func (p *opParser) reset() {
	o := Op{Kind: OpReset}
	switch {
	case p.take("all"):
		o.Kind = OpResetAll
	case p.take("time") && p.take("zone"):
		o.known = "timezone"
	case p.take("session") && p.take("authorization"):
		o.known = "session_authorization"
	case p.take("transaction"):
		p.rest &^= SetSession
		return
	default:
		if o.Name = p.parameter(); o.Name.Empty() {
			return // OpUnknown
		}
	}
	p.account(SetSession, o)
}

// calls appends one operation for each call of set_config, and leaves the flag
// to OpUnknown where a call does not name its parameter.
func (p *opParser) calls() {
	known, found := true, false
	p.at = p.begin
	for t := p.next(); t.kind != tokenEnd; t = p.next() {
		if p.isSetConfig(t) && p.peek().c == '(' {
			p.next()
			known = p.call() && known
			found = true
		}
	}
	if known && found {
		p.rest &^= SetSession
	}
	p.at = p.begin
}

func (p *opParser) isSetConfig(t token) bool {
	return p.is(t, "set_config") || t.kind == tokenQuoted && string(t.Of(p.sql)) == `"set_config"`
}

// call takes the arguments of set_config, if the first is a string constant. A
// call within the arguments is met by the caller.
func (p *opParser) call() bool {
	l := p.lexer
	name := l.next()
	if name.kind != tokenString || l.peek().c != ',' {
		return false
	}
	p.add(Op{Kind: OpSet, Name: name.Span, Local: l.lastIsTrue(), form: formCall})
	return true
}

// lastIsTrue says whether the last argument of the call within whose
// parentheses l stands is the constant true.
func (l *lexer) lastIsTrue() bool {
	last, only := token{}, 0
	for depth := 1; ; {
		t := l.next()
		switch {
		case t.kind == tokenEnd:
			return false
		case t.c == '(' || t.c == '[':
			depth++
		case t.c == ')' || t.c == ']':
			if depth--; depth == 0 {
				return only == 1 && l.is(last, "true")
			}
		case t.c == ',' && depth == 1:
			only = 0
			continue
		}
		last = t
		only++
	}
}
