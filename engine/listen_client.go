package engine

// A client's share of LISTEN: what it listens to, what it waits for, and the
// notifications that wait for it. As with PostgreSQL, a client gets notifications
// between its transactions only: at once while it owns no backend or an idle one,
// else behind the ReadyForQuery that ends its request and its block.
//
// Owner: the client's loop. The struct exists while the client listens to
// anything or is owed something.
//
// Invariants:
//   - awaited is the number of subs whose LISTEN does not hold yet: while it is
//     not 0 the client's ReadyForQuery is held back (listening)
//   - queue holds at most noticesMax notifications of noticeBytesMax bytes; they
//     are of channels that the client listens to; messages are shared, read only
//   - missing: something behind the queue was lost; deliverNotices says so

import (
	"slices"

	"pgkinetic/engine/reactor"
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
)

const (
	// noticesMax and noticeBytesMax bound what waits for a client that is busy. What
	// waits in its socket's buffer here is bounded by max_backend_buffer_bytes.
	noticesMax     = 1000
	noticeBytesMax = 256 << 10
)

type clientListens struct {
	subs    map[*subscription]listenPlace
	queue   []notice
	bytes   int                   // of queue
	awaited int                   // of subs
	loss    uint64                // the last loss that the client was told of
	fault   *protocol.ErrorFields // why a LISTEN of the present request failed
	missing bool
	warned  bool // the client's output is full of notifications, and it was told so
}

// listenPlace is a client's part in a subscription.
type listenPlace struct {
	at      int
	awaited bool
}

// notice is one notification that waits, or a warning.
type notice struct {
	sub     *subscription // nil: a warning, of no channel
	message []byte
}

func (l *clientListens) place(s *subscription, at int) {
	p := l.subs[s]
	p.at = at
	l.subs[s] = p
}

// listening: the client waits until its LISTEN holds; its ReadyForQuery is held.
func (c *client) listening() bool { return c.listens != nil && c.listens.awaited > 0 }

// listen carries out what c's request has committed (listenLog.ready), before the
// ReadyForQuery of that request is sent to it. wait: it must be held back, and
// with it all that the client sends, until c.listened is called. fault without
// wait: to be sent as an error before that ReadyForQuery.
func (c *client) listen(ops []listenOp) (wait bool, fault *protocol.ErrorFields) {
	if len(ops) == 0 {
		return false, nil
	}
	net := listenNet(ops) // of it, names that are listened to already are taken out
	if c.listens == nil {
		c.listens = &clientListens{subs: map[*subscription]listenPlace{}}
	}
	key := listenerKey{c.up.pool, c.listenEncoding()}
	for s := range c.listens.subs {
		if net.removes(s.name) {
			c.unsubscribe(s)
		}
		if net.names[s.name] {
			delete(net.names, s.name) // also where client_encoding was another then
		}
	}
	for name, on := range net.names {
		if !on {
			continue
		}
		if e := c.subscribe(key, name); e != nil {
			fault = e
		}
	}
	if net.tooMany && fault == nil {
		fault = tooManyChannels("too many LISTEN and UNLISTEN in one transaction", listenOpsMax)
	}
	if c.listening() {
		c.listens.fault = fault
		return true, nil
	}
	c.forgetListens()
	return false, fault
}

// listenEffect is what a list of operations comes to.
type listenEffect struct {
	names   map[string]bool // to be listened to, or not
	every   bool            // all others are not to be listened to
	tooMany bool
}

func listenNet(ops []listenOp) listenEffect {
	n := listenEffect{names: map[string]bool{}}
	for _, op := range ops {
		switch op.kind {
		case listenName:
			n.names[op.name] = true
		case unlistenName:
			n.names[op.name] = false
		case unlistenEvery:
			clear(n.names)
			n.every = true
		case listenTooMany:
			n.tooMany = true
		}
	}
	return n
}

// removes tells whether a name that was listened to is not any more.
func (n *listenEffect) removes(name string) bool {
	on, named := n.names[name]
	return named && !on || !named && n.every
}

// listenEncoding is the encoding in which c's channels and payloads travel.
func (c *client) listenEncoding() string {
	name, ok := c.prof.Get("client_encoding")
	if snapshot := c.up.pool.snapshot.Load(); !ok && snapshot != nil {
		name, _ = snapshot.Get("client_encoding")
	}
	if official, known := session.EncodingName(name); known {
		return official
	}
	return name
}

// subscribe makes c a client of a channel that it does not listen to yet.
func (c *client) subscribe(key listenerKey, name string) *protocol.ErrorFields {
	s := c.w.subscription(key, name)
	if len(c.listens.subs) >= clientChannelsMax {
		return tooManyChannels("the client listens to too many channels", clientChannelsMax)
	}
	if !s.holds {
		holds, e := c.w.eng.listeners.join(s, key, c.w.now(), c.up.pool.failLimit())
		if e != nil {
			return e
		}
		s.holds = holds
	}
	p := listenPlace{at: s.add(c), awaited: !s.holds}
	c.listens.subs[s] = p
	if p.awaited {
		c.listens.awaited++
	}
	return nil
}

// unsubscribe ends that, and drops what of the channel waits for c.
func (c *client) unsubscribe(s *subscription) {
	l := c.listens
	p := l.subs[s]
	delete(l.subs, s)
	if p.awaited {
		l.awaited--
	}
	s.remove(p.at)
	l.queue = slices.DeleteFunc(l.queue, func(n notice) bool {
		if n.sub == s {
			l.bytes -= len(n.message)
		}
		return n.sub == s
	})
}

// unlistenAll ends all: c leaves.
func (c *client) unlistenAll() {
	if c.listens == nil {
		return
	}
	for s := range c.listens.subs {
		c.unsubscribe(s)
	}
	c.listens = nil
}

// forgetListens drops the struct of a client that does not listen any more.
func (c *client) forgetListens() {
	if l := c.listens; len(l.subs) == 0 && len(l.queue) == 0 && !l.missing {
		c.listens = nil
	}
}

// listenEnded: LISTEN on s holds, or fails for those who wait.
func (c *client) listenEnded(s *subscription, fault *protocol.ErrorFields) {
	l := c.listens
	p := l.subs[s]
	if !p.awaited {
		return
	}
	if fault != nil {
		l.fault = fault
		c.unsubscribe(s)
	} else {
		l.subs[s] = listenPlace{at: p.at}
		l.awaited--
	}
	if l.awaited == 0 && c.state < clientClosing {
		c.listened(l.fault)
	}
}

// listened: c's LISTEN holds, or one of them has failed for the reason given. What
// listen held back goes on.
func (c *client) listened(fault *protocol.ErrorFields) {
	c.listens.fault = nil
	if fault != nil {
		c.sendError(fault)
	}
	c.sendReady(protocol.StatusIdle)
	c.deliverNotices()
	c.forgetListens()
	c.w.later(c)
}

// heardLoss: notifications may have been missed while the listener was away.
func (c *client) heardLoss(loss uint64) {
	l := c.listens
	if l.loss == loss || c.state >= clientClosing {
		return
	}
	l.loss = loss
	c.w.listens.warned.inc()
	if c.mayHear() {
		c.deliverNotices()
		c.send(warningListenerLost)
		return
	}
	c.keepNotice(nil, warningListenerLost) // half a message may have been passed on to it
}

// mayHear: a message that answers nothing may go to c now.
func (c *client) mayHear() bool {
	switch c.state {
	case clientIdle, clientWaiting:
		return !c.listening()
	case clientLinked:
		return c.srv.tracker.Idle() && !c.listening()
	}
	return false
}

// hear takes a notification of s, a whole message.
func (c *client) hear(s *subscription, m []byte) {
	switch {
	case c.state >= clientClosing:
	case c.mayHear():
		c.deliverNotices()
		c.deliver(m)
	case !c.keepNotice(s, m):
		c.w.listens.lost.inc()
	}
}

// keepNotice keeps a message for when c is idle, unless too much waits already.
func (c *client) keepNotice(s *subscription, m []byte) bool {
	l := c.listens
	if l.missing || len(l.queue) >= noticesMax || l.bytes+len(m) > noticeBytesMax {
		l.missing = true
		return false
	}
	l.queue = append(l.queue, notice{s, m})
	l.bytes += len(m)
	return true
}

// deliverNotices sends what has waited. To be called when c has been sent a
// ReadyForQuery with status I and is owed nothing.
func (c *client) deliverNotices() {
	l := c.listens
	if l == nil || len(l.queue) == 0 && !l.missing || !c.mayHear() {
		return
	}
	queue, missing := l.queue, l.missing
	l.queue, l.bytes, l.missing = nil, 0, false
	for _, n := range queue {
		if n.sub == nil {
			c.send(n.message)
			continue
		}
		c.deliver(n.message)
	}
	if missing {
		c.send(warningNotificationsLost)
	}
	c.forgetListens()
}

// deliver sends one notification, unless so much waits for c already that it is
// lost: then c is told, once for all those that follow each other.
func (c *client) deliver(m []byte) {
	l, w := c.listens, c.w
	if n := c.out.Len(); n > 0 && (n+len(m) > c.limits.MaxBackendBufferBytes || reactor.BufferBytes() >= w.eng.server().MaxBufferMemory) {
		w.listens.lost.inc()
		if !l.warned {
			l.warned = true
			c.send(warningNotificationsLost)
		}
		return
	}
	l.warned = false
	w.listens.delivered.inc()
	c.send(m)
}

// codeWarning: PostgreSQL's warning.
const codeWarning = "01000"

// The warnings, as whole messages. Read only.
var (
	warningListenerLost = protocol.AppendNotice(nil, protocol.ErrorFields{
		Severity: protocol.SeverityWarning, Code: codeWarning,
		Message: "notifications may have been lost: the pooler's connection that listens was interrupted",
		Hint:    "What the notifications tell of has to be looked at anew.",
	})
	warningNotificationsLost = protocol.AppendNotice(nil, protocol.ErrorFields{
		Severity: protocol.SeverityWarning, Code: codeWarning,
		Message: "notifications were lost: more of them came than the client has taken",
		Hint:    "What the notifications tell of has to be looked at anew.",
	})
)
