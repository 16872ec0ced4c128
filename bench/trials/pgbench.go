package trials

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/pgbench"
)

// pgbenchTrial runs pgbench for each round. rate is the transactions per second of the warm-up, from which the size of the logs is
// foreseen.
type pgbenchTrial struct {
	Setup
	rate float64
}

// warmUp fills the pool, and lets statements be parsed, before the first round; a probe of system calls takes as long.
const (
	warmUp = 2 * time.Second
	probe  = 2 * time.Second
)

func openPgbench(ctx context.Context, s Setup) (Trial, error) {
	t := &pgbenchTrial{Setup: s}
	r, err := t.run(ctx, warmUp, (*exec.Cmd).Run)
	if err != nil {
		return nil, err
	}
	t.rate = r.TPS
	return t, nil
}

// Protocol is that of a target under a protocol: a pooler that cannot carry prepared statements from backend to backend is used
// with the simple one.
func Protocol(wanted string, tracks bool) string {
	if wanted == "prepared" && !tracks {
		return "simple"
	}
	return wanted
}

func (t *pgbenchTrial) run(ctx context.Context, length time.Duration, run func(*exec.Cmd) error) (*pgbench.Result, error) {
	p := t.Case.Pgbench
	b, err := pgbench.Prepare(ctx, t.client(), pgbench.Load{
		Builtin: p.Builtin, Script: p.Script, Scale: t.Scale, Protocol: Protocol(p.Protocol, t.Target.Tracks),
		Clients: t.Case.Clients, Connect: p.Connect, Length: length, Expected: t.rate * length.Seconds(),
	}, t.Dir)
	if err != nil {
		return nil, err
	}
	r, err := b.Finish(run)
	return r, errors.Join(err, b.Remove())
}

func (t *pgbenchTrial) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	var r *pgbench.Result
	spent, err := t.during(func() (err error) {
		r, err = t.run(ctx, t.Length, (*exec.Cmd).Run)
		return err
	})
	if err != nil {
		return round, err
	}
	round = figures.Round{Sample: r.Sample(), Others: spent.share.Others, Disturbed: !spent.share.Calm(), Trouble: r.Trouble}
	return round, t.add(round.Sample, spent, float64(r.Transactions))
}

// Syscalls counts those of a transaction, those of connecting and leaving included.
func (t *pgbenchTrial) Syscalls(ctx context.Context) (float64, error) {
	pids, err := measure.Tree(t.Target.Roots()...)
	if err != nil {
		return 0, err
	}
	var calls float64
	r, err := t.run(ctx, min(probe, t.Length), func(cmd *exec.Cmd) (err error) {
		calls, err = measure.CountSyscalls(pids, filepath.Join(t.Dir, "perf"), cmd)
		return err
	})
	if err != nil {
		return 0, err
	}
	return calls / float64(r.Transactions), nil
}

func (t *pgbenchTrial) Close() error { return nil }
