package sqllex

// An opParser appends the operations of one statement after the other.
//
// Invariant: what a statement's flags say (the reading of flags.go is run over
// each once more) is said by its operations as well: flags that the grammar here
// does not account for become operations of their own or OpUnknown.
type opParser struct {
	lexer
	ops   []Op
	index int32 // of the statement
	rest  Flags // of the statement, not accounted for yet
	begin int   // of the statement
	end   int   // of the statement: the index of its semicolon, or of the text's end
}

// statement takes one statement and says whether there may be more.
func (p *opParser) statement() (more bool) {
	first := p.peek()
	if first.kind == tokenEnd {
		return false
	}
	start := int(first.Start)
	p.find(start)
	if p.end == start {
		p.at = p.end + 1
		return true // empty
	}
	whole := p.sql
	r := reading{escapes: p.escapes}
	r.feed(whole[start:p.end], nil)
	if p.rest = r.end().Flags; p.rest == AllFlags { // it was not followed to its end
		p.add(Op{Kind: OpUnknown})
		return false
	}
	p.sql, p.at, p.begin = whole[:p.end], start, start
	if p.rest&(OpTransaction|OpSession) != 0 {
		p.operations()
	}
	p.sql, p.at = whole, p.end+1
	p.index++
	return p.end < len(whole)
}

// find sets end: semicolons within parentheses or the SQL body of a function do
// not count.
func (p *opParser) find(start int) {
	l := p.lexer
	l.at = start
	function := p.isFunction()
	parens, blocks, afterBegin := 0, 0, false
	for {
		t := l.next()
		switch {
		case t.kind == tokenEnd:
			p.end = len(l.sql)
			return
		case t.c == '(':
			parens++
		case t.c == ')':
			parens = max(parens-1, 0)
		case t.c == ';' && parens == 0 && blocks == 0:
			p.end = int(t.Start)
			return
		case function && l.is(t, "atomic") && afterBegin && blocks == 0:
			blocks = 1
		case function && l.is(t, "case") && blocks > 0:
			blocks++
		case function && l.is(t, "end"):
			blocks = max(blocks-1, 0)
		}
		afterBegin = function && l.is(t, "begin")
	}
}

// isFunction looks at the next tokens: CREATE [OR REPLACE] FUNCTION|PROCEDURE.
func (p *opParser) isFunction() bool {
	l := p.lexer
	if !l.take("create") {
		return false
	}
	for l.take("or") || l.take("replace") || l.take("local") || l.take("global") || l.take("temp") || l.take("temporary") {
	}
	return l.take("function") || l.take("procedure")
}

func (p *opParser) add(o Op) {
	o.Statement = p.index
	p.ops = append(p.ops, o)
}

// operations appends those of the statement at hand.
func (p *opParser) operations() {
	switch first := p.next(); {
	case p.is(first, "set"):
		p.set()
	case p.is(first, "reset"):
		p.reset()
	case p.is(first, "begin"), p.is(first, "start"):
		p.account(Begin, Op{Kind: OpBegin})
	case p.is(first, "commit"), p.is(first, "end"):
		p.finish(OpCommit)
	case p.is(first, "rollback"), p.is(first, "abort"):
		p.finish(OpRollback)
	case p.is(first, "savepoint"):
		p.account(Savepoint, Op{Kind: OpSavepoint, Name: p.name()})
	case p.is(first, "release"):
		p.take("savepoint")
		p.account(Savepoint, Op{Kind: OpRelease, Name: p.name()})
	case p.is(first, "prepare"):
		p.prepare()
	case p.is(first, "deallocate"):
		p.deallocate()
	case p.is(first, "listen"):
		p.account(Listen, Op{Kind: OpListen, Name: p.name()})
	case p.is(first, "unlisten"):
		if p.peek().c == '*' {
			p.account(Listen, Op{Kind: OpUnlistenAll})
		} else {
			p.account(Listen, Op{Kind: OpUnlisten, Name: p.name()})
		}
	case p.is(first, "notify"):
		p.account(Notify, Op{Kind: OpNotify, Name: p.name()})
	case p.is(first, "discard"):
		p.discard()
	case p.is(first, "declare"):
		if name := p.name(); p.rest&WithHold != 0 {
			p.account(WithHold, Op{Kind: OpDeclareHold, Name: name})
		}
	case p.is(first, "close"):
		if p.take("all") {
			p.account(CloseCursor, Op{Kind: OpCloseAll})
		} else {
			p.account(CloseCursor, Op{Kind: OpClose, Name: p.name()})
		}
	case p.is(first, "execute"):
		p.account(Execute, Op{Kind: OpExecute, Name: p.name()})
	case p.is(first, "select"):
		p.unlockAll()
	}
	p.others()
}

// account appends o, which is what the flags f stand for.
func (p *opParser) account(f Flags, o Op) {
	p.rest &^= f
	p.add(o)
}

// name takes a name, if there is one.
func (p *opParser) name() Span {
	switch t := p.peek(); t.kind {
	case tokenWord, tokenQuoted, tokenUnicode:
		p.next()
		return t.Span
	}
	return Span{}
}

// finish: COMMIT, ROLLBACK and what stands for them, or ROLLBACK TO.
func (p *opParser) finish(kind OpKind) {
	if !p.take("transaction") {
		p.take("work")
	}
	if kind == OpRollback && p.take("to") {
		p.take("savepoint")
		p.account(Savepoint, Op{Kind: OpRollbackTo, Name: p.name()})
		return
	}
	chain := p.rest&Begin != 0
	if p.rest&End != 0 {
		p.account(End|Begin, Op{Kind: kind, Chain: chain})
	}
}

func (p *opParser) prepare() {
	name := p.name()
	switch {
	case p.rest&Prepare != 0:
		p.account(Prepare|End, Op{Kind: OpPrepare, Name: name})
	case p.rest&End != 0:
		p.account(End, Op{Kind: OpPrepareTransaction})
	}
}

func (p *opParser) deallocate() {
	l := p.lexer
	if l.take("prepare") && l.peek().kind != tokenEnd { // else a statement of that name
		p.take("prepare")
	}
	if p.take("all") {
		p.account(Deallocate, Op{Kind: OpDeallocateAll})
	} else {
		p.account(Deallocate, Op{Kind: OpDeallocate, Name: p.name()})
	}
}

func (p *opParser) discard() {
	kind := OpDiscardAll // in doubt: the safe one is decided by whoever sees that it failed
	switch t := p.next(); {
	case p.is(t, "plans"):
		kind = OpDiscardPlans
	case p.is(t, "temp"), p.is(t, "temporary"):
		kind = OpDiscardTemp
	case p.is(t, "sequences"):
		kind = OpDiscardSequences
	}
	p.account(Discard, Op{Kind: kind})
}

// unlockAll recognises SELECT [pg_catalog.]pg_advisory_unlock_all().
func (p *opParser) unlockAll() {
	l := p.lexer
	if l.take("pg_catalog") && l.next().c != '.' {
		return
	}
	if l.take("pg_advisory_unlock_all") && l.next().c == '(' && l.next().c == ')' && l.next().kind == tokenEnd {
		p.account(AdvisoryUnlock, Op{Kind: OpAdvisoryUnlockAll})
	}
}

// others appends what remains of the flags.
func (p *opParser) others() {
	if p.rest&SetSession != 0 {
		p.calls()
	}
	if p.rest&Execute != 0 { // EXPLAIN EXECUTE
		p.account(Execute, Op{Kind: OpExecute, Name: p.nameBehind("execute")})
	}
	for _, o := range [...]struct {
		flag Flags
		kind OpKind
	}{
		{Notify, OpNotify},
		{AdvisoryUnlock, OpAdvisoryUnlock},
		{AdvisoryLock, OpAdvisoryLock},
		{TempTable, OpTemp},
		{Load, OpLoad},
		{Do, OpDo},
	} {
		if p.rest&o.flag != 0 {
			p.account(o.flag, Op{Kind: o.kind})
		}
	}
	if p.rest&(OpTransaction|OpSession) != 0 {
		p.account(p.rest, Op{Kind: OpUnknown})
	}
}

// nameBehind finds the name behind the first keyword k.
func (p *opParser) nameBehind(k string) Span {
	p.at = p.begin
	for t := p.next(); t.kind != tokenEnd; t = p.next() {
		if p.is(t, k) {
			return p.name()
		}
	}
	return Span{}
}
