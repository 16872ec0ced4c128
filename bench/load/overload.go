package load

import (
	"context"
	"time"
)

// Peak is the best that a service does at loads around its capacity.
type Peak struct {
	Capacity float64       // per second: of a closed loop of as many sessions as requests run at a time
	Goodput  float64       // per second: the best of the sweep
	At       float64       // the offered load that gave it, in parts of the capacity
	Service  time.Duration // p99 of the latency at the lowest load, at which next to nobody waits
}

// sweep is the offered load, in parts of the capacity, of which the best goodput is the peak.
var sweep = []float64{0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5}

// Capacity is how many requests a second a group of one class is served when it has as many under way as may run at a time.
func Capacity(ctx context.Context, g *Group, inFlight int) (float64, error) {
	const each = 100
	t, err := g.Repeat(ctx, 0, each*inFlight, inFlight, 0)
	if err != nil {
		return 0, err
	}
	return float64(t.Served.Count()) / t.Span.Seconds(), nil
}

// Sweep offers loads around a capacity to a group of one class, each for the time step.
func Sweep(ctx context.Context, g *Group, seed uint64, capacity float64, step time.Duration) (Peak, error) {
	p := Peak{Capacity: capacity}
	for i, part := range sweep {
		all, err := g.Offer(ctx, seed<<8|uint64(i), Offer{Rate: part * capacity, Span: step})
		if err != nil {
			return p, err
		}
		if goodput := all[0].Goodput(); goodput > p.Goodput {
			p.Goodput, p.At = goodput, part
		}
		if i == 0 {
			p.Service = all[0].Served.Quantile(0.99)
		}
	}
	return p, nil
}

// Overload offers a multiple of the capacity to a group of one class.
func (p Peak) Overload(ctx context.Context, g *Group, seed uint64, factor float64, span time.Duration) (*Tally, error) {
	all, err := g.Offer(ctx, seed<<8|0xff, Offer{Rate: factor * p.Capacity, Span: span})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Part is a run's goodput in parts of the peak.
func (p Peak) Part(t *Tally) float64 { return t.Goodput() / p.Goodput }

// Bound is the longest time that a request which was not refused should take in a run where so many may wait: the queue
// divided by the rate at which it is served, and the service itself.
func (p Peak) Bound(t *Tally, waiters int) time.Duration {
	return time.Duration(float64(waiters)/t.Goodput()*1e9) + p.Service
}
