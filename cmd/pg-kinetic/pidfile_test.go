package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
)

// The file goes with the process that has written it, and no other.
func TestPidFile(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "pid")
	f := &pidFile{log: slog.New(slog.NewTextHandler(&log, nil))}
	write := func() {
		t.Helper()
		f.path = ""
		commit, err := f.prepare(&configs.Config{Server: configs.Server{PidFile: path}})
		if err != nil {
			t.Fatal(err)
		}
		commit(true)
	}
	write()
	f.remove()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	write()
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.remove()
	if text, err := os.ReadFile(path); err != nil || string(text) != "1\n" || !strings.Contains(log.String(), "another process") {
		t.Errorf("the other's file: %q, %v, log %q", text, err, log.String())
	}
}
