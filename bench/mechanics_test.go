//go:build !race

package main

import (
	"io"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) {
	*program = "" // the tests build it
	out = io.Discard
	pgtest.Main(m)
}

// The measurements for a moment: that they run, not what they find.

func BenchmarkOverload(b *testing.B) {
	mechanics(b, func(s *pgtest.Server) (bool, error) {
		return measureOverload(s, 1, 200*time.Millisecond, 500*time.Millisecond)
	})
}

func BenchmarkIsolation(b *testing.B) {
	mechanics(b, func(s *pgtest.Server) (bool, error) { return measureIsolation(s, 1, 1, 300*time.Millisecond) })
}

func BenchmarkRefusals(b *testing.B) {
	mechanics(b, func(s *pgtest.Server) (bool, error) { return measureRefusals(s, 1, 5000) })
}

func BenchmarkRoutes(b *testing.B) {
	mechanics(b, func(s *pgtest.Server) (bool, error) { return measureRoutes(s, 1, 1) })
}

func mechanics(b *testing.B, run func(*pgtest.Server) (bool, error)) {
	server := pgtest.Shared(b)
	for b.Loop() {
		if _, err := run(server); err != nil {
			b.Fatal(err)
		}
	}
}
