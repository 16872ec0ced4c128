package view

import "fmt"

// Scope is what is paused: the whole process if both are empty; else a database,
// by the name of its entry or the name that clients ask for; or a route, by its
// label or the name of its rule.
type Scope struct{ Database, Route string }

func (s Scope) String() string {
	switch {
	case s.Database != "":
		return fmt.Sprintf("database %q", s.Database)
	case s.Route != "":
		return fmt.Sprintf("route %q", s.Route)
	}
	return "the process"
}

// ShutdownMode is what SHUTDOWN waits for.
type ShutdownMode uint8

// The modes, by what ends the process: nothing (at once); the clients' leaving, who
// are told so at their next transaction boundary; the backends' being released, while
// clients that have none are let go.
const (
	ShutdownNow ShutdownMode = iota
	ShutdownWaitForClients
	ShutdownWaitForServers
)

// String gives the command.
func (m ShutdownMode) String() string {
	switch m {
	case ShutdownWaitForClients:
		return "SHUTDOWN WAIT_FOR_CLIENTS"
	case ShutdownWaitForServers:
		return "SHUTDOWN WAIT_FOR_SERVERS"
	}
	return "SHUTDOWN"
}
