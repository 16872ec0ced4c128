package engine

// Opening a server: dial, TLS, login, connect_query. Admission orders it (Open) and
// bounds how many logins of a host run at a time. A host that does not answer is
// tried again while a request waits for it; a refused login concerns its pool
// only and is told at once.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"

	"pgkinetic/admission"
	"pgkinetic/backend"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
	"pgkinetic/reaper"
)

// loginRun is a server's login while it lasts. A second attempt, with TLS where the
// first one was without or the other way round, goes on with it.
type loginRun struct {
	encryption *backend.Encryption
	tls        *tls.Config
	machine    *backend.Login  // nil until what is to be encrypted is
	msg        reactor.Message // carries the server back from a helper
	asked      bool            // for TLS: the answer is awaited
	roleAsked  bool            // what decides whether it does for target_session_attrs
	role       backend.Fit     // the answer
	hello      bool            // connect_query is being run
	ready      bool            // the last ReadyForQuery has come
}

// open begins an attempt to connect s, whose place is reserved.
func (s *server) open() {
	if s.state != serverConnecting { // it has been begun anew with another server
		return
	}
	now := s.w.now()
	if s.basis == nil {
		s.takeBasis()
		if s.place.Host() != s.basis.host.adm { // reserved before the pool went to another one
			s.postpone(now)
			return
		}
	}
	if cause, held := s.pool.logins.Held(now); held {
		s.openFailed(reasonServerRefused, cause)
		return
	}
	if s.login == nil {
		x, h := s.w.eng.settings.Load().security.tls, s.basis.host.target
		s.login = &loginRun{encryption: backend.NewEncryption(x.ServerMode(), h.Network), tls: x.Server(h)}
		s.until = now + int64(s.pool.limits.Load().ConnectTimeoutMs)*ms
		s.w.loop.Wheel().Schedule(&s.timer, s.until)
	}
	s.basis.host.resolve(s)
}

// dialUntil is how long an address may take to accept: a fair part of
// connect_timeout_ms where the host has several. One that is known to fail is not
// given all of it either: where packets are lost, a new attempt
// finds out sooner that it is back, and another of the list may be of use meanwhile.
func (s *server) dialUntil(now int64) int64 {
	parts := int64(1)
	if s.resolved != nil {
		parts = int64(len(s.resolved.addrs))
	}
	if s.basis.host.state.FailingFor(now) > 0 {
		parts = max(parts, failingDial)
	}
	return now + (s.until-now)/parts
}

// failingDial is into how many parts connect_timeout_ms is divided for that.
const failingDial = 3

// postpone lets admission find another place for an attempt that has not begun.
func (s *server) postpone(now int64) {
	s.setState(serverBackoff)
	if !s.w.adm.Failed(s.w.id, now, s.place) {
		s.forgotten()
		return
	}
	s.w.loop.Wheel().Schedule(&s.timer, now+reaper.Tick)
}

// dial connects to address, which the host's resolver gave.
func (s *server) dial(network, address string) {
	s.dialledAt = s.w.now()
	s.w.loop.Wheel().Schedule(&s.timer, s.dialUntil(s.dialledAt))
	fd, inProgress, err := s.w.eng.backendSockets().Dial(network, address)
	if err != nil {
		s.openFailed(reasonConnectFailed, s.connectError(err))
		return
	}
	// Write interest only while output is pending, over TCP as well: a server that
	// moves between loops would report itself writable at every arrival.
	if err := s.w.loop.Add(&s.sock, fd, true, s); err != nil {
		reactor.CloseFD(fd)
		s.openFailed(reasonConnectFailed, s.connectError(err))
		return
	}
	if inProgress {
		s.sock.WantWrite(true)
		return
	}
	s.connected()
}

// connected: the dial has ended one way or the other.
func (s *server) connected() {
	if err := s.sock.Error(); err != nil {
		s.openFailed(reasonConnectFailed, s.connectError(err))
		return
	}
	s.sock.WantWrite(false)
	s.w.loop.Wheel().Schedule(&s.timer, s.until)
	s.setState(serverLoggingIn)
	request, ask := s.login.encryption.Start(nil)
	if s.login.asked = ask; ask {
		s.send(request)
	} else {
		s.greet(nil)
	}
	s.onReadable()
}

// greet begins the login, which is bound to the TLS connection by endPoint.
func (s *server) greet(endPoint []byte) {
	run := s.login
	run.machine = backend.NewLogin(s.basis.login)
	run.machine.BindTo(endPoint)
	s.send(run.machine.Start(nil))
}

// encryptionAnswered takes what PostgreSQL says to the request for TLS, p being all
// that it has sent.
func (s *server) encryptionAnswered(p []byte) {
	run := s.login
	reply, err := run.encryption.Answer(p)
	switch {
	case err != nil:
		s.openFailed(reasonServerRefused, err)
	case reply == backend.Handshake:
		run.asked = false
		s.push()
		s.sock.Secure(reactor.Security{Config: run.tls, Client: true, Helpers: s.w.eng.helpers})
	case reply == backend.InClear:
		run.asked = false
		s.greet(nil)
	}
}

// OnSecured: the TLS handshake has ended.
func (s *server) OnSecured(_ *reactor.Socket, err error) {
	w := s.w
	if s.state != serverLoggingIn {
		return
	}
	if err != nil {
		w.stats.handshakes[sideServer][handshakeOutcome(err)].inc()
		s.openFailed(reasonConnectFailed, &backend.HandshakeError{Err: err})
	} else {
		w.stats.handshakes[sideServer][outcomeOK].inc()
		state, _ := s.sock.ConnectionState()
		s.greet(endPoint(state.PeerCertificates))
	}
	w.drainTodo()
}

// feedLogin walks the server's messages of a login.
func (s *server) feedLogin(p []byte) {
	if s.login.asked {
		s.encryptionAnswered(p)
		return
	}
	for len(p) > 0 && s.state == serverLoggingIn {
		typ, size, err := protocol.PeekBackend(p)
		if err == protocol.ErrShort {
			break
		}
		if err != nil || size-protocol.HeaderLen > backend.LoginLimit(typ) && !s.login.hello && !s.login.roleAsked {
			s.openFailed(reasonServerProtocol, backend.Unframed(p))
			return
		}
		if size > len(p) {
			if size > len(s.w.loop.Scratch()) {
				s.openFailed(reasonServerProtocol, backend.Unframed(p))
				return
			}
			break
		}
		s.loginMessage(typ, p[protocol.HeaderLen:size])
		p = p[size:]
	}
	switch {
	case s.state != serverLoggingIn:
	case s.login.ready && len(p) == 0:
		s.opened()
	default:
		s.in.Append(s.w.loop, p)
	}
}

func (s *server) loginMessage(typ byte, body []byte) {
	run := s.login
	switch {
	case run.ready:
		s.earlyMessage(typ, body)
		return
	case run.roleAsked:
		s.roleMessage(typ, body)
		return
	case run.hello:
		s.helloMessage(typ, body)
		return
	}
	out, step, err := run.machine.Receive(typ, body, nil)
	s.loginStep(out, step, err)
}

func (s *server) loginStep(out []byte, step backend.Step, err error) {
	run := s.login
	if err != nil {
		s.openFailed(reasonServerRefused, err)
		return
	}
	if len(out) > 0 {
		s.send(out)
	}
	switch step {
	case backend.Compute:
		run.msg.Kind, run.msg.Ref = msgComputed, s
		w := s.w
		if !w.eng.helpers.Submit(w.loop, &run.msg, run.machine.Compute) {
			s.openFailed(reasonConnectFailed, s.connectError(errHelpersBusy))
		}
	case backend.Done:
		s.params = run.machine.Params()
		s.pid, s.key = run.machine.PID(), run.machine.Key()
		s.tracker.Reset()
		s.judge()
	}
}

// earlyMessage takes what came in the same read as the end of the login: the
// server is not handed to anybody before all of it has been seen.
func (s *server) earlyMessage(typ byte, body []byte) {
	switch typ {
	case protocol.BackendErrorResponse:
		s.openFailed(reasonServerRefused, &backend.RefusedError{Fields: protocol.DecodeError(body)})
	case protocol.BackendParameterStatus:
		if name, value, ok := protocol.DecodeParameterStatus(body); ok {
			s.params.Set(name, value)
		}
	}
}

// computed: the helper has derived the keys.
func (s *server) computed() {
	if s.state != serverLoggingIn || s.login == nil {
		return
	}
	s.loginStep(s.login.machine.Computed(nil))
}

// helloMessage takes the answers to connect_query.
func (s *server) helloMessage(typ byte, body []byte) {
	switch typ {
	case protocol.BackendErrorResponse:
		e := protocol.DecodeError(body)
		e.Detail = "connect_query of the database's entry failed."
		s.openFailed(reasonServerRefused, &backend.RefusedError{Fields: e})
	case protocol.BackendParameterStatus:
		if name, value, ok := protocol.DecodeParameterStatus(body); ok {
			s.params.Set(name, value)
		}
	case protocol.BackendCopyInResponse, protocol.BackendCopyOutResponse, protocol.BackendCopyBothResponse:
		s.openFailed(reasonServerProtocol, &backend.UnableError{
			Message: "connect_query starts a COPY", Hint: "use statements without COPY",
		})
	case protocol.BackendReadyForQuery:
		if status, ok := protocol.DecodeReady(body); !ok || status != 'I' {
			s.openFailed(reasonServerProtocol, &backend.UnableError{
				Message: "connect_query leaves a transaction open", Hint: "end it with COMMIT",
			})
			return
		}
		for i := range s.params.Len() {
			s.params.Rebase(i)
		}
		s.login.ready = true
	}
}

// opened: the login is complete.
func (s *server) opened() {
	if s.outdated() {
		s.restart()
		return
	}
	w, now := s.w, s.w.now()
	w.loop.Wheel().Cancel(&s.timer)
	s.login = nil
	s.idleAt, s.openedAt = now, now
	s.held = statements.NewHeld(s.pool.limits.Load().MaxPreparedStatements, heldBytes)
	s.spread = rand.Int64N(2*lifeSpread+1) - lifeSpread
	s.live = true
	s.basis.live.Add(1)
	if s.basis.host.state.FailingFor(now) > 0 {
		w.log.Info("a host serves again", "host", s.basis.host.name)
	}
	s.basis.host.state.Succeeded(now)
	if s.resolved != nil {
		s.resolved.served()
	}
	s.pool.logins.Succeeded()
	s.pool.learn(s.params)
	w.stats.logins.inc()
	w.logServer("server connected", "server", s.number, "pid", s.pid, "host", s.basis.host.name,
		"database", s.pool.key.database, "user", s.pool.key.user)
	s.setState(serverIdle)
	p, ahead := s.pool, s.ahead
	s.ahead = false
	w.adm.Opened(w.id, now, s.place) // the last look at s
	if ahead {
		p.ahead.succeeded()
		p.ahead.ended()
		w.topUp(p, now)
	}
}

// openFailed ends an attempt. Whom the cause concerns decides what follows: the
// pool whose login was refused is told at once; a host that does not answer is
// tried again as long as somebody waits.
func (s *server) openFailed(r closeReason, cause error) {
	w, now := s.w, s.w.now()
	run := s.login
	s.endAttempt()
	if run != nil && s.state == serverLoggingIn && run.encryption.Again(cause) {
		s.openOtherWay(run)
		return
	}
	w.loop.Wheel().Cancel(&s.timer)
	w.stats.connectsFailed.inc()
	p, b, ahead := s.pool, s.basis, s.ahead
	blamed := s.blame(now, r, cause)
	if ahead && blamed != blameAddress {
		p.ahead.failed(now, blamed == blameHost)
	}
	s.setState(serverBackoff)
	if blamed == blameHost {
		p.hostFailed(w, b, isUnfit(cause))
	}
	holder := s.place.Holder()
	if !w.adm.Failed(w.id, now, s.place) {
		s.forgotten()
		if ahead && blamed == blameAddress {
			w.openAhead(p, now)
		}
		return
	}
	switch {
	case blamed == blameAddress:
		w.loop.Wheel().Schedule(&s.timer, now+reaper.Tick)
	case blamed == blameHost && !s.lateFor(holder, now):
		w.loop.Wheel().Schedule(&s.timer, p.backing.Load().retryAt(now, rand.Uint64()))
	case blamed == blameLogin && p.live() > 0: // the holder waits for one of them; should they end, it is told at the next attempt
		w.loop.Wheel().Schedule(&s.timer, now+refusedRetry)
	default:
		if holder != nil {
			c := holder.Owner.(*client)
			c.leave(admission.TimedOut)
			if blamed == blameHost {
				r = reasonConnectFailed // as for who comes when that is known
			}
			c.refuseHeld(r, answerOf(cause))
		}
		w.adm.GiveUp(w.id, now, s.place)
		s.forgotten()
	}
}

// lateFor tells whether holder came when the host had failed for so long that it
// would have been told so at once, had it been known by then: now it is.
func (s *server) lateFor(holder *admission.Waiter, now int64) bool {
	if holder == nil {
		return false
	}
	p := s.pool
	return p.unavailable(now) != nil && p.backing.Load().down(holder.Since, p.failLimit())
}

// blamed is whom a failed attempt concerns.
type blamed uint8

const (
	blameAddress blamed = iota // one address of the host's name; another is to be tried
	blameHost                  // the host, for everybody or for the pool
	blameLogin                 // the pool's login
)

// blame finds out whom, and remembers it.
func (s *server) blame(now int64, r closeReason, cause error) blamed {
	b := s.basis
	_, held := s.pool.logins.Held(now) // then the cause may be an old one, and tells nothing of the host
	if !held {
		b.host.logFailure(s.w, s, r, cause)
	}
	unfit := isUnfit(cause)
	switch {
	case unfit || backend.ClassOf(cause) == backend.HostFault:
		if s.peer != "" && !hasNoRoom(cause) && b.host.missedAt(s.peer, s.dialledAt, now) {
			return blameAddress
		}
		if unfit {
			b.host.state.Succeeded(now)
			b.role.Failed(now, cause)
		} else {
			b.host.state.Failed(now, cause)
		}
		return blameHost
	case !held:
		b.host.state.Succeeded(now)
		s.pool.logins.Refused(now, cause)
		if refused := (*backend.RefusedError)(nil); errors.As(cause, &refused) {
			s.w.faults.answered([]byte(refused.Fields.Code), nil, now)
		}
		s.w.eng.registry.forgetLookup(s.pool)
	}
	return blameLogin
}

// endAttempt gives up what an attempt to connect has.
func (s *server) endAttempt() {
	s.sock.Close()
	s.in.Release(s.w.loop)
	s.out.Release(s.w.loop)
	s.login = nil
	s.rest = 0
	s.tracker.Reset()
}

// openOtherWay begins the second attempt, with TLS if the first one was without.
func (s *server) openOtherWay(run *loginRun) {
	w := s.w
	s.login = &loginRun{encryption: run.encryption, tls: run.tls}
	s.reason, s.eof, s.hangup, s.vanished, s.wantRead = reasonNone, false, false, false, false
	s.setState(serverConnecting)
	if w.reading == s {
		w.reading = nil
	}
	w.opening = append(w.opening, s)
}

// refusedRetry is the pause after a refused login of a pool that has backends.
const refusedRetry = 500 * ms

// retry: the pause after a failed attempt is over.
func (s *server) retry(now int64) {
	place := s.place
	s.forgotten()
	s.w.adm.Retry(s.w.id, now, place) // Open follows, with a new server, if anybody still waits
}

// forgotten ends a server that is not connected; its place is admission's.
func (s *server) forgotten() {
	if s.ahead {
		s.pool.ahead.ended()
	}
	s.place = nil
	s.setState(serverClosed)
	s.dropBasis()
	s.w.dropServer(s)
}

// connectError words a failed dial: which host, and why.
func connectError(h *host, err error) error {
	return fmt.Errorf("cannot connect to PostgreSQL at %s: %w", h.name, err)
}

// connectError tells also at which of the addresses that its name stands for.
func (s *server) connectError(err error) error {
	if s.peer == "" {
		return connectError(s.basis.host, err)
	}
	return fmt.Errorf("cannot connect to PostgreSQL at %s (%s): %w", s.basis.host.name, s.peer, err)
}

var (
	errConnectTimeout = errors.New("no answer within connect_timeout_ms")
	errLookupTimeout  = errors.New("its name could not be looked up within connect_timeout_ms")
	errClosedInLogin  = errors.New("server closed the connection during the login")
	errHelpersBusy    = errors.New("too many logins are computing their proof")
)

func (s *server) connectTimeout() error {
	if s.looking {
		return s.connectError(errLookupTimeout)
	}
	return s.connectError(errConnectTimeout)
}
