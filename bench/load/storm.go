package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgkinetic/internal/pgwire"
)

// Storm is clients that all begin to connect at the same time, as after a failover. They run after everybody else (see
// Background): as if they were on machines of their own.
type Storm struct {
	Application string
	Clients     int
	Query       string        // that each asks after its login; "": none
	Limit       time.Duration // after which nobody is waited for
}

// storm is the run of one.
//
// Invariant: Unanswered counts the clients that have begun, and have had fewer answers than wanted.
type storm struct {
	passive
	loop   *loop
	query  []byte
	wanted int // answers: to the login, and to the query
	result *Logins
}

// Run has them all connect, waits until the last one is answered or has failed, and has them leave. Latencies count from the
// beginning, for everyone.
func (o Storm) Run(ctx context.Context, s Server) (*Logins, error) { return o.run(ctx, s, func() {}) }

// run is Run; over is called between the last answer and the leaving.
func (o Storm) run(ctx context.Context, s Server, over func()) (*Logins, error) {
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
	r := &storm{loop: l, wanted: 1, result: &Logins{}}
	if o.Query != "" {
		r.query, r.wanted = pgwire.Query(o.Query), 2
	}
	clients := make([]conn, o.Clients)
	r.result.CPU, err = l.onThread(Background, func() error {
		for i := range clients {
			clients[i].end = end
		}
		return r.run(ctx, clients, o.Limit)
	})
	over()
	l.leaveAll()
	return r.result, err
}

// between is how many connects are made before somebody is listened to.
const between = 32

func (r *storm) run(ctx context.Context, clients []conn, limit time.Duration) error {
	t := r.result
	r.loop.restart()
	for len(clients) > 0 || t.Unanswered > 0 {
		if ended(ctx) || r.loop.now() > int64(limit) {
			return nil
		}
		n := min(between, len(clients))
		for i := range clients[:n] {
			t.Begun++
			t.Unanswered++
			if err := r.loop.connect(&clients[i], r); err != nil {
				return err
			}
		}
		wait := int64(poll)
		if clients = clients[n:]; len(clients) > 0 {
			wait = 0
		}
		if err := r.loop.turn(wait, 0, r); err != nil { // the limit ends the run, and no silence before it
			return err
		}
	}
	return nil
}

func (r *storm) ready(c *conn) error {
	if c.asked++; c.asked < r.wanted {
		r.loop.send(c, r.query)
		return nil
	}
	r.result.Unanswered--
	r.result.answered(c, r.loop.now())
	return nil
}

func (r *storm) lost(c *conn, err error) error {
	if c.asked < r.wanted {
		r.result.Unanswered--
		r.result.lost(c, r.loop.now(), err)
	}
	return nil
}

// Disturbance is what a storm does to those who are there already.
type Disturbance struct {
	Quiet, During *Tally // of the steady clients, before the storm and from its beginning to its last answer
	Logins        *Logins
}

// Ratio is the q-quantile of the steady clients' latencies during the storm in parts of the one before.
func (d *Disturbance) Ratio(q float64) float64 {
	return float64(d.During.Served.Quantile(q)) / float64(max(d.Quiet.Served.Quantile(q), 1))
}

// StormBeside offers requests to a group of one class at a rate, for the time quiet, and again while the storm lasts.
func StormBeside(
	ctx context.Context, seed uint64, steady *Group, rate float64, quiet time.Duration, s Server, o Storm,
) (*Disturbance, error) {
	before, err := steady.Offer(ctx, seed, Offer{Rate: rate, Span: quiet})
	if err != nil {
		return nil, err
	}
	d := &Disturbance{Quiet: before[0]}
	running, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		during, err := steady.Offer(running, seed+1, Offer{Rate: rate, Span: o.Limit + Silence})
		if err == nil {
			d.During = during[0]
		}
		failed <- err
	}()
	d.Logins, err = o.run(ctx, s, stop)
	stop()
	if err = errors.Join(err, <-failed); err != nil {
		return nil, fmt.Errorf("a storm beside steady clients: %w", err)
	}
	return d, nil
}

// Beside runs f while background runs as well: from lead before f begins until lead after it has ended, when the context
// that background was given is done.
func Beside(ctx context.Context, lead time.Duration, background func(context.Context) error, f func() error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- background(running) }()
	rest(running, lead)
	err := f()
	rest(running, lead)
	stop()
	return errors.Join(err, <-failed)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
