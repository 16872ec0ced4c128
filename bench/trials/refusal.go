package trials

import (
	"context"
	"errors"
	"fmt"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
)

// refusal sends the same number of requests over the same number of sessions to a route that serves them and to one that refuses
// them all, in turn. The scenario's rules make the route "full" one that a single client fills.
type refusal struct {
	Setup
	clients *load.Group // classes served, refused
	holder  *load.Group // its permit is held until it goes
}

const (
	served = iota
	refused
)

func openRefusal(ctx context.Context, s Setup) (_ Trial, err error) {
	if err := s.acquaint(ctx); err != nil {
		return nil, err
	}
	t := &refusal{Setup: s}
	t.clients, err = load.Dial(
		s.server(), load.Ordinary,
		load.Class{Application: "served", Query: s.Case.Query, Sessions: s.Case.Clients},
		load.Class{Application: "full", Query: s.Case.Query, Sessions: s.Case.Clients},
	)
	if err == nil {
		t.holder, err = load.Dial(s.server(), load.Ordinary, load.Class{Application: "full", Query: "begin", Sessions: 1})
	}
	if err == nil {
		_, err = t.holder.Repeat(ctx, 0, 1, 1, 0)
	}
	if err == nil {
		_, err = t.Round(ctx, 0) // the pool is filled, buffers have their size
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *refusal) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	var cpu [2]float64
	var share [2]measure.Share
	for class := range cpu {
		if cpu[class], share[class], err = t.cost(ctx, class); err != nil {
			return round, err
		}
	}
	worst := share[0].Worse(share[1])
	return figures.Round{Others: worst.Others, Disturbed: !worst.Calm(), Sample: figures.Sample{
		figures.CPU: cpu[served], figures.RefusalCPU: cpu[refused],
	}}, nil
}

// cost is the pooler's CPU for a request of a class, in µs.
func (t *refusal) cost(ctx context.Context, class int) (float64, measure.Share, error) {
	requests := t.Case.Count("requests")
	var tally *load.Tally
	spent, err := t.during(func() (err error) {
		tally, err = t.clients.Repeat(ctx, class, requests, t.Case.Clients, 0)
		return err
	})
	if err != nil {
		return 0, spent.share, err
	}
	want := [2]int{served: 0, refused: requests}[class]
	if n := tally.Refused.Count(); n != want || tally.Failed > 0 || tally.Lost > 0 {
		err := fmt.Errorf("%d of %d requests were refused, want %d", n, requests, want)
		return 0, spent.share, errors.Join(err, unexpected(tally))
	}
	return spent.pooler.Seconds() * 1e6 / float64(requests), spent.share, nil
}

func (t *refusal) Close() error {
	for _, g := range []*load.Group{t.clients, t.holder} {
		if g != nil {
			g.Close()
		}
	}
	return nil
}
