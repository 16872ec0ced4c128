package trials

import (
	"context"
	"errors"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
)

// isolation compares interactive requests beside a bulk class that is offered a multiple of what it may run with the same requests
// by themselves. Both are offered in slices, in turn, so that both find the same machine.
type isolation struct {
	Setup
	interactive, bulk *load.Group
}

func openIsolation(ctx context.Context, s Setup) (_ Trial, err error) {
	if err := s.acquaint(ctx); err != nil {
		return nil, err
	}
	t := &isolation{Setup: s}
	t.interactive, err = load.Dial(s.server(), load.Measured, load.Class{
		Application: "interactive", Query: "select 1", Sessions: s.Case.Clients,
	})
	if err != nil {
		return nil, err
	}
	t.bulk, err = load.Dial(s.server(), load.Background, load.Class{
		Application: "bulk-load", Query: s.Case.Query, Sessions: s.Case.Count("bulk_sessions"),
	})
	if err == nil {
		_, err = t.beside(ctx, 0) // pools and buffers get their size
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *isolation) Close() error {
	for _, g := range []*load.Group{t.interactive, t.bulk} {
		if g != nil {
			g.Close()
		}
	}
	return nil
}

// half is what one half of a slice has shown; bulk is nil where there was none.
type half struct {
	interactive, bulk *load.Tally
	share             measure.Share
}

func (t *isolation) alone(ctx context.Context, seed uint64) (h half, err error) {
	span := t.Case.Span("slice_s")
	spent, err := t.during(func() error {
		all, err := t.interactive.Offer(ctx, seed, load.Offer{Rate: t.Case.Param("rate"), Span: span})
		if err != nil {
			return err
		}
		h.interactive = all[0]
		return unexpected(all[0])
	})
	h.share = spent.share
	return h, err
}

// fill is how long the bulk load runs before the interactive one beside it begins: its queue is full by then.
const fill = 250 * time.Millisecond

func (t *isolation) beside(ctx context.Context, seed uint64) (h half, err error) {
	var full *load.Tally
	err = load.Beside(ctx, fill, func(ctx context.Context) error {
		all, err := t.bulk.Offer(ctx, seed, load.Offer{Rate: t.Case.Param("bulk_rate"), Span: t.Case.Span("slice_s") + 2*fill})
		if err != nil {
			return err
		}
		full = all[0]
		return unexpected(full)
	}, func() (err error) {
		h, err = t.alone(ctx, seed)
		return err
	})
	h.bulk = full
	return h, err
}

// tries is how often a slice is tried on average at most.
const tries = 3

func (t *isolation) Round(ctx context.Context, n int) (round figures.Round, err error) {
	var p pair
	slices := t.Case.Count("slices")
	halves := [2]func(context.Context, uint64) (half, error){t.alone, t.beside}
	for i := 0; p.counted < slices && i < tries*slices; i++ {
		var found [2]half
		for k := range halves { // every other slice begins with the other half
			k = (k + i) % 2
			if found[k], err = halves[k](ctx, uint64(n+1)<<16|uint64(i)); err != nil {
				return round, err
			}
		}
		p.add(found[0], found[1], t.Case.Count("waiters"))
	}
	return p.round(slices), nil
}

// pair is the two halves of a round. Latencies and the bulk load are those of the slices that count: where both halves found the
// machine roomy; refused are all interactive requests that were.
type pair struct {
	alone, beside, bulk load.Tally
	counted             int
	starved             int // slices in which the bulk queue may have been empty: see refusalsCover
	refused             int
	others              float64
}

func (p *pair) add(alone, beside half, waiters int) {
	p.refused += alone.interactive.Refused.Count() + beside.interactive.Refused.Count()
	worst := alone.share.Worse(beside.share)
	if !worst.Roomy() {
		return
	}
	p.counted++
	p.others += worst.Others
	p.alone.Add(alone.interactive)
	p.beside.Add(beside.interactive)
	p.bulk.Add(beside.bulk)
	if !refusalsCover(beside.bulk.Gap, beside.bulk.Goodput(), waiters) {
		p.starved++
	}
}

// refusalsCover tells whether refusals show that a queue was never empty: each shows that it was full, and until it is empty as
// many requests must end as may wait.
func refusalsCover(gap time.Duration, goodput float64, waiters int) bool {
	return gap < time.Duration(float64(waiters)/goodput*1e9)
}

func (p *pair) round(slices int) figures.Round {
	r := figures.Round{
		Others: p.others / float64(max(p.counted, 1)), Disturbed: p.counted < slices,
		Sample: figures.Sample{figures.WrongOnes: float64(p.refused)},
	}
	if p.counted == 0 {
		return r
	}
	r.Sample[figures.Alone] = millis(p.alone.Served.Quantile(0.99))
	r.Sample[figures.Beside] = millis(p.beside.Served.Quantile(0.99))
	r.Sample[figures.BulkLoad] = float64(p.bulk.Refused.Count()) / p.bulk.Span.Seconds()
	r.Sample[figures.Starved] = float64(p.starved)
	return r
}
