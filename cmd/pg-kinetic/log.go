package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"pgkinetic/configs"
)

// logStyle is what a reload may change of the log. Any goroutine may set it and log.
type logStyle struct {
	level slog.LevelVar
	json  atomic.Bool
}

func newLogStyle(cfg configs.Log) *logStyle {
	s := &logStyle{}
	s.set(cfg)
	return s
}

// set lets log.level and log.format hold for the lines from now on.
func (s *logStyle) set(cfg configs.Log) {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.Level)) // the setting is one of slog's names
	s.level.Set(level)
	s.json.Store(cfg.Format == "json")
}

// prepare is a part of reloads.
func (s *logStyle) prepare(cfg *configs.Config) (commit func(bool), err error) {
	return func(hold bool) {
		if hold {
			s.set(cfg.Log)
		}
	}, nil
}

// logger makes a logger in the style, whatever that becomes.
func (s *logStyle) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: &s.level}
	return slog.New(&styled{s, slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)})
}

// styled is a handler that writes in either format.
type styled struct {
	style      *logStyle
	text, json slog.Handler
}

// Enabled implements slog.Handler.
func (h *styled) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *styled) Handle(ctx context.Context, r slog.Record) error {
	if h.style.json.Load() {
		return h.json.Handle(ctx, r)
	}
	return h.text.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *styled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &styled{h.style, h.text.WithAttrs(attrs), h.json.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *styled) WithGroup(name string) slog.Handler {
	return &styled{h.style, h.text.WithGroup(name), h.json.WithGroup(name)}
}
