package engine

// The goroutine of a listener: it connects, carries out what is to be listened to
// and what not, passes on what comes, and connects again when the connection is
// lost, as long as anybody listens.
//
// Owner: this goroutine owns the connection. It blocks where a loop must not, and
// no loop waits for it: they exchange what listeners.mu guards, and events.

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"pgkinetic/backend"
	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// changeBatch is how many LISTEN and UNLISTEN share a round trip.
	changeBatch = 64
	// retryFirst and retryMost bound the pauses between attempts to connect: they
	// double, and each has a jitter of a half.
	retryFirst = 25 * time.Millisecond
	retryMost  = 500 * time.Millisecond
	// probeEvery: a listener that has heard nothing for so long asks PostgreSQL for
	// an answer, so that a connection that is half open is found out.
	probeEvery = int64(30 * time.Second)
)

var (
	// errEnded: the process stops.
	errEnded = errors.New("shutting down")
	// errRenewed: its pool's servers are made of something else now.
	errRenewed = errors.New("opened anew as the backends of its pool are")
)

// run is the goroutine.
func (l *listener) run() {
	var cause error
	for round := 0; ; round++ {
		select {
		case <-l.hurry: // those who wait now are served by this attempt
		default:
		}
		now := reactor.Now()
		if cause != nil {
			l.fail(l.overdue(now), cause)
		}
		if l.retire(now, 0) {
			return
		}
		end := min(now+l.timeout(), l.firstDeadline())
		c, err := l.open(end)
		if err == nil {
			l.connected(c)
			round = 0
			err = l.serve(c)
			c.Close()
			if err == nil {
				return // it has retired
			}
			l.connectionLost(err)
		} else {
			short := end < now+l.timeout() && reactor.Now() >= end
			if cause == nil {
				l.log("cannot open the listener's connection", err)
			} else if short {
				err = cause // an attempt that was cut short says nothing new
			}
			l.openFailed(err, short)
		}
		cause = err
		if backend.ClassOf(err) == backend.LoginFault {
			l.fail(l.overdue(math.MaxInt64), err)
		}
		l.pause(round)
	}
}

// openFailed tells the pool's host of a failure, for which it is probed; should
// another host serve the pool then, the listener follows.
func (l *listener) openFailed(err error, short bool) {
	if !short && backend.ClassOf(err) == backend.HostFault && l.set.ctx.Err() == nil {
		l.basis.host.state.Failed(reactor.Now(), err)
	}
}

// timeout is what a connect, or the answer to a statement, may take, in ns.
func (l *listener) timeout() int64 { return int64(l.key.pool.limits.Load().ConnectTimeoutMs) * ms }

// pause waits before the next attempt: not beyond the time when somebody is to be
// told that there is no connection, and no longer than retryFirst if somebody new
// waits, so that nobody is told of a failure older than the wait.
func (l *listener) pause(round int) {
	d := min(retryFirst<<min(round, 10), retryMost)
	d = d/2 + rand.N(d/2+1)
	first := min(d, retryFirst)
	select {
	case <-l.set.ctx.Done():
		return
	case <-time.After(first):
	}
	rest := max(min(d-first, time.Duration(l.firstDeadline()-reactor.Now())), 0)
	select {
	case <-l.set.ctx.Done():
	case <-l.hurry:
	case <-time.After(rest):
	}
}

func (l *listener) connected(c *dial.Conn) {
	l.peer = c.Peer()
	l.set.mu.Lock()
	l.pid = c.PID()
	l.set.mu.Unlock()
	if e := l.set.eng; e.logsConnections() {
		e.log.Info("listener connected", "pid", c.PID(), "host", l.basis.host.name,
			"database", l.key.pool.key.database, "user", l.key.pool.key.user, "encoding", l.key.encoding)
	}
}

// connectionLost tells those who listen that they may have missed something.
func (l *listener) connectionLost(err error) {
	told := l.dropped()
	if l.set.ctx.Err() != nil {
		return
	}
	loss := l.set.lost.Add(1)
	l.log("a listener's connection was lost", err)
	for _, s := range told {
		l.tell(&listenEvent{kind: listenLost, sub: s, loss: loss})
	}
}

func (l *listener) log(what string, err error) {
	if l.set.ctx.Err() != nil {
		return
	}
	l.set.eng.log.Warn(what, "host", l.key.pool.host().name, "database", l.key.pool.key.database,
		"user", l.key.pool.key.user, "error", err.Error())
}

// fail tells the clients that wait in subs that their LISTEN does not come to hold.
func (l *listener) fail(subs []*subscription, cause error) {
	e := backend.AnswerOf(cause)
	e.Severity = protocol.SeverityError
	l.failWith(subs, &e)
}

func (l *listener) failWith(subs []*subscription, e *protocol.ErrorFields) {
	for _, s := range subs {
		l.tell(&listenEvent{kind: listenFailed, sub: s, fault: e})
	}
}

// serve works on a connection until it is lost (an error) or nobody has listened
// for a while (nil).
func (l *listener) serve(c *dial.Conn) error {
	at := reactor.Now() // when PostgreSQL was last heard
	for {
		if batch := l.take(changeBatch); len(batch) > 0 {
			if err := l.carryOut(c, batch); err != nil {
				return err
			}
			at = reactor.Now()
			continue
		}
		if l.set.ctx.Err() != nil {
			return errEnded
		}
		if l.outdated() {
			return errRenewed
		}
		now := reactor.Now()
		if l.retire(now, l.set.idle) {
			return nil
		}
		if now-at >= l.set.probes {
			if _, err := l.ask(c, ""); err != nil {
				return err
			}
			l.again()
			at = reactor.Now()
			continue
		}
		heard, err := l.await(c, at+l.set.probes)
		if err != nil {
			return err
		}
		if heard {
			at = reactor.Now()
		}
	}
}

// await waits for a message until the time given, or until something is to be
// done, and deals with it.
func (l *listener) await(c *dial.Conn, until int64) (heard bool, err error) {
	if !l.park(c, until) {
		return false, nil
	}
	typ, body, err := c.Receive()
	l.unpark()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case err != nil:
		return false, err
	}
	switch typ {
	case protocol.BackendNotificationResponse:
		return true, l.notify(body)
	case protocol.BackendNoticeResponse, protocol.BackendParameterStatus:
		return true, nil
	case protocol.BackendErrorResponse:
		return false, &backend.RefusedError{Fields: protocol.DecodeError(body)}
	}
	return false, &backend.ViolationError{What: "a listener got an answer to nothing"}
}

// park sets the deadline of a wait for bytes and lets wake interrupt it; false:
// there is something to do.
func (l *listener) park(c *dial.Conn, until int64) bool {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	if len(l.changes) > 0 || l.set.ended || l.outdated() {
		return false
	}
	if len(l.channels) == 0 {
		until = min(until, l.emptyAt+l.set.idle)
	}
	l.parked = c
	c.SetReadDeadline(time.Now().Add(time.Duration(until - reactor.Now())))
	return true
}

func (l *listener) unpark() {
	l.set.mu.Lock()
	l.parked = nil
	l.set.mu.Unlock()
}

// ask runs a statement within the time-out.
func (l *listener) ask(c *dial.Conn, sql string) (refusal *protocol.ErrorFields, err error) {
	ctx, stop := context.WithTimeout(l.set.ctx, time.Duration(l.timeout()))
	defer stop()
	var bad error
	refusal, err = query(ctx, c, sql, func(body []byte) {
		if e := l.notify(body); e != nil {
			bad = e
		}
	})
	if err == nil {
		err = bad
	}
	return refusal, err
}

// carryOut makes the batch true on the connection: in one transaction, or, if
// PostgreSQL refuses that, each by itself.
func (l *listener) carryOut(c *dial.Conn, batch []*channel) error {
	listens := l.begun(batch)
	var sql []byte
	for i, ch := range batch {
		sql = ch.statement(sql, listens[i])
	}
	refusal, err := l.ask(c, string(sql))
	if err != nil {
		return err
	}
	for i, ch := range batch {
		alone := refusal
		if refusal != nil && len(batch) > 1 {
			if alone, err = l.ask(c, string(ch.statement(nil, listens[i]))); err != nil {
				return err
			}
		}
		switch {
		case alone == nil:
			for _, s := range l.settled(ch, listens[i]) {
				l.tell(&listenEvent{kind: listenHolds, sub: s})
			}
		case listens[i]:
			alone.Severity = protocol.SeverityError
			l.failWith(l.refused(ch), alone)
		default:
			return &backend.RefusedError{Fields: *alone} // then it would be heard for ever
		}
	}
	return nil
}

// notify passes a NotificationResponse on to every loop that has clients of its
// channel: one copy for all.
func (l *listener) notify(body []byte) error {
	name, err := notified(body)
	if err != nil {
		return err
	}
	subs := l.subscribers(nil, name)
	if len(subs) == 0 {
		return nil
	}
	m := notification(body)
	for _, s := range subs {
		l.tell(&listenEvent{kind: listenHeard, sub: s, message: m})
	}
	return nil
}

// tell sends an event to the loop of its subscription, once there is a place.
func (l *listener) tell(e *listenEvent) {
	select {
	case l.inFlight <- struct{}{}:
	case <-l.set.ctx.Done():
		return
	}
	e.listener = l
	e.msg.Kind, e.msg.Ref = msgListen, e
	e.sub.w.loop.Post(&e.msg)
}
