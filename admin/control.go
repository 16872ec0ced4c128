// Package admin is what operators reach the pooler by: the console on the main
// port (admin/console), HTTP with metrics (admin/web, admin/metrics), and between
// them and the pooler the interface Control. The rows that it gives are in
// admin/view.
package admin

import (
	"context"
	"iter"

	"pgkinetic/admin/view"
)

// Control is a running pooler as operators see it. Every method may be called from
// any goroutine but those of the loops, and from several at once; none waits for a
// client, for a place in a pool or for PostgreSQL, those with a context excepted.
// Errors are for the operator: they name what is wrong and the remedy.
type Control interface {
	Views
	Commands
}

// Views is what is to be seen. Rows are the caller's; those of sequences are made
// while they are taken, a bounded number at a time, so that no loop stops for
// thousands of clients: what comes or goes meanwhile may be missing or shown
// twice.
type Views interface {
	Backpressure() []view.Backpressure
	Limits() []view.Limit
	Routes() []view.Route
	Performance() []view.Performance
	Pinning() []view.Pin
	Prepared() iter.Seq[view.Prepared]
	Recovery() []view.Recovery
	Hosts() []view.Host
	DNSHosts() []view.DNSHost
	Errors() []view.Fault

	Pools() []view.Pool
	Databases() []view.Database
	Users() []view.User
	Stats() []view.Stats
	Clients() iter.Seq[view.Client]
	Servers() iter.Seq[view.Server]
	Sockets() iter.Seq[view.Socket]
	FDs() iter.Seq[view.FD]
	Lists() []view.Item
	Mem() []view.Mem
	Config() []view.Setting
	State() (active, paused, suspended bool)

	Metrics() *view.Metrics
	Health() view.Health
	// Alive is nil while every loop turns; else it names the loop that does not.
	Alive() error
	// Explain tells what a request would meet now.
	Explain(view.Request) ([]view.Explained, error)
}

// Commands is what may be done. Those with a context wait, and leave what they have
// begun when it ends.
type Commands interface {
	// Pause stops admission and returns when nothing is in flight in the scope.
	Pause(context.Context, view.Scope) error
	Resume(view.Scope) error
	// Reconnect lets backends of a database, of all if it is empty, be closed and opened anew as soon as they are idle.
	Reconnect(database string) error
	// Kill pauses a database and closes its clients and backends at once; RESUME ends the pause.
	Kill(database string) error
	// Disconnect closes the clients that a database has now, each between two transactions.
	Disconnect(database string) error
	// KillClient closes the client with an id.
	KillClient(id uint64) error
	Disable(database string) error
	Enable(database string) error
	// WaitClose returns when the backends of a database, of all if it is empty, that were there at the latest Reconnect are closed.
	WaitClose(ctx context.Context, database string) error
	// Suspend stops reading from clients and returns when everything buffered has been passed on.
	Suspend(context.Context) error
	// Reload reads the settings again; the notices are what does not hold, or not for everybody.
	Reload() (notices []string, err error)
	// Shutdown ends the process: at once, or by its mode.
	Shutdown(view.ShutdownMode) error
	// SetLimit changes a setting of capacity or admission, such as "capacity.max_route_in_flight", until the next reload.
	SetLimit(name, value string) error
	// SetRoute changes a setting of the routes of a rule or under a label until the next reload.
	SetRoute(route, setting, value string) error
}
