package main

import (
	"io"
	"log/slog"

	"pgkinetic/configs"
)

// newLogger makes the process's logger by log.level and log.format.
func newLogger(cfg configs.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // not reached: the setting is one of slog's names
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
