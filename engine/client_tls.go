package engine

// TLS of clients: the handshake, and what it shows of the client.

import (
	"crypto/tls"
	"strings"

	"pgkinetic/engine/reactor"
)

// tlsHandshake is the type of the record that a ClientHello comes in (RFC 8446,
// section 5.1). No startup packet begins so: it would have 369 MB.
const tlsHandshake = 0x16

// isClientHello tells whether a client begins with TLS, without asking.
func (c *client) isClientHello(p []byte) bool {
	return len(p) > 0 && p[0] == tlsHandshake && c.asked == 0 && !c.sock.IsSecure() && !c.local && c.security.tls.ClientDirect() != nil
}

// secure begins the handshake; early is what of it has come already.
func (c *client) secure(config *tls.Config, early []byte) {
	c.setState(clientHandshake)
	c.push()
	c.sock.Secure(reactor.Security{Config: config, Helpers: c.w.eng.helpers, Early: early})
}

// OnSecured: the handshake has ended.
func (c *client) OnSecured(_ *reactor.Socket, err error) {
	w := c.w
	if c.state != clientHandshake { // its time was over
		return
	}
	if err != nil {
		w.stats.handshakes[sideClient][handshakeOutcome(err)].inc()
		if w.eng.logsConnections() {
			w.log.Info("TLS handshake failed", "client", c.id, "address", c.address(), "error", clipped(err))
		}
		c.reason = reasonHandshake
		c.part()
		c.beginLinger() // the alert is on its way
		w.drainTodo()
		return
	}
	w.stats.handshakes[sideClient][outcomeOK].inc()
	c.setState(clientStartup)
}

// errorMost bounds, in bytes, what an error that quotes a client takes of the log:
// crypto/tls names all the protocols that it was offered.
const errorMost = 300

func clipped(err error) string {
	text := err.Error()
	if len(text) > errorMost {
		text = strings.ToValidUTF8(text[:errorMost], "") + "…"
	}
	return text
}
