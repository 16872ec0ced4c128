package main

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// State: a logSink between the loops, which must not block, and the log's file, which may.
// Owner: any goroutine writes; one goroutine empties the queue.
// Invariants: at most sinkLines lines wait; a line that finds no room is counted and dropped, and the count is told
// with the next line that is written.

const sinkLines = 4096

// logSink is an io.Writer that never blocks for long.
type logSink struct {
	lines    chan []byte
	dropped  atomic.Uint64 // not told yet
	total    atomic.Uint64 // dropped since the start
	out      io.Writer
	closing  chan struct{}
	done     chan struct{}
	patience time.Duration
}

// sinkPatience is what the log's reader gets at the end to take what waits.
const sinkPatience = 2 * time.Second

// newLogSink makes the sink of a log in a style.
func newLogSink(out io.Writer, style *logStyle) *logSink {
	s := &logSink{lines: make(chan []byte, sinkLines), out: out, closing: make(chan struct{}), done: make(chan struct{}), patience: sinkPatience}
	go s.run(style.logger(out))
	return s
}

// Write queues a copy of p.
func (s *logSink) Write(p []byte) (int, error) {
	select {
	case s.lines <- append([]byte(nil), p...):
	default:
		s.dropped.Add(1)
		s.total.Add(1)
	}
	return len(p), nil
}

func (s *logSink) run(note *slog.Logger) {
	defer close(s.done)
	for {
		select {
		case line := <-s.lines:
			s.put(line, note)
		case <-s.closing:
			for {
				select {
				case line := <-s.lines:
					s.put(line, note)
				default:
					return
				}
			}
		}
	}
}

func (s *logSink) put(line []byte, note *slog.Logger) {
	if n := s.dropped.Swap(0); n > 0 {
		note.Error("log lines dropped: the log's reader is too slow", "lines", n)
	}
	_, _ = s.out.Write(line) // a log that cannot be written has nobody to tell
}

// Close writes what waits, as far as somebody reads it. What is written afterwards is lost.
func (s *logSink) Close() {
	close(s.closing)
	select {
	case <-s.done:
	case <-time.After(s.patience): // the process is to end, whoever keeps its log from being written
	}
}
