package configs

import "fmt"

// Warnings tells combinations of values that are valid but in which one that was set has no effect or an odd one.
// Combinations of defaults alone are never told. hard is the system's hard limit of file descriptors, 0 when unknown.
func Warnings(c *Config, o *Origins, hard uint64) []Problem {
	w := warner{config: c, origins: o}
	w.level(sectionCapacity, c.Capacity, c.PoolMode(nil, nil), nil)
	for i := range c.Databases {
		db := &c.Databases[i]
		w.level(entryAt(sectionDatabases, i), c.Effective(db, nil, nil), c.PoolMode(db, nil), db.MaxClients)
	}
	for i := range c.Users {
		u := &c.Users[i]
		w.level(entryAt(sectionUsers, i), c.Effective(nil, u, nil), c.PoolMode(nil, u), u.MaxClients)
	}
	for i := range c.Routes {
		w.route(i)
	}
	w.process()
	w.security()
	w.operation()
	if need := DescriptorsNeeded(c); hard > 0 && uint64(need) > hard && o.Set("server.max_clients") {
		w.warn("server.max_clients", "%s", tooFewDescriptors(c, hard))
	}
	sortProblems(w.warnings)
	return w.warnings
}

type warner struct {
	config   *Config
	origins  *Origins
	warnings []Problem
}

func (w *warner) warn(path, format string, args ...any) {
	w.warnings = append(w.warnings, Problem{w.origins.Of(path), fmt.Sprintf(format, args...)})
}

// where returns the path at which a setting was written that holds at a level: in the entry, else in capacity; "" when it
// is a default.
func (w *warner) where(level, key string) string {
	for _, path := range []string{level + "." + key, sectionCapacity + "." + key} {
		if w.origins.Set(path) {
			return path
		}
	}
	return ""
}

// concerns reports whether a level is the one to tell a pair of settings at: the entry sets one of them itself.
func (w *warner) concerns(level string, keys ...string) bool {
	for _, key := range keys {
		if w.origins.Set(level + "." + key) {
			return true
		}
	}
	return false
}

// level compares the limits that hold in capacity, in one database entry or in one user entry.
func (w *warner) level(level string, e Capacity, mode PoolMode, maxClients *int) {
	w.routeAndPool(level, &e, mode)
	w.idle(level, &e)
	w.times(level, &e)
	w.waiters(level, &e)
	if maxClients != nil && *maxClients > w.config.Server.MaxClients {
		w.warn(level+".max_clients", "max_clients %d is above server.max_clients %d: the process's limit holds", *maxClients, w.config.Server.MaxClients)
	}
}

func (w *warner) routeAndPool(level string, e *Capacity, mode PoolMode) {
	route, pool := w.where(level, "max_route_in_flight"), w.where(level, "pool_max_size")
	atDefault := e.MaxRouteInFlight == defaultInt("max_route_in_flight") && e.PoolMaxSize == defaultInt("pool_max_size")
	if route != "" && e.MaxRouteInFlight > e.PoolMaxSize && !atDefault && w.concerns(level, "max_route_in_flight", "pool_max_size") {
		w.warn(route, "max_route_in_flight %d is above pool_max_size %d: no more than %d requests of a pool run at the same time", e.MaxRouteInFlight, e.PoolMaxSize, e.PoolMaxSize)
	}
	session := mode == PoolModeSession && w.concerns(level, "max_route_in_flight", "pool_max_size", "pool_mode")
	if at := firstSet(route, pool); at != "" && session && e.MaxRouteInFlight < e.PoolMaxSize {
		w.warn(at, "max_route_in_flight %d is below pool_max_size %d in session mode, where each client holds a permit until it leaves: the pool never fills", e.MaxRouteInFlight, e.PoolMaxSize)
	}
	if host := w.config.Capacity.MaxBackends; pool != "" && e.PoolMaxSize > host && w.concerns(level, "pool_max_size") {
		w.warn(pool, "pool_max_size %d is above capacity.max_backends %d: the host's limit holds", e.PoolMaxSize, host)
	}
}

// idle compares the backends that are kept with what bounds them.
func (w *warner) idle(level string, e *Capacity) {
	const key = "pool_min_idle"
	at, host := w.where(level, key), w.config.Capacity.MaxBackends
	switch {
	case at == "" || !w.concerns(level, key, "pool_max_size"):
	case e.PoolMinIdle > e.PoolMaxSize:
		w.warn(at, "pool_min_idle %d is above pool_max_size %d, which holds", e.PoolMinIdle, e.PoolMaxSize)
	case e.PoolMinIdle > host:
		w.warn(at, "pool_min_idle %d is above capacity.max_backends %d: the host's limit holds", e.PoolMinIdle, host)
	}
}

func (w *warner) times(level string, e *Capacity) {
	at := firstSet(w.where(level, "checkout_timeout_ms"), w.where(level, "connect_timeout_ms"))
	if at != "" && e.CheckoutTimeoutMs < e.ConnectTimeoutMs && w.concerns(level, "checkout_timeout_ms", "connect_timeout_ms") {
		w.warn(at, "checkout_timeout_ms %d is below connect_timeout_ms %d: a request gives up before its connect does", e.CheckoutTimeoutMs, e.ConnectTimeoutMs)
	}
	at = firstSet(w.where(level, "query_timeout_ms"), w.where(level, "transaction_timeout_ms"))
	if e.TransactionTimeoutMs > 0 && e.QueryTimeoutMs > e.TransactionTimeoutMs && w.concerns(level, "query_timeout_ms", "transaction_timeout_ms") {
		w.warn(at, "query_timeout_ms %d is above transaction_timeout_ms %d, which ends the query first", e.QueryTimeoutMs, e.TransactionTimeoutMs)
	}
}

func (w *warner) waiters(level string, e *Capacity) {
	if at := w.where(level, "max_route_waiters"); at != "" && e.MaxRouteWaiters > e.MaxCheckoutWaiters && w.concerns(level, "max_route_waiters") {
		w.warn(at, "max_route_waiters %d is above max_checkout_waiters %d: the process's limit holds", e.MaxRouteWaiters, e.MaxCheckoutWaiters)
	}
}

// process compares limits of the process.
func (w *warner) process() {
	e := &w.config.Capacity
	buffers := int64(e.MaxClientBufferBytes) + int64(e.MaxBackendBufferBytes)
	at := firstSet(w.where(sectionServer, "max_buffer_memory"), w.where(sectionCapacity, "max_client_buffer_bytes"), w.where(sectionCapacity, "max_backend_buffer_bytes"))
	if at != "" && buffers > w.config.Server.MaxBufferMemory {
		w.warn(at, "max_client_buffer_bytes %d + max_backend_buffer_bytes %d are above server.max_buffer_memory %d: one client can fill it", e.MaxClientBufferBytes, e.MaxBackendBufferBytes, w.config.Server.MaxBufferMemory)
	}
}

func firstSet(paths ...string) string {
	for _, path := range paths {
		if path != "" {
			return path
		}
	}
	return ""
}

// defaultInt returns the default of a capacity setting.
func defaultInt(key string) int {
	v, _ := table.byKey[sectionCapacity][key].Default.(int)
	return v
}
