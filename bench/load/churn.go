package load

import (
	"context"
	"errors"
	"slices"
	"time"

	"pgkinetic/internal/pgwire"
)

// Churn is clients that connect, log in, ask, leave, and connect again at once: a closed loop.
type Churn struct {
	Application string
	Clients     int
	Query       string        // what each asks; "": it only logs in
	Queries     int           // how often, one after the other
	Logins      int           // after so many, nobody connects again; 0: any number
	Span        time.Duration // the same, after so long; 0: any time
	// Abandon has clients go while their last query is under way, without a word.
	Abandon bool
}

// churn is the run of one.
//
// Invariant: a client has a socket exactly while its login or one of its queries is under way; Unanswered counts those, and
// the others are in out, from where they begin again in the next turn: a server that refuses them at once would otherwise
// keep the run from looking at its clock.
type churn struct {
	Churn
	passive
	loop   *loop
	query  []byte
	more   int // logins to come
	out    []*conn
	result *Logins
}

// Run gives what became of all logins. Each one's latency counts from its connect to its last answer; one that is abandoned
// counts as answered when its last query is sent.
func (o Churn) Run(ctx context.Context, s Server) (*Logins, error) {
	if o.Logins <= 0 && o.Span <= 0 {
		return nil, errors.New("a churn without end")
	}
	if o.Logins <= 0 {
		o.Logins = int(^uint(0) >> 1)
	}
	if o.Query == "" {
		o.Queries, o.Abandon = 0, false
	}
	end, err := s.endpoint(o.Application)
	if err != nil {
		return nil, err
	}
	if err := descriptors(o.Clients); err != nil {
		return nil, err
	}
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	defer l.close()
	r := &churn{Churn: o, loop: l, query: pgwire.Query(o.Query), more: o.Logins, result: &Logins{}}
	r.result.CPU, err = l.onThread(Ordinary, func() error { return r.run(ctx, end) })
	return r.result, err
}

func (r *churn) run(ctx context.Context, end *endpoint) error {
	r.loop.restart()
	for range r.Clients {
		r.out = append(r.out, &conn{end: end})
	}
	for {
		if ended(ctx) || r.Span > 0 && r.loop.now() > int64(r.Span) {
			r.more = 0
		}
		if err := r.begin(); err != nil {
			return err
		}
		if r.result.Unanswered == 0 && r.more == 0 {
			return nil
		}
		wait := int64(poll)
		if len(r.out) > 0 && r.more > 0 {
			wait = 0
		}
		if err := r.loop.turn(wait, r.result.Unanswered, r); err != nil {
			return err
		}
	}
}

// begin has everybody who is out connect, as long as logins are to come.
func (r *churn) begin() error {
	for n := len(r.out); n > 0 && r.more > 0; n-- {
		c := r.out[n-1]
		r.out = slices.Delete(r.out, n-1, n) // those that fail at once are put behind
		r.more--
		r.result.Begun++
		r.result.Unanswered++
		c.due = r.loop.now()
		if err := r.loop.connect(c, r); err != nil {
			return err
		}
	}
	return nil
}

func (r *churn) ready(c *conn) error {
	if len(c.failure) == 0 && c.asked < r.Queries {
		c.asked++
		r.loop.send(c, r.query)
		if !r.Abandon || c.asked < r.Queries {
			return nil
		}
	}
	r.result.Unanswered--
	r.result.answered(c, r.loop.now())
	if r.Abandon {
		r.loop.remove(c)
	} else {
		r.loop.leave(c)
	}
	r.out = append(r.out, c)
	return nil
}

func (r *churn) lost(c *conn, err error) error {
	r.result.Unanswered--
	r.result.lost(c, r.loop.now(), err)
	r.out = append(r.out, c)
	return nil
}
