package engine

// A worker is one event loop's world: the clients and servers that live on it,
// its side of admission, its counters.
//
// Owner: the loop's goroutine. Other goroutines reach a worker only through its
// mailboxes and through atomics (stats, turned, largest).
//
// Invariants:
//   - a client or server is in exactly one worker's lists, or travels in a
//     message;
//   - every entry point (socket event, message, timer) ends with drainTodo, and
//     only drainTodo runs a client's held input: no handler recurses into another
//     connection's handler, and the read scratch is free whenever it runs.

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
	"pgkinetic/reaper"
)

type worker struct {
	id        int
	eng       *Engine
	loop      *reactor.Loop
	log       *slog.Logger
	adm       *admission.Controller
	mail      mail
	stats     counters
	faults    faults
	strangers traffic      // of clients that have not logged in
	turned    atomic.Int64 // when the housekeeping last ran
	largest   atomic.Int64 // most unread output of one client here, while memory is short
	reading   *server      // the server whose answers are being read; nil once it has left this loop

	slots      slotTable
	all        clientList
	unknown    unknownList // those of all who have not proved who they are
	servers    serverList
	cancels    cancelTable
	listens    loopListens
	todo       []*client         // clients whose held input may go on
	dying      []*client         // clients to whom a write failed
	opening    []*server         // servers whose attempt to connect is to begin
	paused     []*client         // clients not read because of max_buffer_memory
	toServer   gathered[*server] // what a client's walk passes on
	toClient   gathered[*client] // what a server's walk passes on
	answer     []byte            // scratch for messages made here
	run        []byte            // during such a walk: what is to be forwarded before the message in hand
	statements *statements.Cache
	ops        []sqllex.Op // scratch for those of a text
	name       []byte      // scratch for a name in one
	slow       slowLog
	retries    [][]byte              // buffers for groups that may be sent again
	instead    []byte                // what a client gets in the place of its server's message in hand
	words      words                 // scratch for the texts of refusals
	ahead      []byte                // during a walk over a client's input: what follows the message in hand
	refusal    *protocol.ErrorFields // why a message is excluded, until its walk has ended the client

	tick        reaper.Timer
	round       sweepRound
	silences    int64 // those of the process that this loop has seen to
	suspended   suspended
	suspendedAt int64 // when that began
	routesAt    int64 // when the next round over the routes begins
	leaving     int   // clients that DISCONNECT has told to go
	watchedAt   int64 // when hosts were last gone through for those to look at
	namesLooked int64 // when names of hosts were last looked at
	namesAt     int64 // when the next look for pools and users to forget is due
}

// tickInterval is the period of a worker's housekeeping.
const tickInterval = 50 * ms

// Kinds of the messages that cross loops.
const (
	msgMail       uint8 = iota + 1 // admission's inbox is not empty
	msgCancel                      // *cancelRequest, on its way to the client it names
	msgCancelDone                  // *cancelRequest, back
	msgComputed                    // *server: a helper has derived its keys
	msgResolved                    // *nameLookup: a name has been looked up
	msgControl                     // *control: a change from outside the loops
	msgAuth                        // *authRun: what a login waits for has come
	msgListen                      // *listenEvent, of a listener
	msgListenTurn                  // events of listeners are left from the turn before
	msgConsole                     // *client: a console session has done something
	msgBye                         // end of the loop: say goodbye to PostgreSQL
)

const errAgain = unix.EAGAIN

func (w *worker) now() int64 { return w.loop.Now() }

// accept takes a new socket from the acceptor.
func (w *worker) accept(a *reactor.Accepted) {
	c := &client{
		w: w, id: w.eng.clientIDs.Add(1), since: w.now(), born: w.now(), stateAt: w.now(), traffic: &w.strangers,
		peer: routing.ClientAddr(a.Peer.Addr()), port: a.Peer.Port(), local: a.Unix, security: w.eng.settings.Load().security,
	}
	var without bool
	if c.header, without = c.security.believes(c.peer); !c.header && !without {
		w.turnAway(a.FD, reasonNoProxy)
		return
	}
	if !w.makeRoom() {
		w.turnAway(a.FD, reasonDisplaced)
		return
	}
	c.timer.Init(c)
	if err := w.loop.Add(&c.sock, a.FD, a.Unix, c); err != nil {
		w.turnAway(a.FD, reasonNone)
		w.log.Error("cannot register a client", "error", err)
		return
	}
	w.all.add(c)
	w.unknown.add(c)
	w.stats.clientsOpen.Add(1)
	c.armTimer()
	w.loop.Later(&c.sock) // its first bytes are there already, as a rule
}

func (w *worker) onMessage(m *reactor.Message) {
	switch m.Kind {
	case msgMail:
		w.mail.woken = true
		w.takeMail()
	case msgCancel:
		w.cancelFor(m.Ref.(*cancelRequest))
	case msgCancelDone:
		m.Ref.(*cancelRequest).conn.close(reasonCancelDone)
	case msgComputed:
		m.Ref.(*server).computed()
	case msgResolved:
		m.Ref.(*nameLookup).arrived()
	case msgControl:
		w.controlled(m.Ref.(*control))
	case msgAuth:
		m.Ref.(*authRun).arrived()
	case msgListen:
		w.listenTold(m.Ref.(*listenEvent))
	case msgConsole:
		m.Ref.(*client).consoleTurn()
	case msgListenTurn:
		w.listenTurn()
	case msgBye:
		w.bye()
	}
	w.drainTodo()
}

// later queues c so that its held input is looked at after the present handler.
func (w *worker) later(c *client) {
	if !c.inTodo {
		c.inTodo = true
		w.todo = append(w.todo, c)
	}
}

// drainTodo runs held input until nothing can go on, begins connects and ends
// clients whose socket failed: what must not happen inside another handler. Entries may be added while
// it runs; each moves its client forward or parks it, so it ends.
func (w *worker) drainTodo() {
	for len(w.dying) > 0 || len(w.todo) > 0 || len(w.opening) > 0 {
		for i := 0; i < len(w.dying); i++ {
			w.dying[i].close(reasonClientGone)
		}
		w.dying = w.dying[:0]
		for i := 0; i < len(w.opening); i++ {
			w.opening[i].open()
		}
		w.opening = w.opening[:0]
		for i := 0; i < len(w.todo); i++ {
			c := w.todo[i]
			w.todo[i] = nil
			c.inTodo = false
			c.run()
		}
		w.todo = w.todo[:0]
	}
}

// forget takes a client that is gone out of every list and count.
func (w *worker) forget(c *client) {
	w.slots.release(c)
	w.all.remove(c)
	if c.leaving {
		w.leaving--
	}
	w.stats.clientsOpen.Add(-1)
	w.stats.closed[c.reason].inc()
	w.known(c)
	if c.up == nil {
		return
	}
	if c.reason.gone() {
		c.traffic.inc(trafficAbrupt)
	}
	w.eng.registry.traffic.leave(c.traffic.tally)
	for _, k := range c.up.clients {
		k.used.Add(-1)
	}
	c.up.pool.clients.Add(-1)
	if w.eng.logsConnections() {
		w.log.Info("client disconnected", "client", c.id, "database", c.up.pool.key.database, "user", c.up.tenant.User,
			"cause", c.reason.String())
	}
}

// logsConnections reports whether each coming and going is logged.
func (e *Engine) logsConnections() bool { return e.settings.Load().cfg.Log.Connections }

// logServer writes one line about a connection to PostgreSQL.
func (w *worker) logServer(msg string, args ...any) {
	if w.eng.logsConnections() {
		w.log.Info(msg, args...)
	}
}

// newServer makes the server of a new place.
func (w *worker) newServer(p *admission.Place) *server {
	s := &server{
		w: w, place: p, pool: p.Pool().Owner.(*pool), number: w.eng.serverIDs.Add(1), born: w.now(), stateAt: w.now(), ahead: p.Ahead(),
	}
	s.timer.Init(s)
	p.Owner = s
	w.keepServer(s)
	return s
}

func (w *worker) keepServer(s *server) {
	w.servers.add(s)
	w.stats.serversOpen.Add(1)
}

func (w *worker) dropServer(s *server) {
	w.servers.remove(s)
	w.stats.serversOpen.Add(-1)
}

// bye ends the loop: PostgreSQL is told that its connections end.
func (w *worker) bye() {
	for s := range w.servers.each {
		if s.state >= serverIdle && s.state < serverClosing {
			_, _ = s.sock.Write(terminateMessage) // best effort on the way out
		}
	}
	w.loop.Stop()
}
