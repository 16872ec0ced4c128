package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// A session is one dialogue.
//
// Owner: the goroutine of Serve. What ends a command comes through its context.
//
// Invariants:
//   - out holds whole messages, in the order of the client's; it is written when it
//     has outMax bytes, before a command that waits, and at ReadyForQuery and Flush;
//   - between an error of the extended protocol and the next Sync, skipping is set and
//     nothing is answered, Query and FunctionCall included, as PostgreSQL does it;
//   - outside a transaction block no portal outlives a Sync.

const (
	outMax  = 32 << 10 // bytes of answers that wait to be written
	bodyMax = 1 << 20  // bytes of a message
)

type session struct {
	Session
	ctx   context.Context
	input *input
	in    *pgproto3.Backend
	conn  io.Writer
	out   []byte
	err   error // of a write: nothing more can be said

	status     byte // of the transaction, as ReadyForQuery tells it
	skipping   bool
	parameters []parameter
	statements statements
	portals    map[string]*portal
}

// input remembers why the connection could not be read, to tell that from what could
// be read and made no sense.
type input struct {
	io.Reader
	err error
}

func (r *input) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.err = err
	}
	return n, err
}

func newSession(ctx context.Context, conn io.ReadWriter, given Session) *session {
	if given.Log == nil {
		given.Log = slog.New(slog.DiscardHandler)
	}
	s := &session{
		Session: given, ctx: ctx, conn: conn, input: &input{Reader: conn},
		status: protocol.StatusIdle, portals: map[string]*portal{},
	}
	s.in = pgproto3.NewBackend(s.input, io.Discard) // it only decodes
	s.in.SetMaxBodyLen(bodyMax)
	s.parameters = parametersOf(&s.Session)
	return s
}

func (s *session) serve() error {
	defer s.closePortals()
	for i := range s.parameters {
		s.report(&s.parameters[i])
	}
	if len(s.Key) > 0 {
		s.out = protocol.AppendKeyData(s.out, s.PID, s.Key)
	}
	s.ready()
	for s.err == nil && s.ctx.Err() == nil {
		m, err := s.in.Receive()
		if err != nil {
			return s.unreadable(err)
		}
		if _, leaves := m.(*pgproto3.Terminate); leaves {
			return nil
		}
		if err := s.message(m); err != nil {
			s.fatal(err)
			return err
		}
	}
	return s.ended()
}

// ended is the end that the client did not ask for: it, or the process, is gone.
func (s *session) ended() error {
	if s.ctx.Err() != nil {
		s.fatal(&problem{code: codeShutdown, message: "terminating connection due to administrator command"})
		return context.Cause(s.ctx)
	}
	return s.err
}

// unreadable is the end by an error of Receive: the connection's, or a message that
// is none, behind which nothing can be read any more.
func (s *session) unreadable(err error) error {
	if s.ctx.Err() != nil {
		return s.ended()
	}
	if errors.Is(s.input.err, io.EOF) {
		return nil
	}
	if s.input.err != nil {
		return s.input.err
	}
	p := &problem{code: codeProtocol, message: "malformed message of the client", detail: err.Error()}
	if _, long := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); long {
		p = &problem{code: codeTooMany, message: fmt.Sprintf("the console takes messages of up to %d bytes", bodyMax), detail: err.Error()}
	}
	s.fatal(p)
	return p
}

// message answers one message. An error ends the session.
func (s *session) message(m pgproto3.FrontendMessage) *problem {
	switch m := m.(type) {
	case *pgproto3.Query:
		if !s.skipping {
			s.simple(m.String)
		}
	case *pgproto3.Sync:
		s.skipping = false
		if s.status == protocol.StatusIdle {
			s.closePortals()
		}
		s.ready()
	case *pgproto3.Flush:
		s.flush()
	case *pgproto3.FunctionCall:
		if !s.skipping {
			s.failed(&problem{code: codeUnsupported, message: "the console has no functions to call"})
			s.ready()
		}
	case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail:
		// As PostgreSQL outside COPY: what is left of one that has failed.
	case *pgproto3.PasswordMessage:
		return &problem{code: codeProtocol, message: "a password outside the login"}
	default:
		if !s.skipping {
			if err := s.extended(m); err != nil {
				s.failed(problemOf(err, codeNotInThatState))
				s.skipping = true
			}
		}
	}
	return nil
}

// simple answers a Query. Its statements are read before the first of them runs.
func (s *session) simple(query string) {
	s.statements.close("")
	s.closePortal("")
	all, err := s.parse(query)
	if err == nil && len(all) == 0 {
		s.out = protocol.AppendEmptyQuery(s.out)
	}
	for i := 0; err == nil && i < len(all); i++ {
		p := &portal{statement: all[i], describe: true}
		err = s.execute(p, 0)
		p.close()
	}
	if err != nil {
		s.failed(problemOf(err, codeNotInThatState))
	}
	if s.status == protocol.StatusIdle {
		s.closePortals()
	}
	s.ready()
}

// send appends a message to what will be written.
func (s *session) send(m pgproto3.BackendMessage) {
	out, err := m.Encode(s.out)
	if err != nil { // only beyond a length that no message here has
		s.err = err
		return
	}
	s.out = out
}

// flush writes what is there.
func (s *session) flush() {
	if s.err == nil && len(s.out) > 0 {
		_, s.err = s.conn.Write(s.out)
	}
	s.out = s.out[:0]
}

// ready tells that the session waits for the next query, unless it is at its end.
func (s *session) ready() {
	if s.ctx.Err() != nil {
		return
	}
	s.out = protocol.AppendReadyForQuery(s.out, s.status)
	s.flush()
}

// notice tells something that is no error.
func (s *session) notice(p *problem) {
	s.out = protocol.AppendNotice(s.out, p.fields(protocol.SeverityNotice))
}

// warn is notice for what the client should not have done.
func (s *session) warn(code, message string) {
	s.out = protocol.AppendNotice(s.out, (&problem{code: code, message: message}).fields(protocol.SeverityWarning))
}

// failed tells an error, which fails the transaction block if there is one. What
// failed because the session is at its end is told by ended.
func (s *session) failed(p *problem) {
	if s.ctx.Err() != nil {
		return
	}
	s.out = protocol.AppendError(s.out, p.fields(protocol.SeverityError))
	if s.status == protocol.StatusBlock {
		s.status = protocol.StatusFailed
	}
}

// fatal tells the client why this is the end.
func (s *session) fatal(p *problem) {
	s.out = protocol.AppendError(s.out, p.fields(protocol.SeverityFatal))
	s.flush()
}
