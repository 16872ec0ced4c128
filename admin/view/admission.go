package view

// What is to be seen of admission.

// Backpressure is a row of SHOW BACKPRESSURE: how the routes under one label fare
// together. The counters run since the start.
type Backpressure struct {
	Route       string `col:"route"`         // the label; "other" for those beyond the bound of labels
	InFlight    int    `col:"in_flight"`     // permits out
	MaxInFlight int    `col:"max_in_flight"` // the sums over its live routes
	Waiting     int    `col:"waiting"`       // in the queue
	MaxWaiters  int    `col:"max_waiters"`   // and the queue

	Admitted     uint64 `col:"admitted"`     // given a backend
	Queued       uint64 `col:"queued"`       // had to wait for a permit
	Rejected     uint64 `col:"rejected"`     // refused by a full queue
	TimedOut     uint64 `col:"timed_out"`    // waited for as long as they may, pauses included
	Canceled     uint64 `col:"canceled"`     // by a CancelRequest while they waited
	Disconnected uint64 `col:"disconnected"` // left while they waited
	Shed         uint64 `col:"shed"`         // gave their place in a full queue to a newcomer
	Drained      uint64 `col:"drained"`      // waited when the process was told to stop

	// Of the waits since the start, requests that had a backend at once left out:
	// upper bounds of the histogram's buckets, the last bound for what is beyond it.
	WaitP50Ms    float64 `col:"wait_p50_ms"`
	WaitP99Ms    float64 `col:"wait_p99_ms"`
	OldestWaitMs float64 `col:"oldest_wait_ms"` // how long the oldest of those waits who wait now
}

// Limit is a row of SHOW LIMITS.
type Limit struct {
	Name    string `col:"name"` // as in SET, or of the process
	Value   int64  `col:"value"`
	Current int64  `col:"current"` // in use
	Peak    int64  `col:"peak"`    // the most that was in use
	Origin  string `col:"origin"`  // where the value comes from
	Of      string `col:"of"`      // empty for the process; else "database x", "user x", "host x", "pool x", "route x"
}

// Route is a row of SHOW ROUTES: one live route.
type Route struct {
	Route           string `col:"route"`            // its label
	Pool            string `col:"pool"`             // entry/database/user
	Database        string `col:"database"`         // of the pool
	User            string `col:"user"`             // of the pool
	ApplicationName string `col:"application_name"` // part of the key
	ClientAddr      string `col:"client_addr"`      // part of the key
	QueryClass      string `col:"query_class"`      // part of the key
	Rule            string `col:"rule"`             // its name, or its place in the list; empty for none
	Overflow        bool   `col:"overflow"`         // stands for routes beyond admission.max_routes
	Weight          int    `col:"weight"`           // its share when pools are full
	OnFull          string `col:"on_full"`          // what a full queue does
	Paused          bool   `col:"paused"`           // itself, not only its database or the process
	InFlight        int    `col:"in_flight"`        // permits out
	MaxInFlight     int    `col:"max_in_flight"`    // the most at once
	PeakInFlight    int    `col:"peak_in_flight"`   // the most there were
	Waiting         int    `col:"waiting"`          // in its queue
	MaxWaiters      int    `col:"max_waiters"`      // the most at once
	PeakWaiting     int    `col:"peak_waiting"`     // the most there were
	// What holds for a client of the pool's own user on this route.
	CheckoutTimeoutMs        int64  `col:"checkout_timeout_ms"`
	QueryTimeoutMs           int64  `col:"query_timeout_ms"`
	TransactionTimeoutMs     int64  `col:"transaction_timeout_ms"`
	IdleClientTimeoutMs      int64  `col:"idle_client_timeout_ms"`
	IdleTransactionTimeoutMs int64  `col:"idle_transaction_timeout_ms"`
	OverloadErrorCode        string `col:"overload_error_code"`
}

// Pin is a row of SHOW PINNING: a client that keeps a backend outside a transaction.
type Pin struct {
	Client          uint64  `col:"client"` // its id
	Database        string  `col:"database"`
	User            string  `col:"user"`
	ApplicationName string  `col:"application_name"`
	Route           string  `col:"route"`      // of its request
	Pool            string  `col:"pool"`       // entry/database/user
	ServerPID       uint32  `col:"server_pid"` // of PostgreSQL's process
	Reasons         string  `col:"reasons"`    // comma-separated
	SinceMs         float64 `col:"since_ms"`   // how long
}

// Prepared is a row of SHOW PREPARED: a client's statements, or a backend's copies.
type Prepared struct {
	Client          uint64 `col:"client"`     // its id; 0 for a backend
	Server          uint64 `col:"server"`     // its id; 0 for a client
	ServerPID       uint32 `col:"server_pid"` // of PostgreSQL's process
	Pool            string `col:"pool"`       // entry/database/user
	ApplicationName string `col:"application_name"`
	Statements      int    `col:"statements"` // how many
	Bytes           int    `col:"bytes"`      // of their texts
}

// Request is a request as admission sees it (EXPLAIN ADMISSION).
type Request struct {
	Database, User  string
	ApplicationName string
	ClientAddr      string // without port; empty: a Unix socket
	Query           string // its class counts; empty: a login
}

// Explained is a row of EXPLAIN ADMISSION.
type Explained struct {
	Item  string `col:"item"`
	Value string `col:"value"`
	From  string `col:"from"` // where a limit comes from
}
