package lookup

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"pgkinetic/engine/dial"
)

// State of a Lookup, for one database entry: what is remembered, which users are
// being looked up, and the workers that do so, each with a connection.
//
// Owner: nobody; mu guards what is below it and is held for a few instructions.
// A worker owns its connection and the job that it has taken.
//
// Invariants:
//   - a user has at most one job of the present configuration, in the queue or
//     with a worker: all logins that wait for the user hang on it
//   - each callback that was taken is called exactly once, also at Close
//   - idle workers wait for wake; one token is sent for each that was counted out
//     of idle, so none is lost; at most maxConnections workers run
//   - a result is cached only while the configuration by which it was asked is in
//     force

// Config says whom to ask and how.
type Config struct {
	// Server is where the query runs: its Login names auth_user, auth_user's
	// credentials and the database; the parameters of the session are set here.
	Server dial.Config
	// Query is the SQL; see the package's comment.
	Query string
	// Timeout bounds a connect and a query together.
	Timeout time.Duration
	// CacheFor is how long a known user's result is used again; 0: not at all.
	CacheFor time.Duration
}

var errClosed = fail(Closed, "pg-kinetic is shutting down")

// same says whether both ask the same PostgreSQL the same thing.
func (c *Config) same(d *Config) bool {
	return sameHosts(&c.Server, &d.Server) && c.Server.Login.User == d.Server.Login.User &&
		c.Server.Login.Database == d.Server.Login.Database && c.Query == d.Query
}

func sameHosts(a, b *dial.Config) bool {
	for ; a != nil && b != nil; a, b = a.Next, b.Next {
		if a.Host != b.Host {
			return false
		}
	}
	return a == nil && b == nil
}

// Lookup is the look-ups of one database entry. All methods are safe for all
// goroutines and never wait, Close excepted.
type Lookup struct {
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
	wake    chan struct{}
	open    func(context.Context, *Config) (asker, error)

	mu        sync.Mutex
	cfg       *Config
	known     *cache
	unknown   *cache
	pending   map[string]*job
	queue     []*job // in order; of pending, and of configurations before
	waiting   int    // callbacks of all jobs
	running   int    // workers
	idle      int    // of these, waiting for wake and not yet sent a token
	downCause error  // why PostgreSQL could not be reached
	downUntil time.Time
	closed    bool
}

// job is one look-up. Its callbacks are guarded by Lookup.mu.
type job struct {
	user    string
	cfg     *Config
	since   time.Time
	waiting []Done
}

// Done gets a result, or an *Error and nothing else. It must not block.
type Done func(Result, error)

// asker is a connection. ask says whether it may be asked again; errors that are
// no *Error are the connection's.
type asker interface {
	ask(ctx context.Context, user string) (r Result, whole bool, err error)
	close()
}

// New makes a Lookup, which opens no connection before it has something to ask.
func New(cfg Config) *Lookup {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lookup{ctx: ctx, stop: stop, wake: make(chan struct{}, maxConnections), open: openSession}
	l.install(&cfg)
	return l
}

func (l *Lookup) install(cfg *Config) {
	l.cfg = cfg
	l.known, l.unknown, l.pending = newCache(maxCached), newCache(maxCached), map[string]*job{}
	l.downUntil = time.Time{}
}

// Reconfigure puts new settings into force. What is remembered stays where the
// same PostgreSQL is asked the same thing. Look-ups in progress end by the
// settings under which they began.
func (l *Lookup) Reconfigure(cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !cfg.same(l.cfg) {
		l.install(&cfg)
		return
	}
	l.cfg = &cfg
	l.downUntil = time.Time{} // the reload may have put it right
}

// Find looks a user up. found: r is remembered, and done is not called. err, an
// *Error: the look-up is refused, and done is not called. Else done is called
// once, from another goroutine.
func (l *Lookup) Find(user string, done Done) (r Result, found bool, err error) {
	if len(user) > maxName {
		return Result{User: user, asked: time.Now()}, true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, found := l.remembered(user, time.Now()); found {
		return r, true, nil
	}
	return Result{}, false, l.wait(user, done)
}

// Refresh looks a user up anew whose proof does not fit old, a result of Find:
// the password may have been changed. Results as Find; found without r being
// Newer than old: there is nothing to be had that is newer, since the user was
// looked up less than a second ago.
func (l *Lookup) Refresh(old Result, done Done) (r Result, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if r, found := l.remembered(old.User, now); found && r.Newer(old) {
		return r, true, nil
	}
	if len(old.User) > maxName || now.Sub(old.asked) < refreshEvery {
		return old, true, nil
	}
	return Result{}, false, l.wait(old.User, done)
}

// Forget drops what is remembered of a user: PostgreSQL has shown that it holds no
// more.
func (l *Lookup) Forget(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.drop(user)
}

// remembered gives the result that is still good.
func (l *Lookup) remembered(user string, now time.Time) (Result, bool) {
	if r, found := l.known.get(user); found && now.Sub(r.asked) < l.cfg.CacheFor {
		return r, true
	}
	if r, found := l.unknown.get(user); found && now.Sub(r.asked) < min(unknownFor, l.cfg.CacheFor) {
		return r, true
	}
	return Result{}, false
}

// wait hangs done on the user's job.
func (l *Lookup) wait(user string, done Done) error {
	now := time.Now()
	if l.closed {
		return errClosed
	}
	if err := l.downAt(now); err != nil {
		return err
	}
	if l.waiting == maxWaiting {
		return fail(Busy, "%d logins wait for it", maxWaiting)
	}
	if j := l.pending[user]; j != nil {
		j.waiting = append(j.waiting, done)
		l.waiting++
		return nil
	}
	if len(l.queue) == maxQueued {
		return fail(Busy, "%d users wait for it", maxQueued)
	}
	j := &job{user: user, cfg: l.cfg, since: now, waiting: []Done{done}}
	l.waiting++
	l.pending[user] = j
	l.queue = append(l.queue, j)
	switch {
	case l.idle > 0:
		l.idle--
		l.wake <- struct{}{}
	case l.running < maxConnections:
		l.running++
		l.workers.Go(l.serve)
	}
	return nil
}

// Close ends all look-ups and their connections, and waits for that.
func (l *Lookup) Close() {
	l.mu.Lock()
	l.closed = true
	abandoned := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.stop()
	for _, j := range abandoned {
		l.finish(j, Result{}, errClosed)
	}
	l.workers.Wait()
}

// serve is a worker: it asks for one user after the other, and ends when there
// has been nothing to ask for a while.
func (l *Lookup) serve() {
	var s session
	defer s.drop()
	for {
		j := l.next()
		if j == nil {
			return
		}
		r, err := l.run(&s, j)
		l.finish(j, r, err)
	}
}

// next gives the worker a job, or nil when it is to end.
func (l *Lookup) next() *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed:
			l.running--
			return nil
		case len(l.queue) > 0:
			j := l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
			return j
		}
		l.idle++
		if !l.awaken() {
			l.idle--
			l.running--
			return nil
		}
	}
}

// awaken waits, without the mutex, for a token; false: none has come for idleFor,
// or the Lookup is closed.
func (l *Lookup) awaken() bool {
	l.mu.Unlock()
	timer := time.NewTimer(idleFor)
	defer timer.Stop()
	woken := false
	select {
	case <-l.wake:
		woken = true
	case <-timer.C:
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	if woken {
		return true
	}
	select { // it was sent while we stopped waiting
	case <-l.wake:
		return true
	default:
		return false
	}
}

// finish remembers the result and calls whoever waits for it.
func (l *Lookup) finish(j *job, r Result, err error) {
	l.mu.Lock()
	if l.pending[j.user] == j {
		delete(l.pending, j.user)
	}
	if err == nil && j.cfg.same(l.cfg) {
		if r.Known {
			l.known.put(r)
			l.unknown.drop(r.User)
		} else {
			l.unknown.put(r)
			l.known.drop(r.User)
		}
	}
	waiting := j.waiting
	l.waiting -= len(waiting)
	l.mu.Unlock()
	for _, done := range waiting {
		done(r, err)
	}
}

// session is a worker's connection, if it has one, and the settings by which it
// was opened.
type session struct {
	asker
	cfg *Config
}

func (s *session) drop() {
	if s.asker != nil {
		s.close()
		s.asker = nil
	}
}

// run asks for one user.
func (l *Lookup) run(s *session, j *job) (Result, error) {
	if time.Since(j.since) >= j.cfg.Timeout {
		if err := l.down(); err != nil {
			return Result{}, err
		}
		return Result{}, fail(Busy, "no connection for it has been free for %v", j.cfg.Timeout)
	}
	if s.asker != nil && !s.cfg.same(j.cfg) {
		s.drop()
	}
	ctx, cancel := context.WithTimeout(l.ctx, j.cfg.Timeout)
	defer cancel()
	idle := s.asker != nil
	r, err := l.attempt(ctx, s, j)
	if idle && broken(err) { // PostgreSQL may have ended the session long ago
		r, err = l.attempt(ctx, s, j)
	}
	if err != nil {
		return Result{}, l.explain(ctx, j.cfg, err)
	}
	return r, nil
}

// attempt asks once, on a new session if there is none.
func (l *Lookup) attempt(ctx context.Context, s *session, j *job) (Result, error) {
	if err := l.connect(ctx, s, j.cfg); err != nil {
		return Result{}, err
	}
	asked := time.Now()
	r, whole, err := s.ask(ctx, j.user)
	if !whole {
		s.drop()
	}
	r.asked = asked
	return r, err
}

// broken says whether err is that of a connection which has ended.
func broken(err error) bool {
	var e *Error
	return err != nil && !errors.As(err, &e) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// down tells why PostgreSQL is not tried again yet, nil when it is.
func (l *Lookup) down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.downAt(time.Now())
}

func (l *Lookup) downAt(now time.Time) error {
	if now.Before(l.downUntil) {
		return &Error{Kind: Unreachable, Err: l.downCause}
	}
	return nil
}

// connect opens the session if there is none. PostgreSQL that could not be
// reached a moment ago is not tried again.
func (l *Lookup) connect(ctx context.Context, s *session, cfg *Config) error {
	if s.asker != nil {
		return nil
	}
	if err := l.down(); err != nil {
		return err
	}
	a, err := l.open(ctx, cfg)
	if err == nil {
		*s = session{asker: a, cfg: cfg}
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.Kind == Unreachable && l.ctx.Err() == nil {
		l.mu.Lock()
		if cfg.same(l.cfg) {
			l.downCause, l.downUntil = e.Err, time.Now().Add(downFor)
		}
		l.mu.Unlock()
	}
	return err
}

// explain makes an *Error of what ended an attempt.
func (l *Lookup) explain(ctx context.Context, cfg *Config, err error) error {
	var e *Error
	switch {
	case l.ctx.Err() != nil:
		return errClosed
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded): // a moment before the context's own
		return fail(Unreachable, "no answer within %v", cfg.Timeout)
	case errors.As(err, &e):
		return err
	}
	return &Error{Kind: Unreachable, Err: err}
}
