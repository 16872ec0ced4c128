package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// round is one run of pgbench: CPU of the pooler in µs per transaction, and transactions per second.
type round struct{ cpu, tps float64 }

func measureCPU(server *pgtest.Server) (bool, error) {
	if err := makeTables(server); err != nil {
		return false, err
	}
	targets := []pooler.Target{pooler.Kinetic, pooler.PgBouncer}
	results := map[pooler.Target][]round{}
	running := map[pooler.Target]*pooler.Pooler{}
	for _, target := range targets {
		p, err := start(server, target)
		if err != nil {
			return false, err
		}
		defer stop(p)
		running[target] = p
		if _, err := pgbench(server, p, 2); err != nil { // the pool is filled before the first round
			return false, err
		}
	}
	fmt.Fprintf(out, "pgbench -S -M %s, %d clients, %d backends, %d s a round\n", *protocol, *clients, *backends, *seconds)
	fmt.Fprintf(out, "%-6s %-12s %10s %10s\n%s\n", "round", "pooler", "CPU us/tx", "tx/s", rule(41))
	for i := range *rounds {
		for _, target := range targets {
			r, err := pgbench(server, running[target], *seconds)
			if err != nil {
				return false, err
			}
			results[target] = append(results[target], r)
			fmt.Fprintf(out, "%-6d %-12s %10.2f %10.0f\n", i+1, target, r.cpu, r.tps)
		}
	}
	fmt.Fprintln(out, rule(41))
	ours, theirs := medians(results[pooler.Kinetic]), medians(results[pooler.PgBouncer])
	for _, target := range targets {
		m := medians(results[target])
		fmt.Fprintf(out, "%-6s %-12s %10.2f %10.0f\n", "median", target, m.cpu, m.tps)
	}
	ratio := ours.cpu / theirs.cpu
	fmt.Fprintf(out, "CPU per transaction: %.2f of PgBouncer's; criterion %.2f: %s\n\n", ratio, maxRatio, verdict(ratio <= maxRatio))
	return ratio <= maxRatio, nil
}

// makeTables makes pgbench's tables anew.
func makeTables(server *pgtest.Server) error {
	cmd := exec.Command(filepath.Join(server.Bin, "pgbench"), "-i", "-q", "-s", "10", server.DSN("postgres", "postgres"))
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench -i: %w\n%s", err, report)
	}
	return nil
}

var processed = regexp.MustCompile(`number of transactions actually processed: (\d+)[\s\S]*number of failed transactions: 0 [\s\S]*tps = ([\d.]+)`)

// pgbench runs one round through the pooler.
func pgbench(server *pgtest.Server, p *pooler.Pooler, seconds int) (round, error) {
	before, err := cpuSeconds(p.PID())
	if err != nil {
		return round{}, err
	}
	cmd := exec.Command(filepath.Join(server.Bin, "pgbench"), "-n", "-S", "-M", *protocol, "-c", fmt.Sprint(*clients), "-j", "2",
		"-T", fmt.Sprint(seconds), p.DSN("postgres", "postgres"))
	report, err := cmd.CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("pgbench: %w\n%s", err, report)
	}
	after, err := cpuSeconds(p.PID())
	if err != nil {
		return round{}, err
	}
	m := processed.FindSubmatch(report)
	if m == nil {
		return round{}, fmt.Errorf("pgbench did not end as it should:\n%s", report)
	}
	transactions, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return round{}, err
	}
	tps, err := strconv.ParseFloat(string(m[2]), 64)
	return round{cpu: (after - before) * 1e6 / transactions, tps: tps}, err
}

func medians(rs []round) round {
	return round{
		medianOf(rs, func(r round) float64 { return r.cpu }), medianOf(rs, func(r round) float64 { return r.tps }),
	}
}

func medianOf[T any](all []T, get func(T) float64) float64 {
	var values []float64
	for _, v := range all {
		values = append(values, get(v))
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
