package main

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// State: a logSink between the loops, which must not block, and the log's file, which may.
// Owner: any goroutine writes; one goroutine empties the queue.
// Invariants: at most sinkLines lines wait; a line that finds no room is counted and dropped, and the count is told
// with the next line that is written.

const sinkLines = 4096

// logSink is an io.Writer that never blocks for long.
type logSink struct {
	lines   chan []byte
	dropped atomic.Uint64 // not told yet
	total   atomic.Uint64 // dropped since the start
	out     io.Writer
	done    sync.WaitGroup
}

// newLogSink makes the sink of a log in a style.
func newLogSink(out io.Writer, style *logStyle) *logSink {
	s := &logSink{lines: make(chan []byte, sinkLines), out: out}
	s.done.Add(1)
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
	defer s.done.Done()
	for line := range s.lines {
		if n := s.dropped.Swap(0); n > 0 {
			note.Error("log lines dropped: the log's reader is too slow", "lines", n)
		}
		_, _ = s.out.Write(line) // a log that cannot be written has nobody to tell
	}
}

// Close writes what waits. Nothing may be written afterwards.
func (s *logSink) Close() {
	close(s.lines)
	s.done.Wait()
}
