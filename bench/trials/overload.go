package trials

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
)

// overload offers a multiple of what a route can serve, with arrivals that the answers do not move. Its service is real PostgreSQL
// that takes its time without taking the CPU (the scenario's query sleeps), so that what limits is the route's limit and not the
// machine.
type overload struct {
	Setup
	group    *load.Group
	capacity float64
	level    int64 // bytes that the pooler had after the warm-up
}

func openOverload(ctx context.Context, s Setup) (Trial, error) {
	if err := s.acquaint(ctx); err != nil {
		return nil, err
	}
	// The clients are more than in flight + waiters + those that are refused at a time: one is always free.
	g, err := load.Dial(s.server(), load.Measured, load.Class{
		Application: "overload", Query: s.Case.Query, Sessions: s.Case.Clients,
	})
	if err != nil {
		return nil, err
	}
	t := &overload{Setup: s, group: g}
	if err := t.warmUp(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return t, nil
}

// warmUp finds the capacity with as many requests at a time as may run, then lets the pooler see the overload.
func (t *overload) warmUp(ctx context.Context) (err error) {
	if t.capacity, err = load.Capacity(ctx, t.group, t.Case.Count("in_flight")); err != nil {
		return err
	}
	peak := load.Peak{Capacity: t.capacity}
	if _, err := peak.Overload(ctx, t.group, 0, t.Case.Param("factor"), t.Case.Span("length_s")); err != nil {
		return err
	}
	t.level, err = measure.Resident(t.Target.Roots()...)
	return err
}

func (t *overload) Round(ctx context.Context, n int) (round figures.Round, err error) {
	highest := measure.PeakResident(t.Target.Roots()[0])
	seed := uint64(n + 1)
	peak, err := load.Sweep(ctx, t.group, seed, t.capacity, t.Case.Span("step_s"))
	if err != nil {
		_, watchErr := highest()
		return round, errors.Join(err, watchErr)
	}
	var tally *load.Tally
	spent, err := t.during(func() (err error) {
		tally, err = peak.Overload(ctx, t.group, seed, t.Case.Param("factor"), t.Case.Span("length_s"))
		return err
	})
	top, watchErr := highest()
	if err = errors.Join(err, watchErr); err != nil {
		return round, err
	}
	if err := unexpected(tally); err != nil {
		return round, err
	}
	growth := float64(max(top-t.level, 0))
	return figures.Round{Others: spent.share.Others, Disturbed: !spent.share.Roomy(), Sample: figures.Sample{
		figures.Peak:        peak.Goodput,
		figures.Goodput:     tally.Goodput(),
		figures.Refusals:    float64(tally.Refused.Count()) / tally.Span.Seconds(),
		figures.P50:         millis(tally.Served.Quantile(0.5)),
		figures.P99:         millis(tally.Served.Quantile(0.99)),
		figures.TailOfBound: float64(tally.Served.Quantile(0.99)) / float64(peak.Bound(tally, t.Case.Count("waiters"))),
		figures.Growth:      growth / (1 << 20),
		figures.GrowthPart:  growth / float64(t.level),
	}}, nil
}

func (t *overload) Close() error {
	t.group.Close()
	return nil
}

// unexpected is the error of a run in which requests got other errors than refusals.
func unexpected(t *load.Tally) error {
	if t.Failed == 0 && t.Lost == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed, %d sessions were lost: %w", t.Failed, t.Lost, t.Err)
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
