//go:build !race

package main

import (
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

func BenchmarkPrepared(b *testing.B) {
	if _, err := pooler.PgBouncerProgram(); err != nil {
		b.Skip(err)
	}
	mechanics(b, func(s *pgtest.Server) (bool, error) { return measurePrepared(s, 1, 1) })
	if *protocol != "simple" {
		b.Errorf("-protocol is %q afterwards", *protocol)
	}
}

// BenchmarkConsole sets what every PgBouncer has, by the way in which one that tracks statements is told to.
func BenchmarkConsole(b *testing.B) {
	if _, err := pooler.PgBouncerProgram(); err != nil {
		b.Skip(err)
	}
	server := pgtest.Shared(b)
	p, err := start(server, pooler.PgBouncer)
	if err != nil {
		b.Fatal(err)
	}
	defer stop(p)
	for b.Loop() {
		if err := pgbouncerConsole(server, p, "SET query_wait_timeout = 60"); err != nil {
			b.Fatal(err)
		}
	}
	if err := pgbouncerConsole(server, p, "SET no_such_setting = 1"); err == nil {
		b.Error("a setting that does not exist was set")
	}
}
