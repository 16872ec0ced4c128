package engine

// The first packets of a client: encryption requests, a cancel request, or the
// startup packet.

import (
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
)

// newestMinor is the newest minor version of protocol 3 that we speak.
const newestMinor = protocol.MinorLongKeys

// consumeStartup is consume before the startup packet has come.
func (c *client) consumeStartup(p []byte) int {
	i := 0
	for c.state == clientStartup {
		st, n, err := protocol.DecodeStartup(p[i:])
		if err == protocol.ErrShort {
			return i
		}
		if err != nil {
			c.fatal(reasonClientProtocol, violationError(0, err))
			return i
		}
		i += n
		switch st.Kind {
		case protocol.KindSSLRequest, protocol.KindGSSENCRequest:
			if c.encryptionRefused(st.Kind, len(p)-i) {
				return i
			}
		case protocol.KindCancelRequest:
			c.held = true // nothing more is read from it
			c.requestCancel(st.CancelPID, st.CancelKey)
			return i
		default:
			c.startup(&st)
		}
	}
	if c.state < clientClosing && i < len(p) {
		return i + c.consume(p[i:])
	}
	return i
}

// lastPacket takes what a client sent before it closed: only a cancel request
// still has a meaning.
func (c *client) lastPacket(p []byte) {
	if st, _, err := protocol.DecodeStartup(p); err == nil && st.Kind == protocol.KindCancelRequest {
		c.requestCancel(st.CancelPID, st.CancelKey)
	}
}

// encryptionRefused answers an encryption request with N. Each kind may be asked
// once; bytes that came with the request are not taken as sent after the answer.
func (c *client) encryptionRefused(kind protocol.StartupKind, rest int) (ended bool) {
	bit := uint8(1) << kind
	if c.asked&bit != 0 || rest > 0 {
		c.fatal(reasonClientProtocol, &protocol.ErrorFields{
			Severity: "FATAL", Code: protocol.CodeProtocolViolation,
			Message: "received unencrypted data after SSL or GSS encryption request",
		})
		return true
	}
	c.asked |= bit
	c.send([]byte{'N'})
	return false
}

// startup takes the startup packet: version, parameters, pool, limits.
func (c *client) startup(st *protocol.Startup) {
	w := c.w
	if st.Major != protocol.Major {
		c.fatal(reasonLoginRefused, loginError(protocol.CodeFeatureNotSupported,
			"unsupported frontend protocol: server supports 3.0 to 3.2"))
		return
	}
	c.minor = uint8(min(st.Minor, newestMinor))
	if st.Minor > newestMinor || len(st.PqOptions) > 0 {
		c.send(protocol.AppendNegotiateProtocolVersion(nil, uint16(c.minor), st.PqOptions))
	}
	c.setState(clientLogin)
	w.eng.unauthenticated.Add(-1)
	c.counted = false
	if w.eng.draining.Load() {
		c.fatal(reasonDraining, errShutdown)
		return
	}
	if r, ok := st.Get("replication"); ok && !falseWord(r) {
		c.fatal(reasonLoginRefused, errReplication)
		return
	}
	database, user, wrong := namesOf(st)
	if wrong != nil {
		c.fatal(reasonLoginRefused, wrong)
		return
	}
	up, reason, e := w.eng.registry.find(database, user)
	if e != nil {
		c.fatal(reason, e)
		return
	}
	for i, k := range up.clients {
		if !k.take() {
			for _, taken := range up.clients[:i] {
				taken.used.Add(-1)
			}
			up.pool.clients.Add(-1)
			c.fatal(reasonTooManyClients, errTooManyClients)
			return
		}
	}
	c.up = up
	c.limits = w.eng.registry.limitsOf(w.eng.settings.Load(), up, -1)
	c.beginLogin(st.Params)
}

// namesOf gives the database and the user that a startup packet asks for, or what
// is wrong with them. Names longer than PostgreSQL's, which it cuts before version
// 17 and does not know since, would be kept with every route of their bearer.
func namesOf(st *protocol.Startup) (database, user string, wrong *protocol.ErrorFields) {
	user, _ = st.Get("user")
	database, _ = st.Get("database")
	if database == "" {
		database = user
	}
	switch {
	case user == "":
		wrong = errNoUser
	case len(user) > session.MaxName:
		wrong = errLongUser
	case len(database) > session.MaxName:
		wrong = errLongDatabase
	}
	return database, user, wrong
}

// falseWord: the spellings of a false replication parameter.
func falseWord(s string) bool {
	switch s {
	case "false", "off", "no", "0", "f", "n":
		return true
	}
	return false
}
