// Package scram is the arithmetic of SCRAM-SHA-256 (RFC 5802, RFC 7677) that both
// sides of it need: what becomes of a password, and the keys that prove it. The
// messages are the business of package auth, where we are the server, and of
// package backend, where we are the client.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"

	"github.com/xdg-go/stringprep"
)

// KeyLen is the length of all keys, that of SHA-256.
const KeyLen = sha256.Size

// Key is the output of HMAC-SHA-256.
type Key = [KeyLen]byte

// Keys prove to a server, and let it prove, that both know one password, for one
// salt and iteration count (RFC 5802, section 3). Whoever has them can log in to
// any server whose secret has the same salt and iterations.
type Keys struct {
	ClientKey, ServerKey Key
	Salt                 string // the bytes themselves, not their base64
	Iterations           int
}

const mask = "***"

// String returns "***".
func (Keys) String() string { return mask }

// Format writes the mask for every verb.
func (Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(mask)) }

// MarshalText masks the keys in every text encoding.
func (Keys) MarshalText() ([]byte, error) { return []byte(mask), nil }

// Derive is the work that SCRAM is made of: PBKDF2, about a millisecond with
// PostgreSQL's 4096 iterations, so it is nothing for a loop. It fails only in a
// process that was started in FIPS-only mode, on a short salt or password.
func Derive(password, salt string, iterations int) (*Keys, error) {
	salted, err := pbkdf2.Key(sha256.New, Prepare(password), []byte(salt), iterations, KeyLen)
	if err != nil {
		return nil, fmt.Errorf("PBKDF2: %w", err)
	}
	return &Keys{
		ClientKey: MAC(salted, "Client Key"), ServerKey: MAC(salted, "Server Key"), Salt: salt, Iterations: iterations,
	}, nil
}

// StoredKey is what a server keeps of a client's key.
func StoredKey(clientKey Key) Key { return sha256.Sum256(clientKey[:]) }

// MAC is HMAC-SHA-256 of message.
func MAC(secret []byte, message string) (sum Key) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(message))
	h.Sum(sum[:0])
	return sum
}

// Prepare applies SASLprep (RFC 4013) to a password. PostgreSQL takes it as it is
// where SASLprep refuses it or leaves nothing of it.
func Prepare(password string) string {
	p, err := stringprep.SASLprep.Prepare(password)
	if err != nil || p == "" {
		return password
	}
	return p
}
