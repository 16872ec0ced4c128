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

// pgbenchTrial runs pgbench for each round. From the warm-up come the transactions per second, by which the size of the logs is
// foreseen, and the time that connecting takes, which pgbench counts as a part of a run's length.
type pgbenchTrial struct {
	Setup
	rate       float64
	connecting time.Duration
}

// probe is the length of the round that counts system calls.
const probe = 2 * time.Second

// The warm-up fills the pool and lets statements be parsed: so many transactions in all, and of each client.
const (
	warmUpAll  = 500
	warmUpEach = 10
)

func openPgbench(ctx context.Context, s Setup) (Trial, error) {
	t := &pgbenchTrial{Setup: s}
	l := t.load()
	l.Transactions = max(warmUpAll/s.Case.Clients, warmUpEach)
	r, err := t.run(ctx, l, (*exec.Cmd).Run)
	if err != nil {
		return nil, err
	}
	t.rate, t.connecting = r.TPS, r.Initial
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

func (t *pgbenchTrial) load() pgbench.Load {
	p := t.Case.Pgbench
	return pgbench.Load{
		Builtin: p.Builtin, Script: p.Script, Scale: t.Scale, Protocol: Protocol(p.Protocol, t.Target.Tracks), Clients: t.Case.Clients,
		Connect: p.Connect,
	}
}

// timed is the load for a length of time in which all clients are connected.
func (t *pgbenchTrial) timed(length time.Duration) pgbench.Load {
	l := t.load()
	l.Length, l.Expected = length+t.connecting, t.rate*length.Seconds()
	return l
}

func (t *pgbenchTrial) run(ctx context.Context, l pgbench.Load, run func(*exec.Cmd) error) (*pgbench.Result, error) {
	b, err := pgbench.Prepare(ctx, t.client(), l, t.Dir)
	if err != nil {
		return nil, err
	}
	r, err := b.Finish(run)
	return r, errors.Join(err, b.Remove())
}

func (t *pgbenchTrial) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	var r *pgbench.Result
	spent, err := t.during(func() (err error) {
		r, err = t.run(ctx, t.timed(t.Length), (*exec.Cmd).Run)
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
	r, err := t.run(ctx, t.timed(min(probe, t.Length)), func(cmd *exec.Cmd) (err error) {
		calls, err = measure.CountSyscalls(pids, filepath.Join(t.Dir, "perf"), cmd)
		return err
	})
	if err != nil {
		return 0, err
	}
	return calls / float64(r.Transactions), nil
}

func (t *pgbenchTrial) Close() error { return nil }
