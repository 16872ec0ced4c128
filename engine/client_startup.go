package engine

// The first packets of a client: a proxy's header, encryption requests, a cancel
// request, or the startup packet.

import (
	"errors"

	"pgkinetic/admission/routing"
	"pgkinetic/engine/session"
	"pgkinetic/protocol"
	"pgkinetic/protocol/proxyproto"
)

// newestMinor is the newest minor version of protocol 3 that we speak.
const newestMinor = protocol.MinorLongKeys

// consumeStartup is consume before the startup packet has come.
func (c *client) consumeStartup(p []byte) int {
	i := 0
	if c.header {
		n, ok := c.proxyHeader(p)
		if !ok {
			return n
		}
		i = n
	}
	for c.state == clientStartup {
		if c.isClientHello(p[i:]) {
			c.secure(c.security.tls.ClientDirect(), p[i:])
			return len(p)
		}
		st, n, err := protocol.DecodeStartup(p[i:])
		if err == protocol.ErrShort {
			return i
		}
		if err != nil {
			c.fatal(reasonClientProtocol, violationError(0, err))
			return i
		}
		if c.mustHold(&st) {
			c.held = true
			return i
		}
		i += n
		switch st.Kind {
		case protocol.KindSSLRequest, protocol.KindGSSENCRequest:
			c.encryptionAsked(st.Kind, len(p)-i)
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

// proxyHeader takes what a proxy has put before the client's own bytes. ok: these
// begin at p[n].
func (c *client) proxyHeader(p []byte) (n int, ok bool) {
	h, n, err := proxyproto.Decode(p)
	_, without := c.security.believes(c.peer)
	switch {
	case err == protocol.ErrShort:
		return 0, false
	case errors.Is(err, proxyproto.ErrAbsent) && without:
		c.header = false
		return 0, true
	case err != nil:
		c.fatal(reasonClientProtocol, violationError(0, err))
		return 0, false
	}
	c.header = false
	if h.Source.IsValid() {
		c.peer, c.port, c.local = routing.ClientAddr(h.Source.Addr()), h.Source.Port(), false
	}
	return n, true
}

// lastPacket takes what a client sent before it closed: only a cancel request
// still has a meaning.
func (c *client) lastPacket(p []byte) {
	if c.header {
		n, ok := c.proxyHeader(p)
		if !ok {
			return
		}
		p = p[n:]
	}
	if st, _, err := protocol.DecodeStartup(p); err == nil && st.Kind == protocol.KindCancelRequest {
		c.requestCancel(st.CancelPID, st.CancelKey)
	}
}

// encryptionAsked answers an encryption request. Each kind may be asked once; bytes
// that came with the request are not taken as sent after the answer.
func (c *client) encryptionAsked(kind protocol.StartupKind, rest int) {
	bit := uint8(1) << kind
	if c.asked&bit != 0 || rest > 0 || c.sock.IsSecure() {
		c.fatal(reasonClientProtocol, errStuffed)
		return
	}
	c.asked |= bit
	config := c.security.tls.Client()
	if kind != protocol.KindSSLRequest || config == nil || c.local {
		c.send([]byte{'N'})
		return
	}
	c.send([]byte{'S'})
	c.secure(config, nil)
}

// startup takes the startup packet: version, parameters, limits.
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
	if r, ok := st.Get("replication"); ok && !falseWord(r) {
		c.fatal(reasonLoginRefused, errReplication)
		return
	}
	database, user, wrong := namesOf(st)
	switch {
	case wrong != nil:
		c.fatal(reasonLoginRefused, wrong)
	case w.eng.isConsole(database): // to which nothing below applies
		c.beginAuth(database, user, st.Params)
	case w.eng.draining.Load():
		c.fatal(reasonDraining, errShutdown)
	case w.eng.clientCap.full():
		c.fatal(reasonTooManyClients, errTooManyClients)
	default:
		c.beginAuth(database, user, st.Params)
	}
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
