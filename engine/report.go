package engine

// What the log tells of the process as a whole: once a minute what it has done,
// and every few seconds, while requests are refused, how many on which routes. A
// refusal has no line of its own: there may be thousands a second.
//
// Owner: the reporter's goroutine. It reads counters that others write.

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pgkinetic/admin/view"
)

const (
	refusalsEvery = 5 * time.Second
	summaryEvery  = time.Minute
	// refusalLines bounds the routes that are named at a time; the rest are summed.
	refusalLines = 20
)

// reporter writes the lines while the engine runs.
type reporter struct {
	log     *slog.Logger
	rows    func() []view.Backpressure
	totals  func() Totals
	traffic func() []view.Stats
	told    map[string]view.Backpressure
	before  Totals
	carried view.Traffic
	at      time.Time // of before and carried
	stop    chan struct{}
	stopped sync.WaitGroup
	ended   sync.Once
}

// startReporter begins the reports.
func (e *Engine) startReporter() {
	r := &reporter{log: e.log, rows: e.Backpressure, totals: e.Totals, traffic: e.Stats, told: map[string]view.Backpressure{}, stop: make(chan struct{})}
	r.before, r.carried, r.at = r.totals(), r.allTraffic(), time.Now()
	e.reporter = r
	r.stopped.Go(r.run)
}

// close ends the reports with a last summary.
func (r *reporter) close() {
	if r == nil {
		return
	}
	r.ended.Do(func() {
		close(r.stop)
		r.stopped.Wait()
		r.refusals()
		r.summary(time.Now())
	})
}

func (r *reporter) run() {
	refusals, summaries := time.NewTicker(refusalsEvery), time.NewTicker(summaryEvery)
	defer refusals.Stop()
	defer summaries.Stop()
	for {
		select {
		case <-refusals.C:
			r.refusals()
		case now := <-summaries.C:
			r.summary(now)
		case <-r.stop:
			return
		}
	}
}

// refusals writes a line for each route on which requests were refused since the
// last time, those with most first.
func (r *reporter) refusals() {
	var news []view.Backpressure
	told := map[string]view.Backpressure{}
	for _, now := range r.rows() {
		before, change := r.told[now.Route], now
		told[now.Route] = now
		if refused(&now) < refused(&before) {
			before = view.Backpressure{} // the label was given to other routes meanwhile
		}
		change.Rejected -= before.Rejected
		change.TimedOut -= before.TimedOut
		change.Shed -= before.Shed
		if refused(&change) > 0 {
			news = append(news, change)
		}
	}
	r.told = told
	slices.SortStableFunc(news, func(a, b view.Backpressure) int { return cmp.Compare(refused(&b), refused(&a)) })
	var rest view.Backpressure
	for i := range news {
		n := &news[i]
		if i < refusalLines {
			r.log.Warn("requests refused", "route", n.Route, "rejected", n.Rejected, "timed_out", n.TimedOut, "shed", n.Shed,
				"in_flight", n.InFlight, "max_in_flight", n.MaxInFlight, "waiting", n.Waiting, "max_waiters", n.MaxWaiters)
			continue
		}
		rest.Rejected += n.Rejected
		rest.TimedOut += n.TimedOut
		rest.Shed += n.Shed
	}
	if len(news) > refusalLines {
		r.log.Warn("requests refused", "further_routes", len(news)-refusalLines, "rejected", rest.Rejected, "timed_out", rest.TimedOut, "shed", rest.Shed)
	}
}

// refused is how many of a row's requests were told no while they could have been
// served.
func refused(b *view.Backpressure) uint64 { return b.Rejected + b.TimedOut + b.Shed }

// summary writes what the process has done since the last time, per second.
func (r *reporter) summary(now time.Time) {
	t, carried := r.totals(), r.allTraffic()
	seconds := now.Sub(r.at).Seconds()
	if seconds <= 0 {
		return
	}
	rate := func(now, before uint64) float64 { return float64(int64(float64(now-before)/seconds*10)) / 10 }
	r.log.Info("stats", "seconds", int64(seconds+0.5), "clients", t.Clients, "servers", t.Servers, "waiting", t.Waiting,
		"transactions_per_s", rate(t.Transactions, r.before.Transactions), "queries_per_s", rate(t.Queries, r.before.Queries),
		"received_per_s", rate(t.BytesFromClients, r.before.BytesFromClients), "sent_per_s", rate(t.BytesFromServers, r.before.BytesFromServers),
		"transaction_us", mean(carried.XactTimeUs-r.carried.XactTimeUs, carried.XactCount-r.carried.XactCount),
		"query_us", mean(carried.QueryTimeUs-r.carried.QueryTimeUs, carried.QueryCount-r.carried.QueryCount),
		"wait_us", mean(carried.WaitTimeUs-r.carried.WaitTimeUs, carried.ServerAssignmentCount-r.carried.ServerAssignmentCount),
		"logins", t.ClientLogins-r.before.ClientLogins, "server_logins", t.ServerLogins-r.before.ServerLogins)
	r.before, r.carried, r.at = t, carried, now
}

// allTraffic sums that of all databases.
func (r *reporter) allTraffic() (sum view.Traffic) {
	for _, s := range r.traffic() {
		sum.XactCount += s.Total.XactCount
		sum.XactTimeUs += s.Total.XactTimeUs
		sum.QueryCount += s.Total.QueryCount
		sum.QueryTimeUs += s.Total.QueryTimeUs
		sum.ServerAssignmentCount += s.Total.ServerAssignmentCount
		sum.WaitTimeUs += s.Total.WaitTimeUs
	}
	return sum
}

func mean(sum, n uint64) uint64 { return sum / max(n, 1) }
