package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine"
)

// serve runs the pooler until it is told to stop; it returns the process's exit code: 0 after a graceful drain, 1 when
// it could not start, a part failed, or the drain cut a transaction.
func serve(cfg *configs.Config, origins *configs.Origins, log *slog.Logger) int {
	// Before anything else: a signal must never find the default action, which is death.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR2)
	defer signal.Stop(signals)

	e, err := engine.New(cfg, log, engine.WithOrigins(origins))
	if err != nil {
		log.Error("cannot start", "error", err)
		return exitFailure
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(e.Processors())
	}
	if err := writePidFile(cfg.Server.PidFile); err != nil {
		log.Error("cannot start", "error", err)
		e.Discard()
		return exitFailure
	}
	defer removePidFile(cfg.Server.PidFile, log)
	e.Start()
	for _, l := range e.Listeners() {
		log.Info("listening", "network", l.Network, "address", l.Address)
	}
	waitForStop(e, signals, log)
	return drain(e, cfg, signals, log)
}

// waitForStop returns when the process is to end.
func waitForStop(e *engine.Engine, signals <-chan os.Signal, log *slog.Logger) {
	for {
		select {
		case <-e.Failed():
			return
		case s := <-signals:
			switch s {
			case syscall.SIGHUP:
				log.Warn("SIGHUP: reload is not available yet; restart to apply changed settings")
			case syscall.SIGUSR2:
				log.Warn("SIGUSR2: online restart is not available yet")
			default:
				log.Info("draining", "signal", s.String())
				return
			}
		}
	}
}

// drain ends service in order; a second SIGTERM or SIGINT cuts it short.
func drain(e *engine.Engine, cfg *configs.Config, signals <-chan os.Signal, log *slog.Logger) int {
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
			case <-done:
				return
			}
		}
	}()
	code := exitOK
	if err := e.Drain(time.Duration(cfg.Drain.TimeoutMs)*time.Millisecond, now); err != nil {
		log.Error("drained", "error", err)
		code = exitFailure
	}
	close(done)
	if err := e.Stop(); err != nil {
		code = exitFailure
	}
	log.Info("stopped", "exit", code)
	return code
}

func writePidFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot write server.pid_file: %w; choose a directory that this user may write to", err)
	}
	return nil
}

func removePidFile(path string, log *slog.Logger) {
	if path == "" {
		return
	}
	if err := os.Remove(path); err != nil {
		log.Warn("cannot remove server.pid_file", "error", err)
	}
}
