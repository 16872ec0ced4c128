package backend

import (
	"strconv"
	"strings"
	"sync"

	"github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"

	"pgkinetic/protocol"
)

const scramSHA256 = "SCRAM-SHA-256"

// exchange is the client's side of one SCRAM-SHA-256 conversation (RFC 5802,
// RFC 7677). Owner: the Login. derive may run on another goroutine while the
// loop calls nothing; final and err are its only results.
//
// Invariant: a message that the library returned together with an error is
// never sent.
type exchange struct {
	keys    *KeyCache
	client  *scram.Client
	conv    *scram.ClientConversation
	first   string // server-first-message, set by challenge
	factors scram.KeyFactors
	final   string // client-final-message, set by derive
	err     error
}

// newExchange begins a conversation and returns the client-first-message.
// PostgreSQL ignores the user name in it (the StartupMessage counts), so the
// login passes an empty one, as libpq does. nonce nil means random.
func newExchange(keys *KeyCache, user, password string, nonce func() string) (string, *exchange, error) {
	var client *scram.Client
	var err error
	if keys != nil {
		client, err = keys.clientFor(password)
	} else {
		client, err = newClient(user, password)
	}
	if err != nil {
		return "", nil, err
	}
	if nonce != nil {
		client = client.WithNonceGenerator(nonce)
	}
	x := &exchange{keys: keys, client: client, conv: client.NewConversation()}
	first, err := x.conv.Step("")
	if err != nil {
		return "", nil, err
	}
	return first, x, nil
}

func newClient(user, password string) (*scram.Client, error) {
	client, err := scram.SHA256.NewClientUnprepped(user, prepared(password), "")
	if err != nil {
		return nil, err
	}
	return client.WithMinIterations(1), nil
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

// challenge checks the bounds of the server-first-message before any work is
// done for it and says whether its keys are known already.
func (x *exchange) challenge(first string) (known bool, err error) {
	fields := strings.Split(first, ",")
	if len(fields) < 3 || !strings.HasPrefix(fields[0], "r=") ||
		!strings.HasPrefix(fields[1], "s=") || !strings.HasPrefix(fields[2], "i=") {
		return false, violation("malformed SCRAM server-first-message")
	}
	nonce := fields[0][2:]
	if len(nonce) > maxServerNonce {
		return false, violation("SCRAM nonce of %d bytes (at most %d)", len(nonce), maxServerNonce)
	}
	for i := range len(nonce) {
		if nonce[i] <= ' ' || nonce[i] >= 0x7f {
			return false, violation("SCRAM nonce with unprintable bytes")
		}
	}
	iterations, err := strconv.Atoi(fields[2][2:])
	if err != nil || iterations < 1 || iterations > maxIterations {
		return false, violation("SCRAM iteration count %q (1 to %d)", clean([]byte(fields[2][2:])), maxIterations)
	}
	x.first = first
	x.factors = scram.KeyFactors{Salt: fields[1][2:], Iters: iterations}
	return x.keys.holds(x.client, x.factors), nil
}

// derive computes the client's proof: PBKDF2, unless the keys are known.
func (x *exchange) derive() {
	x.final, x.err = x.conv.Step(x.first)
	if x.err == nil {
		x.keys.derived(x.client, x.factors)
	}
}

// proof returns the client-final-message.
func (x *exchange) proof() (string, error) {
	if x.err != nil {
		return "", violation("SCRAM: %s", clean([]byte(x.err.Error())))
	}
	return x.final, nil
}

// verify checks the server-final-message: the server's signature proves that
// it knows the password's verifier too.
func (x *exchange) verify(final string) error {
	if reason, failed := strings.CutPrefix(final, "e="); failed {
		return &RefusedError{Fields: protocol.ErrorFields{
			Severity: "FATAL", Code: protocol.CodeInvalidPassword, Message: "SCRAM authentication failed: " + clean([]byte(reason)),
		}}
	}
	if _, err := x.conv.Step(final); err != nil || !x.conv.Valid() {
		return violation("the server's SCRAM signature is wrong: it does not know the password")
	}
	return nil
}

// KeyCache remembers the keys derived from one pool's password, so that only
// its first login pays for PBKDF2. The zero value is ready. Safe for all
// goroutines; its mutex is held for a few instructions, never while deriving.
//
// Invariants: client was made for password; known lists the factors whose keys
// client caches, and a client that was given more than maxDerivedKeys of them
// is replaced, so a server that changes its salt each time costs no memory.
type KeyCache struct {
	mu       sync.Mutex
	password string
	client   *scram.Client
	known    []scram.KeyFactors
}

// clientFor returns the client for password; a changed password drops the
// keys of the old one.
func (k *KeyCache) clientFor(password string) (*scram.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil && k.password == password && len(k.known) <= maxDerivedKeys {
		return k.client, nil
	}
	client, err := newClient("", password)
	if err != nil {
		return nil, err
	}
	k.client, k.password, k.known = client, password, nil
	return client, nil
}

func (k *KeyCache) holds(client *scram.Client, f scram.KeyFactors) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if client != k.client {
		return false
	}
	for i := range k.known {
		if k.known[i] == f {
			return true
		}
	}
	return false
}

func (k *KeyCache) derived(client *scram.Client, f scram.KeyFactors) {
	if k == nil || k.holds(client, f) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if client == k.client && len(k.known) <= maxDerivedKeys {
		k.known = append(k.known, f)
	}
}
