// Package pgbench runs PostgreSQL's pgbench and reads what it reports and logs.
package pgbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"pgkinetic/bench/figures"
)

// Server is where pgbench connects to, and where the programs of PostgreSQL are.
type Server struct {
	Bin                      string // directory; "" = PATH
	Host                     string
	Port                     int
	User, Password, Database string
	TLS                      bool // it is required, without a look at the certificate
}

// Load is what pgbench does.
type Load struct {
	Builtin  string // name of a builtin script; "" = Script
	Script   string // text
	Scale    int    // of pgbench's tables
	Protocol string // simple, extended, prepared
	Clients  int
	Connect  bool // a connection for each transaction
	// Length is that of the run, the connecting included. Transactions, if not 0, are each client's instead.
	Length       time.Duration
	Transactions int
	// Expected is about how many transactions there will be, so that no more than MaxLogged are logged; 0 = all are.
	Expected float64
}

// MaxLogged is the number of transactions from whose latencies quantiles are made; of more, a sample is logged.
const MaxLogged = 200_000

// Result is what one run has shown.
type Result struct {
	Transactions int
	TPS          float64
	Mean         float64       // latency in ms
	Connecting   float64       // mean time of a connection in ms; with Connect only
	Initial      time.Duration // until all clients were connected; without Connect only
	Latencies    []float64     // ms, sorted
	Errors       int           // failed transactions and aborted clients
	Trouble      string        // the first error message
}

// Sample turns the result into figures.
func (r *Result) Sample() figures.Sample {
	s := figures.Sample{figures.TPS: r.TPS, figures.Mean: r.Mean, figures.Errors: float64(r.Errors)}
	if r.Connecting > 0 {
		s[figures.Connecting] = r.Connecting
	}
	if len(r.Latencies) > 0 {
		s[figures.P50] = figures.Quantile(r.Latencies, 0.5)
		s[figures.P95] = figures.Quantile(r.Latencies, 0.95)
		s[figures.P99] = figures.Quantile(r.Latencies, 0.99)
		s[figures.P999] = figures.Quantile(r.Latencies, 0.999)
	}
	return s
}

// Version is what `pgbench --version` prints, without the program's name.
func Version(bin string) (string, error) {
	return version(program(bin, "pgbench"))
}

// Fill makes pgbench's tables anew, or leaves them as they are when they are there and keep is true.
func Fill(ctx context.Context, s Server, scale int, keep bool) error {
	if keep && SQL(ctx, s, "select 1 from pgbench_accounts limit 1") == nil {
		return nil
	}
	cmd := s.command(ctx, "pgbench", "-i", "-q", "-s", strconv.Itoa(scale))
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench -i: %w\n%s", err, report)
	}
	return nil
}

// SQL runs statements with psql.
func SQL(ctx context.Context, s Server, text string) error {
	cmd := s.command(ctx, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text)
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w\n%s", err, report)
	}
	return nil
}

// Bench is one pgbench that is ready to run once: Command may be changed or wrapped before it is given to Finish.
type Bench struct {
	Command *exec.Cmd
	logs    string // prefix of the log files
	dir     string
}

// Prepare writes the script and makes the command, in a directory of its own below dir. Remove removes that.
func Prepare(ctx context.Context, s Server, l Load, dir string) (*Bench, error) {
	dir, err := os.MkdirTemp(dir, "pgbench-")
	if err != nil {
		return nil, err
	}
	b := &Bench{dir: dir, logs: filepath.Join(dir, "log")}
	args := []string{
		"-n", "-M", l.Protocol, "-c", strconv.Itoa(l.Clients), "-j", strconv.Itoa(min(l.Clients, threads)),
		"-l", "--log-prefix=" + b.logs,
	}
	if l.Transactions > 0 {
		args = append(args, "-t", strconv.Itoa(l.Transactions))
	} else {
		args = append(args, "-T", strconv.Itoa(max(int(math.Round(l.Length.Seconds())), 1)))
	}
	if l.Expected > MaxLogged {
		args = append(args, fmt.Sprintf("--sampling-rate=%.4f", MaxLogged/l.Expected))
	}
	if l.Connect {
		args = append(args, "-C")
	}
	if l.Builtin != "" {
		args = append(args, "-b", l.Builtin)
	} else {
		script := filepath.Join(dir, "script.sql")
		if err := os.WriteFile(script, []byte(l.Script), 0o644); err != nil {
			return nil, errors.Join(err, b.Remove())
		}
		args = append(args, "-f", script, "-D", "scale="+strconv.Itoa(l.Scale))
	}
	b.Command = s.command(ctx, "pgbench", args...)
	return b, nil
}

// threads of pgbench: the fewer, the less CPU goes to switching between them; one could not fill two processors.
const threads = 2

// Remove removes the files.
func (b *Bench) Remove() error { return os.RemoveAll(b.dir) }

// Dir is the directory of the files.
func (b *Bench) Dir() string { return b.dir }

// Finish runs the command with run, (*exec.Cmd).Run for instance, and reads what it leaves. The error is that of a run without
// any transaction; others are in the result.
func (b *Bench) Finish(run func(*exec.Cmd) error) (*Result, error) {
	var out, errs limited
	b.Command.Stdout, b.Command.Stderr = &out, &errs
	runErr := run(b.Command)
	r, err := readReport(out.String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgbench: %w\n%s%s", err, out.String(), errs.String()), runErr)
	}
	aborted, trouble := readErrors(errs.String())
	r.Errors += aborted
	r.Trouble = trouble
	if runErr != nil && r.Errors == 0 {
		return nil, fmt.Errorf("pgbench: %w\n%s%s", runErr, out.String(), errs.String())
	}
	paths, err := filepath.Glob(b.logs + "*")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if r.Latencies, err = readLogFile(path, r.Latencies); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.Latencies)
	return r, nil
}

// command prepares a program of PostgreSQL in a session of its own: Linux may share the CPU between sessions.
func (s Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	mode := "disable"
	if s.TLS {
		mode = "require"
	}
	cmd := exec.CommandContext(ctx, program(s.Bin, name), args...)
	cmd.Env = append(
		os.Environ(), "PGHOST="+s.Host, "PGPORT="+strconv.Itoa(s.Port), "PGUSER="+s.User, "PGPASSWORD="+s.Password,
		"PGDATABASE="+s.Database, "PGSSLMODE="+mode, "PGGSSENCMODE=disable", "PGAPPNAME=", "PGOPTIONS=",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func program(bin, name string) string {
	if bin == "" {
		return name
	}
	return filepath.Join(bin, name)
}
