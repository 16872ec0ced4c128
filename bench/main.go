// Command bench measures pg-kinetic beside PostgreSQL itself and beside other poolers, on one PostgreSQL and in one run, and
// judges the figures by the criteria of its scenarios. What there is to measure, and how to read it: docs/benchmarks.md.
//
//	go run ./bench                         everything
//	go run ./bench -only simple/64,idle    some scenarios or cases
//	go run ./bench -list                   what there is
//
// Poolers run in transaction mode with connection logging off, over TCP on both sides, without TLS unless a scenario is about
// that, each in a session of its own, since Linux may share the CPU between sessions (sched_autogroup). Rounds alternate, and medians are compared, since
// machines are noisy.
//
// Exit status: 0, 1 when a criterion is missed or the gate finds a regression, 2 when something could not be measured.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/report"
	"pgkinetic/bench/scenarios"
	"pgkinetic/bench/targets"
	"pgkinetic/bench/trials"
)

// kinetic is the name of our definition.
const kinetic = "pg-kinetic"

// options are the flags, made ready.
type options struct {
	only        []string
	choices     []targets.Choice // targets of the whole run
	program     string           // pg-kinetic's
	kineticArgs []string
	dsn         string
	rounds      int
	length      time.Duration
	backends    int
	scale       int
	baseline    string
	patient     bool // repeats disturbed rounds
	noSyscalls  bool
	outDir      string
	page        string
	gate        string
	update      bool
	render      bool
	list        bool
	errors      io.Writer
}

func parse(args []string, errors io.Writer, definitions []targets.Definition) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errors)
	o.errors = errors
	only := f.String("only", "", "scenarios or cases to measure, separated by commas (default: all)")
	names := f.String("targets", "", "targets of the scenarios that do not bring their own, separated by commas (default: all that are installed)")
	versus := f.String("versus", "", "another pg-kinetic binary, measured beside the first one as the target \"versus\"")
	extra := f.String("flags", "", "further flags for pg-kinetic, separated by blanks")
	seconds := f.Float64("seconds", 5, "length of a round")
	f.StringVar(&o.program, "pg-kinetic", "bin/pg-kinetic", "the binary to measure")
	f.StringVar(&o.dsn, "dsn", "", "the PostgreSQL behind the targets (default: a throw-away one); pgbench's tables are made in its database unless they are there")
	f.IntVar(&o.rounds, "rounds", 5, "rounds of each case")
	f.IntVar(&o.backends, "backends", 20, "size of the pools")
	f.IntVar(&o.scale, "scale", 20, "scale of pgbench's tables")
	f.StringVar(&o.baseline, "baseline", "pgbouncer", "the target that ratios are made with")
	f.BoolVar(&o.patient, "repeat", true, "run a round again when strangers used more than a twentieth of the machine")
	f.BoolVar(&o.noSyscalls, "no-syscalls", false, "leave out the rounds that count system calls")
	f.StringVar(&o.outDir, "out", "", "a directory for results.json, results.md and charts; results of other cases in it are kept")
	f.StringVar(&o.page, "docs", "", "a page whose results are rewritten with those of -out, or of this run")
	f.StringVar(&o.gate, "gate", "", "measure only cases of the gate, and compare with the baseline in this file")
	f.BoolVar(&o.update, "update", false, "with -gate: write the values of these cases into the baseline")
	f.BoolVar(&o.render, "render", false, "measure nothing: write the reports of -out anew, and the page of -docs")
	f.BoolVar(&o.list, "list", false, "list scenarios, criteria and targets")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.only, o.kineticArgs = list(*only), strings.Fields(*extra)
	o.length = time.Duration(*seconds * float64(time.Second))
	chosen := list(*names)
	if o.gate != "" && len(chosen) == 0 {
		chosen = []string{kinetic, o.baseline}
	}
	o.choices, err = choose(chosen, *versus, definitions)
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected %q", f.Args())
	case o.rounds < 1 || o.backends < 1 || o.scale < 1 || o.length < time.Second:
		err = fmt.Errorf("-rounds, -backends, -scale and -seconds are at least 1")
	case o.baseline != "versus" && !defined(o.baseline, definitions):
		err = fmt.Errorf("-baseline: there is no %q", o.baseline)
	case o.update && o.gate == "":
		err = fmt.Errorf("-update goes with -gate")
	case o.render && o.outDir == "":
		err = fmt.Errorf("-render goes with -out")
	}
	return o, err
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func defined(name string, definitions []targets.Definition) bool {
	return slices.ContainsFunc(definitions, func(d targets.Definition) bool { return d.Name == name })
}

// choose gives the targets of the whole run: those that are named, or all.
func choose(names []string, versus string, definitions []targets.Definition) (choices []targets.Choice, err error) {
	for _, name := range names {
		if !defined(name, definitions) {
			return nil, fmt.Errorf("-targets: there is no %q", name)
		}
	}
	for _, d := range definitions {
		if len(names) == 0 || slices.Contains(names, d.Name) {
			choices = append(choices, targets.Choice{Name: d.Name, Of: d.Name})
		}
	}
	if versus != "" {
		choices = append(choices, targets.Choice{Name: "versus", Of: kinetic, Binary: versus})
	}
	return choices, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := bench(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(status)
}

// The exit statuses.
const (
	statusOK     = 0
	statusMissed = 1
	statusFailed = 2
)

// bench is the program; it gives its exit status.
func bench(ctx context.Context, args []string, out io.Writer, errs *os.File) (int, error) {
	definitions, err := targets.Definitions()
	if err != nil {
		return statusFailed, err
	}
	all, err := scenarios.All()
	if err != nil {
		return statusFailed, err
	}
	for _, s := range all {
		if err := trials.Check(s); err != nil {
			return statusFailed, err
		}
	}
	o, err := parse(args, errs, definitions)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK, err
	case err != nil:
		return statusFailed, err
	}
	switch {
	case o.list:
		listAll(out, all, definitions)
		return statusOK, nil
	case o.render:
		return statusOK, render(&o)
	}
	cases, err := scenarios.Cases(all, o.only)
	if o.gate != "" {
		cases = slices.DeleteFunc(cases, func(c scenarios.Case) bool { return !c.Gated() })
	}
	if err == nil {
		err = o.missing()
	}
	if err != nil {
		return statusFailed, err
	}
	return measureAll(ctx, o, definitions, cases, out, errs)
}

// missing tells of a file that the run needs and that is not there: now, and not after an hour.
func (o *options) missing() error {
	for _, c := range o.choices {
		if c.Of == kinetic {
			if _, err := exec.LookPath(cmp.Or(c.Binary, o.program)); err != nil {
				return fmt.Errorf("%w; `make build` makes bin/pg-kinetic", err)
			}
		}
	}
	var files []string
	if o.page != "" {
		files = append(files, o.page)
	}
	if o.gate != "" && !o.update {
		files = append(files, o.gate)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}

// measureAll starts PostgreSQL, measures the cases and reports them.
func measureAll(
	ctx context.Context, o options, definitions []targets.Definition, cases []scenarios.Case, out io.Writer, errs *os.File,
) (int, error) {
	pg, err := openPostgres(ctx, o.dsn)
	if err != nil {
		return statusFailed, err
	}
	defer pg.close()
	dir, remove, err := scratch()
	if err != nil {
		return statusFailed, err
	}
	defer remove()
	r := &run{
		options: o, out: out, postgres: pg, dir: dir, machine: report.ThisMachine(pg.version),
		fleet: &targets.Fleet{
			Definitions: definitions, Server: pg.Server, Backends: o.backends, Clients: maxClients(), Dir: pg.dir,
		},
		progress: newProgress(errs, rounds(cases, &o)),
	}
	if err := measure.Perf(); err != nil && !o.noSyscalls {
		fmt.Fprintf(errs, "bench: system calls are not counted: %v\n", err)
	}
	var results report.Results
	err = r.cases(ctx, cases, func(c report.Case) error {
		results.Put(c)
		r.progress.clear()
		fmt.Fprintln(out, c.Markdown())
		return r.keep(c)
	})
	r.progress.clear()
	if err != nil {
		return statusFailed, err
	}
	status, err := r.conclude(&results)
	if err == nil && r.failures > 0 {
		status, err = statusFailed, fmt.Errorf("%d targets or measurements failed", r.failures)
	}
	return status, err
}

// maxClients is what poolers are told to expect: as many as the limit of descriptors allows beside what else they open.
func maxClients() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1000
	}
	return int(min(limit.Max, 50_000)) * 9 / 10
}

// rounds is about how many there will be.
func rounds(cases []scenarios.Case, o *options) (n int) {
	for _, c := range cases {
		targets := len(o.choices)
		if len(c.Targets) > 0 {
			targets = len(c.Targets)
		} else if len(c.Only) > 0 {
			targets = len(c.Only)
		}
		n += targets * roundsOf(c, o.rounds)
	}
	return n
}

// keep writes a case into the directory of the output, so that a run which is interrupted leaves what it has.
func (r *run) keep(c report.Case) error {
	if r.outDir == "" {
		return nil
	}
	kept, err := report.Read(r.outDir)
	if err != nil {
		return err
	}
	kept.Put(c)
	return kept.Write(r.outDir)
}

// conclude compares with the baseline, rewrites the page, and tells whether all is as it should be.
func (r *run) conclude(results *report.Results) (int, error) {
	if r.page != "" {
		kept := *results
		if r.outDir != "" {
			var err error
			if kept, err = report.Read(r.outDir); err != nil {
				return statusFailed, err
			}
		}
		if err := kept.Rewrite(r.page); err != nil {
			return statusFailed, err
		}
	}
	verdicts := results.Verdicts()
	if r.gate != "" {
		return r.compare(verdicts)
	}
	missed := 0
	for _, v := range verdicts {
		if v.Judged && !v.Met {
			missed++
		}
	}
	if missed > 0 {
		fmt.Fprintf(r.out, "%d of %d criteria missed\n", missed, len(verdicts))
		return statusMissed, nil
	}
	return statusOK, nil
}

// compare is the gate.
func (r *run) compare(verdicts []figures.Verdict) (int, error) {
	b, err := report.ReadBaseline(r.gate)
	if r.update {
		if err = b.Take(verdicts, r.machine, time.Now()); err != nil {
			return statusFailed, err
		}
		return statusOK, b.Write(r.gate)
	}
	if err != nil {
		return statusFailed, err
	}
	regressions := b.Compare(verdicts)
	for _, line := range regressions {
		fmt.Fprintln(r.out, "regression:", line)
	}
	if len(regressions) > 0 {
		if !b.Machine.Like(r.machine) {
			fmt.Fprintf(r.out, "the baseline is of another machine (%s, this one %s): -versus an older binary tells a change from that\n",
				b.Machine.CPU, r.machine.CPU)
		}
		return statusMissed, nil
	}
	fmt.Fprintln(r.out, "no regression")
	return statusOK, nil
}

// render writes the reports of results that were measured before.
func render(o *options) error {
	results, err := report.Read(o.outDir)
	if err != nil {
		return err
	}
	if err := results.Write(o.outDir); err != nil {
		return err
	}
	if o.page != "" {
		return results.Rewrite(o.page)
	}
	return nil
}

func listAll(out io.Writer, all []*scenarios.Scenario, definitions []targets.Definition) {
	for _, s := range all {
		fmt.Fprintf(out, "%s: %s; clients %v\n", s.Name, s.About, s.Clients)
		for _, c := range s.Criteria {
			fmt.Fprintf(out, "    %s: %s %s, aim %s\n", c.Name, c.Text, c.Relation(), c.AimText())
		}
	}
	fmt.Fprintln(out)
	for _, d := range definitions {
		fmt.Fprintf(out, "target %s: %s\n", d.Name, d.Title)
	}
}

// firstLine is the beginning of an error's text, for a table.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
