package pgwire

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/xdg-go/scram"
)

// Authentication codes of the message 'R'.
const (
	authOk           = 0
	authCleartext    = 3
	authMD5          = 5
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// Password is what a login proves itself with. The keys that SCRAM derives from it are kept, so that many logins with one
// Password cost their derivation once. Safe for all goroutines.
type Password struct {
	text   string
	client *scram.Client
}

// NewPassword is for a password of ASCII, which SASLprep leaves as it is.
func NewPassword(text string) *Password {
	client, err := scram.SHA256.NewClientUnprepped("", text, "")
	if err != nil {
		panic("pgwire: " + err.Error()) // an empty authorization identity is always good
	}
	return &Password{text, client.WithMinIterations(1)}
}

// Secure asks for TLS and does the handshake.
func (c *Conn) Secure(config *tls.Config) error {
	if err := c.Send(SSLRequest()); err != nil {
		return err
	}
	switch answer, err := c.ReadByte(); {
	case err != nil:
		return err
	case answer != 'S':
		return fmt.Errorf("the answer to SSLRequest is %q", answer)
	}
	return c.Handshake(config)
}

// Handshake begins with TLS at once.
func (c *Conn) Handshake(config *tls.Config) error {
	secure := tls.Client(c.Net, config)
	if err := secure.Handshake(); err != nil {
		return err
	}
	c.Net, c.r = secure, bufio.NewReader(secure)
	return nil
}

// LoginWith is Login that answers what the server asks for: the password, its MD5 proof or SCRAM, over TLS bound to the
// server's certificate where that is offered.
func (c *Conn) LoginWith(minor uint16, password *Password, params ...string) ([]Message, error) {
	if err := c.Send(Startup(minor, params...)); err != nil {
		return nil, err
	}
	user := ""
	for i := 0; i+1 < len(params); i += 2 {
		if params[i] == "user" {
			user = params[i+1]
		}
	}
	return c.prove(user, password)
}

// prove reads up to ReadyForQuery and answers on the way. A refusal is an *Error.
func (c *Conn) prove(user string, password *Password) ([]Message, error) {
	var all []Message
	var sasl *scram.ClientConversation
	for {
		m, err := c.Read()
		if err != nil {
			return all, fmt.Errorf("login: %w (after %s)", err, Transcript(all))
		}
		all = append(all, m)
		switch m.Type {
		case 'E':
			return all, ErrorOf(m)
		case 'Z':
			return all, nil
		case 'R':
			answer, err := c.answer(m.Body, user, password, &sasl)
			if err == nil && answer != nil {
				err = c.Send(Raw('p', answer))
			}
			if err != nil {
				return all, err
			}
		}
	}
}

// answer is the body of the PasswordMessage that an Authentication message asks for; nil: none.
func (c *Conn) answer(body []byte, user string, password *Password, sasl **scram.ClientConversation) ([]byte, error) {
	if len(body) < 4 {
		return nil, errors.New("an Authentication message without its code")
	}
	rest := body[4:]
	switch code := binary.BigEndian.Uint32(body); code {
	case authOk:
		return nil, nil
	case authCleartext:
		return appendString(nil, password.text), nil
	case authMD5:
		inner := hexMD5(password.text + user)
		return appendString(nil, "md5"+hexMD5(inner+string(rest))), nil
	case authSASL:
		var mechanism string
		var err error
		if *sasl, mechanism, err = c.converse(rest, password); err != nil {
			return nil, err
		}
		first, err := (*sasl).Step("")
		out := binary.BigEndian.AppendUint32(appendString(nil, mechanism), uint32(len(first)))
		return append(out, first...), err
	case authSASLContinue:
		last, err := (*sasl).Step(string(rest))
		return []byte(last), err
	case authSASLFinal:
		_, err := (*sasl).Step(string(rest))
		return nil, err
	default:
		return nil, fmt.Errorf("unknown authentication code %d", code)
	}
}

// converse begins SCRAM by the best of the offered mechanisms.
func (c *Conn) converse(offered []byte, password *Password) (*scram.ClientConversation, string, error) {
	const plain, plus = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
	names := strings.Split(string(bytes.TrimRight(offered, "\x00")), "\x00")
	secure, _ := c.Net.(*tls.Conn)
	for _, name := range names {
		if name == plus && secure != nil {
			state := secure.ConnectionState()
			binding, err := scram.NewTLSServerEndpointBinding(&state)
			return password.client.NewConversationWithChannelBinding(binding), plus, err
		}
	}
	for _, name := range names {
		if name == plain {
			return password.client.NewConversation(), plain, nil
		}
	}
	return nil, "", fmt.Errorf("the server offers %q", names)
}

func hexMD5(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
