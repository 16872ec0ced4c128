package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"pgkinetic/protocol"
	"pgkinetic/protocol/scram"
)

// State of an Exchange. Owner: the event loop of the client, except between Step
// Compute and the call of Computed, when one helper goroutine may call Compute (and
// the loop calls nothing).
//
//	fresh ─Start→ password ──p──────────→ judging ─Computed→ done
//	        │──→ md5 ──────p─────────────────────────────────↑ │
//	        │──→ saslFirst ─p→ saslFinal ─p→ (judging) ──────↑ │
//	        └─(trust, cert)──────────────────────────────────┘ ↓
//	                              wrong ─Retry→ (judging) → done
//
// Invariants: one proof is taken at most; only a proof that holds leads to done,
// and where a certificate is asked for as well, only with that; wrong is reached by
// a proof that does not hold and keeps it for Retry; every other refusal leads to
// failed, which accepts nothing.
type state uint8

const (
	stateFresh state = iota
	statePassword
	stateMD5
	stateSASLFirst
	stateSASLFinal
	stateJudging
	stateWrong
	stateDone
	stateFailed
)

// Bounds of what a client sends as its proof, as body without type and length.
const (
	// maxPassword bounds a PasswordMessage: passwords of 4 KiB and more exist
	// (tokens); 16 KiB, with its header, is what any message before the login may have.
	maxPassword = protocol.SmallMessage - protocol.HeaderLen
	// maxSASL is PostgreSQL's bound of a SASL message.
	maxSASL = 1024
)

// Authentication codes, from "Message Formats" in PostgreSQL's documentation.
const (
	authCleartext    = 3
	authMD5          = 5
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// Step says what an exchange needs next.
type Step uint8

const (
	// More: pass on the client's next message.
	More Step = iota
	// Compute: call Exchange.Compute on a helper goroutine, then Exchange.Computed on
	// the loop. Until then leave the client's bytes unread.
	Compute
	// Done: the client is who it says it is. AuthenticationOk is the owner's to send.
	Done
)

// Exchange is one client's proof of identity. See state for its owner.
type Exchange struct {
	decision Decision
	peer     Peer
	keys     *Keys
	secret   Secret
	state    state
	asked    state // which of password, md5 and saslFirst Start has chosen
	holds    bool  // result of judge

	salt     [4]byte       // of the md5 request
	received Secret        // the client's password or its md5 proof
	sasl     *conversation // nil unless SASL was chosen
	refused  *Refusal
}

// NewExchange returns an exchange that has not begun. secret is the zero Secret
// where the user has none, is not known, or may not log in any more: then
// everything goes the same way and fails at the end. keys is the process's.
func NewExchange(d Decision, peer *Peer, secret Secret, keys *Keys) *Exchange {
	return &Exchange{decision: d, peer: *peer, secret: secret, keys: keys}
}

// Limit is the largest body, in bytes without type and length, of a message that is
// taken next. A reader tests the header with it before it holds any byte of the body.
func (x *Exchange) Limit() int {
	if x.state == stateSASLFirst || x.state == stateSASLFinal {
		return maxSASL
	}
	return maxPassword
}

// Start appends the request for a proof to dst; by methods that need none of the
// client's it is Done at once. A Refusal ends the login: nothing was appended.
func (x *Exchange) Start(dst []byte) (out []byte, step Step, refused *Refusal) {
	switch x.decision.Method {
	case Trust, Cert:
		return x.settle(x.admit(dst))
	case Password:
		x.state = statePassword
		dst = appendAuthentication(dst, authCleartext)
	case MD5:
		if kind := x.secret.Kind(); kind == SCRAMSecret || kind == NoSecret && !x.decision.legacy {
			dst = x.offer(dst)
			break
		}
		x.state = stateMD5
		x.keys.fill(x.salt[:])
		dst = appendAuthentication(dst, authMD5, x.salt[:])
	case SCRAM:
		dst = x.offer(dst)
	case Reject:
		return x.settle(dst, More, failed(Reject, x.peer.User, ""))
	}
	x.asked = x.state
	return dst, More, nil
}

// offer appends AuthenticationSASL: the better mechanism first.
func (x *Exchange) offer(dst []byte) []byte {
	x.state = stateSASLFirst
	if x.bindable() {
		return appendAuthentication(dst, authSASL, []byte(mechanismPlus+"\x00"+mechanism+"\x00\x00"))
	}
	return appendAuthentication(dst, authSASL, []byte(mechanism+"\x00\x00"))
}

func (x *Exchange) bindable() bool { return x.peer.EndPoint != nil }

// Receive takes the client's next message and appends the answer, if any, to dst.
// body is only read during the call. A Refusal ends the login unless Retry finds
// otherwise: nothing was appended.
func (x *Exchange) Receive(typ byte, body, dst []byte) (out []byte, step Step, refused *Refusal) {
	return x.settle(x.receive(typ, body, dst))
}

// settle keeps the outcome of a call.
func (x *Exchange) settle(out []byte, step Step, refused *Refusal) ([]byte, Step, *Refusal) {
	switch {
	case refused != nil:
		if x.state != stateWrong || !refused.Wrong {
			x.state = stateFailed
		}
		x.refused = refused
	case step == Done:
		x.state = stateDone
	}
	return out, step, refused
}

func (x *Exchange) receive(typ byte, body, dst []byte) ([]byte, Step, *Refusal) {
	expected := "SASL"
	switch x.state {
	case statePassword, stateMD5:
		expected = "password"
	case stateSASLFirst, stateSASLFinal:
	case stateFresh, stateJudging, stateWrong, stateDone, stateFailed:
		return dst, More, violation(fmt.Sprintf("message type %d at a time when none is read", typ), "")
	}
	if typ != protocol.FrontendPassword {
		return dst, More, violation(fmt.Sprintf("expected %s response, got message type %d", expected, typ), "")
	}
	if len(body) > x.Limit() {
		return dst, More, violation(expected+" response is too long", fmt.Sprintf("%d bytes, of %d at most.", len(body), x.Limit()))
	}
	switch x.state {
	case stateSASLFirst:
		return x.challenge(body, dst)
	case stateSASLFinal:
		if refused := x.sasl.finish(body, x.peer.EndPoint); refused != nil {
			return dst, More, refused
		}
	default:
		if refused := x.take(body); refused != nil {
			return dst, More, refused
		}
	}
	return x.prove(dst)
}

// take reads a PasswordMessage.
func (x *Exchange) take(body []byte) *Refusal {
	end := bytes.IndexByte(body, 0)
	switch {
	case end < 0 || end != len(body)-1:
		return violation("invalid password packet size", "")
	case end == 0:
		return refuse(protocol.CodeInvalidPassword, "empty password returned by client", "")
	}
	x.received = Plain(string(body[:end]))
	return nil
}

// challenge answers the client's choice of mechanism. The salt of a user without a
// stored verifier needs no derivation, so this answer takes as long for everybody.
func (x *Exchange) challenge(body, dst []byte) ([]byte, Step, *Refusal) {
	c := &conversation{}
	if refused := c.begin(body, x.bindable()); refused != nil {
		return dst, More, refused
	}
	salt, iterations := x.shown(x.secret)
	x.sasl = c
	x.state = stateSASLFinal
	return appendAuthentication(dst, authSASLContinue, c.challenge(nil, x.keys.nonce(), salt, iterations)), More, nil
}

// shown is the salt and the iteration count of a challenge to a user who has secret.
func (x *Exchange) shown(secret Secret) (salt []byte, iterations int) {
	user := x.peer.User
	switch secret.Kind() {
	case SCRAMSecret:
		v := secret.verifier()
		x.keys.met(v)
		return v.salt, v.iterations
	case PlainSecret:
		return x.keys.salt(user), ourIterations
	case NoSecret, MD5Secret:
	}
	v := x.keys.unknown(user)
	return v.salt, v.iterations
}

// prove decides where the proof that was taken is judged: on a helper if PBKDF2 is
// needed for it.
func (x *Exchange) prove(dst []byte) ([]byte, Step, *Refusal) {
	x.state = stateJudging
	v := x.verifier()
	if x.asked == statePassword || x.asked == stateSASLFirst && v == nil {
		return dst, Compute, nil
	}
	x.judge(v)
	return x.judged(dst)
}

// Compute judges the proof: milliseconds of CPU, seconds at the bound of a stored
// secret's iterations. It may run on any goroutine, after a call returned Step
// Compute and before Computed is called.
func (x *Exchange) Compute() {
	v := x.verifier() // another login of the user may have derived it meanwhile
	if v == nil {
		v = x.keys.derive(x.peer.User, x.secret.Reveal())
	}
	x.judge(v)
}

// verifier is what a password or a SCRAM proof is checked with; nil for a plain
// password of which it is still to be derived.
func (x *Exchange) verifier() *verifier {
	switch x.secret.Kind() {
	case SCRAMSecret:
		return x.secret.verifier()
	case PlainSecret:
		return x.keys.known(x.peer.User, x.secret.Reveal())
	case NoSecret, MD5Secret:
	}
	return x.keys.unknown(x.peer.User)
}

// Computed appends the answer to what Compute has found to dst. Results as Receive.
func (x *Exchange) Computed(dst []byte) (out []byte, step Step, refused *Refusal) {
	if x.state != stateJudging {
		return x.settle(dst, More, violation("nothing was to be computed", ""))
	}
	return x.settle(x.judged(dst))
}

// judge finds out whether the proof holds, with v where the method asked for is not
// md5. The work is the same where the user has no secret, or one of a kind that
// cannot be compared.
func (x *Exchange) judge(v *verifier) {
	user, kind := x.peer.User, x.secret.Kind()
	genuine := kind == PlainSecret || kind == SCRAMSecret // else v is of nobody
	switch x.asked {
	case statePassword:
		x.holds = v.holds(x.received.Reveal()) && genuine
		if kind == MD5Secret {
			x.holds = equal(hashMD5(x.received.Reveal()+user), x.secret.Reveal())
		}
	case stateMD5:
		hashed, usable := x.secret.hashed(user)
		if !usable {
			hashed = hashMD5(user)
		}
		proof := hashMD5(hashed[len(md5Prefix):] + string(x.salt[:]))
		x.holds = equal(x.received.Reveal(), proof) && usable
	default:
		c := x.sasl
		clientKey, signature, ok := v.prove(string(c.messages), c.proof)
		x.holds = ok && genuine
		c.signature = signature
		if x.holds && kind == SCRAMSecret {
			c.learnt = &scram.Keys{ClientKey: clientKey, ServerKey: v.serverKey, Salt: string(v.salt), Iterations: v.iterations}
		}
	}
}

// judged answers what judge has found.
func (x *Exchange) judged(dst []byte) ([]byte, Step, *Refusal) {
	if !x.holds {
		x.state = stateWrong
		return dst, More, failed(x.decision.Method, x.peer.User, x.cause())
	}
	out, step, refused := x.admit(dst)
	if refused == nil && x.sasl != nil {
		final := base64.StdEncoding.AppendEncode([]byte("v="), x.sasl.signature[:])
		out = appendAuthentication(out, authSASLFinal, final)
	}
	return out, step, refused
}

// admit is the last question: whether the certificate names the user, where the
// rules want that.
func (x *Exchange) admit(dst []byte) ([]byte, Step, *Refusal) {
	if cause := x.decision.misnamed(&x.peer); cause != "" {
		return dst, More, failed(x.decision.Method, x.peer.User, cause)
	}
	return dst, Done, nil
}

// cause is what the log is told of a proof that does not hold.
func (x *Exchange) cause() string {
	switch kind := x.secret.Kind(); {
	case kind == NoSecret:
		return "the user is not known or has no password"
	case kind == MD5Secret && x.sasl != nil:
		return "the user's secret is md5, which scram-sha-256 cannot use"
	}
	return "the password does not match"
}

// Retry judges the proof again with a secret that was looked up anew, after a
// Refusal with Wrong set. Results as Receive. A proof by SCRAM is for one salt and
// one iteration count, so with a fresh verifier it fails again though the password
// be right: the client's next login will show.
func (x *Exchange) Retry(fresh Secret, dst []byte) (out []byte, step Step, refused *Refusal) {
	if x.state != stateWrong {
		return dst, More, x.refused
	}
	x.secret = fresh
	return x.settle(x.prove(dst))
}

// Keys returns, after Done, the client's SCRAM keys where it has proved itself by
// SCRAM against a secret that was stored as such: they log in to a PostgreSQL that
// has the same secret. Else nil, also where the verifier was our own, of a plain
// password: no server has its salt.
func (x *Exchange) Keys() *scram.Keys {
	if x.state != stateDone || x.sasl == nil {
		return nil
	}
	return x.sasl.learnt
}

// Password returns, after Done, the password that the client sent, else none.
func (x *Exchange) Password() Secret {
	if x.state != stateDone || x.asked != statePassword {
		return Secret{}
	}
	return x.received
}

// Format writes nothing but the type: every verb would show what was received.
func (x *Exchange) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("auth.Exchange(" + mask + ")")) }

// appendAuthentication appends an Authentication message.
func appendAuthentication(dst []byte, code uint32, data ...[]byte) []byte {
	body := bytes.Join(data, nil)
	dst = append(dst, protocol.BackendAuthentication)
	dst = binary.BigEndian.AppendUint32(dst, uint32(8+len(body)))
	dst = binary.BigEndian.AppendUint32(dst, code)
	return append(dst, body...)
}
