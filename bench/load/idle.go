package load

import (
	"context"

	"pgkinetic/internal/pgwire"
)

// Idle is clients that have logged in, run one query, and stay. It belongs to one goroutine at a time. What they cost the
// server is read between two calls of Grow, which leaves out what a server needs without them.
type Idle struct {
	passive
	loop  *loop
	end   *endpoint
	query []byte
	err   error // of the first that was lost
}

// NewIdle makes an Idle of no clients. An empty query: they only log in.
func NewIdle(s Server, application, query string) (*Idle, error) {
	end, err := s.endpoint(application)
	if err != nil {
		return nil, err
	}
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	i := &Idle{loop: l, end: end}
	if query != "" {
		i.query = pgwire.Query(query)
	}
	return i, nil
}

// Grow adds clients until n have come in all, a few at a time. To a server on 127.0.0.1, they come from as many addresses
// of the loopback network as their ports need, 12 000 from each.
func (i *Idle) Grow(ctx context.Context, n int) error {
	if err := descriptors(n); err != nil {
		return err
	}
	all := make([]*conn, max(n-i.loop.open, 0))
	for k := range all {
		all[k] = &conn{end: i.end}
	}
	_, err := i.loop.onThread(Ordinary, func() error { return i.loop.enter(ctx, all, i.query) })
	return err
}

// Alive is how many are still there, and why the first of the others has gone.
func (i *Idle) Alive() (int, error) {
	for before := -1; before != i.loop.open; { // one turn takes in no more than a part of what has come
		before = i.loop.open
		if err := i.loop.turn(0, 0, i); err != nil {
			return i.loop.open, err
		}
	}
	return i.loop.open, i.err
}

func (i *Idle) ready(*conn) error { return nil }

func (i *Idle) lost(_ *conn, err error) error {
	if i.err == nil {
		i.err = err
	}
	return nil
}

// Close ends all sessions in order.
func (i *Idle) Close() {
	i.loop.leaveAll()
	i.loop.close()
}
