package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"pgkinetic/admin"
	"pgkinetic/admin/web"
	"pgkinetic/configs"
)

// State: pages has the HTTP server of admin.listen. Owner: whoever holds mu; the start, then reloads, one at a time, then the end.
// Invariants: server is nil exactly while address is empty, which is admin.listen, or the default address has always been
// somebody else's; it answers from serve on.

// pages is the HTTP server, which a reload may move to another address.
type pages struct {
	control admin.Control
	log     *slog.Logger

	mu      sync.Mutex
	address string // admin.listen, of server
	theirs  string // the default address, if it was somebody else's at the start
	server  *web.Server
	serving bool
	running sync.WaitGroup
}

// pagesGrace is what answers under way have when the address changes or the process ends.
const pagesGrace = time.Second

// first is prepare for the start. An address that nobody has asked for, the default, may be somebody else's: then there is no
// HTTP until a reload finds it free, or has another one.
func (p *pages) first(origins *configs.Origins) part {
	return func(cfg *configs.Config) (func(bool), error) {
		commit, err := p.prepare(cfg)
		if err != nil && !origins.Set("admin.listen") {
			p.theirs = cfg.Admin.Listen
			return p.none(err), nil
		}
		return commit, err
	}
}

func (p *pages) none(err error) (commit func(hold bool)) {
	p.log.Warn("no HTTP", "error", err)
	return func(bool) {}
}

// prepare is a part: it opens the address of new settings.
func (p *pages) prepare(cfg *configs.Config) (commit func(hold bool), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	address := cfg.Admin.Listen
	if address == p.address {
		return func(hold bool) {
			if hold && p.server != nil {
				p.server.SetPProf(cfg.Admin.PProf)
			}
		}, nil
	}
	var next *web.Server
	if address != "" {
		o := web.Options{Control: p.control, Version: version(), Log: p.log, PProf: cfg.Admin.PProf, Beside: p.server}
		if next, err = web.Listen(address, o); err != nil {
			if address == p.theirs && p.server == nil {
				return p.none(err), nil
			}
			return nil, err
		}
	}
	return func(hold bool) {
		if hold {
			p.replace(address, next)
		} else {
			shut(next)
		}
	}, nil
}

func (p *pages) replace(address string, next *web.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.server
	p.address, p.server = address, next
	if p.serving {
		p.begin()
	}
	shut(old)
}

// serve begins to answer.
func (p *pages) serve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving = true
	p.begin()
}

// begin lets the server answer. mu is held.
func (p *pages) begin() {
	s := p.server
	if s == nil {
		return
	}
	p.log.Info("listening", "network", "http", "address", s.Addr().String())
	p.running.Go(func() {
		if err := s.Serve(); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("HTTP has failed", "error", err)
		}
	})
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
