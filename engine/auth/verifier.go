package auth

import (
	"crypto/subtle"

	"pgkinetic/protocol/scram"
)

// ourIterations is how often PBKDF2 hashes a password that we derive keys of:
// PostgreSQL's default, so that such a user looks like PostgreSQL's own.
const ourIterations = 4096

// saltLen is the length of our salts, which is that of PostgreSQL's.
const saltLen = 16

type key = scram.Key

// verifier is what a server keeps of a password for SCRAM-SHA-256 (RFC 5802,
// section 3): enough to check a client, not enough to be one. Never changed.
type verifier struct {
	salt                 []byte
	iterations           int
	storedKey, serverKey key
}

// derive computes the verifier of a password: milliseconds, on a helper only.
func derive(password string, salt []byte, iterations int) *verifier {
	keys, err := scram.Derive(password, string(salt), iterations)
	if err != nil {
		// Only a process that was started in FIPS-only mode gets here, on a short salt or password.
		panic("auth: " + err.Error())
	}
	return &verifier{
		salt: salt, iterations: iterations, storedKey: scram.StoredKey(keys.ClientKey), serverKey: keys.ServerKey,
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
	clientSignature := scram.MAC(v.storedKey[:], authMessage)
	subtle.XORBytes(clientKey[:], proof[:], clientSignature[:])
	got := scram.StoredKey(clientKey)
	ok = subtle.ConstantTimeCompare(got[:], v.storedKey[:]) == 1
	return clientKey, scram.MAC(v.serverKey[:], authMessage), ok
}
