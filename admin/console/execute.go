package console

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// portal is a statement that is being, or about to be, run.
type portal struct {
	statement *statement // nil: the empty one
	formats   formats
	describe  bool // the columns are told before the first row
	begun     bool
	result    result
	next      func() (row, bool) // the rest of the rows; nil: none
	stop      func()
}

// close lets go of the rows that have not been taken.
func (p *portal) close() {
	if p.stop != nil {
		p.stop()
	}
	p.next, p.stop = nil, nil
}

var errCanceled = &problem{
	code: codeCanceled, message: "canceling statement due to user request",
	hint: "What the command has begun stays as it is: RESUME ends a PAUSE.",
}

// execute runs a portal, or goes on with it, for at most limit rows; 0: all.
func (s *session) execute(p *portal, limit uint32) error {
	if err := s.allowed(p.statement); err != nil {
		return err
	}
	if p.begun && p.statement.fields == nil {
		return &problem{code: codeNotInThatState, message: "the portal has been run and has no rows"}
	}
	ctx, end := s.command()
	defer end()
	if !p.begun {
		if err := s.begin(p, &command{ctx}); err != nil {
			return whyEnded(ctx, err)
		}
	}
	for n := uint32(0); p.next != nil; n++ {
		if limit > 0 && n == limit {
			s.send(&pgproto3.PortalSuspended{})
			return nil
		}
		r, ok := p.next()
		if !ok {
			p.close()
			break
		}
		s.out = appendRow(s.out, r, len(p.statement.fields), p.formats)
		if len(s.out) >= outMax {
			s.flush()
		}
		if s.err != nil || ctx.Err() != nil {
			p.close()
			return whyEnded(ctx, s.err)
		}
	}
	s.out = protocol.AppendCommandComplete(s.out, p.result.tag)
	return nil
}

// begin runs the statement of a portal up to its first row.
func (s *session) begin(p *portal, c *command) error {
	if _, look := s.rights(); !look {
		return &problem{code: codeForbidden, message: fmt.Sprintf("user %q may not use the console any more", s.User)}
	}
	if p.statement.fields != nil && s.results() == resultsMax {
		return &problem{
			code:    codeTooMany,
			message: "too many portals with rows that have not been taken",
			detail:  fmt.Sprintf("A console session keeps at most %d of them.", resultsMax),
		}
	}
	if p.statement.waits {
		s.flush()
	}
	p.begun = true
	var err error
	p.result, err = p.statement.run(s, c)
	if p.statement.admin {
		s.log(p.statement, err)
	}
	if err != nil || p.result.rows == nil {
		return err
	}
	if p.describe {
		s.send(rowDescription(p.statement.fields, p.formats))
	}
	p.next, p.stop = iter.Pull(p.result.rows)
	return nil
}

// results is how many portals have rows that have not been taken.
func (s *session) results() (n int) {
	for _, p := range s.portals {
		if p.next != nil {
			n++
		}
	}
	return n
}

// rights are what the user may do now.
func (s *session) rights() (all, look bool) {
	if s.Allowed == nil {
		return s.Admin, true
	}
	return s.Allowed()
}

// allowed tells why a statement may not run now.
func (s *session) allowed(st *statement) error {
	if s.status == protocol.StatusFailed && (st == nil || !st.ends) {
		return &problem{
			code:    codeFailedBlock,
			message: "current transaction is aborted, commands ignored until end of transaction block",
		}
	}
	return nil
}

// command makes the context of one command, and what ends it.
func (s *session) command() (ctx context.Context, end func()) {
	select {
	case <-s.Canceled: // it was meant for an earlier one
	default:
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.Canceled:
			cancel(errCanceled)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-watched }
}

// whyEnded is the error of a command: that it was cancelled, if it was and could not
// be ended otherwise.
func whyEnded(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, cause)) {
		return cause
	}
	return err
}

// log tells of a command of users of admin.users, and of attempts of others.
func (s *session) log(st *statement, err error) {
	attrs := []any{"user", s.User, "command", shortened(st.text)}
	if err != nil {
		s.Log.Warn("console command failed", append(attrs, "error", err.Error())...)
		return
	}
	s.Log.Info("console command", attrs...)
}
