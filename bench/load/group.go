package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgkinetic/internal/pgwire"
)

// Class is a kind of client: what it is called, what it asks, and how many sessions it asks with.
type Class struct {
	Application string // application_name
	Query       string // a simple query
	Sessions    int
	Refusals    []string // SQLSTATEs that count as refusals; nil: 53300, too_many_connections
}

// Group is sessions of one or more classes that one thread drives. It belongs to one goroutine at a time; several groups run
// at once. A session that the server ends is not replaced. After an error, a group can only be closed.
type Group struct {
	rank    Rank
	loop    *loop
	classes []*class
	used    time.Duration
}

// class is a Class in a Group.
//
// Invariants: a session of it that is not gone is either in resting or waits for an answer; busy counts the latter.
type class struct {
	Class
	query   []byte
	end     *endpoint
	resting ring
	alive   int
	busy    int
}

// Dial opens all sessions. The rank is for open loops; closed ones are Ordinary.
func Dial(s Server, rank Rank, classes ...Class) (*Group, error) {
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	g := &Group{rank: rank, loop: l}
	for _, c := range classes {
		if c.Refusals == nil {
			c.Refusals = []string{"53300"}
		}
		end, err := s.endpoint(c.Application)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.classes = append(g.classes, &class{
			Class: c, query: pgwire.Query(c.Query), end: end, resting: ring{conns: make([]*conn, c.Sessions)},
		})
	}
	if err := g.dial(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Group) dial() error {
	var all []*conn
	for i, c := range g.classes {
		for range c.Sessions {
			all = append(all, &conn{class: i, end: c.end})
		}
	}
	if err := descriptors(len(all)); err != nil {
		return err
	}
	_, err := g.loop.onThread(Ordinary, func() error { return g.loop.enter(context.Background(), all, nil) })
	if err != nil {
		return err
	}
	for _, c := range all {
		g.classes[c.class].resting.add(c)
		g.classes[c.class].alive++
	}
	return nil
}

// CPU is the time that the generator itself used in the last run.
func (g *Group) CPU() time.Duration { return g.used }

// Close closes the sessions without a word.
func (g *Group) Close() { g.loop.close() }

// Offer sends requests to a schedule for each class, one offer each in their order, whatever the answers do; a request for
// which no session is free waits for the next one, on its own account. It returns when all are answered, one Tally for each
// class. When ctx is done, the schedules end.
func (g *Group) Offer(ctx context.Context, seed uint64, offers ...Offer) ([]*Tally, error) {
	if len(offers) != len(g.classes) {
		return nil, fmt.Errorf("%d offers to %d classes", len(offers), len(g.classes))
	}
	r := g.newRun()
	for i, o := range offers {
		r.arrivals = append(r.arrivals, newArrivals(seed<<8|uint64(i), o))
		t := r.tallies[i]
		t.Span, t.begin, t.last = o.Span, int64(o.After), int64(o.After)
	}
	var err error
	g.used, err = g.loop.onThread(g.rank, func() error { return r.offer(ctx) })
	return r.tallies, err
}

// Repeat is a closed loop: sessions of one class, by its index, each send again when they have their answer, until so many
// requests (0: any number) are sent or the span (0: any) is over or ctx is done.
func (g *Group) Repeat(ctx context.Context, class, requests, sessions int, span time.Duration) (*Tally, error) {
	if requests <= 0 && span <= 0 {
		return nil, errors.New("a closed loop without end")
	}
	r := g.newRun()
	r.again, r.closed = requests, true
	if requests <= 0 {
		r.again = int(^uint(0) >> 1)
	}
	t := r.tallies[class]
	t.Span = 1 << 62 // until it is known
	var err error
	g.used, err = g.loop.onThread(Ordinary, func() error { return r.repeat(ctx, class, sessions, span) })
	t.Span = time.Duration(r.loop.now())
	return t, err
}

// run is one run of a group. again is, in a closed loop, how many requests are still to be sent.
type run struct {
	*Group
	passive
	tallies  []*Tally
	arrivals []*arrivals
	closed   bool
	again    int
}

func (g *Group) newRun() *run {
	r := &run{Group: g}
	for _, c := range g.classes {
		r.tallies = append(r.tallies, &Tally{refusals: c.Refusals})
	}
	g.loop.restart()
	return r
}

func (r *run) offer(ctx context.Context) error {
	for {
		if ended(ctx) {
			r.stop()
		}
		wait, more := r.sendDue()
		busy := r.busy()
		if !more && busy == 0 {
			break
		}
		if err := r.loop.turn(wait, busy, r); err != nil {
			return err
		}
		if err := r.starved(); err != nil {
			return err
		}
	}
	for _, t := range r.tallies {
		t.refusedAt(int64(1) << 62)
	}
	return nil
}

// stop ends the schedules now.
func (r *run) stop() {
	for i, a := range r.arrivals {
		if a.due() {
			a.stop()
			t := r.tallies[i]
			t.Span = min(t.Span, time.Duration(max(r.loop.now()-t.begin, 0)))
		}
	}
}

// sendDue sends what is due, and gives the time in ns until more is, and whether anything is still to come.
func (r *run) sendDue() (wait int64, more bool) {
	wait = int64(poll)
	now := r.loop.now()
	for i, a := range r.arrivals {
		c := r.classes[i]
		for a.due() && a.next <= now {
			s := c.resting.take()
			if s == nil {
				break
			}
			r.send(s, a.next)
			now = r.loop.now()
			r.tallies[i].Late.Record(time.Duration(now - a.next))
			a.pass()
		}
		more = more || a.due()
		if a.due() && c.resting.n > 0 {
			wait = min(wait, max(a.next-now, 0))
		}
	}
	return wait, more
}

// starved is an error when a class has arrivals to come and no session left.
func (r *run) starved() error {
	for i, c := range r.classes {
		if c.alive == 0 && r.arrivals[i].due() {
			return fmt.Errorf("all %d sessions of %q are lost: %w", c.Sessions, c.Application, r.tallies[i].Err)
		}
	}
	return nil
}

func (r *run) repeat(ctx context.Context, class, sessions int, span time.Duration) error {
	for range sessions {
		s := r.classes[class].resting.take()
		if s == nil || r.again == 0 {
			break
		}
		r.again--
		r.send(s, r.loop.now())
	}
	for r.busy() > 0 {
		if ended(ctx) || span > 0 && r.loop.now() > int64(span) {
			r.again = 0
		}
		if err := r.loop.turn(int64(poll), r.busy(), r); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) busy() (n int) {
	for _, c := range r.classes {
		n += c.busy
	}
	return n
}

func (r *run) send(c *conn, due int64) {
	c.due = due
	r.classes[c.class].busy++
	r.loop.send(c, r.classes[c.class].query)
}

func (r *run) ready(c *conn) error {
	now := r.loop.now()
	class := r.classes[c.class]
	class.busy--
	r.tallies[c.class].answered(c.due, now, c.failure)
	if r.again > 0 {
		r.again--
		r.send(c, now)
		return nil
	}
	class.resting.add(c)
	return nil
}

func (r *run) lost(c *conn, err error) error {
	class, t := r.classes[c.class], r.tallies[c.class]
	t.Lost++
	class.alive--
	switch {
	case class.resting.remove(c):
		t.note(err)
	case len(c.failure) > 0:
		class.busy--
		t.answered(c.due, r.loop.now(), c.failure)
	default:
		class.busy--
		t.failed(err)
	}
	return nil
}

// ring is sessions that rest: the one that has rested longest is next. Its size is what it can hold.
type ring struct {
	conns    []*conn
	first, n int
}

func (r *ring) add(c *conn) {
	r.conns[(r.first+r.n)%len(r.conns)] = c
	r.n++
}

// take gives nil when nobody rests.
func (r *ring) take() *conn {
	if r.n == 0 {
		return nil
	}
	c := r.conns[r.first]
	r.first = (r.first + 1) % len(r.conns)
	r.n--
	return c
}

// remove tells whether c was there.
func (r *ring) remove(c *conn) bool {
	rest := make([]*conn, 0, r.n)
	for i := range r.n {
		rest = append(rest, r.conns[(r.first+i)%len(r.conns)])
	}
	i := slices.Index(rest, c)
	if i < 0 {
		return false
	}
	r.first, r.n = 0, copy(r.conns, slices.Delete(rest, i, i+1))
	return true
}
