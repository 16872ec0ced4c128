package sqllex

// begin takes the first word of a statement.
func (s *statement) begin(k []byte) {
	s.prev = prevHead
	switch string(k) {
	case "select", "values", "table":
		s.setHead(headSelect, ClassRead)
		s.prev = prevNone
	case "insert", "update", "delete", "merge":
		s.setHead(headOther, ClassWrite)
		s.prev = prevNone
	case "with":
		s.setHead(headWith, ClassRead)
		s.prev = prevNone
	case "begin", "start":
		s.setHead(headBegin, ClassTransaction)
		s.flags |= Begin
	case "commit", "end", "rollback", "abort":
		s.setHead(headEnd, ClassTransaction)
		s.ends = true
	case "set":
		s.setHead(headSet, ClassDefault)
	case "copy":
		s.setHead(headCopy, ClassCopy)
	case "create":
		s.setHead(headCreate, ClassMaintenance)
	case "declare":
		s.setHead(headDeclare, ClassRead)
	case "prepare":
		s.setHead(headPrepare, ClassDefault)
	case "explain":
		s.setHead(headExplain, ClassRead)
		s.explained = true
	default:
		s.beginSimple(k)
		s.prev = prevNone
	}
}

// beginSimple is begin for the words after which nothing else matters.
func (s *statement) beginSimple(k []byte) {
	h, class := headOther, ClassDefault
	switch string(k) {
	case "show", "fetch", "move":
		class = ClassRead
	case "lock":
		class = ClassWrite
	case "savepoint", "release":
		h, class = headName, ClassTransaction
		s.flags |= Savepoint
	case "close":
		h = headName
		s.flags |= CloseCursor
	case "alter", "drop", "truncate", "vacuum", "analyze", "analyse", "cluster", "reindex", "refresh",
		"grant", "revoke", "comment", "reassign", "security", "import", "checkpoint":
		class = ClassMaintenance
	case "reset":
		s.flags |= SetSession
	case "listen", "unlisten":
		h = headName
		s.flags |= Listen
	case "notify":
		h = headName
		s.flags |= Notify
	case "execute":
		s.flags |= Execute
	case "deallocate":
		h = headName
		s.flags |= Deallocate
	case "discard":
		h = headName
		s.flags |= Discard
	case "load":
		s.flags |= Load
	case "do", "call":
		s.flags |= Do
	}
	s.setHead(h, class)
}

// further takes a word behind the first that may matter, and what was before it.
func (s *statement) further(k []byte, p prev) {
	switch s.head {
	case headSelect, headWith:
		s.furtherQuery(k, p)
	case headCopy:
		switch {
		case string(k) == "from":
			s.prev = prevFrom
		case p == prevFrom && (string(k) == "stdin" || string(k) == "stdout"):
			s.flags |= CopyFromStdin
		}
	case headBegin:
		switch {
		case string(k) == "read":
			s.prev = prevRead
		case p == prevRead && string(k) == "only":
			s.own = ClassRead
		}
	case headEnd:
		s.furtherEnd(k, p)
	case headSet:
		s.furtherSet(k, p)
	case headPrepare:
		switch {
		case p == prevHead && string(k) == "transaction":
			s.ends = true
			s.prev = prevTransaction
		case p == prevHead || p == prevTransaction:
			s.flags |= Prepare
		}
	case headCreate:
		s.furtherCreate(k)
	case headFunction:
		s.furtherFunction(k, p)
	case headDeclare:
		switch {
		case string(k) == "with":
			s.prev = prevWith
		case p == prevWith && string(k) == "hold":
			s.flags |= WithHold
		default:
			s.furtherLocking(k, p)
		}
	case headExplain:
		s.furtherExplain(k)
	}
}

// furtherQuery looks for INTO of a SELECT, for locking clauses, and in WITH for
// what writes.
func (s *statement) furtherQuery(k []byte, p prev) {
	s.furtherLocking(k, p)
	switch string(k) {
	case "insert", "merge":
		s.prev = prevInsert
		s.writes(s.head == headWith)
	case "update", "delete":
		s.writes(s.head == headWith)
	case "into":
		if p != prevInsert {
			s.prev = prevInto
			s.writes(true)
		}
	case "local", "global":
		if p == prevInto {
			s.prev = prevInto
		}
	case "temp", "temporary":
		if p == prevInto {
			s.flags |= TempTable
		}
	}
}

// furtherLocking looks for FOR [NO KEY] UPDATE and FOR [KEY] SHARE.
func (s *statement) furtherLocking(k []byte, p prev) {
	switch string(k) {
	case "for":
		s.prev = prevFor
	case "update", "no", "share", "key":
		s.writes(p == prevFor)
	}
}

// writes raises the class of a SELECT or WITH that is run.
func (s *statement) writes(does bool) {
	if does && !s.explained {
		s.own = ClassWrite
	}
}

func (s *statement) furtherEnd(k []byte, p prev) {
	switch string(k) {
	case "to": // ROLLBACK TO SAVEPOINT
		s.ends = false
		s.flags |= Savepoint
	case "prepared": // COMMIT PREPARED: of another transaction
		if p == prevHead {
			s.ends = false
		}
	case "and":
		s.prev = prevAnd
	case "no":
		s.prev = prevNo
	case "chain":
		if p == prevAnd {
			s.flags |= Begin
		}
	}
}

// furtherSet takes the scope and the name of a parameter and what is behind it.
func (s *statement) furtherSet(k []byte, p prev) {
	switch p {
	case prevHead, prevSession:
		s.furtherSetName(k, p)
	case prevName, prevValue:
		s.prev = prevValue
		if p == prevName && string(k) != "to" || string(k) == "default" {
			s.setting = SetSession
		}
	}
}

func (s *statement) furtherSetName(k []byte, p prev) {
	if s.setting = settingFlag(k); s.setting != 0 {
		s.prev = prevName
		return
	}
	s.setting = SetSession
	if p != prevHead {
		return
	}
	switch string(k) {
	case "session":
		s.prev = prevSession
	case "local":
		s.setting, s.prev = SetLocal, prevScope
	case "transaction", "constraints":
		s.setting, s.prev = 0, prevScope
	}
}

// settingFlag is the flag of a plain SET of the parameter k.
func settingFlag(k []byte) Flags {
	switch string(k) {
	case "application_name":
		return SetApplicationName
	case "client_encoding":
		return SetClientEncoding
	case "datestyle":
		return SetDateStyle
	case "intervalstyle":
		return SetIntervalStyle
	case "standard_conforming_strings":
		return SetStandardConformingStrings
	case "timezone":
		return SetTimeZone
	}
	return 0
}

// furtherCreate takes the words between CREATE and the kind of object.
func (s *statement) furtherCreate(k []byte) {
	switch string(k) {
	case "or", "replace", "local", "global":
		return
	case "temp", "temporary":
		s.flags |= TempTable
	case "function", "procedure":
		s.setHead(headFunction, s.own)
		return
	}
	s.setHead(headOther, s.own)
}

// furtherFunction keeps the semicolons of a body in SQL from ending the
// statement: BEGIN ATOMIC … END, with CASE … END inside.
func (s *statement) furtherFunction(k []byte, p prev) {
	switch string(k) {
	case "begin":
		s.prev = prevBegin
	case "atomic":
		if p == prevBegin && s.blocks == 0 {
			s.blocks = 1
		}
	case "case":
		if s.blocks > 0 {
			s.blocks++
		}
	case "end":
		s.blocks = max(s.blocks-1, 0)
	}
}

// furtherExplain looks for ANALYZE and for the statement that is explained.
func (s *statement) furtherExplain(k []byte) {
	switch string(k) {
	case "analyze", "analyse":
		s.explained = false
	case "select", "values", "table", "with", "insert", "update", "delete", "merge",
		"create", "declare", "execute", "refresh":
		explained := s.explained
		s.begin(k)
		if explained {
			s.own = ClassRead
		}
	}
}
