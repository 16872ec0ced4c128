package engine

// KILL and KILL_CLIENT: clients are parted from at once, and by the former their
// backends too.
//
// A database that is killed is paused first, so that nothing begins there; its
// backends are outdated then (backing.go), so that whatever is idle, about to log in
// or on its way between two loops ends without further ado. Then its clients are
// closed, and the backends that are busy for them.

import (
	"fmt"
	"slices"
	"sync/atomic"

	"pgkinetic/protocol"
)

const killsPerTurn = 64 // backends that one turn closes

var (
	errKilled       = shutdownError("KILL")
	errKilledClient = shutdownError("KILL_CLIENT")
)

// shutdownError is what a client is told that an operator's command ends.
func shutdownError(command string) *protocol.ErrorFields {
	return &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeAdminShutdown,
		Message: "terminating connection due to administrator command: " + command,
	}
}

// Kill pauses a database, by the name that Pause takes, and closes its clients and
// backends at once; queries that run are cancelled. RESUME lets clients be served
// again. It returns when all clients have been told. Any goroutine but a loop's.
func (e *Engine) Kill(database string) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	if !e.started.Load() {
		return ErrNotRunning
	}
	if _, _, err := e.pauseDatabase(database); err != nil {
		return err
	}
	pools, err := e.poolsNamed(database)
	if err != nil {
		return err
	}
	for _, p := range pools {
		p.renew((*backing).again)
	}
	var clients, servers atomic.Int64
	e.walk(func(*worker) {}, func(c *client) {
		if c.up != nil && c.state < clientClosing && slices.Contains(pools, c.up.pool) {
			c.fatal(reasonKilled, errKilled)
			clients.Add(1)
		}
	})
	e.everywhere(func() func(*worker) bool {
		return func(w *worker) bool {
			n := w.killBusy(pools)
			servers.Add(int64(n))
			return n == killsPerTurn
		}
	})
	e.retire(pools)
	e.log.Info("killed", "database", database, "clients", clients.Load(), "busy_servers", servers.Load())
	return nil
}

// killBusy closes backends of pools whose clients have gone before their answers, at
// most killsPerTurn.
func (w *worker) killBusy(pools []*pool) (n int) {
	for s := range w.servers.each {
		if n == killsPerTurn {
			break
		}
		busy := s.state == serverRecovering || s.state == serverSettling || s.state == serverTesting
		if busy && slices.Contains(pools, s.pool) {
			if s.tracker.Busy() {
				w.cancels.start(s, nil)
			}
			s.discard(reasonKilled, "")
			n++
		}
	}
	return n
}

// KillClient closes the client with that number; its backend is recovered as when a
// client leaves. Operators cannot be closed so. Any goroutine but a loop's.
func (e *Engine) KillClient(id uint64) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	if !e.started.Load() {
		return ErrNotRunning
	}
	var found atomic.Bool
	e.walk(func(*worker) {}, func(c *client) {
		if c.id == id && c.state < clientClosing && c.ordinary() {
			c.fatal(reasonKilled, errKilledClient)
			found.Store(true)
		}
	})
	if !found.Load() {
		return fmt.Errorf("no such client: %d; SHOW CLIENTS has their numbers in column id", id)
	}
	e.log.Info("client killed", "client", id)
	return nil
}
