package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"pgkinetic/admin"
	"pgkinetic/admin/console"
	"pgkinetic/admin/view"
	"pgkinetic/admin/web"
	"pgkinetic/configs"
	"pgkinetic/engine"
)

// operators is the pooler as those see it who operate it: what the engine shows and does, and beside it what is the process's
// own affair.
type operators struct {
	*engine.Engine
	reloads *reloader
	sink    *logSink
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
	m.LogLinesDropped = o.sink.droppedSoFar()
	return m
}

// serveConsole is the session of a console's client.
func (o *operators) serveConsole(log *slog.Logger) engine.ServeConsole {
	return func(ctx context.Context, conn io.ReadWriter, who engine.ConsoleClient) {
		err := console.Serve(ctx, conn, console.Session{
			Control: o, Log: log, Version: version(),
			User: who.User, Database: who.Database, Admin: who.Admin, Params: who.Params,
			PID: who.PID, Key: who.Key, Canceled: who.Canceled,
		})
		if err != nil && ctx.Err() == nil {
			log.Info("console session ended", "user", who.User, "error", err)
		}
	}
}

// State: pages has the HTTP server of admin.listen. Owner: whoever holds mu; changes are made by the start, by reloads, one at a
// time, and by the end.
// Invariant: server is nil exactly while admin.listen is empty, or the default address was taken by somebody else.

// pages is the HTTP server, which a reload may move to another address.
type pages struct {
	control admin.Control
	log     *slog.Logger

	mu      sync.Mutex
	address string // admin.listen, of server
	server  *web.Server
	running sync.WaitGroup
}

// pagesGrace is what answers under way have when the address changes or the process ends.
const pagesGrace = time.Second

// start listens. An address that is nobody's wish, the default, may be taken: then there is no HTTP.
func (p *pages) start(cfg *configs.Config, origins *configs.Origins) error {
	commit, err := p.prepare(cfg)
	if err != nil {
		if origins.Set("admin.listen") {
			return err
		}
		p.log.Warn("no HTTP", "error", err)
		return nil
	}
	commit(true)
	return nil
}

// prepare opens the address of new settings. The function that it gives must be called: with true it makes them hold, with false
// it lets them go.
func (p *pages) prepare(cfg *configs.Config) (commit func(bool), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cfg.Admin.Listen == p.address {
		return func(hold bool) {
			if hold {
				p.set(cfg)
			}
		}, nil
	}
	var next *web.Server
	if cfg.Admin.Listen != "" {
		if next, err = web.Listen(cfg.Admin.Listen, web.Options{Control: p.control, Version: version(), Log: p.log, PProf: cfg.Admin.PProf}); err != nil {
			return nil, err
		}
	}
	return func(hold bool) {
		if !hold {
			shut(next)
			return
		}
		p.replace(cfg.Admin.Listen, next)
	}, nil
}

func (p *pages) set(cfg *configs.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.SetPProf(cfg.Admin.PProf)
	}
}

func (p *pages) replace(address string, next *web.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.server
	p.address, p.server = address, next
	if next != nil {
		p.log.Info("listening", "network", "http", "address", next.Addr().String())
		p.running.Go(func() {
			if err := next.Serve(); !errors.Is(err, http.ErrServerClosed) {
				p.log.Error("HTTP has failed", "error", err)
			}
		})
	}
	shut(old)
}

// close ends HTTP, at the process's very end.
func (p *pages) close() {
	p.replace("", nil)
	p.running.Wait()
}

// shut lets a server's answers end. A nil one has none.
func shut(s *web.Server) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pagesGrace)
	defer cancel()
	_ = s.Shutdown(ctx) // what lasted longer is cut off
}
