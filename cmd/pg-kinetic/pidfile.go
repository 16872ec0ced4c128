package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
)

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
