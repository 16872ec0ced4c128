package engine

import (
	"errors"

	"golang.org/x/sys/unix"
)

// closeReason says why a connection of ours ended: the closed list used by the
// log, by the counters and, through its SQLSTATE, by what the client is told.
type closeReason uint8

const (
	reasonNone               closeReason = iota
	reasonClientTerminate                // the client sent Terminate
	reasonClientGone                     // the client closed or reset its socket
	reasonClientVanished                 // keepalive or the user time-out found nobody there
	reasonClientProtocol                 // the client broke the protocol
	reasonHandshake                      // TLS did not come about
	reasonNoProxy                        // proxy_protocol is required, and it is no proxy
	reasonDisplaced                      // max_unauthenticated, and it has not proved who it is
	reasonAuthFailed                     // it did not prove who it is, or may not come in
	reasonLoginRefused                   // unknown database, replication, bad parameter, …
	reasonTooManyClients                 // max_clients of process, database or user
	reasonTooManyPools                   // max_pools
	reasonOverload                       // a login that found no room
	reasonLoginTimeout                   // login_timeout_ms
	reasonQueryTimeout                   // query_timeout_ms and the cancel had no effect
	reasonTransactionTimeout             // transaction_timeout_ms
	reasonIdleTransaction                // idle_transaction_timeout_ms
	reasonIdleClient                     // idle_client_timeout_ms
	reasonIdlePin                        // idle_pin_timeout_ms
	reasonClientWrite                    // client_write_timeout_ms
	reasonClientStall                    // client_stall_timeout_ms
	reasonBufferMemory                   // max_buffer_memory exceeded, most unread output
	reasonBackendLost                    // the backend died under an open block or half a message
	reasonStatementMode                  // a block stayed open in statement mode
	reasonDraining                       // shutdown
	reasonKilled                         // KILL, KILL_CLIENT, DISCONNECT
	reasonDisabled                       // DISABLE
	reasonCancelDone                     // a cancel request's connection has served its purpose
	reasonServerIdle                     // pool_idle_timeout_ms
	reasonServerLifetime                 // pool_max_lifetime_ms
	reasonServerReclaimed                // its place was needed by another pool
	reasonServerOutdated                 // RECONNECT, a reload of its database's entry, another host
	reasonServerDisplaced                // its host's name does not stand for its address any more
	reasonServerSilent                   // it did not answer server_check_query, or with an error
	reasonServerRole                     // it does not satisfy target_session_attrs
	reasonServerUnclean                  // it could not be brought back to a clean state
	reasonServerProtocol                 // PostgreSQL broke the protocol, or the count of answers was lost
	reasonServerVanished                 // keepalive or the user time-out found nobody there
	reasonServerGone                     // PostgreSQL closed the connection
	reasonServerRefused                  // PostgreSQL refused the login
	reasonConnectFailed                  // no connection to PostgreSQL
	reasonConnectTimeout                 // connect_timeout_ms
	reasonRecoveryTimeout                // recovery_timeout_ms
	reasonCount
)

var reasonNames = [reasonCount]string{
	reasonNone:               "none",
	reasonClientTerminate:    "client_terminate",
	reasonClientGone:         "client_gone",
	reasonClientVanished:     "client_vanished",
	reasonClientProtocol:     "client_protocol_violation",
	reasonHandshake:          "tls_handshake_failed",
	reasonNoProxy:            "not_from_a_proxy",
	reasonDisplaced:          "max_unauthenticated",
	reasonAuthFailed:         "authentication_failed",
	reasonLoginRefused:       "login_refused",
	reasonTooManyClients:     "too_many_clients",
	reasonTooManyPools:       "too_many_pools",
	reasonOverload:           "overload",
	reasonLoginTimeout:       "login_timeout",
	reasonQueryTimeout:       "query_timeout",
	reasonTransactionTimeout: "transaction_timeout",
	reasonIdleTransaction:    "idle_transaction_timeout",
	reasonIdleClient:         "idle_client_timeout",
	reasonIdlePin:            "idle_pin_timeout",
	reasonClientWrite:        "client_write_timeout",
	reasonClientStall:        "client_stall_timeout",
	reasonBufferMemory:       "buffer_memory",
	reasonBackendLost:        "backend_lost",
	reasonStatementMode:      "statement_mode",
	reasonDraining:           "draining",
	reasonKilled:             "killed",
	reasonDisabled:           "database_disabled",
	reasonCancelDone:         "cancel_done",
	reasonServerIdle:         "idle_timeout",
	reasonServerLifetime:     "max_lifetime",
	reasonServerReclaimed:    "host_limit",
	reasonServerOutdated:     "reload",
	reasonServerDisplaced:    "address_gone",
	reasonServerSilent:       "check_failed",
	reasonServerRole:         "wrong_role",
	reasonServerUnclean:      "dirty",
	reasonServerProtocol:     "server_protocol_violation",
	reasonServerVanished:     "server_vanished",
	reasonServerGone:         "server_gone",
	reasonServerRefused:      "server_refused_login",
	reasonConnectFailed:      "connect_failed",
	reasonConnectTimeout:     "connect_timeout",
	reasonRecoveryTimeout:    "recovery_timeout",
}

// ofClients tells whether it may be why a client's connection ended: of those of servers only why none could be opened. The
// others end clients as reasonBackendLost.
func (r closeReason) ofClients() bool {
	switch r {
	case reasonConnectFailed, reasonConnectTimeout, reasonServerRefused, reasonServerProtocol:
		return true
	}
	return r < reasonServerIdle
}

// eviction is why a server was taken out of its pool.
type eviction uint8

const (
	evictedIdle eviction = iota
	evictedLifetime
	evictedHostLimit
	evictedReload
	evictedUnhealthy
	evictedDirty
	evictionKinds
)

var evictionNames = [evictionKinds]string{"idle_timeout", "max_lifetime", "host_limit", "reload", "unhealthy", "dirty"}

// evictionOf gives the eviction as which a closed server counts, if as any.
func evictionOf(r closeReason) (k eviction, ok bool) {
	switch r {
	case reasonServerIdle:
		return evictedIdle, true
	case reasonServerLifetime:
		return evictedLifetime, true
	case reasonServerReclaimed:
		return evictedHostLimit, true
	case reasonServerOutdated, reasonServerDisplaced:
		return evictedReload, true
	case reasonServerGone, reasonServerVanished, reasonServerProtocol, reasonServerSilent, reasonServerRole:
		return evictedUnhealthy, true
	case reasonServerUnclean, reasonRecoveryTimeout:
		return evictedDirty, true
	}
	return 0, false
}

// gone: there is nobody to whom the client's last message could be sent.
func (r closeReason) gone() bool { return r == reasonClientGone || r == reasonClientVanished }

// vanished tells whether a socket has failed because nobody answers at the other end.
func vanished(err error) bool {
	return errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)
}

// String gives the name that the log shows as cause.
func (r closeReason) String() string { return reasonNames[r] }
