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
	// of set_config.
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

	// AllFlags is what a text gets that the lexer cannot follow in constant memory.
	AllFlags = 1<<iota - 1
)

// Class groups requests for admission. It decides nothing about safety.
type Class uint8

const (
	// ClassDefault is everything that is in no other class, and an empty text.
	ClassDefault Class = iota
	// ClassRead: SELECT, VALUES, TABLE, SHOW, FETCH, EXPLAIN without ANALYZE, and
	// WITH without a statement that writes. BEGIN READ ONLY.
	ClassRead
	// ClassWrite: INSERT, UPDATE, DELETE, MERGE, SELECT INTO.
	ClassWrite
	// ClassMaintenance: DDL, VACUUM, ANALYZE, REINDEX and their like.
	ClassMaintenance
	// ClassCopy: COPY.
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
