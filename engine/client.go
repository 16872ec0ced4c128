package engine

// A client is one connection from an application.
//
// Owner: the worker on whose loop its socket lives; a client never moves.
//
// State and its edges (an edge not listed is a bug and panics):
//
//	startup    -> handshake | auth | closing | gone       until the startup packet has come
//	handshake  -> startup | closing | gone                of TLS; the reactor has the bytes
//	auth       -> login | console | closing | gone        proves who it is (client_auth.go)
//	login      -> login_wait | idle | closing | gone
//	login_wait -> login | login_link | closing | gone     needs a backend: waits like a request
//	login_link -> login | closing | gone                  asks its backend
//	idle       -> waiting | linked | skipping | closing | gone
//	waiting    -> idle | linked | skipping | closing | gone
//	linked     -> idle | skipping | closing | gone
//	skipping   -> idle | closing | gone                   a refused group: dropped up to its Sync
//	console    -> closing | gone                          an operator (console_client.go)
//	closing    -> gone                                    a last message is on its way
//	gone       ->
//
// Invariants:
//   - srv != nil exactly in linked and loginLink; waiter != nil exactly in
//     waiting and loginWait;
//   - in holds at most one read scratch, and before that a group that is sent
//     again: it is non-empty only while its first message is incomplete, or while
//     held, waiting or in todo;
//   - security is the generation of rules that the login began with, nil after it
//   - out holds what the socket did not take; nothing is ever appended beyond
//     the backend buffer cap plus one locally made answer.

import (
	"net/netip"

	"pgkinetic/admission"
	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
	"pgkinetic/reaper"
)

type clientState uint8

const (
	clientStartup clientState = iota
	clientHandshake
	clientAuth
	clientLogin
	clientLoginWait
	clientLoginLink
	clientIdle
	clientWaiting
	clientLinked
	clientSkipping
	clientConsole
	clientClosing
	clientGone
	clientStates
)

var clientStateNames = [clientStates]string{
	"startup", "handshake", "auth", "login", "login_wait", "login_link", "idle", "waiting", "linked", "skipping", "console",
	"closing", "gone",
}

func (s clientState) String() string { return clientStateNames[s] }

// clientEdges is the table of legal edges: a bit per target state.
var clientEdges = [clientStates]uint16{
	clientStartup:   1<<clientHandshake | 1<<clientAuth | 1<<clientClosing | 1<<clientGone,
	clientHandshake: 1<<clientStartup | 1<<clientClosing | 1<<clientGone,
	clientAuth:      1<<clientLogin | 1<<clientConsole | 1<<clientClosing | 1<<clientGone,
	clientLogin:     1<<clientLoginWait | 1<<clientIdle | 1<<clientClosing | 1<<clientGone,
	clientLoginWait: 1<<clientLoginLink | 1<<clientLogin | 1<<clientClosing | 1<<clientGone,
	clientLoginLink: 1<<clientLogin | 1<<clientClosing | 1<<clientGone,
	clientIdle:      1<<clientWaiting | 1<<clientLinked | 1<<clientSkipping | 1<<clientClosing | 1<<clientGone,
	clientWaiting:   1<<clientLinked | 1<<clientIdle | 1<<clientSkipping | 1<<clientClosing | 1<<clientGone,
	clientLinked:    1<<clientIdle | 1<<clientSkipping | 1<<clientClosing | 1<<clientGone,
	clientSkipping:  1<<clientIdle | 1<<clientClosing | 1<<clientGone,
	clientConsole:   1<<clientClosing | 1<<clientGone,
	clientClosing:   1 << clientGone,
}

type client struct {
	sock     reactor.Socket
	in       reactor.Chain
	out      reactor.Chain
	timer    reaper.Timer
	w        *worker
	up       *userPool  // nil before login
	peer     netip.Addr // as it was accepted, or as its proxy says; invalid behind a Unix socket
	security *security
	auth     *authRun
	before   *client // in worker.unknown, while counted
	behind   *client
	limits   *configs.Capacity // those that hold for it now; nil before login
	route    *route            // of its present or last request; nil before the first
	traffic  *traffic          // what it counts in on this loop: its tenant's, once it has logged in
	srv      *server
	waiter   *admission.Waiter
	prof     *session.Profile
	first    *session.Profile  // as it was at login
	settings *session.Settings // what it has SET and is not a part of prof yet; nil: nothing
	follow   *listenFollow
	doubts   uint64         // how many texts it has sent that change settings
	prep     *prepared      // nil before its first Parse
	judge    *session.Judge // only until logged in
	large    []byte         // a Parse that is gathered: client_large.go
	scan     *streamScanner // only while a large Query or Parse passes through

	listens    *clientListens // nil while it does not LISTEN
	console    *consoleRun
	choices    []choice // by class, of the present generation
	generation uint32   // of the settings that choices were made under
	drained    int32    // bytes taken by the client in the window of drainAt

	rest      int64 // bytes of a large message that are still to come
	since     int64 // when the present state or the present silence began
	born      int64 // when it was accepted
	stateAt   int64 // when the present state began
	requestAt int64 // when its latest request came; 0: never
	drainAt   int64 // start of the present client_write_timeout_ms window; 0: no output pending
	id        uint64
	secret    cancelSecret
	marks     protocol.CopyMarks
	due       dueAnswers
	index     int32 // in worker.all
	slot      uint16
	port      uint16      // of peer
	method    auth.Method // by which it has proved who it is
	gen       uint8
	state     clientState
	pins      pinSet
	reason    closeReason
	inTodo    bool
	header    bool // a proxy's header comes first
	local     bool // on the Unix socket, and not through a proxy
	held      bool // consume stopped at a complete message that may not go on yet
	wantRead  bool // the socket may hold bytes that we chose not to read
	restDrop  bool // the rest of the large message is dropped, not forwarded
	flushDue  bool // a Flush of ours follows the large message
	recheck   bool // a pin may have ended: PostgreSQL is asked when the request is answered
	localSet  bool // a SET LOCAL may hold
	moved     bool // a setting in doubt may change what names mean
	unbound   bool // an unnamed Parse of this group has not been bound yet
	strange   bool // the backend's unnamed statement may be another client's
	memWait   bool // in worker.paused
	stuffed   bool // that it is not read, for max_client_buffer_bytes, has been counted
	counted   bool // in Engine.unauthenticated and worker.unknown
	hasSlot   bool
	leaving   bool // DISCONNECT: it goes when its transaction has ended
	minor     uint8
	asked     uint8 // encryption requests seen, a bit each
}

// ordinary tells whether commands of operators concern c: it is no operator, and not
// about to become one.
func (c *client) ordinary() bool {
	return c.console == nil && (c.auth == nil || !c.w.eng.isConsole(c.auth.database))
}

// setState is the single place where a client's state changes.
func (c *client) setState(to clientState) {
	if clientEdges[c.state]&(1<<to) == 0 {
		panic("BUG: client " + c.state.String() + " -> " + to.String())
	}
	c.state, c.stateAt = to, c.w.now()
	if to >= clientIdle {
		c.since = c.stateAt
	}
}

// OnReady is the socket's event: a hint that the read or the write decides.
func (c *client) OnReady(_ *reactor.Socket, ev reactor.Events) {
	w := c.w
	switch {
	case c.state == clientGone:
	case c.state == clientClosing:
		c.linger(ev)
	case ev&reactor.Hangup != 0:
		c.hungUp()
	default:
		if ev&reactor.Writable != 0 && c.out.Len() > 0 {
			c.flush()
		}
		if c.state < clientClosing && (ev&reactor.Readable != 0 || c.wantRead) {
			c.onReadable()
		}
	}
	w.drainTodo()
}

// mayRead tells whether bytes of this client have a place to go.
func (c *client) mayRead() bool {
	switch c.state {
	case clientStartup, clientConsole:
		return !c.held
	case clientIdle, clientSkipping:
		return !c.held && c.w.suspended == suspendedNot
	case clientAuth:
		return c.auth.awaits()
	case clientLinked:
		return !c.held && c.w.suspended <= suspendedIdle && !c.srv.again.failed && c.room() > 0
	}
	return false
}

// room is what may still be read from this client: max_client_buffer_bytes
// minus what is held here and what its backend has not taken.
func (c *client) room() int {
	n := c.maxIn() - c.in.Len()
	if c.srv != nil {
		n -= c.srv.out.Len()
	}
	return n
}

func (c *client) maxIn() int {
	if c.up == nil {
		return protocol.SmallMessage
	}
	return c.limits.MaxClientBufferBytes
}

// onReadable reads until the socket is drained, the budget of this event is
// spent, or the bytes have nowhere to go (then wantRead remembers).
func (c *client) onReadable() {
	budget := readBudget
	for {
		if !c.mayRead() || c.w.memoryFull(c) {
			c.putOff()
			return
		}
		buf := c.w.loop.Scratch()
		held := c.in.Len()
		end := min(len(buf), held+c.room())
		if end <= held {
			c.putOff() // nothing more fits: the message at the front passes through in parts
			return
		}
		if budget <= 0 {
			c.wantRead = true
			c.w.loop.Later(&c.sock)
			return
		}
		n, err := c.sock.Read(buf[held:end])
		if err != nil {
			c.readFailed(err)
			return
		}
		c.wantRead, c.stuffed = false, false
		budget -= n
		c.traffic.add(trafficReceived, uint64(n))
		if held > 0 {
			c.in.CopyTo(buf[:held])
			c.in.Release(c.w.loop)
		}
		c.feed(buf[:held+n])
		if c.state >= clientClosing || held+n < end {
			return
		}
	}
}

// putOff: what c has sent is not read now. Where that is for max_client_buffer_bytes it counts.
func (c *client) putOff() {
	if !c.stuffed && c.state == clientLinked && c.room() <= 0 {
		c.stuffed = true
		c.w.stats.buffersFull[bufferClient].inc()
	}
	c.wantRead = true
}

// feed consumes p, the first of what c has sent, and keeps what was not taken.
func (c *client) feed(p []byte) {
	if c.state >= clientIdle {
		c.since = c.w.now()
	}
	used := c.consume(p)
	if c.state >= clientClosing {
		return
	}
	if used < len(p) {
		c.putBack(p[used:])
	}
	if c.srv != nil {
		c.srv.flush()
	}
	c.armTimer()
}

// putBack puts p before the input that is held.
func (c *client) putBack(p []byte) {
	loop := c.w.loop
	behind := make([]byte, c.in.Len()) // mostly none
	c.in.CopyTo(behind)
	c.in.Release(loop)
	c.in.Append(loop, p)
	c.in.Append(loop, behind)
}

// run goes on with held input after something changed, then reads on.
func (c *client) run() {
	if c.state >= clientClosing {
		return
	}
	if c.state == clientLoginLink && c.srv.tracker.Idle() && c.srv.probe == nil {
		c.backendAnswered()
	}
	if n := c.in.Len(); (n > 0 || c.gathered()) && c.consumes() {
		c.held = false
		buf := c.w.loop.Scratch()
		part := buf[:min(n, len(buf))]
		c.in.CopyTo(part)
		c.in.Discard(c.w.loop, len(part))
		c.feed(part)
		if len(part) < n && !c.held && c.state < clientClosing {
			c.w.later(c)
		}
	}
	c.held = c.held && (c.in.Len() > 0 || c.gathered())
	if c.wantRead && c.state < clientClosing && c.mayRead() {
		c.w.loop.Later(&c.sock)
	}
}

// consumes tells whether held input can be looked at in this state.
func (c *client) consumes() bool {
	switch c.state {
	case clientStartup, clientIdle, clientSkipping, clientConsole:
		return true
	case clientAuth:
		return c.auth.awaits()
	case clientLinked:
		return !c.srv.again.failed // what is sent again comes first
	}
	return false
}

// readFailed ends a read that gave no bytes.
func (c *client) readFailed(err error) {
	if err == errAgain {
		if c.wantRead { // the clock of an idle client stood still
			c.wantRead = false
			c.armTimer()
		}
		return
	}
	c.close(c.whyGone(err))
}

// whyGone is why a client is gone that hangs up, err being what the socket says: a
// console's client may have sent its Terminate just before, which its session has not
// read yet.
func (c *client) whyGone(err error) closeReason {
	switch {
	case c.console != nil && c.console.left:
		return reasonClientTerminate
	case vanished(err):
		return reasonClientVanished
	}
	return reasonClientGone
}

// hungUp: the peer has closed or reset. A cancel request that came with it is
// carried out, since its sender need not wait for an answer; a Terminate names
// the better reason; anything else that was not started is dropped.
func (c *client) hungUp() {
	reason := c.whyGone(c.sock.Error())
	if (c.state == clientIdle || c.state == clientStartup || c.state == clientConsole) && c.in.Len() == 0 && !c.held {
		buf := c.w.loop.Scratch()
		n, err := c.sock.Read(buf)
		switch {
		case err != nil:
		case c.state == clientStartup:
			c.lastPacket(buf[:n])
		case n >= protocol.HeaderLen && buf[0] == protocol.FrontendTerminate:
			reason = reasonClientTerminate
		}
	}
	c.close(reason)
}

// streamScanner lexes the text of a Query or Parse that is larger than a small
// message while it streams through.
type streamScanner struct {
	lex  sqllex.Scanner
	skip int  // NUL-terminated strings to pass before the text (1 for Parse)
	done bool // the text's NUL was seen
}

func (s *streamScanner) feed(p []byte) {
	for len(p) > 0 && !s.done {
		i := indexNUL(p)
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if s.skip == 0 {
			s.lex.Feed(part)
		}
		if i < 0 {
			return
		}
		p = p[i+1:]
		if s.skip == 0 {
			s.done = true
		} else {
			s.skip--
		}
	}
}
