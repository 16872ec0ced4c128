package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"pgkinetic/configs"
)

// pidFile is the file of server.pid_file. Owner: whoever starts the process, then the reloader, then the end.
type pidFile struct {
	path string // empty: none
	log  *slog.Logger
}

// prepare is a part of reloads: it writes the file where new settings have another name for it.
func (f *pidFile) prepare(cfg *configs.Config) (commit func(bool), err error) {
	path := cfg.Server.PidFile
	if path == f.path {
		return func(bool) {}, nil
	}
	if path != "" {
		if err := os.WriteFile(path, pidText(), 0o644); err != nil {
			return nil, fmt.Errorf("cannot write server.pid_file: %w; choose a directory that this user may write to", err)
		}
	}
	return func(hold bool) {
		next := &pidFile{path, f.log}
		if hold {
			*f, *next = *next, *f
		}
		next.remove()
	}, nil
}

func pidText() []byte { return []byte(strconv.Itoa(os.Getpid()) + "\n") }

// remove takes the file away, unless another process has written it anew by now.
func (f *pidFile) remove() {
	if f.path == "" {
		return
	}
	if text, err := os.ReadFile(f.path); err == nil && !bytes.Equal(text, pidText()) {
		f.log.Warn("server.pid_file is another process's by now, and left alone", "file", f.path)
		return
	}
	if err := os.Remove(f.path); err != nil {
		f.log.Warn("cannot remove server.pid_file", "error", err)
	}
}
