package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// window is how many logins are under way at a time where it is not the logins that are measured: more would overflow the
// queue of sockets that a server with a short one has not accepted, and wait a second for it.
const window = 32

// entry logs clients in, and has each of them ask a query if there is one.
type entry struct {
	passive
	loop  *loop
	query []byte // nil: none
	under int    // way
}

// enter brings all clients to where their login and query are answered, or gives the first error.
func (l *loop) enter(ctx context.Context, all []*conn, query []byte) error {
	e := &entry{loop: l, query: query}
	l.restart()
	for len(all) > 0 || e.under > 0 {
		for e.under < window && len(all) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			e.under++
			if err := l.connect(all[0], e); err != nil {
				return err
			}
			all = all[1:]
		}
		if err := l.turn(int64(poll), e.under, e); err != nil {
			return err
		}
	}
	return nil
}

func (e *entry) ready(c *conn) error {
	if len(c.failure) > 0 {
		return fmt.Errorf("the first query of a session: %w", errorOf(c.failure))
	}
	if e.query != nil && c.asked == 0 {
		c.asked++
		e.loop.send(c, e.query)
		return nil
	}
	e.under--
	return nil
}

func (e *entry) lost(_ *conn, err error) error { return fmt.Errorf("login: %w", err) }

// passive is the part of a handler that sends no COPY data.
type passive struct{}

func (passive) copyIn(*conn) error {
	return errors.New("the server waits for COPY data, which only a Stream has")
}

func (passive) moreInput(*conn) error { return nil }

// Logins is what became of clients that logged in.
type Logins struct {
	Begun      int
	Answered   int           // got everything that they asked for
	Refused    int           // got an error
	Failed     int           // the connection ended without one
	Unanswered int           // at the end of the run
	Codes      []Code        // the SQLSTATEs of the errors
	Span       time.Duration // from the beginning to the last answer, of whichever kind
	Latency    Histogram     // of those answered: from when they should have begun to the answer to the login, and to the query
	CPU        time.Duration // of the generator
	Err        error         // the first one
}

// PerSecond is how many were answered a second.
func (t *Logins) PerSecond() float64 { return float64(t.Answered) / max(t.Span.Seconds(), 1e-9) }

// answered enters that everything was, or the error.
func (t *Logins) answered(c *conn, now int64) {
	t.Span = time.Duration(now)
	if len(c.failure) > 0 {
		t.refused(c.failure)
		return
	}
	t.Answered++
	t.Latency.Record(time.Duration(now - c.due))
}

// lost enters that a connection has ended before that.
func (t *Logins) lost(c *conn, now int64, err error) {
	t.Span = time.Duration(now)
	if len(c.failure) > 0 {
		t.refused(c.failure)
		return
	}
	t.Failed++
	if t.Err == nil {
		t.Err = err
	}
}

func (t *Logins) refused(failure []byte) {
	t.Refused++
	t.Codes = count(t.Codes, sqlState(failure), 1)
	if t.Err == nil {
		t.Err = errorOf(failure)
	}
}
