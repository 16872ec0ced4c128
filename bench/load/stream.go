package load

import (
	"bytes"
	"context"
	"errors"
	"time"

	"pgkinetic/internal/pgwire"
)

// Stream is sessions through which large results or COPY data flow.
type Stream struct {
	Application string
	Sessions    int
	Query       string        // one with a large result, COPY … TO STDOUT, or COPY … FROM STDIN
	Requests    int           // each session's; 0: any number
	Span        time.Duration // after which nobody asks again; 0: any time
	// Rate is the bytes per second that each session reads; 0: what comes. When the span is over, the slow ones read the
	// rest as it comes, so that it is known whether they get everything.
	Rate int
	// Input is the body of one CopyData message, whole rows of at most 64 KiB, which is sent to COPY … FROM STDIN until
	// InputBytes of such bodies are.
	Input      []byte
	InputBytes int64
}

// Flow is what has flowed.
type Flow struct {
	Span           time.Duration // until the last answer
	Served, Failed int           // requests
	Unanswered     int           // at the end of the run
	Received       int64         // bytes of the server, headers and all other messages included
	Sent           int64         // bytes of bodies of CopyData
	Rows           int64         // messages DataRow and CopyData of the server
	Latency        Histogram     // of the requests served, to the end of their results
	Codes          []Code        // the SQLSTATEs of errors
	CPU            time.Duration // of the generator
	Err            error         // the first one
}

// PerSecond is the bytes in both directions, per second.
func (f *Flow) PerSecond() float64 { return float64(f.Received+f.Sent) / max(f.Span.Seconds(), 1e-9) }

// Slow sessions read this often, or in pieces of this size if that is less often.
const (
	slowTick  = 10 * time.Millisecond
	slowPiece = 4 << 10
)

// slowBuffer is the receive buffer of a slow session's socket (the kernel doubles it): what it has not read waits at the
// server, and not here.
const slowBuffer = 8 << 10

// inputBatch is about how much input is written at a time.
const inputBatch = 64 << 10

// stream is the run of a Stream.
//
// Invariants: the time at which a client's request was due is answered when it has none under way; Unanswered counts those
// that have one. Slow clients are paused until rush.
type stream struct {
	Stream
	loop    *loop
	query   []byte
	batch   []byte // CopyData messages
	inBatch int64  // bytes of their bodies
	clients []*conn
	rush    bool // nobody asks again, and nobody is slow
	result  *Flow
}

// Run logs the sessions in and gives what flowed from then on.
func (o Stream) Run(ctx context.Context, s Server) (*Flow, error) {
	if o.Requests <= 0 && o.Span <= 0 {
		return nil, errors.New("a stream without end")
	}
	end, err := s.endpoint(o.Application)
	if err != nil {
		return nil, err
	}
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	defer l.close()
	r := &stream{Stream: o, loop: l, query: pgwire.Query(o.Query), result: &Flow{}}
	if len(o.Input) > 0 {
		n := max(inputBatch/len(o.Input), 1)
		r.batch, r.inBatch = bytes.Repeat(pgwire.CopyData(o.Input), n), int64(n*len(o.Input))
	}
	if o.Rate > 0 {
		end.receiveBuffer = slowBuffer
	}
	for range o.Sessions {
		r.clients = append(r.clients, &conn{end: end})
	}
	r.result.CPU, err = l.onThread(Ordinary, func() error {
		if err := l.enter(ctx, r.clients, nil); err != nil {
			return err
		}
		return r.run(ctx)
	})
	for _, c := range r.clients {
		r.result.Received += c.received
		r.result.Rows += c.rows
	}
	l.leaveAll()
	return r.result, err
}

func (r *stream) run(ctx context.Context) error {
	r.loop.restart()
	for _, c := range r.clients {
		c.received, c.rows, c.asked = 0, 0, 0
		if r.Rate > 0 {
			c.paused = true
			r.loop.watch(c)
		}
		r.ask(c)
	}
	for next := int64(0); r.result.Unanswered > 0; {
		if !r.rush && (ended(ctx) || r.Span > 0 && r.loop.now() > int64(r.Span)) {
			if err := r.hurry(); err != nil {
				return err
			}
		}
		wait := int64(poll)
		if r.Rate > 0 && !r.rush {
			if now := r.loop.now(); now >= next {
				next = now + r.tick()
				if err := r.readSlowly(now); err != nil {
					return err
				}
			}
			wait = next - r.loop.now()
		}
		if err := r.loop.turn(wait, r.result.Unanswered, r); err != nil {
			return err
		}
	}
	return nil
}

// answered is the due time of a client without a request.
const answered = -1

// ask sends the query.
func (r *stream) ask(c *conn) {
	c.asked++
	c.due = r.loop.now()
	r.result.Unanswered++
	r.loop.send(c, r.query)
}

// tick is the time between two pieces, ns.
func (r *stream) tick() int64 {
	return max(int64(slowTick), min(int64(slowPiece)*int64(time.Second)/int64(r.Rate), int64(time.Second)))
}

// readSlowly reads from every slow client what its rate has made due by now.
func (r *stream) readSlowly(now int64) error {
	due := int64(float64(r.Rate) * float64(now) / 1e9)
	for _, c := range r.clients {
		for c.phase == session && c.paused && c.received < due {
			n, err := r.loop.receive(c, r.loop.buf[:min(due-c.received, int64(len(r.loop.buf)))], r)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			r.loop.heard = now
		}
	}
	return nil
}

// hurry ends the span.
func (r *stream) hurry() error {
	r.rush = true
	for _, c := range r.clients {
		if c.phase != session || !c.paused {
			continue
		}
		c.paused = false
		r.loop.watch(c)
		if err := r.loop.drain(c, r); err != nil { // no event tells of what crypto/tls has read
			return err
		}
	}
	return nil
}

func (r *stream) ready(c *conn) error {
	now := r.loop.now()
	f := r.result
	f.Span = time.Duration(now)
	f.Unanswered--
	c.input = 0 // whatever an error has left of it
	r.loop.watch(c)
	if len(c.failure) > 0 {
		f.Codes = count(f.Codes, sqlState(c.failure), 1)
		f.failed(errorOf(c.failure))
	} else {
		f.Served++
		f.Latency.Record(time.Duration(now - c.due))
	}
	c.due = answered
	if !r.rush && (r.Requests <= 0 || c.asked < r.Requests) {
		r.ask(c)
	}
	return nil
}

func (f *Flow) failed(err error) {
	f.Failed++
	if f.Err == nil {
		f.Err = err
	}
}

func (r *stream) lost(c *conn, err error) error {
	if c.due != answered {
		r.result.Unanswered--
		r.result.failed(err)
	}
	return nil
}

func (r *stream) copyIn(c *conn) error {
	if len(r.batch) == 0 {
		return errors.New("the server waits for COPY data, and the stream has none")
	}
	c.input = r.InputBytes
	r.loop.watch(c)
	return nil
}

// moreInput sends a batch, and CopyDone behind the last.
func (r *stream) moreInput(c *conn) error {
	r.result.Sent += r.inBatch
	c.input = max(c.input-r.inBatch, 0)
	r.loop.send(c, r.batch)
	if c.input == 0 {
		r.loop.send(c, copyDone)
		r.loop.watch(c)
	}
	return nil
}

var copyDone = pgwire.CopyDone()
