package auth

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
	ours "pgkinetic/protocol/scram"
)

// client is the other side of an exchange in tests: it answers Authentication
// messages as libpq would, SCRAM by the library's client.
type client struct {
	user, password string
	endPoint       []byte // binds to it if -PLUS is offered
	pretends       bool   // says y: it could bind but saw no -PLUS
	alter          func(n int, typ byte, body []byte) (byte, []byte)

	conv *scram.ClientConversation
	sent [][]byte
}

// answer returns the message that answers Authentication code with data.
func (c *client) answer(t *testing.T, code uint32, data []byte) (typ byte, body []byte) {
	t.Helper()
	switch code {
	case authCleartext:
		body = []byte(c.password + "\x00")
	case authMD5:
		inner := hashMD5(c.password + c.user)
		body = []byte(hashMD5(inner[3:]+string(data)) + "\x00")
	case authSASL:
		body = c.first(t, string(data))
	case authSASLContinue:
		final, err := c.conv.Step(string(data))
		if err != nil && c.alter == nil {
			t.Fatal(err)
		}
		body = []byte(final)
	default:
		t.Fatalf("Authentication code %d", code)
	}
	typ = protocol.FrontendPassword
	if c.alter != nil {
		typ, body = c.alter(len(c.sent), typ, body)
	}
	c.sent = append(c.sent, body)
	return typ, body
}

func (c *client) first(t *testing.T, offered string) []byte {
	t.Helper()
	library, err := scram.SHA256.NewClientUnprepped("", ours.Prepare(c.password), "")
	if err != nil {
		t.Fatal(err)
	}
	library = library.WithMinIterations(1)
	chosen := mechanism
	switch names := strings.Split(strings.TrimRight(offered, "\x00"), "\x00"); {
	case c.pretends:
		c.conv = library.NewConversationAdvertisingChannelBinding()
	case c.endPoint != nil && names[0] == mechanismPlus:
		chosen = mechanismPlus
		c.conv = library.NewConversationWithChannelBinding(scram.ChannelBinding{
			Type: scram.ChannelBindingTLSServerEndpoint, Data: c.endPoint,
		})
	default:
		c.conv = library.NewConversation()
	}
	first, err := c.conv.Step("")
	if err != nil {
		t.Fatal(err)
	}
	return initial(chosen, first)
}

// initial is the body of a SASLInitialResponse.
func initial(mechanism, first string) []byte {
	body := binary.BigEndian.AppendUint32([]byte(mechanism+"\x00"), uint32(len(first)))
	return append(body, first...)
}

// outcome of a dialogue: what the server sent, as "code:length" each, and how it ended.
type outcome struct {
	shape   string
	refused *Refusal
}

func (o outcome) String() string {
	if o.refused == nil {
		return o.shape + "ok"
	}
	f := o.refused.Fields
	return o.shape + fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Message)
}

// run leads x to its end with c.
func run(t *testing.T, x *Exchange, c *client) outcome {
	t.Helper()
	var o outcome
	out, step, refused := x.Start(nil)
	for {
		if step == Compute {
			x.Compute()
			o.shape += "compute "
			out, step, refused = x.Computed(nil)
		}
		if refused != nil {
			if len(out) > 0 {
				t.Errorf("bytes with a refusal: %q", out)
			}
			o.refused = refused
			return o
		}
		if len(out) > 0 {
			code, data := authentication(t, out)
			o.shape += fmt.Sprintf("%d:%d ", code, len(data))
			if code == authSASLFinal {
				if _, err := c.conv.Step(string(data)); err != nil || !c.conv.Valid() {
					t.Errorf("the client does not accept our signature: %v", err)
				}
			}
			if step == More {
				typ, body := c.answer(t, code, data)
				out, step, refused = x.Receive(typ, body, nil)
				continue
			}
		}
		if step != Done {
			t.Fatalf("%s: the exchange waits and has asked nothing", o.shape)
		}
		return o
	}
}

func authentication(t *testing.T, message []byte) (code uint32, data []byte) {
	t.Helper()
	if len(message) < 9 || message[0] != 'R' || int(binary.BigEndian.Uint32(message[1:])) != len(message)-1 {
		t.Fatalf("not an Authentication message: %q", message)
	}
	return binary.BigEndian.Uint32(message[5:]), message[9:]
}

// runServer leads a login to a PostgreSQL to its end with c.
func runServer(t *testing.T, address, database string, c *client) outcome {
	t.Helper()
	conn := pgwire.Dial(t, "tcp", address)
	defer conn.Close()
	if err := conn.Send(pgwire.Startup(0, "user", c.user, "database", database)); err != nil {
		t.Fatal(err)
	}
	var o outcome
	for {
		m, err := conn.Read()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == 'E' {
			o.refused = &Refusal{Fields: protocol.DecodeError(m.Body)}
			return o
		}
		code := binary.BigEndian.Uint32(m.Body)
		switch code {
		case 0:
			return o
		case authSASLFinal:
			o.shape += fmt.Sprintf("%d:%d ", code, len(m.Body)-4)
			continue
		}
		o.shape += fmt.Sprintf("%d:%d ", code, len(m.Body)-4)
		if err := conn.Send(pgwire.Raw(c.answer(t, code, m.Body[4:]))); err != nil {
			t.Fatal(err)
		}
	}
}

var testEndPoint = []byte("0123456789abcdef0123456789abcdef")

// testPeer is alice on TCP, with TLS or not.
func testPeer(tls bool) *Peer {
	p := &Peer{User: "alice", Database: "db", Addr: netip.MustParseAddr("192.0.2.1"), TLS: tls}
	if tls {
		p.EndPoint = testEndPoint
	}
	return p
}

// stored is the text of a SCRAM secret.
func stored(password, salt string, iterations int) string {
	v := derive(password, []byte(salt), iterations)
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode64([]byte(salt)), encode64(v.storedKey[:]), encode64(v.serverKey[:]))
}

func parse(t testing.TB, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secretsOf are the secrets of a user with that password, by the name of their kind.
func secretsOf(t testing.TB, user, password string) map[string]Secret {
	return map[string]Secret{
		"none":  {},
		"plain": Plain(password),
		"md5":   parse(t, hashMD5(password+user)),
		"scram": parse(t, stored(password, "0123456789abcdef", 4096)),
	}
}
