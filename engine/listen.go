package engine

// LISTEN in transaction and statement mode: one connection to PostgreSQL, the
// listener, carries the channels of all clients of a pool (docs/listen.md).
//
//	listen_log.go     which LISTENs of a client have committed
//	listen.go         the listeners of the process and what they are to listen to
//	listen_conn.go    a listener's connection: login, statements, messages
//	listen_run.go     the goroutine of a listener
//	listen_loop.go    a loop's share: which of its clients listen to what
//	listen_client.go  a client's share: what it listens to, what waits for it
//
// State: listeners holds every listener by pool and client_encoding; a listener
// holds its channels, a channel the loops that have clients of it. All of it is
// guarded by listeners.mu, which loops take when a client's LISTEN is the first
// or its UNLISTEN the last on that loop, and listeners when they deliver. No
// query takes it.
//
// Invariants:
//   - a listener that lies in byKey has a goroutine, and only such a one gets
//     channels; it leaves byKey when it has had none for listenerIdle
//   - a channel is in listener.channels while somebody wants it or it holds on
//     the connection, or while a statement about it is under way (busy)
//   - channel.held: LISTEN has been confirmed on the present connection and no
//     UNLISTEN has been sent since
//   - a channel that is due and not busy lies in changes, once (queued), unless
//     PostgreSQL has refused it; it is then queued anew at the next probe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// listenerChannelsMax bounds the channels of a listener, clientChannelsMax those
	// of a client, listenersPerPool the encodings in which a pool's clients listen.
	listenerChannelsMax = 100_000
	clientChannelsMax   = 1000
	listenersPerPool    = 4
	// listenerIdle is how long a listener stays without a channel.
	listenerIdle = int64(60 * time.Second)
	// eventsInFlight bounds what a listener has told the loops and they have not
	// dealt with; at the bound its connection is not read.
	eventsInFlight = 256
)

// listenerKey names a listener. encoding is PostgreSQL's name of the
// client_encoding in which channels and payloads travel.
type listenerKey struct {
	pool     *pool
	encoding string
}

// listeners is the set of all. Any goroutine.
type listeners struct {
	mu      sync.Mutex
	eng     *Engine
	byKey   map[listenerKey]*listener
	ended   bool
	ctx     context.Context // until close
	cancel  context.CancelFunc
	running sync.WaitGroup
	lost    atomic.Uint64 // connections lost
	// What tests change before the first client comes.
	start  func(*listener) // runs a new listener's goroutine
	idle   int64           // listenerIdle
	probes int64           // probeEvery
}

// listener is one connection that listens, or tries to.
type listener struct {
	set      *listeners
	key      listenerKey
	inFlight chan struct{} // a place per event that a loop has yet to deal with
	basis    *backing      // the goroutine's: what its connection is opened under
	peer     string        // the goroutine's: where that leads
	hurry    chan struct{} // somebody new waits: ends a pause between attempts to connect

	// guarded by set.mu
	channels map[string]*channel
	changes  []*channel
	parked   *dial.Conn // on which the goroutine waits for bytes: a deadline in the past wakes it
	pid      uint32     // of the present connection; 0 while there is none
	emptyAt  int64      // since when there is no channel
}

// channel is a channel of one listener.
type channel struct {
	name     string
	subs     []*subscription // one per loop that has clients of it
	deadline int64           // when those who wait for LISTEN are to be told that it fails; 0: nobody waits
	held     bool
	busy     bool
	queued   bool
}

func newListeners(e *Engine) *listeners {
	ls := &listeners{eng: e, byKey: map[listenerKey]*listener{}, idle: listenerIdle, probes: probeEvery}
	ls.ctx, ls.cancel = context.WithCancel(context.Background())
	ls.start = func(l *listener) { ls.running.Go(l.run) }
	return ls
}

// close ends all listeners and waits for their goroutines. It may be called again.
func (ls *listeners) close() {
	ls.mu.Lock()
	ls.ended = true
	ls.cancel()
	for _, l := range ls.byKey {
		l.wake() // its goroutine ends the connection
	}
	ls.mu.Unlock()
	ls.running.Wait()
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// join makes sure that the loop of s hears of channel name from the listener of
// key. holds: LISTEN is in force. Else a listenHolds or listenFailed event
// follows, the latter limit after now at the latest or a little later. An error
// means that s has not joined.
func (ls *listeners) join(s *subscription, key listenerKey, now, limit int64) (holds bool, e *protocol.ErrorFields) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil {
		if l, e = ls.create(key); e != nil {
			return false, e
		}
	}
	ch := l.channels[s.name]
	if ch == nil {
		if len(l.channels) >= listenerChannelsMax {
			return false, tooManyChannels("the clients of this pool listen to too many channels", listenerChannelsMax)
		}
		ch = &channel{name: s.name}
		l.channels[s.name] = ch
	}
	s.listener = l
	if !slices.Contains(ch.subs, s) {
		ch.subs = append(ch.subs, s)
	}
	if ch.held {
		return true, nil
	}
	if ch.deadline == 0 {
		ch.deadline = now + limit
		select {
		case l.hurry <- struct{}{}:
		default:
		}
	}
	l.change(ch)
	return false, nil
}

// create makes the listener of key.
func (ls *listeners) create(key listenerKey) (*listener, *protocol.ErrorFields) {
	if ls.ended {
		e := *errShutdown
		e.Severity = protocol.SeverityError
		return nil, &e
	}
	n := 0
	for k := range ls.byKey {
		if k.pool == key.pool {
			n++
		}
	}
	if n >= listenersPerPool {
		return nil, tooManyChannels("the clients of this pool listen in too many client encodings", listenersPerPool)
	}
	l := &listener{
		set: ls, key: key, inFlight: make(chan struct{}, eventsInFlight), hurry: make(chan struct{}, 1),
		channels: map[string]*channel{},
	}
	ls.byKey[key] = l
	ls.start(l)
	return l, nil
}

func tooManyChannels(what string, most int) *protocol.ErrorFields {
	return &protocol.ErrorFields{
		Severity: "ERROR", Code: codeProgramLimit,
		Message: fmt.Sprintf("%s (the bound is %d)", what, most),
		Hint:    "Listen to fewer channels, and tell their messages apart by the payload.",
	}
}

// codeProgramLimit: PostgreSQL's program_limit_exceeded.
const codeProgramLimit = "54000"

// leave ends what s hears: no client of its loop listens to its channel any more.
func (ls *listeners) leave(s *subscription) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := s.listener
	ch := l.channels[s.name]
	if ch == nil {
		return
	}
	ch.subs = slices.DeleteFunc(ch.subs, func(other *subscription) bool { return other == s })
	if len(ch.subs) > 0 {
		return
	}
	ch.deadline = 0
	if ch.held || ch.busy {
		l.change(ch)
		return
	}
	l.remove(ch)
}

// remove forgets a channel that nobody wants and that does not hold. Its entry in
// changes, which take would pass over, stays until such entries are the most.
func (l *listener) remove(ch *channel) {
	delete(l.channels, ch.name)
	if len(l.changes) > 2*len(l.channels)+changeBatch {
		l.changes = slices.DeleteFunc(l.changes, func(other *channel) bool { return !other.due() })
	}
	if len(l.channels) == 0 {
		l.emptyAt = reactor.Now()
		l.wake()
	}
}

// change queues ch for the goroutine.
func (l *listener) change(ch *channel) {
	if !ch.queued && !ch.busy {
		ch.queued = true
		l.changes = append(l.changes, ch)
	}
	l.wake()
}

// due: what is wanted is not what holds.
func (ch *channel) due() bool { return (len(ch.subs) > 0) != ch.held }

// wake makes the goroutine look at what has changed, if it waits for bytes.
func (l *listener) wake() {
	if l.parked != nil {
		l.parked.SetReadDeadline(past)
		l.parked = nil
	}
}

// outdated tells whether the connection is to be opened anew, as servers are.
func (l *listener) outdated() bool {
	return l.basis.era != l.key.pool.backing.Load().era || l.set.eng.names.displaced(l.basis.host, l.peer)
}

// renewed wakes the listeners of pools whose backing is another one now.
func (ls *listeners) renewed(pools []*pool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byKey {
		if slices.Contains(pools, l.key.pool) {
			l.wake()
		}
	}
}

// take gives the next channels to be changed, at most n; LISTEN for those with
// subs, UNLISTEN for the others. They are busy until settled or dropped.
func (l *listener) take(n int) (batch []*channel) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	for len(l.changes) > 0 && len(batch) < n {
		ch := l.changes[0]
		l.changes[0] = nil
		l.changes = l.changes[1:]
		ch.queued = false
		if ch.due() {
			ch.busy = true
			batch = append(batch, ch)
		}
	}
	if len(l.changes) == 0 {
		l.changes = nil
	}
	return batch
}

// again queues every channel that is wanted and does not hold: PostgreSQL has
// refused it, and may have changed its mind (the end of a recovery).
func (l *listener) again() {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	for _, ch := range l.channels {
		if ch.due() {
			l.change(ch)
		}
	}
}

// statement is what changes ch.
func (ch *channel) statement(dst []byte, listen bool) []byte {
	word := "UNLISTEN "
	if listen {
		word = "LISTEN "
	}
	dst = append(append(dst, word...), '"')
	for i := range len(ch.name) {
		if ch.name[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, ch.name[i])
	}
	return append(dst, '"', ';')
}

// begun tells which statement each channel of a batch needs, and that what held
// and is to be given up holds no more: who wants it meanwhile has to wait.
func (l *listener) begun(batch []*channel) (listens []bool) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	for _, ch := range batch {
		listens = append(listens, !ch.held)
		ch.held = false
	}
	return listens
}

// settled: PostgreSQL has carried out the statement for ch. It gives those that
// are to be told that LISTEN holds.
func (l *listener) settled(ch *channel, listen bool) (told []*subscription) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	ch.busy, ch.held = false, listen
	if listen {
		ch.deadline = 0
		told = slices.Clone(ch.subs)
	}
	l.follow(ch)
	return told
}

// follow queues what a settled channel needs next.
func (l *listener) follow(ch *channel) {
	switch {
	case ch.due():
		l.change(ch)
	case len(ch.subs) == 0:
		l.remove(ch)
	}
}

// refused: PostgreSQL has refused the statement for ch, which nobody gets then.
// It gives those that are to be told.
func (l *listener) refused(ch *channel) (told []*subscription) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	ch.busy, ch.deadline = false, 0
	told = slices.Clone(ch.subs)
	if len(ch.subs) == 0 {
		l.remove(ch)
	}
	return told
}

// dropped: the connection is gone. Every channel is to be listened to anew. It
// gives all loops' shares, to be told if they had heard anything.
func (l *listener) dropped() (told []*subscription) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	l.pid, l.parked = 0, nil
	l.changes = nil
	for _, ch := range l.channels {
		ch.held, ch.busy, ch.queued = false, false, false
		if len(ch.subs) == 0 {
			l.remove(ch)
			continue
		}
		ch.queued = true
		l.changes = append(l.changes, ch)
		told = append(told, ch.subs...)
	}
	return told
}

// overdue gives those that have waited until now for their LISTEN; now is
// math.MaxInt64 when there is nothing to wait for.
func (l *listener) overdue(now int64) (told []*subscription) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	for _, ch := range l.channels {
		if ch.deadline != 0 && ch.deadline <= now {
			ch.deadline = 0
			told = append(told, ch.subs...)
		}
	}
	return told
}

// firstDeadline is the nearest one of those who wait, math.MaxInt64 for none.
func (l *listener) firstDeadline() int64 {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	at := int64(math.MaxInt64)
	for _, ch := range l.channels {
		if ch.deadline != 0 {
			at = min(at, ch.deadline)
		}
	}
	return at
}

// subscribers appends the loops' shares of a channel to dst.
func (l *listener) subscribers(dst []*subscription, name []byte) []*subscription {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	if ch := l.channels[string(name)]; ch != nil {
		dst = append(dst, ch.subs...)
	}
	return dst
}

// retire takes l out of the set if it has had no channel for at least idle, and
// tells whether it did: then the goroutine ends.
func (l *listener) retire(now, idle int64) bool {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	if !l.set.ended && (len(l.channels) > 0 || now-l.emptyAt < idle) {
		return false
	}
	delete(l.set.byKey, l.key)
	return true
}

// ListenStats are the counters of LISTEN since the start.
type ListenStats struct {
	Delivered     uint64 // notifications to clients
	Lost          uint64 // notifications of clients that do not take them
	ListenersLost uint64 // connections
	Warned        uint64 // clients that were told so
}

// ListenStats sums them over the loops. Any goroutine.
func (e *Engine) ListenStats() ListenStats {
	s := ListenStats{ListenersLost: e.listeners.lost.Load()}
	for _, w := range e.workers {
		s.Delivered += w.listens.delivered.v.Load()
		s.Lost += w.listens.lost.v.Load()
		s.Warned += w.listens.warned.v.Load()
	}
	return s
}

// ListenerView is what is to be seen of one listener.
type ListenerView struct {
	Database, User, Encoding string
	PID                      uint32 // of PostgreSQL's process; 0 while there is no connection
	Channels                 int
	Pending                  int // of them, those that do not hold yet
}

// ListenerViews shows all listeners. Any goroutine.
func (e *Engine) ListenerViews() (all []ListenerView) {
	ls := e.listeners
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for k, l := range ls.byKey {
		v := ListenerView{
			Database: k.pool.key.database, User: k.pool.key.user, Encoding: k.encoding, PID: l.pid,
			Channels: len(l.channels),
		}
		for _, ch := range l.channels {
			if !ch.held {
				v.Pending++
			}
		}
		all = append(all, v)
	}
	return all
}
