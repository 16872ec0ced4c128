package auth

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"

	"github.com/xdg-go/stringprep"
)

// ourIterations is how often PBKDF2 hashes a password that we derive keys of:
// PostgreSQL's default, so that such a user looks like PostgreSQL's own.
const ourIterations = 4096

// saltLen is the length of our salts, which is that of PostgreSQL's.
const saltLen = 16

// key is the output of HMAC-SHA-256.
type key = [sha256.Size]byte

// verifier is what a server keeps of a password for SCRAM-SHA-256 (RFC 5802,
// section 3): enough to check a client, not enough to be one. Never changed.
type verifier struct {
	salt                 []byte
	iterations           int
	storedKey, serverKey key
}

// derive computes the verifier of a password: milliseconds, on a helper only.
func derive(password string, salt []byte, iterations int) *verifier {
	salted, err := pbkdf2.Key(sha256.New, prepared(password), salt, iterations, sha256.Size)
	if err != nil {
		// Only a process that was started in FIPS-only mode gets here, on a short salt or password.
		panic(fmt.Sprintf("auth: PBKDF2: %v", err))
	}
	clientKey := mac(salted, "Client Key")
	return &verifier{
		salt: salt, iterations: iterations,
		storedKey: sha256.Sum256(clientKey[:]), serverKey: mac(salted, "Server Key"),
	}
}

// holds tells whether password is the one that v was derived of: work as for derive.
func (v *verifier) holds(password string) bool {
	got := derive(password, v.salt, v.iterations)
	return subtle.ConstantTimeCompare(got.storedKey[:], v.storedKey[:]) == 1
}

// prove checks a client's proof over the messages of its exchange. It returns the
// key behind the proof, which is the client's own only where ok, and our signature,
// which shows the client that we know the verifier.
func (v *verifier) prove(authMessage string, proof key) (clientKey, signature key, ok bool) {
	clientSignature := mac(v.storedKey[:], authMessage)
	subtle.XORBytes(clientKey[:], proof[:], clientSignature[:])
	got := sha256.Sum256(clientKey[:])
	ok = subtle.ConstantTimeCompare(got[:], v.storedKey[:]) == 1
	return clientKey, mac(v.serverKey[:], authMessage), ok
}

func mac(secret []byte, text string) (sum key) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	h.Sum(sum[:0])
	return sum
}

// prepared applies SASLprep (RFC 4013). PostgreSQL takes the password as it is
// where SASLprep refuses it or leaves nothing of it.
func prepared(password string) string {
	p, err := stringprep.SASLprep.Prepare(password)
	if err != nil || p == "" {
		return password
	}
	return p
}
