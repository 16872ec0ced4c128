package engine

// A loop's share of LISTEN: which of its clients listen to what, and the events
// of the listeners in the order in which they came.
//
// Owner: the loop. A subscription is also named, but not looked into, by its
// listener, which holds it as long as it has clients.
//
// Invariants:
//   - a subscription is in loopListens.subs exactly while it has clients
//   - clients[i] has the place i for it (clientListens.subs)
//   - events are dealt with one after the other, each with all clients that were
//     there when it began: so each client gets notifications in PostgreSQL's order
//   - one turn visits at most walkPerTurn clients; during an event, clients below
//     at are those that are yet to be visited

import (
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

// subscription is a channel on one loop.
type subscription struct {
	w        *worker
	key      listenerKey
	name     string
	listener *listener // guarded by listeners.mu
	clients  []*client
	holds    bool // as far as this loop knows
}

type subscriptionKey struct {
	listener listenerKey
	name     string
}

type listenEventKind uint8

const (
	listenHeard  listenEventKind = iota // a notification
	listenHolds                         // LISTEN is in force
	listenFailed                        // those who wait for LISTEN do so in vain
	listenLost                          // what was committed since may have been missed
)

// listenEvent is what a listener tells a loop. It belongs to the loop once it is
// posted.
type listenEvent struct {
	msg      reactor.Message
	listener *listener
	sub      *subscription
	next     *listenEvent
	message  []byte                // a whole NotificationResponse, shared by all loops: read only
	fault    *protocol.ErrorFields // of listenFailed
	loss     uint64                // of listenLost: its number
	kind     listenEventKind
}

// loopListens is a worker's part.
type loopListens struct {
	subs       map[subscriptionKey]*subscription
	head, tail *listenEvent
	at         int  // clients of the first event's channel that are yet to be visited
	begun      bool // the first event has begun
	again      reactor.Message

	delivered counter // notifications
	lost      counter // notifications of clients that do not take them
	warned    counter // clients told that notifications may have been missed
}

// listenTold takes an event.
func (w *worker) listenTold(e *listenEvent) {
	q := &w.listens
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
	if !q.again.Queued() { // else its turn comes
		w.listenTurn()
	}
}

// listenTurn deals with events, a turn's worth of them.
func (w *worker) listenTurn() {
	q := &w.listens
	for left := walkPerTurn; q.head != nil; {
		if left <= 0 {
			q.again.Kind = msgListenTurn
			w.loop.Post(&q.again)
			return
		}
		e := q.head
		if !q.begun {
			q.begun, q.at = true, len(e.sub.clients)
			e.begin()
		}
		for ; q.at > 0 && left > 0; left-- {
			q.at--
			e.visit(e.sub.clients[q.at])
		}
		left--
		if q.at > 0 {
			continue
		}
		q.begun = false
		if q.head = e.next; q.head == nil {
			q.tail = nil
		}
		<-e.listener.inFlight
	}
}

// begin does what concerns the loop's share as a whole.
func (e *listenEvent) begin() {
	switch e.kind {
	case listenHolds:
		e.sub.holds = true
	case listenLost:
		e.sub.holds = false
	}
}

// visit tells c. It may take c out of the subscription, nobody else.
func (e *listenEvent) visit(c *client) {
	switch e.kind {
	case listenHeard:
		c.hear(e.sub, e.message)
	case listenHolds:
		c.listenEnded(e.sub, nil)
	case listenFailed:
		c.listenEnded(e.sub, e.fault)
	case listenLost:
		c.heardLoss(e.loss)
	}
}

// subscription gives the loop's share of a channel, a new one without clients if
// there is none.
func (w *worker) subscription(key listenerKey, name string) *subscription {
	if s := w.listens.subs[subscriptionKey{key, name}]; s != nil {
		return s
	}
	return &subscription{w: w, key: key, name: name}
}

// add makes c a client of s and gives its place.
func (s *subscription) add(c *client) (place int) {
	if len(s.clients) == 0 {
		all := &s.w.listens
		if all.subs == nil {
			all.subs = map[subscriptionKey]*subscription{}
		}
		all.subs[subscriptionKey{s.key, s.name}] = s
	}
	s.clients = append(s.clients, c)
	return len(s.clients) - 1
}

// remove takes the client at a place out of s. While an event visits s, those
// that it has yet to visit stay below at and all others above.
func (s *subscription) remove(place int) {
	q := &s.w.listens
	if q.begun && q.head.sub == s && place < q.at {
		q.at--
		s.move(q.at, place)
		place = q.at
	}
	last := len(s.clients) - 1
	s.move(last, place)
	s.clients[last] = nil
	s.clients = s.clients[:last]
	if last == 0 {
		delete(q.subs, subscriptionKey{s.key, s.name})
		s.w.eng.listeners.leave(s)
	}
}

// move puts the client at from to the place to.
func (s *subscription) move(from, to int) {
	if from == to {
		return
	}
	c := s.clients[from]
	s.clients[to] = c
	c.listens.place(s, to)
}
