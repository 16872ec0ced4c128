package engine

// A console client: an operator on the main port. It logs in as every client does,
// with its proof, and asks for the console's database; from then on its bytes go
// over a bridge to a session on a goroutine of its own. It has no pool, no route
// and no place in max_clients, so that it gets in when nobody else does.
//
// Owner: the client's worker; the session's goroutine has the bridge's other side.
//
// Invariants:
//   - client.console is not nil exactly in the state clientConsole, and while it
//     closes after it
//   - a session's context ends when its client is gone; its goroutine then ends by
//     itself, and Stop waits for that; so it does with the process, but has its last
//     words before the loops end
//   - at most consoleMost console clients are there, of whom consoleForAdmins can only be users of admin.users

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// consoleMost bounds the sessions of consoles.
	consoleMost = 64
	// consoleForAdmins of them are kept from those who may only look, whose programs
	// would otherwise lock out whoever is to see to it.
	consoleForAdmins = 8
)

// ConsoleClient is who a console's session is for.
type ConsoleClient struct {
	User, Database string
	Params         []protocol.Param        // of its StartupMessage
	Admin          bool                    // may change things; else only look
	Allowed        func() (all, look bool) // what he may do by the settings as they are now
	PID            uint32                  // what BackendKeyData is to say
	Key            []byte
	Canceled       <-chan struct{} // has a value after a CancelRequest
}

// ServeConsole is a console's session: it begins behind AuthenticationOk with what
// PostgreSQL sends next (ParameterStatus, BackendKeyData, ReadyForQuery), and
// returns when it has nothing more to say. conn's reads end with ctx.
type ServeConsole func(ctx context.Context, conn io.ReadWriter, who ConsoleClient)

// WithConsole has serve answer those who ask for the console's database.
func WithConsole(serve ServeConsole) Option {
	return func(e *Engine) { e.consoles.serve = serve }
}

// consoles are the sessions of one process.
type consoles struct {
	serve   ServeConsole
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	running sync.WaitGroup
	open    atomic.Int64
}

// lastWords is what the end of the process waits for clients of consoles to be told
// of it; those that do not read are not waited for any longer.
const lastWords = 200 * time.Millisecond

// leave ends all sessions, and waits a moment until their clients have been told. The
// loops take turns still.
func (k *consoles) leave() {
	k.stop()
	for end := time.Now().Add(lastWords); k.open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// close waits for the goroutines of sessions. The loops have ended.
func (k *consoles) close() {
	k.stop()
	k.running.Wait()
}

// consoleRun is one session.
type consoleRun struct {
	msg      reactor.Message // the bridge has something for the loop
	bridge   *bridge
	stop     context.CancelFunc
	canceled chan struct{}
	name     string // of the database asked for
	user     string
	app      string // the application_name that it has come with
	admin    bool
	left     bool // the bytes that came last end with a Terminate
}

// isConsole tells whether a database's name means the console.
func (e *Engine) isConsole(database string) bool {
	return e.consoles.serve != nil && e.settings.Load().cfg.Admin.IsConsole(database)
}

// allowed tells what a user may do on a console: everything, or at least look. Any
// goroutine.
func (e *Engine) allowed(user string) (all, look bool) {
	admin := &e.settings.Load().cfg.Admin
	all = slices.Contains(admin.Users, user)
	return all, all || slices.Contains(admin.StatsUsers, user)
}

// enterConsole: the client has proved who it is and asks for the console.
func (c *client) enterConsole(run *authRun) {
	w, user := c.w, run.user // not run: it has secrets, and is done
	allowed := func() (all, look bool) { return w.eng.allowed(user) }
	isAdmin, mayLook := allowed()
	most := int64(consoleMost)
	if !isAdmin {
		most -= consoleForAdmins
	}
	switch {
	case !mayLook:
		c.fatal(reasonLoginRefused, loginError(protocol.CodeInvalidAuthorization,
			fmt.Sprintf("user %q may not use the console; admin.users and admin.stats_users say who may", run.user)))
		return
	case w.eng.consoles.open.Add(1) > most:
		w.eng.consoles.open.Add(-1)
		c.fatal(reasonTooManyClients, loginError(protocol.CodeTooManyConnections,
			fmt.Sprintf("too many consoles are open (%d)", most)))
		return
	}
	w.stats.clientsOpen.Add(-1)
	c.limits = &w.eng.settings.Load().cfg.Capacity
	c.secret.fill()
	w.slots.register(c)
	k := &consoleRun{canceled: make(chan struct{}, 1), name: run.database, user: run.user, admin: isAdmin}
	for _, p := range run.params {
		if p.Name == "application_name" {
			k.app = p.Value
		}
	}
	k.msg.Kind, k.msg.Ref = msgConsole, c
	k.bridge = newBridge(func() { w.loop.Post(&k.msg) })
	c.console = k
	c.setState(clientConsole)
	w.answer = protocol.AppendAuthenticationOk(w.answer[:0])
	c.send(w.answer)
	c.traffic.inc(trafficLogins)
	who := ConsoleClient{
		User: run.user, Database: run.database, Params: run.params, Admin: isAdmin, Allowed: allowed,
		PID: c.processID(), Key: c.cancelKey(nil), Canceled: k.canceled,
	}
	if w.eng.logsConnections() {
		w.log.Info("console connected", "client", c.id, "address", c.address(), "user", run.user, "admin", isAdmin, "tls", c.sock.IsSecure())
	}
	w.eng.consoles.begin(k, who, w.log)
	c.armTimer()
	w.later(c) // what it has sent already
}

// begin starts a session's goroutine. A session that panics is over, and nothing else is.
func (all *consoles) begin(k *consoleRun, who ConsoleClient, log *slog.Logger) {
	ctx, stop := context.WithCancel(all.ctx)
	k.stop = stop
	all.running.Go(func() {
		defer stop()
		defer k.bridge.end()
		defer context.AfterFunc(ctx, k.bridge.leave)()
		defer func() {
			if p := recover(); p != nil {
				log.Error("a console session has failed", "user", who.User, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		all.serve(ctx, k.bridge, who)
	})
}

// consumeConsole passes what the client has sent on to its session, as far as there
// is room.
func (c *client) consumeConsole(p []byte) int {
	n := c.console.bridge.offer(p)
	c.requestAt = c.w.now()
	c.console.left = bytes.HasSuffix(p[:n], protocol.AppendTerminate(nil))
	c.held = n < len(p)
	return n
}

// consoleTurn: the session has read, written or ended.
func (c *client) consoleTurn() {
	if c.state != clientConsole {
		return // its bridge is cut, and has no further turn
	}
	c.console.bridge.turn()
	if c.held || c.wantRead {
		c.held = false
		c.w.later(c)
	}
	c.takeConsole()
}

// takeConsole sends what the session has written, unless the client has not taken
// what was sent before.
func (c *client) takeConsole() {
	if c.state != clientConsole || c.out.Len() > 0 {
		return
	}
	w := c.w
	var over bool
	if w.answer, over = c.console.bridge.take(w.answer[:0]); len(w.answer) > 0 {
		c.send(w.answer)
	}
	if over {
		if c.reason == reasonNone {
			c.reason = reasonClientTerminate
		}
		c.part()
		c.beginLinger()
	}
}

// leaveConsole ends the session of a client that is closing.
func (c *client) leaveConsole() {
	k := c.console
	if k == nil {
		return
	}
	w := c.w
	c.console = nil
	k.bridge.cut()
	k.stop()
	w.eng.consoles.open.Add(-1)
	w.stats.clientsOpen.Add(1) // until it is forgotten
	if w.eng.logsConnections() {
		w.log.Info("console disconnected", "client", c.id, "user", k.user, "cause", c.reason.String())
	}
}

// cancelConsole: a CancelRequest has named the client.
func (c *client) cancelConsole() {
	select {
	case c.console.canceled <- struct{}{}:
	default: // one waits already
	}
}
