// Package scram is the client's side of a login by SCRAM-SHA-256 (RFC 5802, RFC 7677), and the secret that a server keeps. The
// expensive part, the derivation from the password, is done once for a salt: what is measured is the server's part of a login.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"pgkinetic/internal/pgwire"
)

// mechanism is without channel binding: what every server of SCRAM has.
const mechanism = "SCRAM-SHA-256"

// Kinds of the message Authentication (PostgreSQL documentation, "Message Formats").
const (
	kindSASL         = 10
	kindSASLContinue = 11
	kindSASLFinal    = 12
)

// Secret is a password as PostgreSQL stores it, with a salt of its own and PostgreSQL's number of iterations.
func Secret(password string) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	k, err := derive(password, salt, 4096)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(k.client)
	return fmt.Sprintf("%s$%d:%s$%s:%s", mechanism, k.iterations, encode(salt), encode(stored[:]), encode(k.server)), nil
}

// keys are what comes of a password.
type keys struct {
	salt           []byte
	iterations     int
	client, server []byte
}

func derive(password string, salt []byte, iterations int) (*keys, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return nil, err
	}
	return &keys{slices.Clone(salt), iterations, mac(salted, "Client Key"), mac(salted, "Server Key")}, nil
}

// User is one whose password is known. Its logins may run at the same time.
//
// State: the keys of the last salt. Invariant: mu guards known; keys are never changed.
type User struct {
	password string
	mu       sync.Mutex
	known    *keys
}

// NewUser makes a User.
func NewUser(password string) *User { return &User{password: password} }

// keys derives for a salt that is not the last one.
func (u *User) keys(salt []byte, iterations int) (*keys, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k := u.known; k != nil && k.iterations == iterations && slices.Equal(k.salt, salt) {
		return k, nil
	}
	k, err := derive(u.password, salt, iterations)
	u.known = k
	return k, err
}

// Login begins a login.
func (u *User) Login() *Login { return &Login{user: u} }

// Login is one exchange. Invariant: signature is what the server must prove, nil until our proof is made.
type Login struct {
	user      *User
	first     string // client-first-message-bare
	nonce     string
	signature []byte
}

// Answer gets the body of an Authentication message and gives the message that answers it, nil for none.
func (l *Login) Answer(body []byte) ([]byte, error) {
	if len(body) < 4 {
		return nil, errors.New("an Authentication message without kind")
	}
	kind, data := binary.BigEndian.Uint32(body), string(body[4:])
	switch kind {
	case kindSASL:
		return l.begin(data)
	case kindSASLContinue:
		return l.prove(data)
	case kindSASLFinal:
		return nil, l.verify(data)
	}
	return nil, fmt.Errorf("the server asks for authentication of kind %d, and this is SCRAM alone", kind)
}

func (l *Login) begin(mechanisms string) ([]byte, error) {
	if !slices.Contains(strings.Split(mechanisms, "\x00"), mechanism) {
		return nil, errors.New("the server does not offer " + mechanism)
	}
	l.nonce = rand.Text()
	l.first = "n=,r=" + l.nonce
	initial := gs2 + l.first
	body := append([]byte(mechanism), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(len(initial)))
	return response(append(body, initial...)), nil
}

// gs2 says that the client does not bind to a channel.
const gs2 = "n,,"

func (l *Login) prove(first string) ([]byte, error) {
	nonce, salt, iterations, err := readFirst(first)
	if err != nil {
		return nil, err
	}
	if l.nonce == "" || !strings.HasPrefix(nonce, l.nonce) {
		return nil, errors.New("the server's nonce does not continue ours")
	}
	k, err := l.user.keys(salt, iterations)
	if err != nil {
		return nil, err
	}
	final := "c=" + encode([]byte(gs2)) + ",r=" + nonce
	all := l.first + "," + first + "," + final
	l.signature = mac(k.server, all)
	stored := sha256.Sum256(k.client)
	proof := mac(stored[:], all)
	for i := range proof {
		proof[i] ^= k.client[i]
	}
	return response([]byte(final + ",p=" + encode(proof))), nil
}

// readFirst reads a server-first-message.
func readFirst(text string) (nonce string, salt []byte, iterations int, err error) {
	fields := strings.Split(text, ",")
	if len(fields) < 3 {
		return "", nil, 0, fmt.Errorf("%q is no server-first-message", text)
	}
	nonce, ok := strings.CutPrefix(fields[0], "r=")
	encoded, ok2 := strings.CutPrefix(fields[1], "s=")
	number, ok3 := strings.CutPrefix(fields[2], "i=")
	salt, err = base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		iterations, err = strconv.Atoi(number)
	}
	if err != nil || !ok || !ok2 || !ok3 || iterations < 1 {
		return "", nil, 0, fmt.Errorf("%q is no server-first-message", text)
	}
	return nonce, salt, iterations, nil
}

func (l *Login) verify(final string) error {
	if l.signature == nil || final != "v="+encode(l.signature) {
		return errors.New("the server's signature is wrong")
	}
	return nil
}

// response is the message SASLInitialResponse or SASLResponse.
func response(body []byte) []byte { return pgwire.Raw('p', body) }

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
