package auth

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"pgkinetic/protocol"
	"pgkinetic/protocol/scram"
)

const (
	mechanism     = "SCRAM-SHA-256"
	mechanismPlus = "SCRAM-SHA-256-PLUS"
	bindingType   = "tls-server-end-point"
)

// conversation is the server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS
// (RFC 5802, RFC 7677), as strict and as lenient as PostgreSQL's.
//
// It is our own because what xdg-go/scram offers for a server does not fit: it
// wants the stored keys before it says anything, so that a password which was
// never derived would hold up the first answer and tell that its user exists; it
// keeps the client's key to itself, which pass-through needs; and it puts what the
// client sent into its errors. What is left are two messages to read and one HMAC
// to check. The tests run it against that library's client.
//
// Owner: the Exchange. Invariants: messages is what both sides have sent, in the
// form that the proof is made over, and grows only; nonce is a part of it.
type conversation struct {
	plus       bool // the client has chosen SCRAM-SHA-256-PLUS
	flag       byte // its channel-binding flag: n, y or p
	salt       []byte
	iterations int
	messages   []byte
	nonce      []byte // both parts
	proof      key

	signature key         // ours, once the proof was checked
	learnt    *scram.Keys // of a proof that holds against a stored verifier
}

// begin reads a SASLInitialResponse. bindable: we have offered the mechanism with
// channel binding.
func (c *conversation) begin(body []byte, bindable bool) *Refusal {
	end := bytes.IndexByte(body, 0)
	if end < 0 {
		return violation("invalid string in message", "")
	}
	name, rest := string(body[:end]), body[end+1:]
	c.plus = bindable && name == mechanismPlus
	switch {
	case !c.plus && name != mechanism:
		return violation("client selected an invalid SASL authentication mechanism", "")
	case len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4):
		return violation("insufficient data left in message", "")
	case uint64(binary.BigEndian.Uint32(rest)) < uint64(len(rest)-4):
		return violation("invalid message format", "")
	}
	bare, refused := c.header(rest[4:], bindable)
	if refused != nil {
		return refused
	}
	return c.first(bare)
}

// header reads the GS2 header and returns what follows it.
func (c *conversation) header(p []byte, bindable bool) (bare []byte, refused *Refusal) {
	if refused := sound(p); refused != nil {
		return nil, refused
	}
	c.flag = p[0]
	switch {
	case c.flag != 'n' && c.flag != 'y' && c.flag != 'p':
		return nil, malformed("Unexpected channel-binding flag.")
	case c.plus && c.flag != 'p':
		return nil, malformed("The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.")
	case !c.plus && c.flag == 'p':
		return nil, malformed("The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.")
	case c.flag == 'y' && bindable:
		// Somebody in between has taken the better mechanism out of our offer.
		return nil, refuse(protocol.CodeInvalidAuthorization, "SCRAM channel binding negotiation error",
			"The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding.")
	case c.flag == 'p':
		var kind []byte
		if kind, p, refused = attribute('p', p); refused != nil {
			return nil, refused
		}
		if string(kind) != bindingType {
			return nil, violation(fmt.Sprintf("unsupported SCRAM channel-binding type %q", visible(kind)), "")
		}
	case len(p) < 2 || p[1] != ',':
		return nil, malformed("Comma expected after the channel-binding flag.")
	default:
		p = p[2:]
	}
	switch {
	case len(p) > 0 && p[0] == 'a':
		return nil, refuse(protocol.CodeFeatureNotSupported, "client uses authorization identity, but it is not supported", "")
	case len(p) == 0 || p[0] != ',':
		return nil, malformed("Unexpected attribute in client-first-message.")
	}
	return p[1:], nil
}

// first reads the client-first-message-bare: a name, which PostgreSQL ignores for
// that in the startup packet, a nonce, and extensions, which are ignored too.
func (c *conversation) first(bare []byte) *Refusal {
	if len(bare) > 0 && bare[0] == 'm' {
		return refuse(protocol.CodeFeatureNotSupported, "client requires an unsupported SCRAM extension", "")
	}
	_, rest, refused := attribute('n', bare)
	if refused != nil {
		return refused
	}
	nonce, rest, refused := attribute('r', rest)
	if refused != nil {
		return refused
	}
	for _, b := range nonce {
		if b <= ' ' || b > '~' {
			return violation("non-printable characters in SCRAM nonce", "")
		}
	}
	for len(rest) > 0 {
		if _, _, rest, refused = anyAttribute(rest); refused != nil {
			return refused
		}
	}
	c.messages = append(append(c.messages, bare...), ',')
	c.nonce = bytes.Clone(nonce)
	return nil
}

// challenge appends the server-first-message to dst and notes it.
func (c *conversation) challenge(dst []byte, nonce string, salt []byte, iterations int) []byte {
	c.salt, c.iterations = salt, iterations
	c.nonce = append(c.nonce, nonce...)
	from := len(c.messages)
	m := append(append(c.messages, "r="...), c.nonce...)
	m = base64.StdEncoding.AppendEncode(append(m, ",s="...), salt)
	c.messages = strconv.AppendInt(append(m, ",i="...), int64(iterations), 10)
	return append(dst, c.messages[from:]...)
}

// finish reads the client-final-message: whether it is bound to this connection and
// belongs to this exchange. The proof is only taken, not checked.
func (c *conversation) finish(p, endPoint []byte) *Refusal {
	if refused := sound(p); refused != nil {
		return refused
	}
	binding, rest, refused := attribute('c', p)
	if refused != nil {
		return refused
	}
	if subtle.ConstantTimeCompare(binding, c.binding(endPoint)) != 1 {
		if c.plus {
			return refuse(protocol.CodeInvalidAuthorization, "SCRAM channel binding check failed", "")
		}
		return violation("unexpected SCRAM channel-binding attribute in client-final-message", "")
	}
	nonce, rest, refused := attribute('r', rest)
	if refused != nil {
		return refused
	}
	var name byte
	var value []byte
	proofAt := 0
	for name != 'p' {
		proofAt = len(p) - len(rest)
		if name, value, rest, refused = anyAttribute(rest); refused != nil {
			return refused
		}
	}
	switch {
	case !decodeKey(&c.proof, value):
		return malformed("Malformed proof in client-final-message.")
	case proofAt+len("p=")+len(value) != len(p):
		return malformed("Garbage found at the end of client-final-message.")
	case subtle.ConstantTimeCompare(nonce, c.nonce) != 1:
		return violation("invalid SCRAM response", "Nonce does not match.")
	}
	c.messages = append(append(c.messages, ','), p[:proofAt-1]...)
	return nil
}

// binding is what the client must repeat: the header it sent, and with -PLUS the
// end point of the certificate that it has seen.
func (c *conversation) binding(endPoint []byte) []byte {
	header := []byte{c.flag, ',', ','}
	if c.flag == 'p' {
		header = append([]byte("p="+bindingType+",,"), endPoint...)
	}
	return base64.StdEncoding.AppendEncode(nil, header)
}

// sound refuses messages that no attribute can be read from.
func sound(p []byte) *Refusal {
	switch {
	case len(p) == 0:
		return malformed("The message is empty.")
	case bytes.IndexByte(p, 0) >= 0:
		return malformed("Message length does not match input length.")
	}
	return nil
}

// anyAttribute takes "x=value" and the comma after it from the front of p.
func anyAttribute(p []byte) (name byte, value, rest []byte, refused *Refusal) {
	switch {
	case len(p) == 0:
		return 0, nil, nil, malformed("Attribute expected, but found end of string.")
	case p[0]|' ' < 'a' || p[0]|' ' > 'z':
		return 0, nil, nil, malformed("Attribute expected, but found invalid character.")
	case len(p) < 2 || p[1] != '=':
		return 0, nil, nil, malformed(fmt.Sprintf(`Expected character "=" for attribute "%c".`, p[0]))
	}
	value, rest, _ = bytes.Cut(p[2:], []byte{','})
	return p[0], value, rest, nil
}

// attribute takes the attribute called name from the front of p.
func attribute(name byte, p []byte) (value, rest []byte, refused *Refusal) {
	if len(p) == 0 || p[0] != name {
		return nil, nil, malformed(fmt.Sprintf(`Expected attribute "%c".`, name))
	}
	_, value, rest, refused = anyAttribute(p)
	return value, rest, refused
}

// visible makes a client's bytes fit for a message.
func visible(p []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, p[:min(len(p), 32)]))
}
