package engine

// A client's login: its startup settings are judged, here where the verdict is
// known, else by a backend that is asked once; then it is told the parameters of
// its pool as they are for it.

import (
	"errors"

	"pgkinetic/admission/routing"
	"pgkinetic/backend"
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
)

// beginLogin tries to finish without a backend.
func (c *client) beginLogin(params []protocol.Param) {
	judge, err := session.NewJudge(params)
	if err != nil {
		c.fatal(reasonLoginRefused, answerOf(err))
		return
	}
	c.judge = judge
	c.proceedLogin()
}

// answerOf gives what a client is told for err.
func answerOf(err error) *protocol.ErrorFields {
	var setting *session.SettingError
	var e protocol.ErrorFields
	if errors.As(err, &setting) {
		e = setting.Answer()
	} else {
		e = backend.AnswerOf(err)
	}
	e.Severity = "ERROR"
	return &e
}

// proceedLogin finishes the login if every verdict and the pool's parameters are
// known, and asks for a backend otherwise.
func (c *client) proceedLogin() {
	switch ready, err := c.decide(); {
	case err != nil:
		c.fatal(reasonLoginRefused, answerOf(err))
	case ready:
		c.loggedIn()
	default:
		c.requestLogin()
	}
}

func (c *client) decide() (ready bool, err error) {
	p := c.up.pool
	server := p.snapshot.Load()
	ready, err = c.judge.Decide(server, &p.verdicts, c.w.now())
	return ready && server != nil, err
}

// requestLogin waits for a backend like a request of class default.
func (c *client) requestLogin() {
	w := c.w
	if e := c.up.pool.unavailable(w.now()); e != nil {
		c.fatal(reasonConnectFailed, e)
		return
	}
	c.choose(routing.ClassDefault)
	if place := c.route.adm.TryRun(w.id); place != nil {
		c.setState(clientLoginWait)
		place.Owner.(*server).link(c)
		return
	}
	if e := c.enter(clientLoginWait); e != nil {
		c.fatal(reasonOverload, e)
	}
}

// askBackend: the login owns the server s. What it asks depends on what is still
// unknown; often the backend's parameters were all that was missing.
func (c *client) askBackend(s *server) {
	ready, err := c.decide()
	if ready || err != nil {
		c.w.later(c) // goes on in run, outside admission's call
		return
	}
	// The verdict must be the pool's own, not one under another client's role.
	s.apply(session.Empty())
	for range c.judge.Probes() {
		s.tracker.Inject(protocol.FrontendQuery)
	}
	s.held.Query(s.tracker.Sent())
	s.probe, s.probeFault = c.judge, nil
	s.queue(c.judge.AppendProbes(nil))
	s.flush()
	c.armTimer()
}

// probed takes a message that answers a probe.
func (s *server) probed(typ byte, body []byte) {
	done, err := s.probe.Receive(typ, body)
	if err == nil && !done {
		return
	}
	s.probe = nil
	s.probeFault = err
}

// backendAnswered: the server owes nothing more to this login.
func (c *client) backendAnswered() {
	s := c.srv
	fault := s.probeFault
	c.setState(clientLogin)
	s.release()
	if fault != nil {
		c.fatal(reasonLoginRefused, answerOf(fault))
		return
	}
	c.proceedLogin()
}

// loggedIn ends the login: the client may send requests.
func (c *client) loggedIn() {
	w := c.w
	c.prof = c.judge.Profile()
	c.first = c.prof
	c.judge.Unapplied(func(name string) {
		w.log.Warn("startup setting accepted but not applied: PostgreSQL takes it at connection start only",
			"client", c.id, "setting", name)
	})
	c.judge = nil
	c.forgetChoices() // its name was not judged yet
	_, c.limits = c.identify(w.eng.settings.Load(), routing.ClassDefault)
	c.secret.fill()
	w.slots.register(c)
	buf := protocol.AppendAuthenticationOk(w.answer[:0])
	buf = session.LoginParams(buf, c.up.pool.snapshot.Load(), c.prof)
	buf = c.appendKeyData(buf)
	w.answer = protocol.AppendReadyForQuery(buf, 'I')
	c.setState(clientIdle)
	c.send(w.answer)
	c.traffic.inc(trafficLogins)
	if w.eng.logsConnections() {
		application, _ := c.prof.Get("application_name")
		w.log.Info("client connected", "client", c.id, "address", c.address(), "database", c.up.pool.key.database,
			"user", c.up.tenant.User, "application", application, "tls", c.sock.IsSecure())
	}
	c.armTimer()
	w.later(c)
}
