// Command bench measures what pg-kinetic costs, beside PgBouncer in the same run: CPU of the pooler per transaction of
// pgbench -S, and resident memory per idle client. Both poolers run in transaction mode with connection logging off,
// without TLS, over TCP on both sides; the rounds alternate, and medians are compared, since machines are noisy.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

var (
	binary   = flag.String("pg-kinetic", "bin/pg-kinetic", "the binary to measure")
	rounds   = flag.Int("rounds", 5, "rounds of each pooler")
	seconds  = flag.Int("seconds", 8, "length of a round")
	clients  = flag.Int("clients", 64, "clients of pgbench")
	backends = flag.Int("backends", 20, "backends of the pool")
	protocol = flag.String("protocol", "simple", "pgbench -M: simple or extended")
	idle     = flag.Int("idle", 8000, "idle clients of the memory measurement; 0 leaves it out")
	settle   = flag.Duration("settle", time.Minute, "wait before memory is read")
)

// The criteria: CPU against PgBouncer's, bytes per idle client.
const (
	maxRatio = 1.05
	maxBytes = 1024
)

func main() {
	flag.Parse()
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run() (bool, error) {
	server, err := pgtest.New(pgtest.MaxConnections(300))
	if err != nil {
		return false, err
	}
	defer server.Remove()
	cpuOK := true
	if *rounds > 0 {
		if cpuOK, err = measureCPU(server); err != nil {
			return false, err
		}
	}
	if *idle == 0 {
		return cpuOK, nil
	}
	memoryOK, err := measureMemory(server)
	return cpuOK && memoryOK, err
}

// start starts a pooler as it is measured.
func start(server *pgtest.Server, target pooler.Target) (*pooler.Pooler, error) {
	o := pooler.Options{Target: target, PoolSize: *backends, Binary: *binary}
	if target == pooler.Kinetic {
		o.Flags = []string{"--log.connections=false"}
	}
	return pooler.New(server, o)
}

func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

func rule(width int) string { return strings.Repeat("-", width) }
