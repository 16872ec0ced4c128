package engine_test

import (
	"fmt"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// manyRoutes is a pooler with that many clients, each on a route of its own, that have run a query.
func manyRoutes(b *testing.B, clients int) *engine.Engine {
	e, address := start(b, pgtest.Shared(b), "--server.loops=1", "--log.connections=false")
	for i := range clients {
		c := pgwire.Login(b, "tcp", address, "user", "postgres", "database", "postgres", "application_name", fmt.Sprintf("application-%03d", i))
		exec(b, c, "select 1")
	}
	b.ReportAllocs()
	return e
}

// BenchmarkSnapshot is what metrics are written from: 200 routes. What a scrape with 10 000 clients takes: bench/scenarios/scrape.yaml.
func BenchmarkSnapshot(b *testing.B) {
	e := manyRoutes(b, 200)
	for b.Loop() {
		if n := len(e.Metrics().Routes); n < 200 {
			b.Fatalf("%d routes", n)
		}
	}
}

// BenchmarkClients is a list of 200, two turns of a loop.
func BenchmarkClients(b *testing.B) {
	e := manyRoutes(b, 200)
	for b.Loop() {
		n := 0
		for range e.Clients() {
			n++
		}
		if n != 200 {
			b.Fatalf("%d clients", n)
		}
	}
}
