// Package console is the console: a dialogue in the PostgreSQL protocol, simple and
// extended, in which operators look at a pooler and command it. A client begins with
// SHOW HELP; views and commands are in views.go and commands.go, what drivers send
// around them in dialogue.go, parameters.go and selects.go.
//
// A console never waits for a client or for a place in a pool. It has a goroutine of
// its own, so that a slow reader stops nobody else.
package console

import (
	"context"
	"io"
	"log/slog"

	"pgkinetic/admin"
	"pgkinetic/protocol"
)

// Session is one console session that has logged in.
type Session struct {
	Control admin.Control
	Log     *slog.Logger // told of each command that is for users of admin.users; may be nil

	User, Database string
	Admin          bool // one of admin.users; else of admin.stats_users, who may only look
	// Allowed tells what the user may do now, since a reload may change it: all commands,
	// or at least look. Nil: what Admin says.
	Allowed func() (all, look bool)
	Version string
	// Params are the parameters of its StartupMessage. Those that are unknown here are passed over.
	Params []protocol.Param

	// PID and Key are what the client is to cancel with. An empty key is not sent.
	PID uint32
	Key []byte
	// Canceled gives a value for each CancelRequest that names the session. One that
	// finds no command running may stay in the channel: it is taken out before the next.
	Canceled <-chan struct{}
}

// Serve answers on conn, from what follows AuthenticationOk to the end: it returns
// nil when the client has left, and why it could not go on otherwise.
//
// ctx must end when the client is gone, since nothing is read while a command runs;
// and when the process ends, which the client is then told if it can be. Read and
// Write must return soon after ctx has ended. conn is the caller's to close.
func Serve(ctx context.Context, conn io.ReadWriter, s Session) error {
	return newSession(ctx, conn, s).serve()
}
