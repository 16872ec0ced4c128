// Package lookup finds the secrets of users in PostgreSQL, by the SQL of the
// setting auth_query, on connections of its own.
//
// The query has one parameter, $1, the name of the user who logs in. It gives no
// row for a user who is unknown or may not log in, else one of two or three
// columns: the user's name, the secret as pg_authid.rolpassword holds it (NULL:
// the user has none), and the time until which that is valid (timestamptz; NULL:
// for ever). The first column must be $1, or NULL for an unknown user.
//
// It runs as auth_user in a session whose search_path is pg_catalog alone, set
// with the login so that no setting of a role goes before it, and which gets
// nothing that a client has sent but the name, as a parameter. So whatever lies
// in another schema is written with its schema.
//
// Time is read from the clock here: what waits here is goroutines, not loops.
package lookup

import (
	"fmt"
	"time"

	"pgkinetic/engine/auth"
	"pgkinetic/protocol"
)

// Bounds. With a user's name of at most 63 bytes and a secret of a few hundred,
// a full cache of found users takes some 5 MB.
const (
	// maxConnections is how many queries of one database entry run at a time.
	maxConnections = 4
	// maxQueued is how many users wait for one of these connections.
	maxQueued = 1000
	// maxWaiting is how many logins wait for results: many for one user, or one
	// each.
	maxWaiting = 10_000
	// maxCached bounds the users that are remembered, and by another cache the
	// names that were found to be unknown: guessed names push out no user.
	maxCached = 10_000
	// maxName is PostgreSQL's longest name. A longer one would be cut to the name
	// of somebody else before it is compared.
	maxName = 63
)

const (
	// unknownFor is how long an unknown user stays so: a role that was just created
	// can log in a second later, and who guesses names costs one query a second for
	// each.
	unknownFor = time.Second
	// refreshEvery is how often a user is looked up anew because a password was
	// wrong, however many are tried.
	refreshEvery = time.Second
	// downFor is how long PostgreSQL is not tried again after it could not be
	// reached: those who wait get the cause.
	downFor = 500 * time.Millisecond
	// idleFor is how long a connection without a query is kept.
	idleFor = 10 * time.Second
)

// Result is what was found. Known is false for a user whom the query does not
// find; then nothing else is set.
type Result struct {
	User  string
	Known bool
	// Secret is none for a user without a password.
	Secret auth.Secret
	// ValidUntil is when the secret expires; zero: never.
	ValidUntil time.Time

	asked time.Time // when the query that gave it began: the result may not be older
}

// Expired says whether the secret is not valid any more. The verdict is that of
// a wrong password.
func (r Result) Expired(now time.Time) bool {
	return !r.ValidUntil.IsZero() && !now.Before(r.ValidUntil)
}

// Newer says whether r comes from a later query than old.
func (r Result) Newer(old Result) bool { return r.asked.After(old.asked) }

// Kind sorts the reasons for which there is no result.
type Kind uint8

const (
	// Unreachable: PostgreSQL does not answer, or only with errors that pass.
	Unreachable Kind = iota
	// Misconfigured: the query fails or does not give what it must, or auth_user
	// cannot log in.
	Misconfigured
	// Busy: as many wait already as may.
	Busy
	// Closed: the look-up has ended.
	Closed
)

// Error is why there is no result. Its text is for the log.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return "auth_query: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Answer gives the FATAL fields for the client. Nobody knows yet who that is, so
// they tell nothing of PostgreSQL or of the query.
func (e *Error) Answer() protocol.ErrorFields {
	f := protocol.ErrorFields{Severity: protocol.SeverityFatal}
	switch e.Kind {
	case Unreachable:
		f.Code, f.Message = protocol.CodeConnectionFailure, "the password cannot be checked: PostgreSQL does not answer"
	case Misconfigured:
		f.Code, f.Message = protocol.CodeInvalidAuthorization, "the password cannot be checked"
		f.Hint = "The log of pg-kinetic tells why."
	case Busy:
		f.Code, f.Message = protocol.CodeTooManyConnections, "too many logins wait for their password to be looked up"
	case Closed:
		f.Code, f.Message = protocol.CodeAdminShutdown, "terminating connection due to administrator command"
	}
	return f
}

func fail(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}
