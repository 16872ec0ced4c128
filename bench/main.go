// Command bench measures what pg-kinetic costs and what its backpressure holds, and judges each figure by its criterion:
//
//	cpu        CPU of the pooler per transaction of pgbench -S, beside PgBouncer in the same run
//	prepared   the same with prepared statements
//	routes     CPU per transaction of pgbench -S without and with rules for routes
//	refusal    CPU of a refused request beside that of a served one
//	overload   ten times what a route can serve: goodput, latency, memory
//	isolation  the latency of one route beside another one that is overloaded
//	memory     resident memory per idle client
//
// Poolers run in transaction mode with connection logging off, without TLS, over TCP on both sides, each in a session of
// its own, since Linux may share the CPU between sessions (sched_autogroup). Rounds alternate, and medians are compared,
// since machines are noisy.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

var (
	only     = flag.String("only", "", "the measurements to make, separated by commas (default: all)")
	program  = flag.String("pg-kinetic", "bin/pg-kinetic", "the binary to measure")
	loops    = flag.Int("loops", 0, "server.loops of pg-kinetic")
	rounds   = flag.Int("rounds", 5, "rounds, or pairs, of each measurement")
	seconds  = flag.Int("seconds", 8, "length of a round, and of the overload; half the length of each half of a pair")
	step     = flag.Int("step", 2, "length of each step of the sweep before the overload, in seconds")
	requests = flag.Int("requests", 100_000, "requests in a round of refusals")
	clients  = flag.Int("clients", 64, "clients of pgbench, and sessions that are refused")
	backends = flag.Int("backends", 20, "backends of the pool")
	protocol = flag.String("protocol", "simple", "pgbench -M: simple or extended")
	idle     = flag.Int("idle", 8000, "idle clients of the memory measurement")
	settle   = flag.Duration("settle", time.Minute, "wait before memory is read")
)

// The criteria: CPU against PgBouncer's, bytes per idle client. Those of the other measurements stand beside them.
const (
	maxRatio = 1.05
	maxBytes = 1024
)

// out takes the figures.
var out io.Writer = os.Stdout

// measurement gives whether its criteria were met.
type measurement struct {
	name string
	run  func(*pgtest.Server) (bool, error)
}

// measurements in the order in which they are made: those that are disturbed most easily first.
var measurements = []measurement{
	{"cpu", measureCPU},
	{"prepared", func(s *pgtest.Server) (bool, error) { return measurePrepared(s, *rounds, *seconds) }},
	{"routes", func(s *pgtest.Server) (bool, error) { return measureRoutes(s, *rounds, *seconds) }},
	{"refusal", func(s *pgtest.Server) (bool, error) { return measureRefusals(s, *rounds, *requests) }},
	{"isolation", func(s *pgtest.Server) (bool, error) { return measureIsolation(s, *rounds, 2**seconds, time.Second) }},
	{"overload", func(s *pgtest.Server) (bool, error) {
		return measureOverload(s, *rounds, period(*step), period(*seconds))
	}},
	{"memory", measureMemory},
}

func period(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

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
	chosen := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range chosen {
		if !slices.ContainsFunc(measurements, func(m measurement) bool { return m.name == name }) {
			return false, fmt.Errorf("-only: no measurement %q", name)
		}
	}
	// A load blocks its thread in the kernel: each gets a processor of Go's scheduler at once when it comes back.
	runtime.GOMAXPROCS(max(4, runtime.NumCPU()))
	server, err := pgtest.New(pgtest.MaxConnections(300))
	if err != nil {
		return false, err
	}
	defer server.Remove()
	met := true
	for _, m := range measurements {
		if len(chosen) > 0 && !slices.Contains(chosen, m.name) {
			continue
		}
		ok, err := m.run(server)
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.name, err)
		}
		met = met && ok
	}
	return met, nil
}

// start starts a pooler as it is measured.
func start(server *pgtest.Server, target pooler.Target) (*pooler.Pooler, error) {
	return startWith(server, pooler.Options{Target: target})
}

func startWith(server *pgtest.Server, o pooler.Options) (*pooler.Pooler, error) {
	if o.Target == "" {
		o.Target = pooler.Kinetic
	}
	o.PoolSize, o.Binary = *backends, *program
	if o.Target == pooler.Kinetic {
		o.Flags = append(o.Flags, "--log.connections=false", fmt.Sprintf("--server.loops=%d", *loops))
	}
	return pooler.New(server, o)
}

func stop(p *pooler.Pooler) {
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

func rule(width int) string { return strings.Repeat("-", width) }
