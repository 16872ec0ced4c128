package auth

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"pgkinetic/protocol/scram"
)

// maxDerived bounds the verifiers that are kept, of about 250 bytes each.
const maxDerived = 16384

// Keys is what all exchanges of a process share: the verifiers derived from
// passwords that are stored as they are, so that a user's first login pays for
// PBKDF2 and no later one does, and the salts of users that have no verifier. Safe
// for all goroutines; its mutex is held for a few instructions, never while
// deriving.
//
// Invariants: secrets are random and never leave the process. The salt shown for a user
// without a stored verifier depends on key and name only, so it stays the same
// whether the user exists or not, and whatever its password. derived is keyed by
// an HMAC of name and password, so no password is kept here and a changed one finds
// nothing.
type Keys struct {
	random  io.Reader
	secrets *processSecrets
	// common is the iteration count of the first stored verifier that was met, 0
	// before: what a user without one is said to have.
	common atomic.Int64

	mu      sync.Mutex
	derived recent[key, *verifier]
}

// processSecrets: mac is the key of all salts and identities; storedKey and
// serverKey stand in for those of a user that has none, and no proof fits them.
type processSecrets struct{ mac, storedKey, serverKey key }

// NewKeys returns Keys that know nothing yet.
func NewKeys() *Keys { return newKeys(rand.Reader) }

func newKeys(random io.Reader) *Keys {
	k := &Keys{random: random, secrets: &processSecrets{}, derived: recent[key, *verifier]{size: maxDerived / 2}}
	for _, secret := range []*key{&k.secrets.mac, &k.secrets.storedKey, &k.secrets.serverKey} {
		k.fill(secret[:])
	}
	return k
}

// fill fills p with random bytes.
func (k *Keys) fill(p []byte) {
	if _, err := io.ReadFull(k.random, p); err != nil {
		panic(fmt.Sprintf("auth: no random bytes: %v", err)) // crypto/rand's reader never fails
	}
}

// nonce returns our part of a nonce: as long as PostgreSQL's, printable, no comma.
func (k *Keys) nonce() string {
	var p [18]byte
	k.fill(p[:])
	return base64.StdEncoding.EncodeToString(p[:])
}

// met notes the iteration count of a stored verifier.
func (k *Keys) met(v *verifier) { k.common.CompareAndSwap(0, int64(v.iterations)) }

// unknown returns what looks like the verifier of a user that has none.
func (k *Keys) unknown(user string) *verifier {
	iterations := int(k.common.Load())
	if iterations == 0 {
		iterations = ourIterations
	}
	return &verifier{salt: k.salt(user), iterations: iterations, storedKey: k.secrets.storedKey, serverKey: k.secrets.serverKey}
}

// salt is what a user without a stored verifier is shown.
func (k *Keys) salt(user string) []byte {
	sum := scram.MAC(k.secrets.mac[:], "salt\x00"+user)
	return sum[:saltLen:saltLen]
}

func (k *Keys) id(user, password string) key {
	return scram.MAC(k.secrets.mac[:], "password\x00"+user+"\x00"+password)
}

// known returns the verifier of a user's plain password, nil while it has not been
// derived.
func (k *Keys) known(user, password string) *verifier {
	id := k.id(user, password)
	k.mu.Lock()
	defer k.mu.Unlock()
	v, _ := k.derived.get(id)
	return v
}

// derive makes the verifier of a user's plain password known: milliseconds, on a
// helper only.
func (k *Keys) derive(user, password string) *verifier {
	v := derive(password, k.salt(user), ourIterations)
	id := k.id(user, password)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.derived.put(id, v)
	return v
}

// Format writes nothing but the type: every verb would show keys.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("auth.Keys(" + mask + ")")) }
