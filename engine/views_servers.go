package engine

// What is to be seen of single backends, and of all connections together. A loop
// copies a serverFact of each; rows are made of that elsewhere.

import (
	"iter"
	"net/netip"
	"strings"

	"pgkinetic/admin/view"
)

// serverFact is what a loop tells of a server. What it points to does not change.
type serverFact struct {
	number              uint64
	pid                 uint32
	fd                  int
	loop                int
	state               serverState
	pool                *pool
	host                string
	peer, local         netip.AddrPort
	tls                 tlsFact
	used                bool // idle for so long that it is looked at before it serves
	canceling           bool // a cancel for it is on its way
	outdated            bool
	over                bool   // its life is over
	kept                string // why it is open nevertheless
	now                 int64
	born, stateAt       int64
	openedAt, requestAt int64
	client              uint64
	clientFD            int
	application         string
	prepared            int
	queries             uint64
	buffers             bufferFact
	serverSideParameter shownSettings
}

// fact tells what there is of a server. On its loop.
func (s *server) fact() (f serverFact, ok bool) {
	now := s.w.now()
	f = serverFact{
		number: s.number, pid: s.pid, fd: s.sock.FD(), loop: s.w.id, state: s.state, pool: s.pool, peer: s.sock.Peer(), local: s.sock.Local(),
		tls: tlsOf(&s.sock), used: s.used(now), canceling: s.cancel != nil, outdated: s.basis != nil && s.outdated(),
		over: s.openedAt != 0 && s.lifeOver(now), kept: keptReason(s),
		now: now, born: s.born, stateAt: s.stateAt, openedAt: s.openedAt, requestAt: s.requestAt, queries: s.queries,
		buffers: bufferFact{in: s.in.Len(), out: s.out.Len(), rest: s.rest},
	}
	if s.basis != nil {
		f.host = s.basis.host.name
	}
	if s.held != nil {
		f.prepared = s.held.Len()
	}
	if c := s.client; c != nil {
		f.client, f.clientFD, f.application = c.id, c.sock.FD(), c.application()
	}
	return f, true
}

func (s *server) factWithSettings() (f serverFact, ok bool) {
	f, _ = s.fact()
	if s.params != nil {
		f.serverSideParameter = settingsFrom(func(name string) string {
			v, _ := s.params.Get(name)
			return string(v)
		})
	}
	return f, f.fd >= 0
}

// Servers shows the connections to PostgreSQL, those under way included. Any
// goroutine but a loop's.
func (e *Engine) Servers() iter.Seq[view.Server] {
	return mapped(askServers(e, (*server).fact), (*serverFact).row)
}

func (f *serverFact) row() view.Server {
	row := view.Server{
		Type: "S", User: f.pool.key.user, Database: f.pool.name(), Replication: noReplication, State: f.word(),
		ConnectTime: wallTime(f.now, f.openedAt), RequestTime: wallTime(f.now, f.requestAt), CloseNeeded: number(f.closes()),
		Ptr: serverPtr(f.number), Link: clientPtr(f.client), RemotePID: int64(f.pid), TLS: f.tls.String(),
		ApplicationName: f.application, PreparedStatements: f.prepared, ID: f.number,
		Activity: f.state.String(), StateMs: float64(f.now-f.stateAt) / float64(ms), AgeMs: float64(f.now-f.born) / float64(ms),
		Host: f.host, Kept: f.kept, Queries: f.queries, Loop: f.loop,
	}
	row.Addr, row.Port = shownAddress(f.peer)
	row.LocalAddr, row.LocalPort = shownAddress(f.local)
	return row
}

// closes tells whether it is closed as soon as it is released.
func (f *serverFact) closes() bool { return f.outdated || f.over || f.state == serverClosing }

// word is PgBouncer's for a server's state: what is being brought back to a clean
// state, or closed, is tested.
func (f *serverFact) word() string {
	switch f.state {
	case serverConnecting, serverLoggingIn, serverBackoff:
		return "new"
	case serverIdle:
		if f.used {
			return "used"
		}
		return "idle"
	case serverLinked:
		if f.canceling {
			return "active_cancel"
		}
		return "active"
	case serverSettling:
		return "being_canceled"
	}
	return "tested"
}

// Sockets shows what the buffers of all connections hold. States are named here as
// PgBouncer names its lists: clients that are idle are among the active ones. Any goroutine but a
// loop's.
func (e *Engine) Sockets() iter.Seq[view.Socket] {
	return both(mapped(askClients(e, (*client).fact), (*clientFact).socket), mapped(askServers(e, (*server).fact), (*serverFact).socket))
}

// both is one sequence after the other.
func both[R any](first, second iter.Seq[R]) iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, seq := range []iter.Seq[R]{first, second} {
			for row := range seq {
				if !yield(row) {
					return
				}
			}
		}
	}
}

func (f *clientFact) socket() view.Socket {
	c := f.row()
	row := view.Socket{
		Type: c.Type, User: c.User, Database: c.Database, Replication: c.Replication, State: "cl_" + strings.Replace(c.State, "idle", "active", 1),
		Addr: c.Addr, Port: c.Port, LocalAddr: c.LocalAddr, LocalPort: c.LocalPort,
		ConnectTime: c.ConnectTime, RequestTime: c.RequestTime, Wait: c.Wait, WaitUs: c.WaitUs, CloseNeeded: c.CloseNeeded,
		Ptr: c.Ptr, Link: c.Link, RemotePID: c.RemotePID, TLS: c.TLS, ApplicationName: c.ApplicationName,
		PreparedStatements: c.PreparedStatements, ID: c.ID,
	}
	f.buffers.show(&row)
	return row
}

func (f *serverFact) socket() view.Socket {
	s := f.row()
	row := view.Socket{
		Type: s.Type, User: s.User, Database: s.Database, Replication: s.Replication, State: "sv_" + strings.Replace(s.State, "new", "login", 1),
		Addr: s.Addr, Port: s.Port, LocalAddr: s.LocalAddr, LocalPort: s.LocalPort,
		ConnectTime: s.ConnectTime, RequestTime: s.RequestTime, Wait: s.Wait, WaitUs: s.WaitUs, CloseNeeded: s.CloseNeeded,
		Ptr: s.Ptr, Link: s.Link, RemotePID: s.RemotePID, TLS: s.TLS, ApplicationName: s.ApplicationName,
		PreparedStatements: s.PreparedStatements, ID: s.ID,
	}
	f.buffers.show(&row)
	return row
}

func (b bufferFact) show(row *view.Socket) {
	row.RecvPos, row.PktPos, row.PktRemain, row.PktAvail = b.in, b.gathered, b.rest, b.in
	row.SendPos, row.SendRemain, row.SendAvail = int(b.drained), b.out, b.out
}

// FDs shows every descriptor of a connection or a listening socket. Any goroutine
// but a loop's.
func (e *Engine) FDs() iter.Seq[view.FD] {
	listening := func(yield func(view.FD) bool) {
		for _, ln := range e.acceptor.Listeners() {
			row := view.FD{FD: ln.FD(), Task: "pooler", Addr: ln.Address}
			if at, err := netip.ParseAddrPort(ln.Address); err == nil {
				row.Addr, row.Port = shownAddress(at)
			}
			if !yield(row) {
				return
			}
		}
	}
	return both(listening, both(mapped(askClients(e, (*client).factWithSettings), (*clientFact).descriptor),
		mapped(askServers(e, (*server).factWithSettings), (*serverFact).descriptor)))
}

func (f *clientFact) descriptor() view.FD {
	row := view.FD{FD: f.fd, Task: "client", User: f.tenant.user, Database: f.tenant.database, Link: f.serverFD}
	row.Addr, row.Port = shownAddress(f.peer)
	f.clientSettings.show(&row)
	return row
}

func (f *serverFact) descriptor() view.FD {
	row := view.FD{FD: f.fd, Task: "server", User: f.pool.key.user, Database: f.pool.name(), Link: f.clientFD}
	row.Addr, row.Port = shownAddress(f.peer)
	f.serverSideParameter.show(&row)
	return row
}

func (v shownSettings) show(row *view.FD) {
	row.ClientEncoding, row.StdStrings, row.DateStyle, row.TimeZone = v.encoding, v.strings, v.dateStyle, v.timeZone
}
