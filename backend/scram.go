package backend

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"

	"pgkinetic/protocol"
	"pgkinetic/protocol/scram"
)

const (
	scramSHA256     = "SCRAM-SHA-256"
	scramSHA256Plus = "SCRAM-SHA-256-PLUS"
)

// The header of a client-first-message says what is bound to TLS (RFC 5802,
// section 6): nothing, since there is no TLS; nothing, since the server did not
// offer it; the server's certificate.
const (
	gs2None      = "n,,"
	gs2Unoffered = "y,,"
	gs2EndPoint  = "p=tls-server-end-point,,"
)

// exchange is the client's side of one SCRAM-SHA-256 conversation (RFC 5802,
// RFC 7677, RFC 5929). It works from keys and not from a password, since keys
// are all that is left of a client's login; that is why no library does it.
//
// Owner: the Login; final may run on another goroutine while the loop calls
// nothing. Invariant: expected is the server's signature for the very message
// that was sent.
type exchange struct {
	gs2      string
	endPoint []byte // with gs2EndPoint only
	nonce    string
	user     string // empty: PostgreSQL takes that of the StartupMessage, and libpq sends none

	first      string // server-first-message; this and the next three are set by challenge
	combined   string // nonce of both
	salt       string
	iterations int

	expected scram.Key // server's signature, set by final
}

// newExchange begins a conversation. endPoint is the tls-server-end-point of the
// server's certificate, to be bound with gs2EndPoint.
func newExchange(gs2 string, endPoint []byte) *exchange {
	x := &exchange{gs2: gs2, nonce: rand.Text()}
	if gs2 == gs2EndPoint {
		x.endPoint = endPoint
	}
	return x
}

// clientFirst returns the client-first-message.
func (x *exchange) clientFirst() string { return x.gs2 + x.bare() }

func (x *exchange) bare() string { return "n=" + x.user + ",r=" + x.nonce }

// challenge takes the server-first-message and checks its bounds before any work
// is done for it.
func (x *exchange) challenge(first string) error {
	fields := strings.Split(first, ",")
	if len(fields) < 3 || !strings.HasPrefix(fields[0], "r=") ||
		!strings.HasPrefix(fields[1], "s=") || !strings.HasPrefix(fields[2], "i=") {
		return violation("malformed SCRAM server-first-message")
	}
	nonce := fields[0][2:]
	if len(nonce) > maxServerNonce {
		return violation("SCRAM nonce of %d bytes (at most %d)", len(nonce), maxServerNonce)
	}
	for i := range len(nonce) {
		if nonce[i] <= ' ' || nonce[i] >= 0x7f {
			return violation("SCRAM nonce with unprintable bytes")
		}
	}
	if !strings.HasPrefix(nonce, x.nonce) {
		return violation("SCRAM nonce that does not extend ours")
	}
	salt, err := base64.StdEncoding.DecodeString(fields[1][2:])
	if err != nil || len(salt) == 0 {
		return violation("malformed SCRAM salt")
	}
	iterations, err := strconv.Atoi(fields[2][2:])
	if err != nil || iterations < 1 || iterations > maxIterations {
		return violation("SCRAM iteration count %q (1 to %d)", clean([]byte(fields[2][2:])), maxIterations)
	}
	x.first, x.combined, x.salt, x.iterations = first, nonce, string(salt), iterations
	return nil
}

// fits says whether keys are for the salt and iterations of the challenge.
func (x *exchange) fits(keys *scram.Keys) bool {
	return keys.Salt == x.salt && keys.Iterations == x.iterations
}

// final returns the client-final-message: the proof that we have keys.
func (x *exchange) final(keys *scram.Keys) string {
	binding := append([]byte(x.gs2), x.endPoint...)
	unproven := "c=" + base64.StdEncoding.EncodeToString(binding) + ",r=" + x.combined
	message := x.bare() + "," + x.first + "," + unproven

	storedKey := scram.StoredKey(keys.ClientKey)
	proof := scram.MAC(storedKey[:], message)
	subtle.XORBytes(proof[:], proof[:], keys.ClientKey[:])
	x.expected = scram.MAC(keys.ServerKey[:], message)
	return unproven + ",p=" + base64.StdEncoding.EncodeToString(proof[:])
}

// verify checks the server-final-message: the server's signature proves that it
// knows the password's secret too. A wrong one concerns this user only: where keys
// come from a SCRAM secret that was copied, that may be what is wrong.
func (x *exchange) verify(final string) error {
	if reason, failed := strings.CutPrefix(final, "e="); failed {
		return &RefusedError{Fields: protocol.ErrorFields{
			Severity: "FATAL", Code: protocol.CodeInvalidPassword, Message: "SCRAM authentication failed: " + clean([]byte(reason)),
		}}
	}
	field, _, _ := strings.Cut(final, ",")
	encoded, found := strings.CutPrefix(field, "v=")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || !hmac.Equal(signature, x.expected[:]) {
		return &UnableError{
			Message: "the server's SCRAM signature is wrong: it does not know the password",
			Hint:    "make sure that this is the right server, and that a SCRAM secret which was copied is whole",
		}
	}
	return nil
}
