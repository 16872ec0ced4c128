package engine

import (
	"sync/atomic"

	"pgkinetic/engine/auth"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/tlsconfig"
)

// counter has one writer, its worker; anybody may read it.
type counter struct{ v atomic.Uint64 }

func (c *counter) add(n uint64) { c.v.Store(c.v.Load() + n) }
func (c *counter) inc()         { c.add(1) }

// counters of one worker.
type counters struct {
	serverIn       counter // bytes
	serverOut      counter
	settingBatches counter // settings applied at a link
	pins           [pinKinds]counter
	recoveries     [triggers][recoveryOutcomes]counter
	cancelRequests counter // packets from clients
	cancels        counter // connections to PostgreSQL
	logins         counter // to PostgreSQL
	connectsFailed counter
	loginsDelayed  counter // answers to wrong proofs that were held back
	auth           [auth.Cert + 1][outcomeCount]counter
	handshakes     [sides][outcomeCount]counter
	serverErrors   counter
	slowQueries    counter
	backendsLost   counter
	backendsClosed counter
	evictions      [evictionKinds]counter
	moves          counter              // servers that left for another loop
	messages       counter              // of admission, to other loops
	buffersFull    [bufferKinds]counter // reads put off because of a limit
	timeouts       [timeoutKinds]counter
	closed         [reasonCount]counter
	pinned         [pinKinds]atomic.Int64
	prepared       [preparedKinds]counter
	clientsOpen    atomic.Int64
	serversOpen    atomic.Int64
}

// Totals is a snapshot of the process's counters, summed over the loops.
type Totals struct {
	Clients, Servers                   int64
	Waiting                            int64 // requests and logins in the process's queue
	Queries, Transactions              uint64
	ClientLogins, ServerLogins         uint64
	ConnectsFailed, Recoveries         uint64
	CancelRequests, Cancels            uint64
	SettingBatches, BackendsClosed     uint64
	Prepared                           map[string]uint64 // events of prepared statements
	Pins                               map[string]uint64 // by reason, since the start
	Pinned                             map[string]int64  // by reason, now
	BackendsLost, ServerErrors         uint64
	SlowQueries                        uint64
	BytesFromClients, BytesFromServers uint64
	BytesToClients, BytesToServers     uint64
	Moves, Messages                    uint64 // of backends to other loops, of admission to other loops
	BufferBytes                        int64
	BufferLimit                        uint64
	AcceptPaused                       uint64
	Evictions                          map[string]uint64 // servers taken out of their pools, by reason
	Timeouts                           map[string]uint64
	Closed                             map[string]uint64
	AuthAttempts                       map[string]map[string]uint64 // of clients, by method and outcome
	LoginsDelayed                      uint64                       // answers to wrong proofs that were held back
	TLSHandshakes                      map[string]map[string]uint64 // by side (client, server) and outcome
}

// The limits of buffered bytes.
const (
	bufferClient  = iota // max_client_buffer_bytes
	bufferBackend        // max_backend_buffer_bytes
	bufferProcess        // max_buffer_memory
	bufferKinds
)

var bufferNames = [bufferKinds]string{"client", "backend", "process"}

// outcome is how a login or a TLS handshake has ended.
type outcome uint8

const (
	outcomeOK     outcome = iota
	outcomeDenied         // the proof was wrong, or there was none; the certificate is not accepted
	outcomeFailed         // anything else: broken off, not allowed, not possible
	outcomeCount
)

var attemptNames = [outcomeCount]string{"ok", "denied", "failed"}

// side is whose TLS it is.
type side uint8

const (
	sideClient side = iota
	sideServer
	sides
)

var sideNames = [sides]string{"client", "server"}

// handshakeOutcome is that of a TLS handshake that has not succeeded.
func handshakeOutcome(err error) outcome {
	if tlsconfig.Denied(err) {
		return outcomeDenied
	}
	return outcomeFailed
}

func addOutcomes(sum map[string]map[string]uint64, key string, from *[outcomeCount]counter) {
	if sum[key] == nil {
		sum[key] = map[string]uint64{}
	}
	for o := range from {
		sum[key][attemptNames[o]] += from[o].v.Load()
	}
}

var timeoutNames = [timeoutKinds]string{
	"checkout", "pause", "query", "transaction", "idle_client", "idle_transaction", "idle_pin", "client_write", "client_stall",
	"login", "connect", "recovery",
}

// Totals sums the counters of all loops. Any goroutine.
func (e *Engine) Totals() Totals {
	s := Totals{
		AuthAttempts: map[string]map[string]uint64{}, TLSHandshakes: map[string]map[string]uint64{},
		Evictions: map[string]uint64{}, Timeouts: map[string]uint64{}, Closed: map[string]uint64{}, Pins: map[string]uint64{}, Pinned: map[string]int64{}, Prepared: map[string]uint64{},
	}
	var clients trafficTotals
	for _, w := range e.workers {
		c := &w.stats
		s.Clients += c.clientsOpen.Load()
		s.Servers += c.serversOpen.Load()
		s.ServerLogins += c.logins.v.Load()
		s.ConnectsFailed += c.connectsFailed.v.Load()
		for trigger := range c.recoveries {
			for o := range c.recoveries[trigger] {
				s.Recoveries += c.recoveries[trigger][o].v.Load()
			}
		}
		s.CancelRequests += c.cancelRequests.v.Load()
		s.Cancels += c.cancels.v.Load()
		for k := range c.prepared {
			s.Prepared[preparedNames[k]] += c.prepared[k].v.Load()
		}
		for k := range c.pins {
			s.Pins[pinNames[k]] += c.pins[k].v.Load()
			s.Pinned[pinNames[k]] += c.pinned[k].Load()
		}
		s.SettingBatches += c.settingBatches.v.Load()
		s.BackendsLost += c.backendsLost.v.Load()
		s.BackendsClosed += c.backendsClosed.v.Load()
		s.ServerErrors += c.serverErrors.v.Load()
		s.SlowQueries += c.slowQueries.v.Load()
		s.BytesFromServers += c.serverIn.v.Load()
		s.BytesToServers += c.serverOut.v.Load()
		clients.add(&w.strangers)
		s.BufferLimit += c.buffersFull[bufferProcess].v.Load()
		s.Moves += c.moves.v.Load()
		s.Messages += c.messages.v.Load()
		for k := range c.timeouts {
			s.Timeouts[timeoutNames[k]] += c.timeouts[k].v.Load()
		}
		for m := range c.auth {
			addOutcomes(s.AuthAttempts, auth.Method(m).String(), &c.auth[m])
		}
		for k := range c.handshakes {
			addOutcomes(s.TLSHandshakes, sideNames[k], &c.handshakes[k])
		}
		s.LoginsDelayed += c.loginsDelayed.v.Load()
		for k := range c.evictions {
			s.Evictions[evictionNames[k]] += c.evictions[k].v.Load()
		}
		for k := range c.closed {
			if closeReason(k).ofClients() {
				s.Closed[reasonNames[k]] += c.closed[k].v.Load()
			}
		}
	}
	for _, k := range e.registry.traffic.sums() {
		clients.plus(&k.total)
	}
	s.Queries, s.Transactions, s.ClientLogins = clients[trafficQueries], clients[trafficXacts], clients[trafficLogins]
	s.BytesFromClients, s.BytesToClients = clients[trafficReceived], clients[trafficSent]
	s.BufferBytes = reactor.BufferBytes()
	s.Waiting = int64(e.adm.Waiting())
	if e.acceptor != nil {
		s.AcceptPaused = e.acceptor.AcceptPaused()
	}
	return s
}
