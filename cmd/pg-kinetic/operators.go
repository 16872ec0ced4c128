package main

import (
	"context"
	"io"
	"log/slog"

	"pgkinetic/admin"
	"pgkinetic/admin/console"
	"pgkinetic/admin/view"
	"pgkinetic/engine"
)

// operators is the pooler as those see it who operate it: what the engine shows and does, and beside it what is the process's
// own affair.
type operators struct {
	*engine.Engine
	reloads *reloader
	sink    *logSink
	log     *slog.Logger
}

var _ admin.Control = (*operators)(nil)

// Reload is RELOAD on the console: what SIGHUP does, with its notices.
func (o *operators) Reload() (notices []string, err error) {
	all, err := o.reloads.Reload()
	for _, n := range all {
		notices = append(notices, n.String())
	}
	return notices, err
}

// Metrics adds what the engine does not know.
func (o *operators) Metrics() *view.Metrics {
	m := o.Engine.Metrics()
	m.Reloads = o.reloads.outcomes()
	m.LogLinesDropped = o.sink.total.Load()
	return m
}

// serveConsole is the session of a console's client.
func (o *operators) serveConsole(ctx context.Context, conn io.ReadWriter, who engine.ConsoleClient) {
	err := console.Serve(ctx, conn, console.Session{
		Control: o, Log: o.log, Version: version(),
		User: who.User, Database: who.Database, Admin: who.Admin, Allowed: who.Allowed, Params: who.Params,
		PID: who.PID, Key: who.Key, Canceled: who.Canceled,
	})
	if err != nil && ctx.Err() == nil {
		o.log.Info("console session ended", "user", who.User, "error", err)
	}
}
