package configs

// The rows of capacity. The bounds of counters fit the words in which admission keeps them (16 bits for what is bounded
// by backends, 20 bits for waiters).

const (
	pooledScopes = ScopeProcess | ScopeDatabase | ScopeUser
	allScopes    = pooledScopes | ScopeRoute
	maxPermits   = 65535
	maxPlaces    = 16383 // what admission can count in one pool
	maxWaiters   = 1_000_000
	minBuffer    = 32 * kib // a small message (16 KiB) is forwarded only when whole, and another may be behind it
	maxBuffer    = gib
	maxPassword  = 8 << 10
)

var capacityOptions = []Option{
	{
		Section: sectionCapacity, Key: "max_route_in_flight", Kind: KindInt, Default: 100, Min: 1, Max: maxPermits, Scope: allScopes,
		Doc: "Requests of one route that may run at the same time",
	},
	{
		Section: sectionCapacity, Key: "max_route_waiters", Kind: KindInt, Default: 1000, Min: 0, Max: maxWaiters, Scope: allScopes,
		Doc: "Requests of one route that may wait. One more is refused at once. 0: nobody waits",
	},
	{
		Section: sectionCapacity, Key: "max_checkout_waiters", Kind: KindInt, Default: 10000, Min: 0, Max: maxWaiters, Scope: ScopeProcess,
		Doc: "Requests that may wait in the whole process. One more is refused at once",
	},
	{
		Section: sectionCapacity, Key: "pool_max_size", Kind: KindInt, Default: 20, Min: 1, Max: maxPlaces, Scope: pooledScopes,
		Doc: "Backends of one pool; `max_backends` bounds them too",
	},
	{
		Section: sectionCapacity, Key: "max_pinned", Kind: KindInt, Default: MaxPinnedHalf, Min: MaxPinnedHalf, Max: maxPlaces, Scope: allScopes,
		Doc: "Backends of one pool that clients may keep outside a transaction (a temporary table, an advisory lock, …). A statement that would pin one more is refused. -1: half of `pool_max_size`, at least 1",
	},
	{
		Section: sectionCapacity, Key: "max_prepared_statements", Kind: KindInt, Default: 500, Min: 0, Max: 100000, Scope: pooledScopes,
		Doc: "Prepared statements kept on one backend for the clients that share it; the one unused for longest is closed first. 0: they are not tracked, and a client that prepares one by name keeps its backend",
	},
	{
		Section: sectionCapacity, Key: "max_backends", Kind: KindInt, Default: 90, Min: 1, Max: maxPermits, Scope: pooledScopes,
		Doc: "Backends per PostgreSQL host, all pools together. In a database or user entry: backends of all its pools together, beside the host's bound",
	},
	{
		Section: sectionCapacity, Key: "pool_min_idle", Kind: KindInt, Default: 0, Min: 0, Max: maxPlaces, Scope: pooledScopes,
		Doc: "Idle backends that each pool keeps, and opens when it has fewer, as far as its limits allow",
	},
	{
		Section: sectionCapacity, Key: "pool_idle_timeout_ms", Kind: KindInt, Default: 600000, Min: 0, Max: maxMs, Scope: pooledScopes,
		Doc: "Idle time after which a backend is closed. 0: never",
	},
	{
		Section: sectionCapacity, Key: "pool_max_lifetime_ms", Kind: KindInt, Default: 3600000, Min: 0, Max: maxMs, Scope: pooledScopes,
		Doc: "Age, give or take 10 %, at which an idle backend is closed. 0: never",
	},
	{
		Section: sectionCapacity, Key: "connect_timeout_ms", Kind: KindInt, Default: 3000, Min: 1, Max: maxMs, Scope: pooledScopes,
		Doc: "Longest time to connect and log in to PostgreSQL",
	},
	{
		Section: sectionCapacity, Key: "checkout_timeout_ms", Kind: KindInt, Default: 5000, Min: 1, Max: maxMs, Scope: allScopes,
		Doc: "Longest wait of a request for its turn and a backend",
	},
	{
		Section: sectionCapacity, Key: "pause_timeout_ms", Kind: KindInt, Default: 60000, Min: 1, Max: maxMs, Scope: pooledScopes,
		Doc: "Longest wait of a request while its database, its route or the process is paused; the clock of `checkout_timeout_ms` stands still meanwhile",
	},
	{
		Section: sectionCapacity, Key: "query_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: allScopes,
		Doc: "Longest time of a query on its backend (waiting does not count); then it is cancelled. 0: off",
	},
	{
		Section: sectionCapacity, Key: "transaction_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: allScopes,
		Doc: "Longest transaction; then FATAL 25P04. 0: off",
	},
	{
		Section: sectionCapacity, Key: "idle_client_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: allScopes,
		Doc: "Longest time that a client outside a transaction sends nothing; then FATAL 57P05. 0: off",
	},
	{
		Section: sectionCapacity, Key: "idle_transaction_timeout_ms", Kind: KindInt, Default: 60000, Min: 0, Max: maxMs, Scope: allScopes,
		Doc: "Longest time that a client inside a transaction sends nothing; then FATAL 25P03. 0: off",
	},
	{
		Section: sectionCapacity, Key: "idle_pin_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: allScopes,
		Doc: "Longest time that a client outside a transaction sends nothing while it keeps a backend for another reason (a temporary table, an advisory lock, …); then FATAL 57P05. 0: off",
	},
	{
		Section: sectionCapacity, Key: "client_write_timeout_ms", Kind: KindInt, Default: 30000, Min: 1, Max: maxMs, Scope: allScopes,
		Doc: "A client that has output pending must take 64 KiB of it, or all, in this time; else it is closed",
	},
	{
		Section: sectionCapacity, Key: "client_stall_timeout_ms", Kind: KindInt, Default: 30000, Min: 1, Max: maxMs, Scope: allScopes,
		Doc: "A client that holds a backend and owes bytes (the rest of a message, a Sync) must send some in this time, ten times as long within COPY; else it is closed",
	},
	{
		Section: sectionCapacity, Key: "recovery_timeout_ms", Kind: KindInt, Default: 5000, Min: 1, Max: maxMs, Scope: pooledScopes,
		Doc: "Longest time to bring a backend that was left in the middle of something back to idle; then it is closed",
	},
	{
		Section: sectionCapacity, Key: "max_client_buffer_bytes", Kind: KindInt, Default: int(mib), Min: minBuffer, Max: maxBuffer, Scope: pooledScopes,
		Doc: "Bytes from one client that are held until PostgreSQL takes them; then the client is not read",
	},
	{
		Section: sectionCapacity, Key: "max_backend_buffer_bytes", Kind: KindInt, Default: int(mib), Min: minBuffer, Max: maxBuffer, Scope: pooledScopes,
		Doc: "Bytes from one backend that are held until the client takes them; then the backend is not read",
	},
	{
		Section: sectionCapacity, Key: "overload_error_code", Kind: KindSQLState, Default: "53300", Scope: allScopes,
		Doc: "SQLSTATE of the error that a refused request gets",
	},
	{
		Section: sectionCapacity, Key: "reset_query", Kind: KindString, Default: ResetSmart, MaxLen: maxSQL, Scope: pooledScopes, check: checkNotEmpty,
		Doc: "How a backend is cleaned for the next client. `smart`: what a client has left is undone, and nothing is sent after one that left nothing; `discard`: DISCARD ALL after every transaction; anything else: this SQL after every transaction",
	},
	{
		Section: sectionCapacity, Key: "reset_check", Kind: KindBool, Default: false, Scope: pooledScopes,
		Doc: "Ask the backend after each request that may have called a function what was left behind that no text shows (locks, temporary tables, cursors, settings), and undo it. One query more",
	},
}
