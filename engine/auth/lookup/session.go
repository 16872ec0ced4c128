package lookup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/backend"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/dial"
	"pgkinetic/protocol"
)

// connection is a session of PostgreSQL that asks. Owner: a worker.
type connection struct {
	conn  *dial.Conn
	query string
}

// openSession logs in. The session is the same whoever logs in to us, and
// whatever auth_user or the database has by ALTER ROLE or ALTER DATABASE: what is
// set with the login goes before that.
func openSession(ctx context.Context, cfg *Config) (asker, error) {
	server := cfg.Server
	server.Login.Params = []protocol.Param{
		{Name: "application_name", Value: "pg-kinetic auth_query"},
		// Of temporary tables there are none but auth_user's own; being named, their
		// schema is searched last, where it would otherwise be first.
		{Name: "search_path", Value: "pg_catalog, pg_temp"},
		{Name: "client_encoding", Value: "UTF8"},
		{Name: "DateStyle", Value: "ISO"}, // as validUntil reads it
		{Name: "TimeZone", Value: "UTC"},
		{Name: "statement_timeout", Value: strconv.FormatInt(max(cfg.Timeout.Milliseconds(), 1), 10)},
	}
	conn, err := dial.Open(ctx, &server)
	if err != nil {
		if backend.ClassOf(err) == backend.LoginFault {
			return nil, &Error{Kind: Misconfigured, Err: err}
		}
		return nil, &Error{Kind: Unreachable, Err: err}
	}
	return &connection{conn: conn, query: cfg.Query}, nil
}

func (c *connection) close() { c.conn.Close() }

// ask runs the query for one user.
func (c *connection) ask(ctx context.Context, user string) (r Result, whole bool, err error) {
	release := c.conn.Bound(ctx)
	defer release()
	request, err := requestFor(c.query, user)
	if err != nil {
		return r, false, err
	}
	if err := c.conn.Send(request); err != nil {
		return r, false, err
	}
	a := answer{user: user}
	for {
		typ, body, err := c.conn.Receive()
		if err != nil {
			return r, false, err
		}
		if typ == protocol.BackendReadyForQuery {
			if status, ok := protocol.DecodeReady(body); !ok || status != 'I' {
				return r, false, fail(Misconfigured, "it leaves a transaction open")
			}
			r, err = a.result()
			return r, true, err
		}
		if err := a.take(typ, body); err != nil {
			return r, false, err
		}
	}
}

// requestFor is the query in the extended protocol. More than one row is asked
// for, so that a second one shows.
func requestFor(query, user string) ([]byte, error) {
	var request []byte
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: query},
		&pgproto3.Bind{Parameters: [][]byte{[]byte(user)}},
		&pgproto3.Describe{ObjectType: 'P'},
		&pgproto3.Execute{MaxRows: 2},
		&pgproto3.Sync{},
	} {
		var err error
		if request, err = m.Encode(request); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// answer collects what PostgreSQL says to one query. wrong is why it is of no use.
type answer struct {
	user  string
	width int // columns
	row   pgproto3.DataRow
	rows  int
	wrong error
	none  bool // an error that means: there is no such user
}

// take takes one message. An error ends the connection.
func (a *answer) take(typ byte, body []byte) error {
	switch typ {
	case protocol.BackendRowDescription:
		a.columns(body)
	case protocol.BackendNoData, protocol.BackendEmptyQuery:
		a.wrong = fail(Misconfigured, "it is not a query that gives rows")
	case protocol.BackendDataRow:
		if a.rows++; a.rows == 1 {
			return a.row.Decode(bytes.Clone(body)) // it keeps what it is given
		}
	case protocol.BackendErrorResponse:
		return a.refused(body)
	case protocol.BackendCopyInResponse, protocol.BackendCopyOutResponse, protocol.BackendCopyBothResponse:
		return fail(Misconfigured, "it begins a COPY")
	}
	return nil
}

// oidTimestamptz is pg_type's, which no version changes.
const oidTimestamptz = 1184

// columns judges the columns, of which no row need come.
func (a *answer) columns(body []byte) {
	var d pgproto3.RowDescription
	err := d.Decode(bytes.Clone(body))
	a.width = len(d.Fields)
	switch {
	case err != nil:
		a.wrong = fail(Unreachable, "malformed RowDescription: %w", err)
	case a.width != 2 && a.width != 3:
		a.wrong = fail(Misconfigured, "it gives %d columns, but user and secret are expected, and the time until which that is valid as a third", a.width)
	case a.width == 3 && d.Fields[2].DataTypeOID != oidTimestamptz:
		a.wrong = fail(Misconfigured, "its third column is not of type timestamptz")
	}
}

// refused sorts PostgreSQL's errors: the name may be none that it can have, the
// server may be in trouble, else the query is wrong.
func (a *answer) refused(body []byte) error {
	e := protocol.DecodeError(body)
	if protocol.ErrorEndsSession(body) {
		return fmt.Errorf("PostgreSQL ends the session: %s (SQLSTATE %s)", e.Message, e.Code)
	}
	if strings.HasPrefix(e.Code, "22") { // errors of data quote the data, which may be a secret
		e.Message = "a value cannot be what the query makes of it"
	}
	switch {
	case e.Code == "22021" || e.Code == "22P05": // bytes that are no text, or none in the database's encoding
		a.none = true
	case transient(e.Code):
		a.wrong = fail(Unreachable, "%s (SQLSTATE %s)", e.Message, e.Code)
	case e.Code == "42P01" || e.Code == "42883":
		a.wrong = fail(Misconfigured, "%s (SQLSTATE %s; what is not in pg_catalog must be written with its schema)", e.Message, e.Code)
	default:
		a.wrong = fail(Misconfigured, "%s (SQLSTATE %s)", e.Message, e.Code)
	}
	return nil
}

// transient errors pass by themselves: resources, conflicts, cancels, the
// operator, the system, the server's own.
func transient(code string) bool {
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "40", "53", "55", "57", "58", "XX":
		return true
	}
	return false
}

func (a *answer) result() (Result, error) {
	switch r := (Result{User: a.user}); {
	case a.wrong != nil:
		return Result{}, a.wrong
	case a.none || a.rows == 0:
		return r, nil
	case a.width < 2, len(a.row.Values) != a.width:
		return Result{}, fail(Unreachable, "a row of %d columns where there are %d", len(a.row.Values), a.width)
	case a.rows > 1:
		return Result{}, fail(Misconfigured, "it gives more than one row for user %q", a.user)
	case a.row.Values[0] == nil: // the one row that a function gives which has found nobody
		return r, nil
	case string(a.row.Values[0]) != a.user:
		return Result{}, fail(Misconfigured, "it gives another user's row for user %q", a.user)
	default:
		r.Known = true
		return a.fill(r)
	}
}

func (a *answer) fill(r Result) (Result, error) {
	var err error
	if r.Secret, err = auth.ParseSecret(string(a.row.Values[1])); err != nil {
		return Result{}, fail(Misconfigured, "user %q: %w", a.user, err)
	}
	if len(a.row.Values) == 3 && a.row.Values[2] != nil {
		if r.ValidUntil, err = validUntil(string(a.row.Values[2])); err != nil {
			return Result{}, fail(Misconfigured, "user %q: %w", a.user, err)
		}
	}
	return r, nil
}

// validUntil reads a timestamptz as PostgreSQL writes it in DateStyle ISO and
// TimeZone UTC. The zero time is: for ever.
func validUntil(text string) (time.Time, error) {
	past := time.Unix(0, 0)
	if text == "infinity" {
		return time.Time{}, nil
	}
	if text == "-infinity" || strings.HasSuffix(text, " BC") {
		return past, nil
	}
	if year, _, _ := strings.Cut(text, "-"); len(year) > 4 { // beyond what time.Parse reads, and all of us
		return time.Time{}, nil
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999Z07", text)
	if err != nil {
		return time.Time{}, errors.New("its time is none that can be read")
	}
	return at, nil
}
