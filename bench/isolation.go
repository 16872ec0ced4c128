package main

import (
	"fmt"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// Isolation: interactive requests beside a bulk route that is offered a multiple of what it may run, against the same
// requests by themselves.
const (
	bulkRule = `[{"name": "bulk", "match": {"application_name": "bulk-*"},
		"max_route_in_flight": %d, "max_route_waiters": %d}]`
	bulkPause            = 0.02 // s, of pg_sleep
	bulkPerSecond        = 2500 // some 200 that run, and the others refused
	interactivePerSecond = 1000
)

// The criteria of isolation: the p99 of the interactive route beside the bulk route, in parts of its p99 alone, while at
// least so many bulk requests are refused a second.
const (
	maxSlowdown     = 1.2
	minBulkRefusals = 2000
)

// pair is the interactive route alone, and beside the bulk route.
type pair struct {
	alone, beside side
	bulk          *tally
}

type side struct {
	p50, p99 time.Duration
	refused  int
	share
}

// measureIsolation runs pairs of equal length; which half comes first alternates. A pair that did not find the machine calm
// is repeated.
func measureIsolation(server *pgtest.Server, pairs int, length time.Duration) (bool, error) {
	p, err := startWith(server, pooler.Options{Env: []string{fmt.Sprintf("PG_KINETIC_ROUTES="+bulkRule, inFlight, waiters)}})
	if err != nil {
		return false, err
	}
	defer stop(p)
	w, err := watch(server, p)
	if err != nil {
		return false, err
	}
	interactive, err := newLoad(p, "interactive", "select 1", 64)
	if err != nil {
		return false, err
	}
	defer interactive.close()
	bulk, err := newLoad(p, "bulk-load", fmt.Sprintf("select pg_sleep(%g)", bulkPause), overloadSessions)
	if err != nil {
		return false, err
	}
	defer bulk.close()
	if _, err := runPair(w, interactive, bulk, 0, min(length, time.Second)); err != nil { // pools and buffers get their size
		return false, err
	}
	fmt.Fprintf(out, "isolation: %d requests/s alone, and beside %d bulk requests/s of %g ms, %d in flight; %v each\n",
		interactivePerSecond, bulkPerSecond, bulkPause*1e3, inFlight, length)
	fmt.Fprintf(out, "%-6s %9s %9s %9s %9s %6s %8s %8s %9s %6s %6s\n%s\n", "pair", "alone p50", "p99 ms", "beside", "p99 ms",
		"ratio", "refused", "bulk ref", "max gap", "free", "others", rule(95))
	var judged []pair
	for i := 1; len(judged) < pairs && i <= tries(pairs); i++ {
		r, err := runPair(w, interactive, bulk, uint64(i), length)
		if err != nil {
			return false, err
		}
		worst := share{min(r.alone.free, r.beside.free), max(r.alone.others, r.beside.others)}
		if worst.calm() {
			judged = append(judged, r)
		}
		fmt.Fprintf(out, "%-6d %9.3f %9.3f %9.3f %9.3f %6.2f %8d %8.0f %9v %s\n", i, millis(r.alone.p50), millis(r.alone.p99),
			millis(r.beside.p50), millis(r.beside.p99), r.ratio(), r.alone.refused+r.beside.refused, r.bulkRefusals(),
			r.bulk.longestGap().Round(100*time.Microsecond), worst.note())
	}
	fmt.Fprintln(out, rule(95))
	if len(judged) < pairs {
		return notCalm(len(judged), pairs), nil
	}
	return judgeIsolation(judged), nil
}

func (r pair) ratio() float64 { return float64(r.beside.p99) / float64(r.alone.p99) }

func (r pair) bulkRefusals() float64 {
	return float64(len(r.bulk.refused)) * 1e9 / float64(r.bulk.span)
}

// starved tells whether the bulk queue may have been empty: a refusal shows that it was full, and until it is empty as many
// requests must end as may wait.
func (r pair) starved() bool {
	drain := time.Duration(waiters / r.bulk.goodput() * 1e9)
	return r.bulk.longestGap() >= drain
}

func runPair(w watched, interactive, bulk *load, seed uint64, length time.Duration) (r pair, err error) {
	if seed%2 == 0 {
		if r.alone, err = runInteractive(w, interactive, seed, length); err != nil {
			return r, err
		}
	}
	if err := runBeside(w, &r, interactive, bulk, seed, length); err != nil {
		return r, err
	}
	if seed%2 == 1 {
		r.alone, err = runInteractive(w, interactive, seed, length)
	}
	return r, err
}

// fill is how long the bulk load runs before the interactive one beside it begins: its queue is full by then.
const fill = 250 * time.Millisecond

func runBeside(w watched, r *pair, interactive, bulk *load, seed uint64, length time.Duration) error {
	failed := make(chan error, 1)
	go func() {
		var err error
		r.bulk, err = bulk.open(poisson(seed, bulkPerSecond, length+2*fill), length+2*fill)
		failed <- err
	}()
	time.Sleep(fill)
	var err error
	r.beside, err = runInteractive(w, interactive, seed, length)
	if bulkErr := <-failed; err == nil {
		err = bulkErr
	}
	return err
}

func runInteractive(w watched, l *load, seed uint64, length time.Duration) (s side, err error) {
	before, err := w.usage()
	if err != nil {
		return s, err
	}
	t, err := l.open(poisson(seed, interactivePerSecond, length), length)
	if err != nil {
		return s, err
	}
	after, err := w.usage()
	return side{quantile(t.served, 0.5), quantile(t.served, 0.99), len(t.refused), after.since(before)}, err
}

func judgeIsolation(judged []pair) bool {
	slowdown := medianOf(judged, pair.ratio)
	refusals := medianOf(judged, pair.bulkRefusals)
	refused, starved := 0, 0
	for _, r := range judged {
		refused += r.alone.refused + r.beside.refused
		if r.starved() {
			starved++
		}
	}
	ok := slowdown <= maxSlowdown && refused == 0
	loadOK := starved == 0 && refusals >= minBulkRefusals
	fmt.Fprintf(out, "interactive p99 beside a bulk route that is full: %.2f of that alone, %d refused; criterion %.1f, none: %s\n",
		slowdown, refused, maxSlowdown, verdict(ok))
	fmt.Fprintf(out, "bulk route: %.0f refusals/s, queue possibly empty in %d pairs; criterion %d/s, none: %s\n\n",
		refusals, starved, minBulkRefusals, verdict(loadOK))
	return ok && loadOK
}
