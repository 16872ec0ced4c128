package engine

// DISABLE and ENABLE: whether clients may log in to a database.
//
// Owner: registry.disabled is under the registry's mutex. A name stays disabled
// until it is enabled, also over reloads. Clients that are logged in notice
// nothing.

import (
	"errors"
	"fmt"

	"pgkinetic/configs"
	"pgkinetic/protocol"
)

var errNoDatabase = errors.New("which database is to be disabled or enabled?")

// Disable refuses new logins to a database, by the name of its entry or one that
// clients may ask for. One that is disabled already stays so. Any goroutine.
func (e *Engine) Disable(database string) error { return e.setDisabled(database, true) }

// Enable lets clients log in to a database again. Otherwise as Disable.
func (e *Engine) Enable(database string) error { return e.setDisabled(database, false) }

func (e *Engine) setDisabled(database string, disabled bool) error {
	if database == "" {
		return errNoDatabase
	}
	r := e.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	known, cfg := r.disabled[database], e.settings.Load().cfg
	switch {
	case e.isConsole(database):
		return consoleName(database)
	case !known && cfg.Database(database) == nil:
		names := make([]string, 0, len(cfg.Databases))
		for i := range cfg.Databases {
			names = append(names, cfg.Databases[i].Name)
		}
		return unknown("database", database, names)
	}
	if disabled {
		r.disabled[database] = true
	} else {
		delete(r.disabled, database)
	}
	if known != disabled {
		e.log.Info("logins to a database", "database", database, "disabled", disabled)
	}
	return nil
}

// Disabled tells whether a client that asks for a database is refused, or, by the
// name of an entry, whether all of its are. Any goroutine.
func (e *Engine) Disabled(database string) bool {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	return e.registry.refuses(e.settings.Load().cfg.Database(database), database)
}

// refuses tells whether logins to a database of an entry are refused; r.mu is held.
func (r *registry) refuses(entry *configs.Database, database string) bool {
	return r.disabled[database] || entry != nil && r.disabled[entry.Name]
}

func disabledError(database string) *protocol.ErrorFields {
	return &protocol.ErrorFields{
		Severity: "FATAL", Code: protocol.CodeCannotConnectNow,
		Message: fmt.Sprintf("database %q is not currently accepting connections", database),
		Detail:  "An operator has disabled it for new connections.",
	}
}
