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

// idle reads the memory with few and then with many idle clients that ran a query, each time a while after the last query and
// without asking for memory to be given back. It needs a target that has had no clients before, and so has one round.
type idle struct {
	Setup
	clients *load.Idle
}

func openIdle(_ context.Context, s Setup) (Trial, error) {
	clients, err := load.NewIdle(s.server(), "idle", s.Case.Query)
	return &idle{s, clients}, err
}

func (t *idle) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	few, many := t.Case.Count("few"), t.Case.Clients
	var bytes [2]int64
	spent, err := t.during(func() (err error) {
		for i, n := range [2]int{few, many} {
			if bytes[i], err = t.with(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return round, err
	}
	return figures.Round{Others: spent.share.Others, Sample: figures.Sample{
		figures.IdleBytes: float64(bytes[1]-bytes[0]) / float64(many-few),
		figures.Resident:  float64(bytes[1]) / (1 << 20),
	}}, nil
}

// with is the memory with so many clients.
func (t *idle) with(ctx context.Context, n int) (int64, error) {
	if err := t.clients.Grow(ctx, n); err != nil {
		return 0, err
	}
	select {
	case <-time.After(t.Case.Span("settle_s")):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	bytes, err := measure.Resident(t.Target.Roots()...)
	alive, gone := t.clients.Alive()
	if alive < n {
		gone = fmt.Errorf("%d of %d idle clients are left: %w", alive, n, gone)
	}
	return bytes, errors.Join(err, gone)
}

func (t *idle) Close() error {
	t.clients.Close()
	return nil
}
