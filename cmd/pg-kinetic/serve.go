package main

import (
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
)

// garbagePercent is what may lie about beside what is in use. A query allocates
// nothing, so only logins make garbage, and most of the memory is that of idle
// clients: 8 000 of them took 1068 bytes each at Go's 100 percent, 897 at 50.
const garbagePercent = 50

// serve runs the pooler until it is told to stop; it returns the process's exit code: 0 after a graceful drain, 1 when
// it could not start, a part failed, or the drain cut a transaction.
func serve(from source, l loaded, style *logStyle, sink *logSink, log *slog.Logger) int {
	// Before anything else: a signal must never find the default action, which is death. Those to reload have a channel of
	// their own, with one place: what comes while one waits is answered by it, and none takes the place of one to stop.
	signals, reloads := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(signals)
	defer signal.Stop(reloads)

	passed, err := passedSockets()
	if err != nil {
		log.Error("cannot start", "error", err)
		return exitFailure
	}
	o := &operators{sink: sink, log: log}
	e, err := engine.New(l.cfg, log, engine.WithOrigins(l.origins), engine.WithListeners(passed), engine.WithConsole(o.serveConsole))
	if err != nil {
		logFailure(log, "cannot start", err)
		return exitFailure
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(e.Processors())
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	pid, http := &pidFile{log: log}, &pages{control: o, log: log}
	defer pid.remove()
	if err := firstTime(l, pid.prepare, http.first(l.origins)); err != nil {
		log.Error("cannot start", "error", err)
		e.Discard()
		return exitFailure
	}
	m := &manager{log: log, engine: e}
	r := newReloader(from, l, e, m, log, pid.prepare, style.prepare, http.prepare)
	o.Engine, o.reloads = e, r
	e.Start()
	http.serve()
	defer http.close()
	for _, l := range e.Listeners() {
		log.Info("listening", "network", l.Network, "address", l.Address)
	}
	m.ready(nil)
	end := aside(reloads, r, m)
	mode := view.ShutdownWaitForClients
	for working := true; working; {
		select {
		case <-e.Failed():
			working = false
		case s := <-signals:
			working = !stops(s, log)
		case mode = <-e.Shutdowns():
			log.Info("draining", "command", mode.String())
			working = false
		}
	}
	m.stopping()
	code := drain(e, mode, r, signals, log)
	end()
	if err := e.Stop(); err != nil {
		code = exitFailure
	}
	log.Info("stopped", "exit", code)
	return code
}

// firstTime makes parts follow the settings of the start.
func firstTime(l loaded, parts ...part) error {
	for _, prepare := range parts {
		commit, err := prepare(l.cfg)
		if err != nil {
			return err
		}
		commit(true)
	}
	return nil
}

// aside runs what goes on beside the service, until the function that it gives is called, which waits for it.
func aside(reloads <-chan os.Signal, r *reloader, m *manager) (end func()) {
	var running sync.WaitGroup
	done := make(chan struct{})
	running.Go(func() { r.onSignals(reloads, done) })
	running.Go(func() { r.watch(done) })
	running.Go(func() { m.watchdog(done) })
	return func() {
		close(done)
		running.Wait()
	}
}

// stops tells whether a signal is one to stop.
func stops(s os.Signal, log *slog.Logger) bool {
	switch s {
	case syscall.SIGUSR1: // PgBouncer's PAUSE, which ends by SIGUSR2
		log.Warn("SIGUSR1 has no meaning: use PAUSE on the console")
		return false
	case syscall.SIGUSR2:
		log.Warn("SIGUSR2: online restart is not available yet")
		return false
	}
	log.Info("draining", "signal", s.String())
	return true
}

// drain ends service in order; a second SIGTERM or SIGINT, or SHUTDOWN, cuts it short.
func drain(e *engine.Engine, mode view.ShutdownMode, r *reloader, signals <-chan os.Signal, log *slog.Logger) int {
	now := make(chan struct{})
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM || s == syscall.SIGINT {
					log.Warn("stopping at once", "signal", s.String())
					close(now)
					return
				}
			case m := <-e.Shutdowns():
				if m == view.ShutdownNow {
					log.Warn("stopping at once", "command", m.String())
					close(now)
					return
				}
			case <-done:
				return
			}
		}
	}()
	code := exitOK
	if err := e.End(mode, time.Duration(r.holds.Load().Drain.TimeoutMs)*time.Millisecond, now); err != nil {
		log.Error("drained", "error", err)
		code = exitFailure
	}
	close(done)
	return code
}
