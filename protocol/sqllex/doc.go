// Package sqllex reads SQL texts as far as a pooler must: which statements a
// text holds, whether one of them changes the session, and what kind of work it
// is. It is a lexer with a few keywords, no parser, and it decides in the safe
// direction: a flag may be set though PostgreSQL would not act so, but the text
// of a statement that does act so sets it.
//
// What the text does not show is not seen: what a function, a trigger, a DO
// block or a prepared statement does inside.
//
// Lexical rules: PostgreSQL documentation, "SQL Syntax, Lexical Structure".
package sqllex

// Flags tell what a text may do.
type Flags uint32

const (
	// CopyFromStdin: a COPY … FROM STDIN. FROM STDOUT means the same to PostgreSQL.
	CopyFromStdin Flags = 1 << iota
	// Begin: BEGIN, START TRANSACTION, or COMMIT or ROLLBACK with AND CHAIN.
	Begin
	// End: COMMIT, END, ROLLBACK, ABORT or PREPARE TRANSACTION; not ROLLBACK TO.
	End
	// SetSession: SET or RESET whose effect outlives the transaction, or a call
	// of set_config; not a SET that sets one of SetReported.
	SetSession
	// Listen: LISTEN or UNLISTEN.
	Listen
	// Notify: NOTIFY, or a call of pg_notify.
	Notify
	// Prepare, Execute, Deallocate: the SQL statements of these names.
	Prepare
	Execute
	Deallocate
	// WithHold: DECLARE … WITH HOLD.
	WithHold
	// TempTable: something temporary is made, or the schema pg_temp is named.
	TempTable
	// AdvisoryLock: a call of a function that takes a session-level advisory lock.
	AdvisoryLock
	// AdvisoryUnlock: a call of a function that releases such a lock.
	AdvisoryUnlock
	// Discard: DISCARD of anything.
	Discard
	// Load: LOAD of a library.
	Load
	// Do: a DO block or CALL.
	Do
	// SetApplicationName and its like: SET [SESSION] of this parameter to a value
	// other than DEFAULT.
	SetApplicationName
	SetClientEncoding
	SetDateStyle
	SetIntervalStyle
	SetStandardConformingStrings
	SetTimeZone
	// SetLocal: SET LOCAL.
	SetLocal
	// Savepoint: SAVEPOINT, RELEASE or ROLLBACK TO.
	Savepoint
	// CloseCursor: CLOSE.
	CloseCursor

	// AllFlags is what a text gets that the lexer cannot follow in constant memory.
	AllFlags = 1<<iota - 1

	// SetReported are the parameters that every server reports by ParameterStatus
	// (PostgreSQL documentation, "Asynchronous Operations"): what a SET of them has
	// come to is known from the wire once the server is idle. Other forms that
	// change them (RESET, TO DEFAULT, SET TIME ZONE, SET NAMES, a quoted name,
	// set_config) are SetSession.
	SetReported = SetApplicationName | SetClientEncoding | SetDateStyle | SetIntervalStyle |
		SetStandardConformingStrings | SetTimeZone
)

// Class groups requests for admission. It decides nothing about safety.
type Class uint8

const (
	// ClassDefault is everything that is in no other class, and an empty text.
	// EXECUTE, CALL and DO belong here: what they run is not in the text.
	ClassDefault Class = iota
	// ClassRead: SELECT, VALUES, TABLE, SHOW, DECLARE of a cursor, FETCH, MOVE,
	// EXPLAIN without ANALYZE, and WITH without a statement that writes. BEGIN READ
	// ONLY, whatever follows.
	ClassRead
	// ClassWrite: INSERT, UPDATE, DELETE, MERGE, SELECT INTO, LOCK, and queries
	// with FOR UPDATE, NO KEY UPDATE, SHARE or KEY SHARE: they mark the rows, they
	// wait for writers, and PostgreSQL refuses them in a read-only transaction.
	// EXPLAIN ANALYZE of any of these.
	ClassWrite
	// ClassMaintenance: DDL, VACUUM, ANALYZE, REINDEX and their like: what takes
	// long or locks a whole table. TRUNCATE, CREATE TABLE AS and REFRESH
	// MATERIALIZED VIEW are here and not among the writes.
	ClassMaintenance
	// ClassCopy: COPY in either direction, of a table or of a query.
	ClassCopy
	// ClassTransaction: transaction control with no other statement behind it.
	ClassTransaction
)

// String returns the name that admission rules use.
func (c Class) String() string {
	return [...]string{"default", "read", "write", "maintenance", "copy", "transaction"}[c]
}

// Result is what a text holds. Class is that of its first statement or, when
// that is BEGIN, of the next one. Statements that are empty do not count.
type Result struct {
	Flags      Flags
	Class      Class
	Statements int
}
