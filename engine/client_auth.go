package engine

// A client proves who it is: which proof it owes is decided, its secret found, the
// exchange carried out, and a wrong proof answered, perhaps after a while. Package
// auth knows what is right; here it gets its bytes, its helper and its time.
//
// Owner: the client's worker. While away is set, what its name says is under way
// on another goroutine, which has the run's exchange, or its found and err, until
// the message has arrived.
//
// Invariants:
//   - client.auth is not nil in the state clientAuth, and stays with a client that
//     has ended there; it is nil before, and once the client has proved who it is
//   - a client is in no pool, and in no count but that of the unauthenticated,
//     before it has proved who it is
//   - whatever is wrong with a user, a proof or a secret, and whether the database
//     exists, the client is told the same, and not before the rest is done

import (
	"net"
	"strconv"
	"time"

	"pgkinetic/admission/routing"
	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/auth/lookup"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/session"
	"pgkinetic/engine/tlsconfig"
	"pgkinetic/protocol"
)

type away uint8

const (
	awayNothing away = iota
	awayProof        // a helper computes
	awayLookup       // the secret is looked up
	awayRefresh      // it is looked up once more
	awayDelay        // the answer is held back
)

type authRun struct {
	msg            reactor.Message // brings it back from where it is away
	c              *client
	database, user string
	params         []protocol.Param
	peer           auth.Peer
	decision       auth.Decision
	x              *auth.Exchange

	look      *lookup.Lookup // nil: the secret is not from one
	found     lookup.Result
	err       error
	refreshed bool
	refusal   *auth.Refusal
	answerAt  int64 // of a refusal that is held back
	away      away
}

// awaits tells whether it is the client's turn.
func (run *authRun) awaits() bool { return run.x != nil && run.away == awayNothing }

// beginAuth decides which proof is owed.
func (c *client) beginAuth(database, user string, params []protocol.Param) {
	run := &authRun{c: c, database: database, user: user, params: params}
	run.msg.Kind, run.msg.Ref = msgAuth, run
	run.peer = auth.Peer{User: user, Database: database, Addr: c.peer, TLS: c.sock.IsSecure()}
	c.auth = run
	c.setState(clientAuth)
	mode := c.security.tls.ClientMode()
	switch {
	case run.peer.TLS:
		if err := c.showCertificate(&run.peer); err != nil {
			c.fatal(reasonLoginRefused, loginError(protocol.CodeInvalidAuthorization, err.Error()))
			return
		}
	case mode.Requires() && !c.local:
		c.fatal(reasonLoginRefused, errNeedsTLS)
		return
	}
	var refused *auth.Refusal
	run.decision, refused = c.security.rules.Decide(&run.peer)
	if refused != nil {
		c.authRefused(refused) // which tells the method
		return
	}
	if mode == configs.TLSVerifyFull && run.peer.TLS {
		run.decision.ClientCert = auth.VerifyFull
	}
	if !run.decision.Method.NeedsSecret() {
		c.beginExchange(auth.Secret{})
		return
	}
	c.findSecret()
}

// showCertificate tells what TLS has shown of the client, and of us.
func (c *client) showCertificate(p *auth.Peer) error {
	p.EndPoint = c.security.tls.ClientEndPoint()
	state, _ := c.sock.ConnectionState()
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	subject, err := tlsconfig.SubjectOf(state.PeerCertificates[0])
	p.Verified = len(state.VerifiedChains) > 0
	p.CommonName, p.DistinguishedName = subject.CommonName, subject.DistinguishedName
	return err
}

// findSecret looks into the file of users, and asks PostgreSQL for one who is not
// there.
func (c *client) findSecret() {
	run := c.auth
	if secret, ok := c.security.rules.Users().Find(run.user); ok {
		c.beginExchange(secret)
		return
	}
	if run.look = c.w.eng.registry.lookupOf(run.database); run.look == nil {
		c.beginExchange(auth.Secret{})
		return
	}
	found, ok, err := run.look.Find(run.user, run.looked)
	switch {
	case err != nil:
		c.lookupFailed(err)
	case ok:
		run.found = found
		c.beginExchange(secretOf(found))
	default:
		run.away = awayLookup
	}
}

// secretOf is the secret with which somebody may log in now.
func secretOf(r lookup.Result) auth.Secret {
	if r.Expired(time.Now()) {
		return auth.Secret{}
	}
	return r.Secret
}

// looked is called when PostgreSQL has answered, on another goroutine.
func (run *authRun) looked(r lookup.Result, err error) {
	run.found, run.err = r, err
	run.c.w.loop.Post(&run.msg)
}

// arrived: what was away is back.
func (run *authRun) arrived() {
	c, was := run.c, run.away
	run.away = awayNothing
	if c.state != clientAuth {
		return
	}
	switch was {
	case awayProof:
		c.authStep(run.x.Computed(nil))
	case awayLookup:
		if run.err != nil {
			c.lookupFailed(run.err)
			return
		}
		c.beginExchange(secretOf(run.found))
	case awayRefresh:
		if run.err != nil {
			c.authRefused(run.refusal)
			return
		}
		c.authStep(run.x.Retry(secretOf(run.found), nil))
	}
}

func (c *client) lookupFailed(err error) {
	e := protocol.ErrorFields{Code: protocol.CodeConnectionFailure, Message: "the user could not be looked up"}
	if known, ok := err.(*lookup.Error); ok {
		e = known.Answer()
	}
	c.authFailed(outcomeFailed, err.Error())
	c.fatal(reasonAuthFailed, &e)
}

func (c *client) beginExchange(secret auth.Secret) {
	run := c.auth
	run.x = auth.NewExchange(run.decision, &run.peer, secret, c.w.eng.keys)
	c.authStep(run.x.Start(nil))
}

// authStep goes on with an exchange.
func (c *client) authStep(out []byte, step auth.Step, refused *auth.Refusal) {
	run := c.auth
	if refused != nil {
		if !refused.Wrong || !c.refreshSecret(refused) {
			c.authRefused(refused)
		}
		return
	}
	if len(out) > 0 {
		c.send(out)
	}
	switch step {
	case auth.Compute:
		run.away = awayProof
		if !c.w.eng.helpers.Submit(c.w.loop, &run.msg, run.x.Compute) {
			run.away = awayNothing
			c.fatal(reasonOverload, errLoginsBusy)
		}
	case auth.Done:
		c.authenticated()
	default:
		c.w.later(c) // what it has sent meanwhile
	}
}

// refreshSecret looks once more for a secret that a proof does not fit: the
// password may have been changed.
func (c *client) refreshSecret(refused *auth.Refusal) (goesOn bool) {
	run := c.auth
	if run.look == nil || run.refreshed {
		return false
	}
	run.refreshed, run.refusal = true, refused
	found, ok, err := run.look.Refresh(run.found, run.looked)
	switch {
	case err != nil, ok && !found.Newer(run.found):
		return false
	case ok:
		run.found = found
		c.authStep(run.x.Retry(secretOf(found), nil))
	default:
		run.away = awayRefresh
	}
	return true
}

// consumeAuth is consume while the client proves who it is.
func (c *client) consumeAuth(p []byte) int {
	i := 0
	for c.state == clientAuth && c.auth.awaits() {
		typ, size, err := protocol.PeekFrame(p[i:])
		if err == protocol.ErrShort {
			break
		}
		if err == nil && size-protocol.HeaderLen > c.auth.x.Limit() {
			err = protocol.ErrLength
		}
		if err != nil {
			c.fatal(reasonClientProtocol, violationError(typ, err))
			return i
		}
		if size > len(p)-i {
			if typ == protocol.FrontendPassword {
				break
			}
			size = len(p) - i // of any other message the type says all
		}
		c.authStep(c.auth.x.Receive(typ, p[i+protocol.HeaderLen:i+size], nil))
		i += size
	}
	return i
}

// authRefused tells a client that it is not let in, at once or after a while.
func (c *client) authRefused(refused *auth.Refusal) {
	run := c.auth
	run.refusal = refused
	cause := refused.Cause
	if cause == "" {
		cause = refused.Fields.Message
	}
	if refused.Wrong {
		if delay := c.w.eng.throttle.Failed(c.peer, c.w.now()); delay > 0 {
			run.away, run.answerAt = awayDelay, c.w.now()+int64(delay)
			c.w.stats.loginsDelayed.inc()
			c.w.stats.auth[run.decision.Method][outcomeDenied].inc() // whether or not it waits for the answer
			c.armTimer()
			return
		}
		c.authFailed(outcomeDenied, cause)
	} else {
		c.authFailed(outcomeFailed, cause)
	}
	c.fatal(reasonAuthFailed, &refused.Fields)
}

// answerRefused: the time of a refusal that was held back has come.
func (c *client) answerRefused() {
	c.fatal(reasonAuthFailed, &c.auth.refusal.Fields)
}

// authFailed counts a login that was refused and writes the line for it. Those
// whose answer is held back have none: whoever guesses would fill the log.
func (c *client) authFailed(o outcome, cause string) {
	run := c.auth
	c.w.stats.auth[run.decision.Method][o].inc()
	c.w.log.Warn("login failed", "client", c.id, "address", c.address(), "database", run.database, "user", run.user,
		"method", run.decision.Method.String(), "tls", run.peer.TLS, "cause", cause)
}

// authenticated: the client is who it says. Only now it is told what there is.
func (c *client) authenticated() {
	w, run := c.w, c.auth
	c.method = run.decision.Method
	w.stats.auth[c.method][outcomeOK].inc()
	if run.decision.Method != auth.Trust { // which proves nothing
		w.eng.throttle.Succeeded(c.peer)
	}
	w.known(c)
	c.auth, c.security = nil, nil
	if w.eng.isConsole(run.database) {
		c.enterConsole(run)
		return
	}
	if reason, e := c.enterPool(run); e != nil {
		w.eng.registry.traffic.refused(routing.Tenant{Database: run.database, User: run.user}, w.id)
		c.fatal(reason, e)
		return
	}
	c.limits = w.eng.registry.limitsOf(w.eng.settings.Load(), c.up, -1)
	c.up.pool.learnSecret(run, w.eng.settings.Load().security)
	if c.up.pool.entry().ApplicationNameAddHost {
		run.params = c.withHost(run.params)
	}
	c.beginLogin(run.params)
}

// enterPool finds the pool of a client that is who it says, and counts it in there.
func (c *client) enterPool(run *authRun) (closeReason, *protocol.ErrorFields) {
	w := c.w
	if w.eng.draining.Load() {
		return reasonDraining, errShutdown
	}
	c.setState(clientLogin)
	up, reason, e := w.eng.registry.find(run.database, run.user)
	if e != nil {
		return reason, e
	}
	if !up.take() {
		return reasonTooManyClients, errTooManyClients
	}
	c.up = up
	c.traffic = w.eng.registry.traffic.join(up.tenant).on(w.id)
	return reasonNone, nil
}

// learnSecret keeps for the pool's own logins what the client's has shown, and what
// PostgreSQL has told of the same user.
func (p *pool) learnSecret(run *authRun, x *security) {
	known := p.backing.Load().login.Credentials
	if run.look != nil && run.user == p.key.user && !x.owns(p.entry(), run.user) {
		known.Set(storedOf(run.found.Secret))
	}
	if keys := run.x.Keys(); keys != nil {
		known.Learn(run.user, *keys)
	}
	if password := run.x.Password(); password.Kind() != auth.NoSecret {
		known.LearnPassword(run.user, password.Reveal())
	}
}

// take counts a client in, unless a bound is reached: then up is not its any more.
func (up *userPool) take() bool {
	for i, k := range up.clients {
		if !k.take() {
			for _, taken := range up.clients[:i] {
				taken.used.Add(-1)
			}
			up.pool.clients.Add(-1)
			return false
		}
	}
	return true
}

// address is where the client is, for people: host:port, or "unix".
func (c *client) address() string {
	if !c.peer.IsValid() {
		return "unix"
	}
	return net.JoinHostPort(c.peer.String(), strconv.Itoa(int(c.port)))
}

// hostSuffix is what application_name_add_host puts behind a client's name.
func (c *client) hostSuffix() string { return " - " + c.address() }

// withHost puts the client's address behind its application_name, so far as
// PostgreSQL keeps such a name.
func (c *client) withHost(params []protocol.Param) []protocol.Param {
	suffix, name := c.hostSuffix(), ""
	out := make([]protocol.Param, 0, len(params)+1)
	for _, p := range params {
		if p.Name == "application_name" {
			name = p.Value
			continue
		}
		out = append(out, p)
	}
	if most := session.MaxName - len(suffix); len(name) > most {
		name = name[:most]
	}
	return append(out, protocol.Param{Name: "application_name", Value: name + suffix})
}
