package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// maxPrepared is the criterion: CPU per transaction with prepared statements, in parts of PgBouncer's.
const maxPrepared = 0.9

// A contender is a pooler under the protocol in which pgbench uses it.
type contender struct {
	target   pooler.Target
	protocol string
	pooler   *pooler.Pooler
	rounds   []round
}

// measurePrepared compares the CPU per transaction of pgbench -S with prepared statements. A PgBouncer that cannot carry
// these from one backend to the next in transaction mode is used with the simple protocol instead, and the output says so.
func measurePrepared(server *pgtest.Server, rounds, seconds int) (bool, error) {
	version, tracks, err := trackingPgBouncer()
	if err != nil {
		return false, err
	}
	if err := makeTables(server); err != nil {
		return false, err
	}
	contenders := []*contender{{target: pooler.Kinetic, protocol: "prepared"}, {target: pooler.PgBouncer, protocol: "simple"}}
	if tracks {
		contenders[1].protocol = "prepared"
	}
	for _, c := range contenders {
		if c.pooler, err = start(server, c.target); err != nil {
			return false, err
		}
		defer stop(c.pooler)
	}
	if tracks {
		if err := trackStatements(server, contenders[1].pooler); err != nil {
			return false, err
		}
	}
	for _, c := range contenders { // the pool is filled, and its statements are parsed, before the first round
		if _, err := c.round(server, 2); err != nil {
			return false, err
		}
	}
	fmt.Fprintf(out, "prepared: pgbench -S, %d clients, %d backends, %d s a round\n", *clients, *backends, seconds)
	if tracks {
		fmt.Fprintf(out, "PgBouncer %s: -M prepared for both, max_prepared_statements = %d\n", version, trackedStatements)
	} else {
		fmt.Fprintf(out, "PgBouncer %s cannot track prepared statements: -M simple for PgBouncer, -M prepared for pg-kinetic\n", version)
	}
	if err := race(server, contenders, rounds, seconds); err != nil {
		return false, err
	}
	return judgePrepared(contenders), nil
}

// race lets the contenders run in turn; each begins every other round.
func race(server *pgtest.Server, contenders []*contender, rounds, seconds int) error {
	fmt.Fprintf(out, "%-6s %-12s %-10s %10s %10s\n%s\n", "round", "pooler", "protocol", "CPU us/tx", "tx/s", rule(52))
	for i := range rounds {
		for k := range contenders {
			c := contenders[(i+k)%len(contenders)]
			r, err := c.round(server, seconds)
			if err != nil {
				return err
			}
			c.rounds = append(c.rounds, r)
			fmt.Fprintf(out, "%-6d %-12s %-10s %10.2f %10.0f\n", i+1, c.target, c.protocol, r.cpu, r.tps)
		}
	}
	return nil
}

// judgePrepared compares the medians of the first contender with those of the second.
func judgePrepared(contenders []*contender) bool {
	fmt.Fprintln(out, rule(52))
	for _, c := range contenders {
		m := medians(c.rounds)
		fmt.Fprintf(out, "%-6s %-12s %-10s %10.2f %10.0f\n", "median", c.target, c.protocol, m.cpu, m.tps)
	}
	ratio := medians(contenders[0].rounds).cpu / medians(contenders[1].rounds).cpu
	met := ratio <= maxPrepared
	fmt.Fprintf(out, "CPU per transaction: %.2f of PgBouncer's; criterion %.2f: %s\n\n", ratio, maxPrepared, verdict(met))
	return met
}

// round is one run of pgbench under the contender's protocol, whatever -protocol says.
func (c *contender) round(server *pgtest.Server, seconds int) (round, error) {
	defer func(chosen string) { *protocol = chosen }(*protocol)
	*protocol = c.protocol
	return pgbench(server, c.pooler, seconds)
}

var pgbouncerVersion = regexp.MustCompile(`PgBouncer (\d+)\.(\d+)\S*`)

// trackingPgBouncer tells the version of the PgBouncer that start would start, and whether it can track statements.
func trackingPgBouncer() (version string, tracks bool, err error) {
	binary, err := pooler.PgBouncerProgram()
	if err != nil {
		return "", false, err
	}
	report, err := exec.Command(binary, "--version").CombinedOutput()
	if err != nil {
		return "", false, fmt.Errorf("%s --version: %w\n%s", binary, err, report)
	}
	return readVersion(string(report))
}

// readVersion reads the first line of `pgbouncer --version`. max_prepared_statements came with 1.21 (its changelog).
func readVersion(report string) (version string, tracks bool, err error) {
	m := pgbouncerVersion.FindStringSubmatch(report)
	if m == nil {
		return "", false, fmt.Errorf("pgbouncer --version printed no version:\n%s", report)
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return "", false, err
	}
	minor, err := strconv.Atoi(m[2])
	if err != nil {
		return "", false, err
	}
	return m[0][len("PgBouncer "):], major > 1 || major == 1 && minor >= 21, nil
}

// trackedStatements is more than pgbench prepares.
const trackedStatements = 100

// trackStatements turns PgBouncer's tracking of prepared statements on.
func trackStatements(server *pgtest.Server, p *pooler.Pooler) error {
	return pgbouncerConsole(server, p, fmt.Sprintf("SET max_prepared_statements = %d", trackedStatements))
}

// pgbouncerConsole runs one command of PgBouncer's console. The console trusts a client of its Unix socket that runs as
// the same system user and calls itself pgbouncer.
func pgbouncerConsole(server *pgtest.Server, p *pooler.Pooler, command string) error {
	cmd := exec.Command(filepath.Join(server.Bin, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", server.SocketDir(),
		"-p", strconv.Itoa(p.Port), "-U", "pgbouncer", "-d", "pgbouncer", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Unprivileged()}
	cmd.Dir = server.SocketDir()
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbouncer's console: %s: %w\n%s", command, err, report)
	}
	return nil
}
