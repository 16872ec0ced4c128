package configs

// Capacity is every limit that holds for a client's requests. Load fills Config.Capacity; Effective resolves the one of a
// database and user.
type Capacity struct {
	MaxRouteInFlight         int    `koanf:"max_route_in_flight"`
	MaxRouteWaiters          int    `koanf:"max_route_waiters"`
	MaxCheckoutWaiters       int    `koanf:"max_checkout_waiters"` // of the process; no override
	PoolMaxSize              int    `koanf:"pool_max_size"`
	MaxPinned                int    `koanf:"max_pinned"`              // see Pinnable
	MaxPreparedStatements    int    `koanf:"max_prepared_statements"` // per backend; 0: not tracked
	MaxBackends              int    `koanf:"max_backends"`            // per host; see Effective
	PoolMinIdle              int    `koanf:"pool_min_idle"`
	PoolIdleTimeoutMs        int    `koanf:"pool_idle_timeout_ms"` // 0: never
	PoolMaxLifetimeMs        int    `koanf:"pool_max_lifetime_ms"` // 0: never
	ConnectTimeoutMs         int    `koanf:"connect_timeout_ms"`
	CheckoutTimeoutMs        int    `koanf:"checkout_timeout_ms"`
	PauseTimeoutMs           int    `koanf:"pause_timeout_ms"`
	QueryTimeoutMs           int    `koanf:"query_timeout_ms"`            // 0: off
	TransactionTimeoutMs     int    `koanf:"transaction_timeout_ms"`      // 0: off
	IdleClientTimeoutMs      int    `koanf:"idle_client_timeout_ms"`      // 0: off
	IdleTransactionTimeoutMs int    `koanf:"idle_transaction_timeout_ms"` // 0: off
	IdlePinTimeoutMs         int    `koanf:"idle_pin_timeout_ms"`         // 0: off
	ClientWriteTimeoutMs     int    `koanf:"client_write_timeout_ms"`
	ClientStallTimeoutMs     int    `koanf:"client_stall_timeout_ms"`
	RecoveryTimeoutMs        int    `koanf:"recovery_timeout_ms"`
	MaxClientBufferBytes     int    `koanf:"max_client_buffer_bytes"`
	MaxBackendBufferBytes    int    `koanf:"max_backend_buffer_bytes"`
	OverloadErrorCode        string `koanf:"overload_error_code"` // five of 0-9 A-Z
	ResetQuery               string `koanf:"reset_query"`         // ResetSmart, ResetDiscard, or SQL
	ResetCheck               bool   `koanf:"reset_check"`
}

// MaxPinnedHalf as max_pinned means half of the pool.
const MaxPinnedHalf = -1

// Pinnable returns how many backends of a pool clients may pin outside a transaction.
func (c *Capacity) Pinnable() int {
	if c.MaxPinned == MaxPinnedHalf {
		return max(c.PoolMaxSize/2, 1)
	}
	return c.MaxPinned
}

// Limits is the part of Capacity that a database or a user may override. A nil field was not set there. The field names
// are Capacity's; a test compares the two.
type Limits struct {
	MaxRouteInFlight         *int    `koanf:"max_route_in_flight"`
	MaxRouteWaiters          *int    `koanf:"max_route_waiters"`
	PoolMaxSize              *int    `koanf:"pool_max_size"`
	MaxPinned                *int    `koanf:"max_pinned"`
	MaxPreparedStatements    *int    `koanf:"max_prepared_statements"`
	MaxBackends              *int    `koanf:"max_backends"` // a cap over all pools of the entry, not an override
	PoolMinIdle              *int    `koanf:"pool_min_idle"`
	PoolIdleTimeoutMs        *int    `koanf:"pool_idle_timeout_ms"`
	PoolMaxLifetimeMs        *int    `koanf:"pool_max_lifetime_ms"`
	ConnectTimeoutMs         *int    `koanf:"connect_timeout_ms"`
	CheckoutTimeoutMs        *int    `koanf:"checkout_timeout_ms"`
	PauseTimeoutMs           *int    `koanf:"pause_timeout_ms"`
	QueryTimeoutMs           *int    `koanf:"query_timeout_ms"`
	TransactionTimeoutMs     *int    `koanf:"transaction_timeout_ms"`
	IdleClientTimeoutMs      *int    `koanf:"idle_client_timeout_ms"`
	IdleTransactionTimeoutMs *int    `koanf:"idle_transaction_timeout_ms"`
	IdlePinTimeoutMs         *int    `koanf:"idle_pin_timeout_ms"`
	ClientWriteTimeoutMs     *int    `koanf:"client_write_timeout_ms"`
	ClientStallTimeoutMs     *int    `koanf:"client_stall_timeout_ms"`
	RecoveryTimeoutMs        *int    `koanf:"recovery_timeout_ms"`
	MaxClientBufferBytes     *int    `koanf:"max_client_buffer_bytes"`
	MaxBackendBufferBytes    *int    `koanf:"max_backend_buffer_bytes"`
	OverloadErrorCode        *string `koanf:"overload_error_code"`
	ResetQuery               *string `koanf:"reset_query"`
	ResetCheck               *bool   `koanf:"reset_check"`
}

// RouteLimits is the part of Capacity that a route rule may override. A nil field was not set there. The field names are
// Capacity's; a test compares the two.
type RouteLimits struct {
	MaxRouteInFlight         *int    `koanf:"max_route_in_flight"`
	MaxRouteWaiters          *int    `koanf:"max_route_waiters"`
	MaxPinned                *int    `koanf:"max_pinned"`
	CheckoutTimeoutMs        *int    `koanf:"checkout_timeout_ms"`
	QueryTimeoutMs           *int    `koanf:"query_timeout_ms"`
	TransactionTimeoutMs     *int    `koanf:"transaction_timeout_ms"`
	IdleClientTimeoutMs      *int    `koanf:"idle_client_timeout_ms"`
	IdleTransactionTimeoutMs *int    `koanf:"idle_transaction_timeout_ms"`
	IdlePinTimeoutMs         *int    `koanf:"idle_pin_timeout_ms"`
	ClientWriteTimeoutMs     *int    `koanf:"client_write_timeout_ms"`
	ClientStallTimeoutMs     *int    `koanf:"client_stall_timeout_ms"`
	OverloadErrorCode        *string `koanf:"overload_error_code"`
}

// Effective returns the limits that hold for a request of this database, user and route rule, any of which may be nil: rule
// before user before database before capacity. MaxBackends is the exception: it stays the host's, since those of a database
// and of a user (their Limits.MaxBackends) are caps of their own that hold beside it.
func (c *Config) Effective(db *Database, user *User, route *Route) Capacity {
	e := c.Capacity
	if db != nil {
		db.Limits.apply(&e)
	}
	if user != nil {
		user.Limits.apply(&e)
	}
	if route != nil {
		route.RouteLimits.apply(&e)
	}
	return e
}

// apply writes every limit that is set over the one below it, MaxBackends excepted.
func (l *Limits) apply(c *Capacity) {
	override(&c.MaxRouteInFlight, l.MaxRouteInFlight)
	override(&c.MaxRouteWaiters, l.MaxRouteWaiters)
	override(&c.PoolMaxSize, l.PoolMaxSize)
	override(&c.MaxPinned, l.MaxPinned)
	override(&c.MaxPreparedStatements, l.MaxPreparedStatements)
	override(&c.PoolMinIdle, l.PoolMinIdle)
	override(&c.PoolIdleTimeoutMs, l.PoolIdleTimeoutMs)
	override(&c.PoolMaxLifetimeMs, l.PoolMaxLifetimeMs)
	override(&c.ConnectTimeoutMs, l.ConnectTimeoutMs)
	override(&c.CheckoutTimeoutMs, l.CheckoutTimeoutMs)
	override(&c.PauseTimeoutMs, l.PauseTimeoutMs)
	override(&c.QueryTimeoutMs, l.QueryTimeoutMs)
	override(&c.TransactionTimeoutMs, l.TransactionTimeoutMs)
	override(&c.IdleClientTimeoutMs, l.IdleClientTimeoutMs)
	override(&c.IdleTransactionTimeoutMs, l.IdleTransactionTimeoutMs)
	override(&c.IdlePinTimeoutMs, l.IdlePinTimeoutMs)
	override(&c.ClientWriteTimeoutMs, l.ClientWriteTimeoutMs)
	override(&c.ClientStallTimeoutMs, l.ClientStallTimeoutMs)
	override(&c.RecoveryTimeoutMs, l.RecoveryTimeoutMs)
	override(&c.MaxClientBufferBytes, l.MaxClientBufferBytes)
	override(&c.MaxBackendBufferBytes, l.MaxBackendBufferBytes)
	override(&c.OverloadErrorCode, l.OverloadErrorCode)
	override(&c.ResetQuery, l.ResetQuery)
	override(&c.ResetCheck, l.ResetCheck)
}

// apply writes every limit that is set over the one below it.
func (l *RouteLimits) apply(c *Capacity) {
	override(&c.MaxRouteInFlight, l.MaxRouteInFlight)
	override(&c.MaxRouteWaiters, l.MaxRouteWaiters)
	override(&c.MaxPinned, l.MaxPinned)
	override(&c.CheckoutTimeoutMs, l.CheckoutTimeoutMs)
	override(&c.QueryTimeoutMs, l.QueryTimeoutMs)
	override(&c.TransactionTimeoutMs, l.TransactionTimeoutMs)
	override(&c.IdleClientTimeoutMs, l.IdleClientTimeoutMs)
	override(&c.IdleTransactionTimeoutMs, l.IdleTransactionTimeoutMs)
	override(&c.IdlePinTimeoutMs, l.IdlePinTimeoutMs)
	override(&c.ClientWriteTimeoutMs, l.ClientWriteTimeoutMs)
	override(&c.ClientStallTimeoutMs, l.ClientStallTimeoutMs)
	override(&c.OverloadErrorCode, l.OverloadErrorCode)
}

func override[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}
