package view

import "math"

// What metrics tell, at one moment. Counters run since the start and never fall.

// Metrics is everything of one scrape. Slices are in the order of their names.
type Metrics struct {
	Routes                        []RouteMetrics // at most 200 labels and "other"
	Health                        Health         // as Health tells it at this moment
	Limits                        []Limit        // those of the process, and of its hosts ("host x"), as Limits shows them
	Hosts                         []HostMetrics
	Lookups                       []Count // of hosts' names: found, failed
	HostChanges                   uint64  // pools that moved to another host
	Pools                         []PoolMetrics
	Traffic                       []TrafficMetrics
	Loops                         []LoopMetrics
	Clients                       []Count  // by state: those of the state machine that count as logged in or on their way
	Timeouts                      []Count  // by kind: checkout, query, transaction, idle_client, …
	BufferLimits                  []Count  // by kind: client, backend, process
	Evictions                     []Count  // by reason: idle_timeout, max_lifetime, host_limit, reload, unhealthy, dirty
	Pins                          []Count  // by reason, since the start
	Pinned                        []Count  // by reason, now
	Recoveries                    []Count2 // by trigger and outcome
	SQLStates                     []Count  // of PostgreSQL's errors; beyond 200 codes: "other"
	Prepared                      []Count  // by kind: client, server, texts; now
	PreparedEvents                []Count
	BytesIn, BytesOut             uint64   // from clients; to clients
	ServerBytesIn, ServerBytesOut uint64   // from PostgreSQL; to PostgreSQL
	Handshakes                    []Count2 // by scope (client, server) and outcome
	AuthAttempts                  []Count2 // by method and outcome
	Reloads                       []Count  // by outcome
	Closed                        []Count  // clients, by reason
	Logins, ServerLogins          uint64
	ClientsTotal                  uint64 // connections accepted
	AcceptPaused                  uint64
	Moves                         uint64
	Cancels                       uint64 // CancelRequests of clients
	ConnectsFailed                uint64
	BufferBytes                   int64
	SlowQueries                   uint64
	LogLinesDropped               uint64
}

// Count is a number by one label, Count2 by two.
type (
	Count struct {
		Label string
		N     uint64
	}
	Count2 struct {
		Label, Second string
		N             uint64
	}
)

// RouteMetrics are those of one label. Histograms by cause: those that have waits.
type RouteMetrics struct {
	Route                                 string
	Events                                []Count // by outcome: queued, rejected, …
	Waits                                 []CauseHistogram
	InFlight, Waiting                     int
	LimitInFlight, LimitWaiters           int
	SaturationInFlight, SaturationWaiters float64
	QueryMs, TransactionMs                Histogram
}

// CauseHistogram is the distribution of waits for one cause: route, pool, host, connect, pause.
type CauseHistogram struct {
	Cause string
	Histogram
}

// Histogram is a distribution: Counts[i] (not cumulative) of at most BoundsMs[i], the
// last of Counts beyond all bounds. BoundsMs is shared and not to be changed.
type Histogram struct {
	BoundsMs []float64
	Counts   []uint64
	SumMs    float64
}

// Total is how many there are.
func (h *Histogram) Total() (n uint64) {
	for _, k := range h.Counts {
		n += k
	}
	return n
}

// QuantileMs gives the upper bound of the bucket in which the q-th part of them ends;
// +Inf beyond the last bound, 0 without any.
func (h *Histogram) QuantileMs(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(h.Total())))
	var n uint64
	for i, k := range h.Counts {
		if n += k; k > 0 && n >= rank {
			if i == len(h.BoundsMs) {
				return math.Inf(1)
			}
			return h.BoundsMs[i]
		}
	}
	return 0
}

// BoundedMs is QuantileMs with the last bound for what is beyond it.
func (h *Histogram) BoundedMs(q float64) float64 {
	return min(h.QuantileMs(q), h.BoundsMs[len(h.BoundsMs)-1])
}

// PoolMetrics are those of one database name and user. Beyond the bound of labels
// pools are summed under "other" for both, the oldest checkout excepted, which is the
// highest.
type PoolMetrics struct {
	Database, User                       string
	Active, Idle, Connecting, Recovering int // backends by state
	MaxSize                              int
	Waiting                              int     // requests and logins
	OldestCheckoutMs                     float64 // how long a backend has been with the same client
}

// HostMetrics are those of one PostgreSQL host.
type HostMetrics struct {
	Host string // as Limits names it
	Down bool   // it does not answer; false as long as nobody has tried
}

// TrafficMetrics are the sums of one database name and user.
type TrafficMetrics struct {
	Database, User        string
	Queries, Transactions uint64
	Logins, Refused       uint64 // of clients: those let in, and those not
	Cancels               uint64 // CancelRequests that named one of its clients
	Abrupt                uint64 // clients that have gone without a word
}

// LoopMetrics are those of one event loop.
type LoopMetrics struct {
	Loop      int
	BusyRatio float64 // of the last seconds, between 0 and 1
	Clients   int
	Servers   int
}

// NotReady are the reasons for which clients are not served.
var NotReady = [...]string{"starting", "draining", "paused", "suspended", "no_backend"}

// Health says whether clients are served.
type Health struct {
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"` // one of NotReady; empty: ready
	Detail   string   `json:"detail,omitempty"`
	Failing  []string `json:"failing_hosts,omitempty"`
	Version  string   `json:"version"`
	UptimeMs int64    `json:"uptime_ms"`
	Clients  int64    `json:"clients"`
}
