package reactor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// State: handshake is a TLS handshake under way: the loop moves the socket's bytes,
// a goroutine runs crypto/tls over them. They take turns, so that no lock is
// needed: the loop gives the goroutine its turn with input, over the channel turn,
// and the goroutine gives it back with output, by the message back, when it wants
// more input or has ended.
//
// Invariants:
//   - in, inErr, out, ended, outcome and the tls.Conn belong to whom the turn is;
//     started, away, hangup and abandoned are the loop's always
//   - the goroutine holds a token of the helpers only while it has the turn; it
//     has none while it waits for bytes
//   - at most recordBytes of input are read that crypto/tls has not taken
//   - there is no goroutine before the first bytes of a client have come, and none
//     after the socket was closed: abandon ends it where it waits

// handshakeOutMax bounds the output of one turn: certificates of our own.
const handshakeOutMax = 256 << 10

// Securer is the handler of a socket that uses Secure.
type Securer interface {
	Handler
	// OnSecured tells that the handshake has ended. err nil: the socket is secure.
	// Else err says why not: crypto/tls's error, which names the alert; io.EOF if the
	// peer has closed; the socket's error. The peer has been sent an alert then, and
	// the socket is of no use but to be shut and closed: writes fail, reads drop what
	// comes and give its end. It is called once, on the loop, not from inside Secure,
	// and not after Close. It may close the socket, but not detach it; else OnReady
	// follows at once.
	OnSecured(s *Socket, err error)
}

// Security says how a socket is made secure.
type Security struct {
	// Config is used as it is and must not change any more. Renegotiation must be
	// off, as it is by default. Without DynamicRecordSizingDisabled the first
	// writes of a connection are cut into small records.
	Config *tls.Config
	// Client: we are the TLS client and speak first.
	Client bool
	// Helpers lends the tokens to compute with.
	Helpers *Helpers
	// Early is what of the handshake has been read before, at most recordBytes
	// (16 KiB). It is copied.
	Early []byte
}

// Secure begins a TLS handshake, whose end OnSecured of the handler, a Securer,
// tells. What was written before leaves before it; the owner must hold no bytes
// for the socket, and have read none of the peer's but Early. Until then Read and
// the writes give EAGAIN, and there are no events. A hang-up meanwhile is the end
// of the handshake, or is reported after it. How long it may take, and how many
// there are, is for the owner to bound; Close ends it. Loop only, once a socket.
func (s *Socket) Secure(how Security) {
	if s.flags&flagOpen == 0 || s.secure != nil || len(how.Early) > recordBytes {
		panic("BUG: reactor: Secure of a socket that is not open, of a secure one, or with too many early bytes")
	}
	_ = s.handler.(Securer)
	x := &secure{sock: s, wantWrite: s.flags&flagWantWrite != 0}
	h := &handshake{x: x, loop: s.loop, helpers: how.Helpers, turn: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.back.Kind, h.back.Ref = kindHandshake, h
	x.handshake, s.secure = h, x
	if how.Client {
		x.conn = tls.Client((*wire)(x), how.Config)
	} else {
		x.conn = tls.Server((*wire)(x), how.Config)
	}
	if h.in = append(h.in, how.Early...); len(h.in) > 0 || how.Client {
		h.giveTurn()
	} else {
		s.loop.Later(s) // bytes may be there that no event will tell of
	}
}

type handshake struct {
	x       *secure
	loop    *Loop
	helpers *Helpers
	ctx     context.Context
	cancel  context.CancelFunc
	turn    chan struct{}
	back    Message

	buf       []byte
	in        []byte // of buf
	inErr     error  // what comes behind in
	out       []byte
	computing bool // token is held
	token     Token
	ended     bool
	outcome   error

	started   bool
	away      bool // the turn is the goroutine's
	abandoned bool
	hangup    Events
}

// onEvent is an event of the socket. The owner gets none.
func (h *handshake) onEvent(ev Events) Events {
	h.hangup |= ev & Hangup
	if !h.away {
		h.feed()
	}
	return 0
}

// feed gives the goroutine its turn if there is something for it.
func (h *handshake) feed() {
	p := h.loop.records.plain
	n, err := rawRead(int(h.x.sock.fd), p)
	switch {
	case err == unix.EAGAIN:
		return
	case err != nil:
		h.inErr = err
	case n == 0:
		h.inErr = io.EOF
	}
	if h.inErr != nil && !h.started {
		h.finish(h.inErr)
		return
	}
	h.buf = append(h.buf[:0], p[:n]...)
	h.in = h.buf
	h.giveTurn()
}

func (h *handshake) giveTurn() {
	h.away = true
	if h.started {
		h.turn <- struct{}{} // has room: the goroutine has taken the last one
		return
	}
	h.started = true
	go h.run()
}

// onTurn: the goroutine has given the turn back.
func (h *handshake) onTurn() {
	if h.abandoned {
		return
	}
	h.away = false
	_ = h.x.transmit(h.out) // who has reset the connection may have told why: that is still read
	h.out = h.out[:0]
	if h.ended {
		h.finish(h.outcome)
	} else {
		h.feed()
	}
}

// finish ends the handshake. What was read beyond it is the first to be decrypted.
func (h *handshake) finish(err error) {
	x, s := h.x, h.x.sock
	x.handshake = nil
	if x.failed = err; err == nil && len(h.in) > 0 {
		x.rest = h.in
	}
	s.handler.(Securer).OnSecured(s, err)
	if s.secure == x && s.Alive() {
		s.notify(Readable | Writable | h.hangup)
	}
}

// abandon is for a socket that is closed.
func (h *handshake) abandon() {
	h.abandoned = true
	h.cancel()
}

// run is the goroutine.
func (h *handshake) run() {
	h.outcome = errHandshakePanic
	if h.acquire() {
		h.helpers.compute(func() { h.outcome = h.x.conn.Handshake() })
	}
	h.release()
	if h.ctx.Err() == nil {
		h.ended = true
		h.loop.Post(&h.back)
	}
}

var (
	errHandshakePanic = errors.New("the TLS handshake has failed inside pg-kinetic")
	errHandshakeLong  = errors.New("the TLS handshake would send more than 256 KiB at once")
)

// acquire takes a token; false: the socket was closed.
func (h *handshake) acquire() bool {
	token, err := h.helpers.Acquire(h.ctx)
	h.token, h.computing = token, err == nil
	return h.computing
}

func (h *handshake) release() {
	if h.computing {
		h.computing = false
		h.helpers.Release(h.token)
	}
}

// read is crypto/tls's, on the goroutine: without input it gives the turn back.
func (h *handshake) read(p []byte) (n int, err error) {
	for len(h.in) == 0 {
		if h.inErr != nil {
			return 0, h.inErr
		}
		if !h.await() {
			return 0, net.ErrClosed
		}
	}
	n = copy(p, h.in)
	h.in = h.in[n:]
	return n, nil
}

// await waits for a turn; false: the socket was closed.
func (h *handshake) await() bool {
	h.release()
	if h.ctx.Err() != nil {
		return false
	}
	h.loop.Post(&h.back)
	select {
	case <-h.turn:
		return h.acquire()
	case <-h.ctx.Done():
		return false
	}
}

// write is crypto/tls's, on the goroutine.
func (h *handshake) write(p []byte) (n int, err error) {
	if len(h.out)+len(p) > handshakeOutMax {
		return 0, errHandshakeLong
	}
	h.out = append(h.out, p...)
	return len(p), nil
}

// wire is the TLS layer as crypto/tls's connection: of the handshake's goroutine
// first, then of the loop.
type wire secure

func (w *wire) Read(p []byte) (n int, err error) {
	if h := w.handshake; h != nil {
		return h.read(p)
	}
	return (*secure)(w).receive(p)
}

func (w *wire) Write(p []byte) (n int, err error) {
	if h := w.handshake; h != nil {
		return h.write(p)
	}
	r := w.sock.loop.records
	r.sealed = append(r.sealed, p...)
	return len(p), nil
}

// The rest of net.Conn: crypto/tls sets a deadline for its close_notify, and has a
// use for an address only where a client's Config keeps sessions without naming
// the server.

func (w *wire) Close() error                     { return nil }
func (w *wire) LocalAddr() net.Addr              { return wireAddress{} }
func (w *wire) RemoteAddr() net.Addr             { return wireAddress{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

type wireAddress struct{}

func (wireAddress) Network() string { return "reactor" }
func (wireAddress) String() string  { return "reactor" }
