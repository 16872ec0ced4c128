package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/pgbench"
	"pgkinetic/bench/report"
	"pgkinetic/bench/scenarios"
	"pgkinetic/bench/targets"
	"pgkinetic/bench/trials"
)

// run is one run of the program: the cases one after the other, the rounds of each interleaved over the targets.
//
// Owner: the goroutine that called cases. Invariant: shared are the targets that started and have not been stopped.
type run struct {
	options
	out      io.Writer
	postgres *postgres
	fleet    *targets.Fleet
	dir      string // for the files of loads
	machine  report.Machine
	progress *progress
	shared   []*targets.Target
	left     []report.Skip // targets of the whole run that did not start
	failures int           // targets or trials that failed, other than by not being installed
}

// cases measures the cases and gives what each has shown to done.
func (r *run) cases(ctx context.Context, cases []scenarios.Case, done func(report.Case) error) error {
	if slices.ContainsFunc(cases, func(c scenarios.Case) bool { return c.Kind == "pgbench" }) {
		r.progress.show("filling pgbench's tables")
		server := pgbench.Server{
			Bin: r.postgres.bin, Host: r.postgres.Host, Port: r.postgres.Port, User: r.postgres.User,
			Password: r.postgres.Password, Database: r.postgres.Database,
		}
		if err := pgbench.Fill(ctx, server, r.scale, !r.postgres.ours); err != nil {
			return err
		}
	}
	defer r.stop(&r.shared)
	if slices.ContainsFunc(cases, func(c scenarios.Case) bool { return len(c.Targets) == 0 }) {
		r.shared, r.left = r.start(r.choices)
	}
	for i, c := range cases {
		measured, err := r.oneCase(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		measured.Order = c.Order*1000 + i
		if err := done(measured); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// start starts targets side by side, and tells which it left out.
func (r *run) start(choices []targets.Choice) (started []*targets.Target, left []report.Skip) {
	for _, c := range choices {
		r.progress.show("starting " + c.Name)
		t, err := r.fleet.Start(r.choice(c))
		if err != nil {
			if c.Of == kinetic || !errors.Is(err, targets.ErrNotInstalled) { // without us, there is nothing to judge
				r.failures++
				r.say(err)
			}
			left = append(left, report.Skip{Target: c.Name, Why: firstLine(err)})
			continue
		}
		started = append(started, t)
	}
	return started, left
}

// choice adds the flags of the run to a target that is pg-kinetic, before its own: what a scenario compares stays what it is.
func (r *run) choice(c targets.Choice) targets.Choice {
	if c.Of == kinetic {
		c.Args = slices.Concat(r.kineticArgs, c.Args)
		if c.Binary == "" {
			c.Binary = r.program
		}
	}
	return c
}

func (r *run) stop(started *[]*targets.Target) {
	for _, t := range *started {
		if err := t.Stop(); err != nil {
			r.say(err)
			r.failures++
		}
	}
	*started = nil
}

func (r *run) say(err error) {
	r.progress.clear()
	fmt.Fprintln(r.errors, "bench:", err)
}

// contender is a target in a case.
type contender struct {
	target *targets.Target
	trial  trials.Trial
	series figures.Series
}

func (r *run) oneCase(ctx context.Context, c scenarios.Case) (report.Case, error) {
	k := report.Case{
		Name: c.Name(), About: c.About, Clients: c.Clients, Backends: r.backends, Machine: r.machine, Baseline: r.baseline,
		Measured: time.Now().UTC().Truncate(time.Second),
	}
	running := r.shared
	if len(c.Targets) > 0 {
		running, k.Skipped = r.start(c.Targets)
		defer r.stop(&running)
		k.Baseline, k.Own = c.Targets[0].Name, true
	} else {
		k.Skipped = slices.Clone(r.left)
	}
	contenders := r.open(ctx, c, running, &k)
	defer func() {
		for _, t := range contenders {
			if err := t.trial.Close(); err != nil {
				r.say(err)
			}
		}
	}()
	k.Rounds = roundsOf(c, r.rounds)
	if c.Kind == "pgbench" {
		k.Seconds = r.length.Seconds()
	}
	contenders = r.race(ctx, k.Name, contenders, k.Rounds, &k)
	r.countSyscalls(ctx, k.Name, contenders)
	for _, t := range contenders {
		k.Series = append(k.Series, t.series)
	}
	for _, criterion := range c.Criteria() {
		k.Verdicts = append(k.Verdicts, criterion.Judge(k.Series))
	}
	return k, ctx.Err()
}

// roundsOf is how many rounds of a case are run when so many are asked for.
func roundsOf(c scenarios.Case, asked int) int {
	if c.Rounds > 0 {
		return min(c.Rounds, asked)
	}
	return asked
}

// open makes the trials of the targets that take part ready.
func (r *run) open(ctx context.Context, c scenarios.Case, running []*targets.Target, k *report.Case) (all []*contender) {
	for _, t := range running {
		if len(c.Only) > 0 && !slices.Contains(c.Only, t.Of) {
			continue
		}
		if why, ok := trials.Applies(c, t); !ok {
			k.Skipped = append(k.Skipped, report.Skip{Target: t.Name, Why: why})
			continue
		}
		r.progress.show(fmt.Sprintf("%s: warming %s up", c.Name(), t.Name))
		trial, err := trials.Open(ctx, trials.Setup{
			Case: c, Target: t, Server: r.postgres.Server, Bin: r.postgres.bin, Backends: r.backends, Scale: r.scale,
			Length: r.length, Dir: r.dir, Postmaster: r.postgres.postmaster,
		})
		if err != nil {
			r.leaveOut(ctx, t.Name, err, k)
			continue
		}
		note := t.Definition.Note
		if c.Kind == "pgbench" && trials.Protocol(c.Pgbench.Protocol, t.Tracks) != c.Pgbench.Protocol {
			note = "with the simple protocol: this version cannot carry prepared statements from backend to backend"
		}
		all = append(all, &contender{t, trial, figures.Series{Target: t.Name, Program: t.Describe(), Note: note}})
	}
	return all
}

func (r *run) leaveOut(ctx context.Context, target string, err error, k *report.Case) {
	if ctx.Err() == nil {
		r.failures++
		r.say(fmt.Errorf("%s: %s: %w", k.Name, target, err))
	}
	k.Skipped = append(k.Skipped, report.Skip{Target: target, Why: firstLine(err)})
}

// race runs the rounds; each target begins as often as the others. It gives those that reached the end.
func (r *run) race(ctx context.Context, name string, all []*contender, rounds int, k *report.Case) []*contender {
	for i := range rounds {
		for n := range all {
			t := all[(i+n)%len(all)]
			if t.trial == nil || ctx.Err() != nil {
				continue
			}
			r.progress.show(fmt.Sprintf("%s, round %d of %d, %s", name, i+1, rounds, t.target.Name))
			round, err := t.trial.Round(ctx, i)
			for err == nil && round.Disturbed && r.patient && t.series.Repeated < repetitions*rounds {
				t.series.Repeated++
				round, err = t.trial.Round(ctx, i)
			}
			if err != nil {
				r.leaveOut(ctx, t.target.Name, err, k)
				_ = t.trial.Close() // what was wrong is said
				t.trial = nil
				continue
			}
			t.series.Rounds = append(t.series.Rounds, round)
			r.progress.step(1)
		}
	}
	return slices.DeleteFunc(all, func(t *contender) bool { return t.trial == nil })
}

// repetitions is how often a target's round is repeated on average at most, because strangers used the machine.
const repetitions = 1

// countSyscalls makes a round for each target that gives nothing else.
func (r *run) countSyscalls(ctx context.Context, name string, all []*contender) {
	if r.noSyscalls || measure.Perf() != nil {
		return
	}
	for _, t := range all {
		probe, ok := t.trial.(trials.Probe)
		if !ok || len(t.target.Roots()) == 0 || ctx.Err() != nil {
			continue
		}
		r.progress.show(fmt.Sprintf("%s, counting the system calls of %s", name, t.target.Name))
		calls, err := probe.Syscalls(ctx)
		if err != nil {
			r.say(fmt.Errorf("%s: system calls of %s: %w", name, t.target.Name, err))
			continue
		}
		for i := range t.series.Rounds {
			t.series.Rounds[i].Sample[figures.Syscalls] = calls
		}
	}
}
