package main

import (
	"errors"
	"fmt"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// The service of the measurements of overload: real PostgreSQL that takes its time without taking the CPU, so that what
// limits is the route's limit and not the machine.
const (
	servicePause = 0.005 // s, of pg_sleep
	inFlight     = 4
	waiters      = 32
	overloaded   = 10 // times the capacity
	// overloadSessions is above inFlight + waiters + what is refused at a time, so that the generator always has a free one.
	overloadSessions = 256
)

// sweep is the offered load, in parts of the capacity, of which the best goodput is the peak. The first one is low enough
// that next to nobody waits: its latencies are the service time.
var sweep = []float64{0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5}

// The criteria of overload: goodput in parts of the peak; p99 in parts of the bound, where a tenth is for what the machine
// adds, since an accepted request waits for many services one after the other and the bound knows the jitter of one; memory
// over the level after the warm-up.
const (
	minGoodput     = 0.95
	maxGrowth      = 0.05
	maxGrowthKiB   = 8 << 10
	maxTailOfBound = 1.1
)

// overloadRound is one sweep and the overload after it.
type overloadRound struct {
	peak, goodput, refused float64       // per second
	service, tail          time.Duration // p99 at the lowest load, and under overload
	share                                // of the machine, under overload
}

// bound is the longest time that an accepted request should take: the queue bound divided by the rate at which the queue is
// served, and the service itself.
func (r *overloadRound) bound() time.Duration {
	return time.Duration(waiters/r.goodput*1e9) + r.service
}

// measureOverload offers ten times what a route can serve. Arrivals are random (exponential gaps), fixed beforehand.
func measureOverload(server *pgtest.Server, rounds int, step, length time.Duration) (bool, error) {
	p, err := startWith(server, pooler.Options{Flags: []string{
		fmt.Sprintf("--capacity.max-route-in-flight=%d", inFlight), fmt.Sprintf("--capacity.max-route-waiters=%d", waiters),
	}})
	if err != nil {
		return false, err
	}
	defer stop(p)
	w, err := watch(server, p)
	if err != nil {
		return false, err
	}
	l, err := newLoad(p, "overload", fmt.Sprintf("select pg_sleep(%g)", servicePause), overloadSessions)
	if err != nil {
		return false, err
	}
	defer l.close()
	capacity, err := warmUp(l, length)
	if err != nil {
		return false, err
	}
	level, err := residentKiB(p.PID())
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "overload: a route of %d in flight and %d waiters, service %g ms, capacity %.0f/s, %d x that for %v\n",
		inFlight, waiters, servicePause*1e3, capacity, overloaded, length)
	fmt.Fprintf(out, "%-6s %9s %9s %7s %10s %9s %9s %6s %6s\n%s\n", "round", "peak/s", "goodput/s", "part", "refused/s", "p99 ms",
		"bound ms", "free", "others", rule(79))
	highest := watchResident(p.PID())
	judged, err := overloadRounds(l, w, rounds, capacity, step, length)
	top, watchErr := highest()
	if err = errors.Join(err, watchErr); err != nil {
		return false, err
	}
	fmt.Fprintln(out, rule(79))
	if len(judged) < rounds {
		return notCalm(len(judged), rounds), nil
	}
	return judgeOverload(judged, level, top), nil
}

// overloadRounds gives the rounds that found the machine calm.
func overloadRounds(
	l *load, w watched, rounds int, capacity float64, step, length time.Duration,
) (judged []overloadRound, err error) {
	for i := 1; len(judged) < rounds && i <= tries(rounds); i++ {
		r, err := measureOverloadRound(l, w, uint64(i), capacity, step, length)
		if err != nil {
			return nil, err
		}
		if r.calm() {
			judged = append(judged, r)
		}
		fmt.Fprintf(out, "%-6d %9.0f %9.0f %7.3f %10.0f %9.2f %9.2f %s\n", i, r.peak, r.goodput, r.goodput/r.peak, r.refused,
			millis(r.tail), millis(r.bound()), r.note())
	}
	return judged, nil
}

// warmUp finds the capacity with as many requests at a time as may run, then lets the pooler see the overload.
func warmUp(l *load, length time.Duration) (capacity float64, err error) {
	const requests = 100 * inFlight
	t, err := l.closed(requests, inFlight)
	if err != nil {
		return 0, err
	}
	capacity = requests * 1e9 / float64(t.span)
	_, err = l.open(poisson(0, overloaded*capacity, length), length)
	return capacity, err
}

func measureOverloadRound(
	l *load, w watched, seed uint64, capacity float64, step, length time.Duration,
) (r overloadRound, err error) {
	for i, part := range sweep {
		t, err := l.open(poisson(seed<<8|uint64(i), part*capacity, step), step)
		if err != nil {
			return r, err
		}
		r.peak = max(r.peak, t.goodput())
		if i == 0 {
			r.service = quantile(t.served, 0.99)
		}
	}
	before, err := w.usage()
	if err != nil {
		return r, err
	}
	t, err := l.open(poisson(seed<<8|0xff, overloaded*capacity, length), length)
	if err != nil {
		return r, err
	}
	after, err := w.usage()
	if err != nil {
		return r, err
	}
	r.share = after.since(before)
	r.goodput, r.tail = t.goodput(), quantile(t.served, 0.99)
	r.refused = float64(len(t.refused)) / length.Seconds()
	return r, nil
}

func judgeOverload(all []overloadRound, level, top int) bool {
	part := medianOf(all, func(r overloadRound) float64 { return r.goodput / r.peak })
	tail := medianOf(all, func(r overloadRound) float64 { return float64(r.tail) / float64(r.bound()) })
	growth := float64(top-level) / float64(level)
	goodputOK, tailOK := part >= minGoodput, tail <= maxTailOfBound
	memoryOK := growth <= maxGrowth && top-level <= maxGrowthKiB
	fmt.Fprintf(out, "goodput under overload: %.3f of the peak; criterion %.2f: %s\n", part, minGoodput, verdict(goodputOK))
	fmt.Fprintf(out, "p99 of accepted requests: %.3f of waiters / goodput + p99 of the service; criterion %.2f: %s\n",
		tail, maxTailOfBound, verdict(tailOK))
	fmt.Fprintf(out, "resident memory: at most %d KiB after %d KiB (%+.1f %%); criterion %.0f %% and %d MiB: %s\n\n",
		top, level, growth*100, maxGrowth*100, maxGrowthKiB>>10, verdict(memoryOK))
	return goodputOK && tailOK && memoryOK
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
