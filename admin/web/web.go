// Package web serves what operators' programs read by HTTP: metrics, whether the
// process lives and is ready, the console's views as JSON, and profiles if they are
// asked for. It reads only, asks for no login, and answers until the process ends,
// so that a drain can be watched.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"pgkinetic/admin"
)

// State: a Server is one listening address. Owner: any goroutine. Invariants: at most
// maxConnections connections, the one that rests longest making room for another, of which at most maxScrapes write metrics, maxLists
// lists and maxProfiles profiles; every wait for a peer has an end.

const (
	maxConnections = 64
	maxScrapes     = 4
	maxLists       = 4
	maxProfiles    = 2
	maxHeaderBytes = 16 << 10

	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second // a request has no body that anybody reads
	writeTimeout  = 30 * time.Second // of a whole answer; profiles add their own time
	idleTimeout   = 60 * time.Second
)

// connKey is under what a request's context has its connection.
type connKey struct{}

// Options are what a Server needs.
type Options struct {
	Control admin.Control // only its views are used
	Version string
	Log     *slog.Logger
	PProf   bool // admin.pprof at the start; see SetPProf
	// Beside is the Server that the new one is to replace, or nil. The address may then
	// be a wider or a narrower one with the same port.
	Beside *Server
}

// Server answers on one address.
type Server struct {
	Options
	http     http.Server
	listener *listener
	profiles atomic.Bool // admin.pprof
}

// Listen opens admin.listen, host:port. Nothing is answered before Serve; to change
// the address, Listen on the new one before the old Server is shut down. The error
// names setting, address and remedy.
func Listen(addr string, o Options) (*Server, error) {
	var beside *listener
	if o.Beside != nil {
		beside, o.Beside = o.Beside.listener, nil
	}
	l, err := listen(addr, maxConnections, beside)
	if err != nil {
		return nil, err
	}
	warnOfStrangers(l.Addr(), o.Log)
	s := &Server{Options: o, listener: l}
	s.profiles.Store(o.PProf)
	s.http = http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				c.(*conn).rests()
			}
		},
	}
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// SetPProf changes admin.pprof.
func (s *Server) SetPProf(on bool) { s.profiles.Store(on) }

// Serve answers until Shutdown, whose http.ErrServerClosed it gives, or another error
// if it cannot go on.
func (s *Server) Serve() error { return s.http.Serve(s.listener) }

// Shutdown closes the address, lets answers under way end, and cuts them off when ctx
// ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // it gives what closing the address gave before
	}
	_ = s.listener.Close() // Serve may never have been called
	return err
}
