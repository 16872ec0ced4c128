package main

import (
	"errors"
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

// pair is the interactive route alone, and beside the bulk route, in turn, a slice of each at a time. Latencies, shares and
// the bulk load are those of the slices that count: where both halves found the machine calm.
type pair struct {
	alone, beside []int64 // latencies of requests served, ns
	counted, busy int     // slices
	sum           share   // over the slices that count, of the busier halves
	refused       int     // interactive requests, of all slices
	bulk          bulkSide
}

// bulkSide is the bulk load of a pair.
type bulkSide struct {
	refused int
	span    int64         // ns
	gap     time.Duration // the longest one without a refusal
	starved bool          // the queue may have been empty: see refusalsCover
}

// measureIsolation runs pairs whose halves alternate in slices, so that both find the same machine.
func measureIsolation(server *pgtest.Server, pairs, slices int, slice time.Duration) (bool, error) {
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
	bulk.rank = background
	if _, err := runPair(w, interactive, bulk, 0, 1, slice); err != nil { // pools and buffers get their size
		return false, err
	}
	fmt.Fprintf(out, "isolation: %d requests/s alone, and beside %d bulk requests/s of %g ms, %d in flight; %d x %v each\n",
		interactivePerSecond, bulkPerSecond, bulkPause*1e3, inFlight, slices, slice)
	fmt.Fprintf(out, "%-6s %9s %9s %9s %9s %6s %8s %8s %9s %6s %6s %5s\n%s\n", "pair", "alone p50", "p99 ms", "beside",
		"p99 ms", "ratio", "refused", "bulk ref", "max gap", "free", "others", "busy", rule(101))
	var judged []pair
	for i := range pairs {
		r, err := runPair(w, interactive, bulk, uint64(i+1), slices, slice)
		if err != nil {
			return false, err
		}
		if r.counted == slices {
			judged = append(judged, r)
		}
		n := float64(max(r.counted, 1))
		fmt.Fprintf(out, "%-6d %9.3f %9.3f %9.3f %9.3f %6.2f %8d %8.0f %9v %5.0f%% %5.0f%% %5d\n", i+1, millisOf(r.alone, 0.5),
			millisOf(r.alone, 0.99), millisOf(r.beside, 0.5), millisOf(r.beside, 0.99), r.ratio(), r.refused, r.bulkRefusals(),
			r.bulk.gap.Round(100*time.Microsecond), r.sum.free/n*100, r.sum.others/n*100, r.busy)
	}
	fmt.Fprintln(out, rule(101))
	if len(judged) < pairs {
		return notCalm(len(judged), pairs), nil
	}
	return judgeIsolation(judged), nil
}

func millisOf(latencies []int64, q float64) float64 { return millis(quantile(latencies, q)) }

func (r pair) ratio() float64 { return millisOf(r.beside, 0.99) / millisOf(r.alone, 0.99) }

func (r pair) bulkRefusals() float64 {
	return float64(r.bulk.refused) * 1e9 / float64(max(r.bulk.span, 1))
}

// half is what one half of a slice has shown.
type half struct {
	*tally
	share
}

// runPair makes slices until so many count, or too many do not. Every other one begins with the other half.
func runPair(w watched, interactive, bulk *load, seed uint64, slices int, slice time.Duration) (r pair, err error) {
	for i := 0; r.counted < slices && i < tries(slices); i++ {
		arrivals := seed<<16 | uint64(i)
		var alone, beside half
		var full *tally
		for k := range 2 {
			if (i+k)%2 == 0 {
				alone, err = runInteractive(w, interactive, arrivals, slice)
			} else {
				beside, full, err = runBeside(w, interactive, bulk, arrivals, slice)
			}
			if err != nil {
				return r, err
			}
		}
		r.add(alone, beside, full)
	}
	return r, nil
}

func (r *pair) add(alone, beside half, bulk *tally) {
	r.refused += len(alone.refused) + len(beside.refused)
	worst := share{min(alone.free, beside.free), max(alone.others, beside.others)}
	if !worst.calm() {
		r.busy++
		return
	}
	r.counted++
	r.sum = share{r.sum.free + worst.free, r.sum.others + worst.others}
	r.alone = append(r.alone, alone.served...)
	r.beside = append(r.beside, beside.served...)
	r.bulk.add(bulk)
}

// fill is how long the bulk load runs before the interactive one beside it begins: its queue is full by then.
const fill = 250 * time.Millisecond

func runBeside(w watched, interactive, bulk *load, seed uint64, slice time.Duration) (h half, full *tally, err error) {
	span := slice + 2*fill
	failed := make(chan error, 1)
	go func() {
		var err error
		full, err = bulk.open(poisson(seed, bulkPerSecond, span), span)
		failed <- err
	}()
	time.Sleep(fill)
	h, err = runInteractive(w, interactive, seed, slice)
	err = errors.Join(err, <-failed)
	return h, full, err
}

func (b *bulkSide) add(t *tally) {
	b.refused += len(t.refused)
	b.span += t.span
	gap := t.longestGap()
	b.gap = max(b.gap, gap)
	b.starved = b.starved || !refusalsCover(gap, t.goodput())
}

// refusalsCover tells whether refusals show that a queue was never empty: each shows that it was full, and until it is empty
// as many requests must end as may wait.
func refusalsCover(gap time.Duration, goodput float64) bool {
	return gap < time.Duration(waiters/goodput*1e9)
}

func runInteractive(w watched, l *load, seed uint64, slice time.Duration) (h half, err error) {
	before, err := w.usage()
	if err != nil {
		return h, err
	}
	if h.tally, err = l.open(poisson(seed, interactivePerSecond, slice), slice); err != nil {
		return h, err
	}
	after, err := w.usage()
	h.share = after.since(before)
	return h, err
}

func judgeIsolation(judged []pair) bool {
	slowdown := medianOf(judged, pair.ratio)
	refusals := medianOf(judged, pair.bulkRefusals)
	refused, starved := 0, 0
	for _, r := range judged {
		refused += r.refused
		if r.bulk.starved {
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
