package engine

// KILL_CLIENT: a client is parted from at once.

import (
	"fmt"
	"sync/atomic"

	"pgkinetic/protocol"
)

var errKilledClient = shutdownError("KILL_CLIENT")

// shutdownError is what a client is told that an operator's command ends.
func shutdownError(command string) *protocol.ErrorFields {
	return &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeAdminShutdown,
		Message: "terminating connection due to administrator command: " + command,
	}
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
