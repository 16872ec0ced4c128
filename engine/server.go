package engine

// A server is one connection to PostgreSQL and the place it occupies in its
// pool.
//
// Owner: the worker on whose loop its socket lives; an idle server moves to
// another loop by detach, a message of admission, attach. While it travels
// nobody touches it.
//
// State and its edges (an edge not listed is a bug and panics):
//
//	connecting -> logging_in | backoff | closed            the dial is under way
//	logging_in -> connecting | backoff | idle | closing | closed   once more, with or without TLS
//	backoff    -> closed                                   waits to try again; no socket
//	idle       -> linked | testing | closing | closed
//	linked     -> idle | recovering | settling | closing | closed
//	recovering -> idle | settling | closing | closed       brings it back to a clean state
//	settling   -> idle | closing | closed                  clean, but a cancel is under way
//	testing    -> idle | closing | closed                  runs server_check_query
//	closing    -> closed                                   Terminate sent, waits for EOF
//	closed     ->
//
// Invariants:
//   - client != nil exactly in linked;
//   - it is handed to admission as free only by release, only when the tracker
//     owes nothing, the last ReadyForQuery said idle and no cancel travels;
//   - in and out are empty while idle (their chunks belong to a loop);
//   - every answer of the server passes the tracker, and only the tracker says
//     whose it is.

import (
	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/session"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/reaper"
)

type serverState uint8

const (
	serverConnecting serverState = iota
	serverLoggingIn
	serverBackoff
	serverIdle
	serverLinked
	serverRecovering
	serverSettling
	serverTesting
	serverClosing
	serverClosed
	serverStates
)

var serverStateNames = [serverStates]string{
	"connecting", "logging_in", "backoff", "idle", "linked", "recovering", "settling", "testing", "closing", "closed",
}

func (s serverState) String() string { return serverStateNames[s] }

var serverEdges = [serverStates]uint16{
	serverConnecting: 1<<serverLoggingIn | 1<<serverBackoff | 1<<serverClosed,
	serverLoggingIn:  1<<serverConnecting | 1<<serverIdle | 1<<serverBackoff | 1<<serverClosing | 1<<serverClosed,
	serverBackoff:    1 << serverClosed,
	serverIdle:       1<<serverLinked | 1<<serverTesting | 1<<serverClosing | 1<<serverClosed,
	serverLinked:     1<<serverIdle | 1<<serverRecovering | 1<<serverSettling | 1<<serverClosing | 1<<serverClosed,
	serverRecovering: 1<<serverIdle | 1<<serverSettling | 1<<serverClosing | 1<<serverClosed,
	serverSettling:   1<<serverIdle | 1<<serverClosing | 1<<serverClosed,
	serverTesting:    1<<serverIdle | 1<<serverClosing | 1<<serverClosed,
	serverClosing:    1 << serverClosed,
}

type server struct {
	sock    reactor.Socket
	in      reactor.Chain
	out     reactor.Chain
	timer   reaper.Timer
	place   *admission.Place
	tracker protocol.Tracker
	w       *worker
	pool    *pool
	basis   *backing // what it is opened under; nil until that begins
	client  *client
	login   *loginRun
	params  *backend.Params // as reported, kept up to date
	applied session.Applied // the settings that hold on it
	held    *statements.Held
	probe   *session.Judge // the answers to its probes go there
	// probeFault is what they told against the login.
	probeFault error
	cancel     *cancelConn // a cancel for this server is under way
	recent     *recentStatements

	key       []byte
	pid       uint32
	rest      int64 // bytes of the present message that are still to come
	born      int64 // when it was made
	openedAt  int64 // when its login was complete; 0: never
	stateAt   int64 // when the present state began
	idleAt    int64 // when it became idle
	testedAt  int64 // when it last answered server_check_query; 0: never
	spread    int64 // ‰ of pool_max_lifetime_ms, by which its own is longer or shorter
	cycleAt   int64 // start of the present query cycle; 0: none
	xactAt    int64 // start of the present transaction; 0: none
	requestAt int64 // when the latest query cycle began; 0: none ever
	cancelAt  int64 // when cancelled was set
	waitAt    int64 // since when the client owes bytes (stall) or thinks (idle in transaction)
	until     int64 // deadline of connecting, recovery, closing
	number    uint64
	queries   uint64 // cycles of clients that were answered
	groupAt   uint64 // number that the first message of the present Sync group has, or will have
	stepAt    uint64 // number of a Query that may take prepared statements away
	swapAt    uint64 // number of a message that is refused here: its error gets replaced
	swap      *protocol.ErrorFields
	failCode  [5]byte   // SQLSTATE of its last error
	peer      string    // address it is connected to, where that was looked up
	resolved  *resolved // an answer with that address: the latest that was looked at
	dialledAt int64     // when its connect to that began

	// Of its client, while it has one:
	later laterAnswers
	again retry
	told  []string // the parameters as the client knows them, while a RESET is under way
	ends  ending
	pinAt uint64 // number of the last message that may have pinned

	left           leftovers // what is to be undone before anybody else is served
	question       question  // what a query of ours asks while the client keeps the server
	state          serverState
	reason         closeReason
	trigger        closeReason // of its present or last recovery
	restSwal       bool        // the rest of the present message is not for the client
	wantRead       bool        // the socket may hold bytes that we chose not to read
	stuffed        bool        // that it is not read, for max_backend_buffer_bytes, has been counted
	ahead          bool        // being opened for pool_min_idle
	alone          bool        // being tested, and none else of its pool but suspects
	hangup         bool        // PostgreSQL has closed its side, or the connection was reset: it is read to its end
	eof            bool        // that end has been read
	vanished       bool        // and nobody is there any more
	cancelled      bool        // the present cycle has been cancelled by us
	torn           bool        // its last client left inside a message that had been passed on in part: close it
	doomed         bool        // a cancel may still be on its way: close it when idle
	await          bool        // the client's messages wait for a batch or query of ours
	fresh          bool        // linked, and nothing of the client has been sent yet
	rollbacks      uint8
	dropParameters bool // the client's next ParameterDescription has been told already
	looking        bool // its host's name is being looked up for it
	live           bool // counted in basis.live
	wrongRole      bool // it could not write where it should: close it when idle
	unseen         bool // reset_check: the client may have left what nothing shows
	cleaning       bool // the clean-up query is under way
	cleanedAll     bool // and is DISCARD ALL
	fatal          protocol.ErrorFields
	index          int32 // in worker.servers
}

// setState is the single place where a server's state changes.
func (s *server) setState(to serverState) {
	if serverEdges[s.state]&(1<<to) == 0 {
		panic("BUG: server " + s.state.String() + " -> " + to.String())
	}
	s.state, s.stateAt = to, s.w.now()
}

// OnReady is the socket's event: a hint that the read or the write decides.
func (s *server) OnReady(_ *reactor.Socket, ev reactor.Events) {
	w := s.w
	switch s.state {
	case serverConnecting:
		s.connected()
	case serverClosed, serverBackoff:
	default:
		if ev&reactor.Hangup != 0 {
			s.hangup = true
			s.failed(s.sock.Error())
		}
		if ev&reactor.Writable != 0 && s.out.Len() > 0 {
			s.flush()
		}
		if s.state < serverClosed && (ev&(reactor.Readable|reactor.Hangup) != 0 || s.wantRead) {
			s.onReadable() // the last look at s: it may be another loop's now
		}
	}
	w.drainTodo()
}

// onReadable reads until the socket is drained, the budget is spent or the
// client's buffer is full. A peer that hung up is read to its end first, also
// when that is put off: the reason often stands in its last message, and no
// further event tells of the end. feed may give the server away to another loop:
// then it is not touched any more.
func (s *server) onReadable() {
	w := s.w
	w.reading = s
	defer func() { w.reading = nil }()
	budget := readBudget
	for s.state < serverClosed && s.state != serverBackoff {
		room := s.room()
		if room <= 0 {
			if !s.stuffed {
				s.stuffed = true
				w.stats.buffersFull[bufferBackend].inc()
			}
			s.wantRead = true
			return
		}
		if budget <= 0 {
			s.wantRead = true
			s.w.loop.Later(&s.sock)
			return
		}
		buf := s.w.loop.Scratch()
		held := s.in.Len()
		end := min(len(buf), held+room)
		n, err := s.sock.Read(buf[held:end])
		if err != nil {
			s.wantRead = false
			if err != errAgain {
				s.end(err)
			}
			return
		}
		s.wantRead, s.stuffed = false, false
		budget -= n
		s.w.stats.serverIn.add(uint64(n))
		if held > 0 {
			s.in.CopyTo(buf[:held])
			s.in.Release(s.w.loop)
		}
		s.feed(buf[:held+n])
		if w.reading != s || held+n < end && !s.hangup {
			return
		}
	}
}

// room is how many bytes may be read for the client: max_backend_buffer_bytes
// minus what it has not taken. Without a client the answers are dropped.
func (s *server) room() int {
	switch {
	case s.client == nil:
		return readBudget
	case s.w.suspended == suspendedAll:
		return 0
	}
	return s.client.limits.MaxBackendBufferBytes - s.client.out.Len() - s.in.Len()
}

// send writes p to PostgreSQL; what the socket does not take is kept in out.
func (s *server) send(p []byte) {
	s.push()
	s.write([][]byte{p})
}

func (s *server) write(pieces [][]byte) {
	taken, n := 0, total(pieces)
	s.w.stats.serverOut.add(uint64(n))
	if s.out.Len() == 0 {
		var err error
		if taken, err = writeGathered(&s.sock, pieces); err != nil {
			s.failed(err)
			return // the read side reports the loss, with the server's last words
		}
		if taken == n {
			return
		}
		s.sock.WantWrite(true)
	}
	appendFrom(s.w, &s.out, pieces, taken)
}

// queue appends p to out without writing: it leaves with the next flush.
func (s *server) queue(p []byte) {
	s.push()
	s.sock.Flush()
	s.w.stats.serverOut.add(uint64(len(p)))
	s.out.Append(s.w.loop, p)
}

// OnUnsent: the socket did not take all that was written in the round.
func (s *server) OnUnsent(_ *reactor.Socket, rest []byte, err error) {
	if err != nil || s.state >= serverClosing {
		s.failed(err)
		return // the read side reports the loss, with the server's last words
	}
	s.out.Append(s.w.loop, rest)
	s.sock.WantWrite(true)
}

// failed notes what a socket tells once only.
func (s *server) failed(err error) { s.vanished = s.vanished || vanished(err) }

// flush writes what out holds.
func (s *server) flush() {
	if s.out.Len() == 0 {
		return
	}
	if _, err := s.out.WriteTo(&s.sock); err != nil && err != errAgain {
		s.failed(err)
		s.out.Release(s.w.loop)
		return
	}
	s.sock.WantWrite(s.out.Len() > 0)
	c := s.client
	if c == nil {
		return
	}
	if c.wantRead {
		s.w.later(c)
	}
	if s.out.Len() == 0 && c.state == clientLinked {
		s.waitAt = s.w.now() // from now on it is the client who owes bytes, if anybody
		c.armTimer()
	}
}

var (
	flushMessage     = protocol.AppendFlush(nil)
	closeUnnamed     = protocol.AppendClose(nil, protocol.TargetStatement, "")
	syncMessage      = protocol.AppendSync(nil)
	terminateMessage = protocol.AppendTerminate(nil)
)
