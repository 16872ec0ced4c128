package protocol

// A model of a PostgreSQL session, as far as the tracker is concerned: it reads
// the messages that it was sent one after the other, with PostgreSQL's rules for
// errors, synchronisation and copy data, and keeps what it says in a buffer
// until something pushes it out. What its statements write is committed and
// rolled back as PostgreSQL does it; see model_transaction_test.go.

// source gives the decisions of a random test: a number below n.
type source func(n int) int

// statement is what a statement of the model does when it is run.
type statement struct {
	does  byte // one of the constants below
	count int  // rows, or the copy data message (from 1) on which a COPY IN fails; 0: before it reads
}

const (
	doesTag     = 't' // CommandComplete
	doesRows    = 'r' // rows, CommandComplete
	doesSuspend = 's' // rows, PortalSuspended (Execute only)
	doesEmpty   = 'e' // EmptyQueryResponse
	doesError   = '!'
	doesCopyOut = 'o'
	doesCopyIn  = 'i' // succeeds at CopyDone
	doesCopyBad = 'b' // fails on a message or before it reads
	doesCopyEnd = 'f' // fails when it has read CopyDone
	doesBlock   = '(' // BEGIN
	doesUnblock = ')' // COMMIT
	doesUndo    = 'x' // ROLLBACK
	doesDefer   = 'd' // CommandComplete; violates a constraint that is checked at commit
)

// message is one message to the model.
type message struct {
	typ        byte
	id         int         // that of the client's message; negative: ours
	fails      bool        // Parse, Bind, Describe, Close, FunctionCall
	late       bool        // FunctionCall fails after its response
	statements []statement // Query, Execute
	marked     bool        // offered as one that may be COPY FROM STDIN
	params     bool        // Describe of a statement
	exits      bool        // Parse, Bind, Describe: a failed block executes it nevertheless
	local      bool        // Parse, Describe, Close that cannot fail by itself: may be answered here
	blame      int         // of a message of ours: the client's message whose answer its error is
	number     uint64      // by the tracker that was offered it
	await      bool        // not a message: the client waits until all is quiet
}

// said is one message of the model, for comparison: who caused it and what.
type said struct {
	typ  byte
	id   int
	code string
	st   byte
}

// model is the session. in holds what it has not read; out what it has said,
// of which the first pushed messages have left its buffer.
type model struct {
	in     []message
	out    []said
	pushed int

	running *message // the Query or Execute that reads copy data
	rest    []statement
	data    int // copy data messages read by the COPY at hand
	skip    bool
	open    bool // extended messages were read since the last Sync, Query or FunctionCall
	dead    bool
	errors  int    // said so far
	number  uint64 // of the message that is executed, and errors when that began
	began   int
	became  map[uint64]Outcome // by the numbers of messages
	transaction
}

func (m *model) say(typ byte, id int) { m.out = append(m.out, said{typ: typ, id: id}) }

func (m *model) ready(id int) {
	m.out = append(m.out, said{typ: BackendReadyForQuery, id: id, st: m.status})
	m.pushed = len(m.out)
}

func (m *model) fail(id int, code string) {
	m.abort()
	m.errors++
	m.out = append(m.out, said{typ: BackendErrorResponse, id: id, code: code})
	m.pushed = len(m.out)
}

// step reads one message; false when there is none.
func (m *model) step() bool {
	if len(m.in) == 0 || m.dead {
		return false
	}
	c := m.in[0]
	m.in = m.in[1:]
	switch {
	case m.running != nil:
		m.copyIn(c)
	case m.skip && c.typ != FrontendSync:
		m.became[c.number] = Removed
		return true
	default:
		m.number, m.began = c.number, m.errors
		m.execute(c)
	}
	if m.running == nil && !m.dead {
		m.became[m.number] = Executed
		if m.errors > m.began {
			m.became[m.number] = Failed
		}
	}
	return true
}

func (m *model) execute(c message) {
	switch c.typ {
	case FrontendSync:
		m.skip, m.open = false, false
		m.finish(c.id)
	case FrontendFlush:
		m.pushed = len(m.out)
	case FrontendQuery, FrontendExecute:
		m.open = c.typ == FrontendExecute
		m.running, m.rest = &c, c.statements
		m.run()
	case FrontendFunctionCall:
		m.open = false
		if !c.fails || c.late {
			m.say(BackendFunctionCallResponse, c.id)
		}
		if c.fails {
			m.fail(c.id, "22012")
		}
		m.finish(c.id)
	case FrontendParse, FrontendBind, FrontendDescribe, FrontendClose:
		m.extended(c)
	}
}

func (m *model) extended(c message) {
	m.open = true
	if code := m.failure(c); code != "" {
		m.fail(max(c.id, c.blame), code)
		m.skip = true
		return
	}
	switch c.typ {
	case FrontendParse:
		m.say(BackendParseComplete, c.id)
	case FrontendBind:
		m.say(BackendBindComplete, c.id)
	case FrontendClose:
		m.say(BackendCloseComplete, c.id)
	case FrontendDescribe:
		if c.params {
			m.say(BackendParameterDescription, c.id)
		}
		switch {
		case c.fails:
			m.fail(c.id, "42601")
			m.skip = true
		case c.id%2 == 0:
			m.say(BackendRowDescription, c.id)
		default:
			m.say(BackendNoData, c.id)
		}
	}
}

// failure is the error of a message that fails before it says anything.
func (m *model) failure(c message) (code string) {
	if m.status == StatusFailed && !c.exits && c.typ != FrontendClose {
		return "25P02"
	}
	if c.fails && !c.params {
		return "42601"
	}
	return ""
}

// run goes on with the statements of the running message until one reads copy
// data or all are done.
func (m *model) run() {
	c := m.running
	simple := c.typ == FrontendQuery
	for len(m.rest) > 0 {
		s := m.rest[0]
		m.rest = m.rest[1:]
		if simple && (s.does == doesRows) {
			m.say(BackendRowDescription, c.id)
		}
		switch s.does {
		case doesCopyIn, doesCopyBad, doesCopyEnd:
			m.say(BackendCopyInResponse, c.id)
			m.pushed = len(m.out)
			m.data = 0
			m.rest = append([]statement{s}, m.rest...)
			if s.does == doesCopyBad && s.count == 0 {
				m.failRunning("P0001")
			}
			return
		case doesError:
			m.failRunning("22012")
			return
		case doesUnblock:
			if !m.commit() {
				m.failRunning("23505")
				return
			}
			m.say(BackendCommandComplete, c.id)
		default:
			m.simpleStatement(s, c.id)
		}
	}
	m.running = nil
	if simple {
		m.finish(c.id)
	}
}

func (m *model) simpleStatement(s statement, id int) {
	switch s.does {
	case doesRows, doesSuspend:
		for range s.count {
			m.say(BackendDataRow, id)
		}
		if s.does == doesSuspend {
			m.say(BackendPortalSuspended, id)
			return
		}
	case doesEmpty:
		m.say(BackendEmptyQuery, id)
		return
	case doesCopyOut:
		m.say(BackendCopyOutResponse, id)
		for range s.count {
			m.say(BackendCopyData, id)
		}
		m.say(BackendCopyDone, id)
	case doesBlock:
		m.begin()
	case doesUndo:
		if m.rollback() {
			m.say(BackendNoticeResponse, id)
		}
	case doesTag, doesDefer:
		m.write(id, s.does == doesDefer)
	}
	m.say(BackendCommandComplete, id)
}

func (m *model) failRunning(code string) {
	c := m.running
	m.fail(c.id, code)
	m.running, m.rest = nil, nil
	if c.typ == FrontendQuery {
		m.ready(c.id)
		return
	}
	m.skip = true
}

// copyIn reads a message inside COPY FROM STDIN.
func (m *model) copyIn(c message) {
	s := m.rest[0]
	switch c.typ {
	case FrontendSync, FrontendFlush:
	case FrontendCopyData:
		m.data++
		if s.does == doesCopyBad && m.data == s.count {
			m.failRunning("22P02")
		}
	case FrontendCopyFail:
		m.failRunning(CodeQueryCanceled)
	case FrontendCopyDone:
		if s.does != doesCopyIn {
			m.failRunning("23505")
			return
		}
		m.write(m.running.id, false)
		m.say(BackendCommandComplete, m.running.id)
		m.rest = m.rest[1:]
		m.run()
	default: // PostgreSQL 14 and later
		id := m.running.id
		m.fail(id, CodeProtocolViolation)
		m.fail(id, CodeProtocolViolation)
		m.dead = true
	}
}

func newModel() *model {
	return &model{transaction: transaction{status: StatusIdle}, became: map[uint64]Outcome{}}
}

// quiet reports whether nothing more happens without input.
func (m *model) quiet() bool { return len(m.in) == 0 || m.dead }

// direct is what a client that sends all of script gets from PostgreSQL, what
// stays in its buffer included.
func direct(script []message) *model {
	m := newModel()
	for _, c := range script {
		if !c.await {
			m.in = append(m.in, c)
		}
	}
	for m.step() {
	}
	m.pushed = len(m.out)
	return m
}

// script makes what one client sends.
type scriptMaker struct {
	pick source
	out  []message
	id   int
}

func makeScript(pick source) []message {
	s := &scriptMaker{pick: pick}
	for range 1 + pick(5) {
		switch pick(10) {
		case 0, 1, 2:
			s.query()
		case 3:
			s.add(message{typ: FrontendFunctionCall, fails: pick(4) == 0, late: pick(2) == 0})
		case 4:
			s.add(message{typ: FrontendSync})
		case 5:
			s.add(message{typ: []byte{FrontendFlush, FrontendCopyData, FrontendCopyDone, FrontendCopyFail}[pick(4)]})
		default:
			s.group()
		}
	}
	return s.out
}

func (s *scriptMaker) add(c message) {
	s.id++
	c.id = s.id
	s.out = append(s.out, c)
}

// plain is a statement that reads no copy data.
func (s *scriptMaker) plain(execute bool) statement {
	does := []byte{doesTag, doesRows, doesEmpty, doesError, doesCopyOut, doesBlock, doesUnblock, doesUndo, doesTag, doesTag, doesDefer, doesSuspend}
	st := statement{does: does[s.pick(len(does))], count: s.pick(3)}
	if st.does == doesSuspend && !execute {
		st.does = doesRows
	}
	return st
}

func (s *scriptMaker) copyIn() statement {
	switch s.pick(5) {
	case 0:
		return statement{does: doesCopyBad, count: s.pick(3)}
	case 1:
		return statement{does: doesCopyEnd}
	}
	return statement{does: doesCopyIn}
}

// query is a simple Query and the copy data that it may need.
func (s *scriptMaker) query() {
	c := message{typ: FrontendQuery, marked: s.pick(3) == 0}
	for range 1 + s.pick(3) {
		if s.pick(4) == 0 {
			c.statements = append(c.statements, s.copyIn())
			c.marked = true
		} else {
			c.statements = append(c.statements, s.plain(false))
		}
	}
	s.add(c)
	s.copyData(c.statements)
}

// group is a group of extended messages, its Sync included, mostly.
func (s *scriptMaker) group() {
	for range 1 + s.pick(6) {
		typ := []byte{
			FrontendParse, FrontendBind, FrontendDescribe, FrontendClose, FrontendExecute, FrontendExecute,
			FrontendFlush, FrontendQuery, FrontendFunctionCall,
		}[s.pick(9)]
		switch typ {
		case FrontendExecute:
			st := s.plain(true)
			if s.pick(4) == 0 {
				st = s.copyIn()
			}
			copies := st.does == doesCopyIn || st.does == doesCopyBad || st.does == doesCopyEnd
			s.add(message{typ: typ, statements: []statement{st}, marked: copies || s.pick(3) == 0})
			s.copyData([]statement{st})
		case FrontendQuery:
			s.query()
		default:
			s.extended(typ)
		}
	}
	if s.pick(8) > 0 {
		s.add(message{typ: FrontendSync})
	}
}

func (s *scriptMaker) extended(typ byte) {
	c := message{typ: typ, fails: s.pick(8) == 0, late: s.pick(2) == 0, params: typ == FrontendDescribe && s.pick(2) == 0}
	switch typ {
	case FrontendParse, FrontendDescribe, FrontendClose:
		c.local = !c.fails && s.pick(2) == 0
	}
	c.exits = s.pick(3) == 0
	s.add(c)
}

// copyData adds what the COPYs among statements are sent. Left out is only what
// docs/answers-owed.md calls undecidable: behind the message on which a COPY
// fails, no Sync is followed by further copy data, and the client waits before
// it sends what would fail the COPY.
func (s *scriptMaker) copyData(statements []statement) {
	for _, st := range statements {
		switch st.does {
		case doesError:
			return
		case doesCopyIn, doesCopyEnd:
			s.mixed(s.pick(4))
			if s.pick(5) == 0 {
				s.add(message{typ: FrontendCopyFail})
				return
			}
			s.add(message{typ: FrontendCopyDone})
			if st.does == doesCopyEnd {
				return
			}
		case doesCopyBad:
			s.failing(st)
			return
		}
	}
}

// mixed adds n copy data messages and Syncs and Flushes between them.
func (s *scriptMaker) mixed(n int) {
	for n > 0 {
		typ := []byte{FrontendCopyData, FrontendCopyData, FrontendSync, FrontendFlush}[s.pick(4)]
		s.add(message{typ: typ})
		if typ == FrontendCopyData {
			n--
		}
	}
}

func (s *scriptMaker) failing(st statement) {
	if st.count > 0 {
		s.mixed(st.count)
	}
	switch s.pick(4) {
	case 0: // the client does not know yet, and sends the rest
		for range s.pick(3) {
			s.add(message{typ: FrontendCopyData})
		}
		s.add(message{typ: []byte{FrontendCopyDone, FrontendCopyFail}[s.pick(2)]})
	case 1: // it synchronises, as drivers do that do not know of the COPY
		for range s.pick(3) {
			s.add(message{typ: []byte{FrontendSync, FrontendFlush}[s.pick(2)]})
		}
		s.out = append(s.out, message{await: true})
		if s.pick(2) == 0 {
			s.add(message{typ: FrontendCopyData})
			s.add(message{typ: FrontendCopyDone})
		}
	case 2: // it sends another COPY
		if s.pick(2) == 0 {
			s.add(message{typ: FrontendQuery, statements: []statement{{does: doesCopyIn}}, marked: true})
			s.out = append(s.out, message{await: true})
			s.mixed(s.pick(3))
			s.add(message{typ: FrontendCopyDone})
			return
		}
		fallthrough
	default: // or something else
		s.add(message{typ: []byte{FrontendParse, FrontendQuery, FrontendExecute}[s.pick(3)], statements: []statement{{does: doesTag}}})
		s.out = append(s.out, message{await: true})
	}
}
