package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// round is one run of pgbench: CPU of the pooler in µs per transaction, and transactions per second.
type round struct{ cpu, tps float64 }

func measureCPU(server *pgtest.Server) (bool, error) {
	out, err := exec.Command(filepath.Join(server.Bin, "pgbench"), "-i", "-q", "-s", "10", server.DSN("postgres", "postgres")).CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("pgbench -i: %w\n%s", err, out)
	}
	targets := []pooler.Target{pooler.Kinetic, pooler.PgBouncer}
	results := map[pooler.Target][]round{}
	running := map[pooler.Target]*pooler.Pooler{}
	for _, target := range targets {
		p, err := start(server, target)
		if err != nil {
			return false, err
		}
		defer func() {
			if err := p.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
		}()
		running[target] = p
		if _, err := pgbench(server, p, 2); err != nil { // the pool is filled before the first round
			return false, err
		}
	}
	fmt.Printf("pgbench -S -M %s, %d clients, %d backends, %d s a round\n", *protocol, *clients, *backends, *seconds)
	fmt.Printf("%-6s %-12s %10s %10s\n%s\n", "round", "pooler", "CPU us/tx", "tx/s", rule(41))
	for i := range *rounds {
		for _, target := range targets {
			r, err := pgbench(server, running[target], *seconds)
			if err != nil {
				return false, err
			}
			results[target] = append(results[target], r)
			fmt.Printf("%-6d %-12s %10.2f %10.0f\n", i+1, target, r.cpu, r.tps)
		}
	}
	fmt.Println(rule(41))
	ours, theirs := medians(results[pooler.Kinetic]), medians(results[pooler.PgBouncer])
	for _, target := range targets {
		m := medians(results[target])
		fmt.Printf("%-6s %-12s %10.2f %10.0f\n", "median", target, m.cpu, m.tps)
	}
	ratio := ours.cpu / theirs.cpu
	fmt.Printf("CPU per transaction: %.2f of PgBouncer's; criterion %.2f: %s\n\n", ratio, maxRatio, verdict(ratio <= maxRatio))
	return ratio <= maxRatio, nil
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
	out, err := cmd.CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	after, err := cpuSeconds(p.PID())
	if err != nil {
		return round{}, err
	}
	m := processed.FindSubmatch(out)
	if m == nil {
		return round{}, fmt.Errorf("pgbench did not end as it should:\n%s", out)
	}
	transactions, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return round{}, err
	}
	tps, err := strconv.ParseFloat(string(m[2]), 64)
	return round{cpu: (after - before) * 1e6 / transactions, tps: tps}, err
}

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 100

// cpuSeconds is the user and system time that a process has used.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the program's name in parentheses, may hold blanks: count from its end.
	_, rest, found := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/%d/stat: %q", pid, text)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / clockTick, err
}

func medians(rs []round) round {
	of := func(get func(round) float64) float64 {
		var values []float64
		for _, r := range rs {
			values = append(values, get(r))
		}
		slices.Sort(values)
		n := len(values)
		return (values[(n-1)/2] + values[n/2]) / 2
	}
	return round{of(func(r round) float64 { return r.cpu }), of(func(r round) float64 { return r.tps })}
}
