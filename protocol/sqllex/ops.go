package sqllex

import "bytes"

// OpKind is what one statement, or a call in it, does to the session.
type OpKind uint8

const (
	// OpUnknown: it may do anything that the flag SetSession stands for, and the
	// text does not show what.
	OpUnknown OpKind = iota
	// OpBegin: BEGIN, START TRANSACTION.
	OpBegin
	// OpCommit: COMMIT, END; Chain: AND CHAIN. Its CommandComplete says ROLLBACK
	// where the block had failed.
	OpCommit
	// OpRollback: ROLLBACK, ABORT; Chain: AND CHAIN.
	OpRollback
	// OpPrepareTransaction: PREPARE TRANSACTION.
	OpPrepareTransaction
	// OpSavepoint, OpRelease, OpRollbackTo: of the savepoint Name.
	OpSavepoint
	OpRelease
	OpRollbackTo
	// OpSet: the parameter Name gets Value; Local: for the transaction only.
	// SET TRANSACTION and SET CONSTRAINTS are none: they end with the transaction.
	OpSet
	// OpReset: RESET, or SET to DEFAULT, of the parameter Name.
	OpReset
	OpResetAll
	OpDiscardAll
	OpDiscardPlans
	OpDiscardTemp
	OpDiscardSequences
	// OpPrepare, OpExecute, OpDeallocate: of the SQL statement Name.
	OpPrepare
	OpExecute
	OpDeallocate
	OpDeallocateAll
	// OpListen, OpUnlisten: of the channel Name.
	OpListen
	OpUnlisten
	OpUnlistenAll
	// OpNotify: NOTIFY or pg_notify; Name is the channel of a NOTIFY, else empty.
	OpNotify
	// OpDeclareHold: DECLARE … WITH HOLD of the cursor Name.
	OpDeclareHold
	// OpClose: of the cursor Name.
	OpClose
	OpCloseAll
	// OpAdvisoryLock, OpAdvisoryUnlock: a call that takes, or releases, a
	// session-level advisory lock. OpAdvisoryUnlockAll: nothing but
	// SELECT pg_advisory_unlock_all().
	OpAdvisoryLock
	OpAdvisoryUnlock
	OpAdvisoryUnlockAll
	// OpTemp: something temporary is made, or the schema pg_temp is named.
	OpTemp
	OpLoad
	// OpDo: a DO block or CALL.
	OpDo
)

// Span is a part of a text: its bytes from Start up to, not including, End.
type Span struct{ Start, End int32 }

// Of returns the part of sql.
func (s Span) Of(sql []byte) []byte { return sql[s.Start:s.End] }

// Empty says that there is no such part.
func (s Span) Empty() bool { return s.Start == s.End }

// Op is one operation of a text. Its spans are those of the text that was given
// to AppendOps.
type Op struct {
	Kind  OpKind
	Local bool
	Chain bool
	// Statement is the index of its statement among those of the text that are
	// not empty: so many CommandCompletes come before its own.
	Statement int32
	// Name is the name as written: quotes, U& and all. Empty where the name is
	// another than the text's, as with SET TIME ZONE: see AppendName.
	Name Span
	// Value is what is behind TO or = of an OpSet, up to the end of the statement.
	Value Span

	known string // the name, where the text spells another
	fixed string // the value, where the text spells another, as AppendValue gives it
	form  opForm
}

// opForm tells how name and value are to be read.
type opForm uint8

const (
	formPlain  opForm = iota
	formOpaque        // the value is not in the text
	formCall          // a call of set_config: Name is a string; the value is not in the text
)

const (
	// OpTransaction are the flags of texts whose operations matter to those who
	// keep something per transaction: AppendOps need not be called for a text
	// with no other flags while nothing is kept.
	OpTransaction = Begin | End | Savepoint
	// OpSession are the flags of all other texts with operations.
	OpSession = AllFlags &^ (OpTransaction | CopyFromStdin)
)

// AppendOps appends the operations of a whole text, in the order in which they
// take effect, to dst. It is meant for texts whose flags (Scan) have one of
// OpTransaction or OpSession; others have none. Where the text means one thing
// with standard_conforming_strings and another without, the only operation is
// OpUnknown. Nothing is allocated beyond dst; nothing refers to sql but spans.
func AppendOps(dst []Op, sql []byte) []Op {
	start := len(dst)
	dst = appendOps(dst, sql, false)
	if bytes.IndexByte(sql, '\\') < 0 {
		return dst
	}
	middle := len(dst)
	dst = appendOps(dst, sql, true)
	if equalOps(dst[start:middle], dst[middle:]) {
		return dst[:middle]
	}
	return append(dst[:start], Op{Kind: OpUnknown})
}

func equalOps(a, b []Op) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func appendOps(dst []Op, sql []byte, escapes bool) []Op {
	p := opParser{lexer: lexer{sql: sql, escapes: escapes}, ops: dst}
	for p.statement() {
	}
	return p.ops
}
