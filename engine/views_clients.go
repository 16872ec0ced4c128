package engine

// What is to be seen of single clients. A loop copies a clientFact of each; rows are
// made of that elsewhere.

import (
	"crypto/tls"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/reactor"
)

// clientFact is what a loop tells of a client. What it points to does not change.
type clientFact struct {
	id             uint64
	fd             int
	state          clientState
	tenant         tenantNames
	application    string
	route          string
	peer           netip.AddrPort
	local          netip.AddrPort
	peerPID        int
	tls            tlsFact
	method         auth.Method
	pins           pinSet
	canceling      bool
	now            int64
	born, stateAt  int64
	requestAt      int64
	waited         int64
	server         uint64
	serverPID      uint32
	serverFD       int
	prepared       int
	buffers        bufferFact
	clientSettings shownSettings
}

// tenantNames are the names that a client came with.
type tenantNames struct{ database, user string }

// bufferFact is what a connection's buffers hold.
type bufferFact struct {
	in, out  int   // bytes
	gathered int   // of the present message, while it is collected
	rest     int64 // of it, still to come
	drained  int64 // of the output, taken by the peer while it is behind
}

// tlsFact is what a TLS handshake has agreed on; zero: there is no TLS.
type tlsFact struct{ version, cipher uint16 }

func (f tlsFact) String() string {
	if f.version == 0 {
		return ""
	}
	return strings.ReplaceAll(tls.VersionName(f.version), " ", "v") + "/" + tls.CipherSuiteName(f.cipher)
}

func tlsOf(s *reactor.Socket) (f tlsFact) {
	if state, ok := s.ConnectionState(); ok {
		f.version, f.cipher = state.Version, state.CipherSuite
	}
	return f
}

// shownSettings are those that SHOW FDS has columns for.
type shownSettings struct{ encoding, strings, dateStyle, timeZone string }

func settingsFrom(get func(name string) string) shownSettings {
	return shownSettings{get("client_encoding"), get("standard_conforming_strings"), get("DateStyle"), get("TimeZone")}
}

// fact tells what there is of a client that has logged in, or is about to, of a
// console and of a connection that has brought a CancelRequest. On its loop.
func (c *client) fact() (f clientFact, ok bool) {
	canceling := c.state == clientStartup && c.held
	if c.up == nil && c.console == nil && !canceling {
		return f, false
	}
	f = clientFact{
		id: c.id, fd: c.sock.FD(), state: c.state, canceling: canceling, peer: netip.AddrPortFrom(c.peer, c.port), local: c.sock.Local(),
		tls: tlsOf(&c.sock), method: c.method, pins: c.pins & pinReason, now: c.w.now(), born: c.born, stateAt: c.stateAt,
		requestAt: c.requestAt, prepared: c.catalog().Len(),
		buffers: bufferFact{
			in: c.in.Len(), out: c.out.Len(), gathered: len(c.large), rest: c.rest + int64(cap(c.large)-len(c.large)), drained: int64(c.drained),
		},
	}
	if !c.peer.IsValid() {
		f.peerPID = c.sock.PeerPID()
	}
	if c.console != nil {
		f.tenant, f.application = tenantNames{c.console.name, c.console.user}, c.console.app
	}
	if c.up != nil {
		f.tenant, f.application = tenantNames{c.up.tenant.Database, c.up.tenant.User}, c.application()
	}
	if c.route != nil {
		f.route = c.route.label
	}
	if c.waiter != nil {
		f.waited = f.now - c.waiter.Since
	}
	if s := c.srv; s != nil {
		f.server, f.serverPID, f.serverFD = s.number, s.pid, s.sock.FD()
	}
	return f, true
}

// factWithSettings is fact with the client's settings.
func (c *client) factWithSettings() (f clientFact, ok bool) {
	if f, ok = c.fact(); ok && c.up != nil {
		f.clientSettings = settingsFrom(c.setting)
	}
	return f, ok
}

// setting gives what a reported parameter is for c, as far as it is known.
func (c *client) setting(name string) string {
	if c.prof != nil {
		if v, ok := c.prof.Get(name); ok {
			return v
		}
	}
	if snapshot := c.up.pool.snapshot.Load(); snapshot != nil {
		v, _ := snapshot.Get(name)
		return v
	}
	return ""
}

// Clients shows who is connected: those who have logged in, consoles included, and
// those who wait for that or have brought a CancelRequest. Any goroutine but a loop's.
func (e *Engine) Clients() iter.Seq[view.Client] {
	return mapped(askClients(e, (*client).fact), (*clientFact).row)
}

// mapped is seq with each item made into something else.
func mapped[F, R any](seq iter.Seq[F], row func(*F) R) iter.Seq[R] {
	return func(yield func(R) bool) {
		for f := range seq {
			if !yield(row(&f)) {
				return
			}
		}
	}
}

func (f *clientFact) row() view.Client {
	row := view.Client{
		Type: "C", User: f.tenant.user, Database: f.tenant.database, Replication: noReplication, State: f.word(),
		ConnectTime: wallTime(f.now, f.born), RequestTime: wallTime(f.now, f.requestAt),
		Wait: f.waited / second, WaitUs: f.waited % second / us, CloseNeeded: number(f.state >= clientClosing),
		Ptr: clientPtr(f.id), Link: serverPtr(f.server), RemotePID: int64(f.peerPID), TLS: f.tls.String(),
		ApplicationName: f.application, PreparedStatements: f.prepared, ID: f.id,
		Route: f.route, Activity: f.state.String(), StateMs: float64(f.now-f.stateAt) / float64(ms),
		ServerPID: int64(f.serverPID), Pins: f.pins.String(),
	}
	if !f.canceling {
		row.AuthMethod = f.method.String()
	}
	row.Addr, row.Port = shownAddress(f.peer)
	row.LocalAddr, row.LocalPort = shownAddress(f.local)
	return row
}

// word is PgBouncer's for a client's state: an active one has a server.
func (f *clientFact) word() string {
	switch {
	case f.canceling:
		return "active_cancel_req"
	case f.state == clientWaiting, f.state == clientLoginWait:
		return "waiting"
	case f.server == 0:
		return "idle"
	}
	return "active"
}

const (
	second = 1000 * ms
	// noReplication is what PgBouncer calls an ordinary connection.
	noReplication = "none"
	unixAddress   = "unix"
)

// wallTime gives the time of day of a moment of the loops' clock, which shows now;
// the zero time for 0.
func wallTime(now, at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(at - now))
}

func shownAddress(a netip.AddrPort) (addr string, port int) {
	if !a.Addr().IsValid() {
		return unixAddress, 0
	}
	return a.Addr().String(), int(a.Port())
}

// clientPtr and serverPtr are by what rows refer to each other.
func clientPtr(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("c%d", id)
}

func serverPtr(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("s%d", id)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
