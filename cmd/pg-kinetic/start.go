package main

import (
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sys/unix"

	"pgkinetic/configs"
)

// start prepares the process for serving: logger, warnings, descriptors. Then it serves until the end.
func start(from source, l loaded, stderr io.Writer) int {
	style := newLogStyle(l.cfg.Log)
	sink := newLogSink(stderr, style)
	defer sink.Close()
	log := style.logger(sink)
	if err := l.ready(log); err != nil {
		log.Error("cannot start", "error", err)
		return exitFailure
	}
	return serve(from, l, style, sink, log)
}

// fitDescriptors lowers the settings to the hard limit where it may, and raises the soft limit to what they need.
func fitDescriptors(cfg *configs.Config, origins *configs.Origins, hard uint64, log *slog.Logger) (*configs.Config, error) {
	if hard == 0 {
		log.Warn("the system does not tell its limit of file descriptors")
		return cfg, nil
	}
	fitted, note, err := configs.FitDescriptors(cfg, origins, hard)
	if err != nil {
		return nil, err
	}
	if note != "" {
		log.Warn(note)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("cannot read the limit of file descriptors: %w", err)
	}
	need := uint64(configs.DescriptorsNeeded(fitted))
	if limit.Cur >= need {
		return fitted, nil
	}
	limit.Cur = need
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("cannot raise the soft limit of file descriptors to %d: %w", need, err)
	}
	return fitted, nil
}
