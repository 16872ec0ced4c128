package engine

// Cancel requests.
//
// A client's key is ours: it names loop, slot and generation, and proves itself
// by random bits, so a wrong key costs one look-up and reaches nobody. The
// cancel itself travels to PostgreSQL on a connection of its own, bounded per
// host; the backend is not reused until that connection has closed, so a late
// cancel never hits another client's query.
//
// Owner: a cancelConn belongs to the worker of the server it is for; at most one
// exists per server, and later cancels for it merge.

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"

	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
	"pgkinetic/reaper"
)

// cancelSecret is the random part of a client's key. Protocol 3.0 shows its
// first four bytes, 3.2 all of it.
type cancelSecret [16]byte

// longKeyLen: instance (8) and the whole secret.
const longKeyLen = 8 + len(cancelSecret{})

func (s *cancelSecret) fill() { _, _ = rand.Read(s[:]) } // never fails on Linux

// processID is the number shown as the backend's process id: generation, loop,
// slot.
func (c *client) processID() uint32 {
	return uint32(c.gen)<<24 | uint32(c.w.id)<<16 | uint32(c.slot)
}

// appendKeyData writes c's BackendKeyData.
func (c *client) appendKeyData(dst []byte) []byte {
	var key [longKeyLen]byte
	return protocol.AppendKeyData(dst, c.processID(), c.cancelKey(key[:0]))
}

// cancelKey appends the key that c's cancel requests are to show.
func (c *client) cancelKey(dst []byte) []byte {
	if c.minor < 2 {
		return append(dst, c.secret[:4]...)
	}
	dst = binary.BigEndian.AppendUint64(dst, c.w.eng.instance)
	return append(dst, c.secret[:]...)
}

// keyMatches tells in constant time whether key is c's.
func (c *client) keyMatches(instance uint64, key []byte) bool {
	if c.minor < 2 {
		return len(key) == 4 && subtle.ConstantTimeCompare(key, c.secret[:4]) == 1
	}
	var want [longKeyLen]byte
	binary.BigEndian.PutUint64(want[:], instance)
	copy(want[8:], c.secret[:])
	return subtle.ConstantTimeCompare(key, want[:]) == 1
}

// cancelRequest carries a CancelRequest from the loop where it came in to the
// loop of the client that it names, and back to close its connection.
type cancelRequest struct {
	msg  reactor.Message
	from *worker
	conn *client // the connection it came on; closed when the cancel is done
	slot uint16
	gen  uint8
	key  [256]byte
	n    int
	next *cancelRequest
}

// requestCancel starts what the packet on connection c asks for.
func (c *client) requestCancel(pid uint32, key []byte) {
	w := c.w
	w.stats.cancelRequests.inc()
	loop := int(pid >> 16 & 0xff)
	if loop >= len(w.eng.workers) || len(key) > len(cancelRequest{}.key) {
		c.close(reasonCancelDone)
		return
	}
	r := &cancelRequest{from: w, conn: c, slot: uint16(pid), gen: uint8(pid >> 24), n: len(key)}
	copy(r.key[:], key)
	r.msg.Kind, r.msg.Ref = msgCancel, r
	w.eng.workers[loop].loop.Post(&r.msg)
}

// cancelFor handles a cancelRequest on the named client's loop.
func (w *worker) cancelFor(r *cancelRequest) {
	c := w.slots.get(r.slot, r.gen)
	if c == nil || !c.keyMatches(w.eng.instance, r.key[:r.n]) {
		r.done()
		return
	}
	c.traffic.inc(trafficCancels)
	switch {
	case c.state == clientConsole:
		c.cancelConsole()
		r.done()
	case c.state == clientWaiting:
		c.cancelWaiting()
		r.done()
	case c.state == clientLinked && c.srv.fresh && c.in.Len() > 0:
		c.cancelUnsent()
		r.done()
	case c.state == clientLinked && c.srv.tracker.Owed() > 0:
		w.cancels.start(c.srv, r)
	default:
		r.done()
	}
}

// done sends r home, where its connection is closed.
func (r *cancelRequest) done() {
	r.msg.Kind = msgCancelDone
	r.from.loop.Post(&r.msg)
}

// cancelConn is one connection to PostgreSQL that carries one cancel.
type cancelConn struct {
	sock    reactor.Socket
	timer   reaper.Timer
	w       *worker
	srv     *server
	host    *host
	waiters *cancelRequest
	at      int64
	secure  bool // as its server's connection is
	asked   bool // for TLS
	sent    bool
	next    *cancelConn
}

const (
	cancelTime      = 2000 * ms // from the request to the close of its connection
	cancelsPerHost  = 64
	cancelQueueHost = 1000
)

// cancelTable starts cancels within their host's bound; those beyond it queue
// on this worker.
type cancelTable struct {
	w          *worker
	head, tail *cancelConn
}

// start begins a cancel for s, or joins the one under way. r may be nil.
func (t *cancelTable) start(s *server, r *cancelRequest) {
	if k := s.cancel; k != nil {
		if r != nil {
			r.next, k.waiters = k.waiters, r
		}
		return
	}
	h := s.basis.host
	k := &cancelConn{w: t.w, srv: s, host: h, waiters: r, at: t.w.now(), secure: s.sock.IsSecure()}
	k.timer.Init(k)
	s.cancel = k
	if h.takeCancel() {
		k.dial()
		return
	}
	if h.cancelsQueued.Add(1) > cancelQueueHost {
		h.cancelsQueued.Add(-1)
		k.finish()
		return
	}
	if t.tail == nil {
		t.head = k
	} else {
		t.tail.next = k
	}
	t.tail = k
}

// pump starts queued cancels for which there is room; those that are too old,
// or whose query has ended, are dropped.
func (t *cancelTable) pump() {
	now := t.w.now()
	for t.head != nil {
		k := t.head
		stale := now-k.at > cancelTime || k.srv.tracker.Owed() == 0
		if !stale && !k.host.takeCancel() {
			return
		}
		t.head = k.next
		if t.head == nil {
			t.tail = nil
		}
		k.next = nil
		k.host.cancelsQueued.Add(-1)
		if stale {
			k.finish()
			continue
		}
		k.dial()
	}
}

func (k *cancelConn) dial() {
	fd, unixDomain, err := k.host.dialAgain(k.srv)
	if err == nil {
		err = k.w.loop.Add(&k.sock, fd, unixDomain, k)
	}
	if err != nil {
		k.host.cancels.Add(-1)
		k.finish()
		return
	}
	k.sock.WantWrite(true) // a Unix socket reports that it is connected only when asked to
	k.w.stats.cancels.inc()
	k.w.loop.Wheel().Schedule(&k.timer, k.at+cancelTime)
}

// OnReady: connected (ask for TLS, or write the packet), answered, or PostgreSQL has
// closed.
func (k *cancelConn) OnReady(_ *reactor.Socket, ev reactor.Events) {
	w := k.w
	if ev&(reactor.Writable|reactor.Readable) != 0 {
		k.write()
	}
	var b [16]byte
	n, err := k.sock.Read(b[:])
	switch {
	case ev&reactor.Hangup != 0, err != nil && err != errAgain:
		k.close()
	case err == nil && k.asked && !k.sent && !k.sock.IsSecure() && n == 1 && b[0] == 'S':
		x := w.eng.settings.Load().security.tls
		k.sock.Secure(reactor.Security{Config: x.Server(k.host.target), Client: true, Helpers: w.eng.helpers})
	case err == nil:
		k.close() // what was encrypted is not cancelled in clear
	}
	w.drainTodo()
}

// write sends what is due.
func (k *cancelConn) write() {
	w := k.w
	p, due := w.answer[:0], &k.sent
	switch {
	case k.sent:
		return
	case k.secure && !k.sock.IsSecure():
		if k.asked {
			return
		}
		p, due = protocol.AppendSSLRequest(p), &k.asked
	default:
		p = protocol.AppendCancelRequest(p, k.srv.pid, k.srv.key)
	}
	w.answer = p
	n, err := k.sock.Write(p)
	*due = err == nil && n == len(p)
	k.sock.WantWrite(!*due)
}

// OnSecured: the TLS handshake has ended; an event follows.
func (k *cancelConn) OnSecured(_ *reactor.Socket, err error) {
	if err != nil {
		k.close()
		k.w.drainTodo()
	}
}

// Fire: the cancel connection was not closed in time, so a cancel may still be
// on its way: the backend cannot be used again.
func (k *cancelConn) Fire(int64) int64 {
	w := k.w
	k.srv.doomed = true
	k.close()
	w.drainTodo()
	return 0
}

func (k *cancelConn) close() {
	k.w.loop.Wheel().Cancel(&k.timer)
	k.sock.Close()
	k.host.cancels.Add(-1)
	k.finish()
	k.w.cancels.pump()
}

// finish frees the server from this cancel and tells those who asked.
func (k *cancelConn) finish() {
	s := k.srv
	s.cancel = nil
	for r := k.waiters; r != nil; {
		next := r.next
		r.next = nil
		r.done()
		r = next
	}
	k.waiters = nil
	if s.state == serverSettling {
		s.free()
	}
}
