package auth

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/protocol"
	"pgkinetic/protocol/scram"
)

func encode64(p []byte) string { return base64.StdEncoding.EncodeToString(p) }

// TestEveryMethodAndSecret: which secrets prove a user by which method, as in PostgreSQL.
func TestEveryMethodAndSecret(t *testing.T) {
	keys := NewKeys()
	secrets := secretsOf(t, "alice", "pencil")
	const wrong = `FATAL 28P01 password authentication failed for user "alice"`
	f := func(m Method, kind, good, bad string) {
		t.Helper()
		for password, want := range map[string]string{"pencil": good, "eraser": bad} {
			x := NewExchange(Decision{Method: m}, testPeer(false), secrets[kind], keys)
			got := run(t, x, &client{user: "alice", password: password}).String()
			if got != want {
				t.Errorf("%v, secret %s, password %s:\n got %s\nwant %s", m, kind, password, got, want)
			}
			learnt := ""
			if m == Password && strings.HasSuffix(got, "ok") {
				learnt = password
			}
			if x.Password().Reveal() != learnt {
				t.Errorf("%v, secret %s, password %s: learnt %q", m, kind, password, x.Password().Reveal())
			}
		}
	}
	f(Trust, "none", "ok", "ok")
	f(Password, "none", "3:0 compute "+wrong, "3:0 compute "+wrong)
	for _, kind := range []string{"plain", "md5", "scram"} {
		f(Password, kind, "3:0 compute ok", "3:0 compute "+wrong)
	}
	const sasl = "10:15 11:92 "
	f(MD5, "none", sasl+wrong, sasl+wrong)
	f(MD5, "plain", "5:4 ok", "5:4 "+wrong)
	f(MD5, "md5", "5:4 ok", "5:4 "+wrong)
	f(MD5, "scram", sasl+"12:46 ok", sasl+wrong)
	f(SCRAM, "none", sasl+wrong, sasl+wrong)
	f(SCRAM, "md5", sasl+wrong, sasl+wrong)
	f(SCRAM, "scram", sasl+"12:46 ok", sasl+wrong)
	keys.derive("alice", "pencil") // has logged in before
	f(SCRAM, "plain", sasl+"12:46 ok", sasl+wrong)
}

// TestPlainSecretIsDerivedOnce: the first exchange computes, no later one does, and
// a changed password is derived anew.
func TestPlainSecretIsDerivedOnce(t *testing.T) {
	keys := NewKeys()
	f := func(password, want string) {
		t.Helper()
		x := NewExchange(Decision{Method: SCRAM}, testPeer(false), Plain(password), keys)
		if got := run(t, x, &client{user: "alice", password: password}).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if x.Keys() != nil {
			t.Error("keys of our own salt are of no use to a server")
		}
	}
	f("pencil", "10:15 11:92 compute 12:46 ok")
	f("pencil", "10:15 11:92 12:46 ok")
	f("eraser", "10:15 11:92 compute 12:46 ok")
	f("pencil", "10:15 11:92 12:46 ok")
}

// TestKeysOfAStoredSecret: they are what a login to a server with the same secret
// needs, as RFC 5802 defines them.
func TestKeysOfAStoredSecret(t *testing.T) {
	for _, saltLen := range []int{8, 16, 64} {
		salt := strings.Repeat("s", saltLen)
		x := NewExchange(Decision{Method: SCRAM}, testPeer(false), parse(t, stored("pencil", salt, 7)), NewKeys())
		if x.Keys() != nil {
			t.Error("keys before the login")
		}
		if o := run(t, x, &client{user: "alice", password: "pencil"}); o.refused != nil {
			t.Fatal(o)
		}
		k := x.Keys()
		want := derive("pencil", []byte(salt), 7)
		if k.ServerKey != want.serverKey || k.Salt != salt || k.Iterations != 7 {
			t.Error("other keys than the secret's")
		}
		v := verifier{storedKey: want.storedKey}
		if _, _, ok := v.prove("message", xor(k.ClientKey, scram.MAC(want.storedKey[:], "message"))); !ok {
			t.Error("the client's key does not make a proof")
		}
	}
}

func xor(a, b key) (c key) {
	for i := range a {
		c[i] = a[i] ^ b[i]
	}
	return c
}

// TestChannelBinding: every header with -PLUS offered or not.
func TestChannelBinding(t *testing.T) {
	secret := parse(t, stored("pencil", "0123456789abcdef", 1))
	f := func(tls bool, c client, want string) {
		t.Helper()
		c.user, c.password = "alice", "pencil"
		x := NewExchange(Decision{Method: SCRAM}, testPeer(tls), secret, NewKeys())
		if got := run(t, x, &c).String(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	const plain, plus, shown = "10:15 ", "10:34 ", "11:89 "
	f(false, client{}, plain+shown+"12:46 ok")
	f(false, client{pretends: true}, plain+shown+"12:46 ok")
	f(false, client{endPoint: testEndPoint}, plain+shown+"12:46 ok")
	f(true, client{}, plus+shown+"12:46 ok")
	f(true, client{pretends: true}, plus+"FATAL 28000 SCRAM channel binding negotiation error")
	f(true, client{endPoint: testEndPoint}, plus+shown+"12:46 ok")
	f(true, client{endPoint: []byte("the certificate of somebody between")}, plus+shown+"FATAL 28000 SCRAM channel binding check failed")

	first := func(body []byte) func(int, byte, []byte) (byte, []byte) {
		return func(n int, typ byte, was []byte) (byte, []byte) {
			if n == 0 {
				return typ, body
			}
			return typ, was
		}
	}
	const bad = "FATAL 08P01 malformed SCRAM message"
	f(false, client{alter: first(initial(mechanismPlus, "p=tls-server-end-point,,n=,r=abc"))},
		plain+"FATAL 08P01 client selected an invalid SASL authentication mechanism")
	f(true, client{alter: first(initial(mechanismPlus, "n,,n=,r=abc"))}, plus+bad)
	f(true, client{alter: first(initial(mechanismPlus, "y,,n=,r=abc"))}, plus+bad)
	f(true, client{alter: first(initial(mechanism, "p=tls-server-end-point,,n=,r=abc"))}, plus+bad)
	f(true, client{alter: first(initial(mechanismPlus, "p=tls-unique,,n=,r=abc"))},
		plus+`FATAL 08P01 unsupported SCRAM channel-binding type "tls-unique"`)
	f(true, client{alter: first(initial(mechanismPlus, "p=tls\x01\xff,,n=,r=abc"))},
		plus+`FATAL 08P01 unsupported SCRAM channel-binding type "tls??"`)
}

// TestUnknownUserLooksLikeAWrongPassword: the same messages, sizes, texts and the
// same steps; only the salt is the user's own, and it stays.
func TestUnknownUserLooksLikeAWrongPassword(t *testing.T) {
	keys := NewKeys()
	keys.derive("alice", "pencil") // has logged in before
	for _, m := range []Method{Password, MD5, SCRAM} {
		for _, tls := range []bool{false, true} {
			for _, legacy := range []bool{false, true} {
				var shapes []string
				for kind, secret := range secretsOf(t, "alice", "pencil") {
					if m == MD5 && kind != "none" && (kind == "scram") == legacy {
						continue // another kind of user than most
					}
					x := NewExchange(Decision{Method: m, legacy: legacy}, testPeer(tls), secret, keys)
					shapes = append(shapes, run(t, x, &client{user: "alice", password: "eraser"}).String())
				}
				for _, s := range shapes {
					if s != shapes[0] {
						t.Errorf("%v: %s\n%s", m, s, shapes[0])
					}
				}
			}
		}
	}
	salt := func(user string, secret Secret, keys *Keys) string {
		p := testPeer(false)
		p.User = user
		x := NewExchange(Decision{Method: SCRAM}, p, secret, keys)
		run(t, x, &client{user: user, password: "eraser"})
		return string(x.sasl.salt)
	}
	if a, b := salt("alice", Secret{}, keys), salt("alice", Plain("pencil"), keys); a != b {
		t.Error("the salt shows whether a user exists")
	}
	if salt("alice", Secret{}, keys) == salt("bob", Secret{}, keys) || salt("alice", Secret{}, keys) == salt("alice", Secret{}, NewKeys()) {
		t.Error("one salt for two")
	}
}

// TestNoProofFitsAnUnknownUser, not even one that fits what stands in for its secret.
func TestNoProofFitsAnUnknownUser(t *testing.T) {
	keys := NewKeys()
	fitting := derive("pencil", keys.salt("alice"), ourIterations)
	keys.secrets.storedKey, keys.secrets.serverKey = fitting.storedKey, fitting.serverKey
	secrets := secretsOf(t, "alice", "eraser")
	for _, m := range []Method{Password, SCRAM} {
		for _, kind := range []string{"none", "md5"} {
			x := NewExchange(Decision{Method: m}, testPeer(false), secrets[kind], keys)
			if o := run(t, x, &client{user: "alice", password: "pencil"}); o.refused == nil {
				t.Errorf("%v, secret %s: %v", m, kind, o)
			}
		}
	}
}

// TestOnlyTheExactProofCounts: whatever is changed of what a good client sends, it
// does not get in.
func TestOnlyTheExactProofCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := NewKeys()
	good := parse(t, stored("pencil", "0123456789abcdef", 1))
	ways := []struct {
		m      Method
		tls    bool
		secret Secret
		rounds int
	}{
		{SCRAM, false, good, 1500},
		{SCRAM, true, good, 1500},
		{MD5, false, Plain("pencil"), 500},
		{Password, false, good, 100},
	}
	for _, w := range ways {
		for range w.rounds {
			target, changed := rng.IntN(2), false
			if w.m != SCRAM {
				target = 0
			}
			c := &client{user: "alice", password: "pencil", alter: func(n int, typ byte, body []byte) (byte, []byte) {
				if n != target {
					return typ, body
				}
				other := corrupt(rng, body)
				changed = !bytes.Equal(body, other)
				return typ, other
			}}
			if w.tls {
				c.endPoint = testEndPoint
			}
			x := NewExchange(Decision{Method: w.m}, testPeer(w.tls), w.secret, keys)
			o := run(t, x, c)
			if (o.refused == nil) != !changed {
				t.Fatalf("%v: changed %v, %v; sent %q", w.m, changed, o, c.sent)
			}
		}
	}
}

// corrupt changes, removes or inserts a byte, cuts, or doubles a part.
func corrupt(rng *rand.Rand, body []byte) []byte {
	p := bytes.Clone(body)
	at := rng.IntN(len(p))
	switch rng.IntN(5) {
	case 0:
		p[at] ^= 1 << rng.IntN(8)
	case 1:
		p = append(p[:at], p[at+1:]...)
	case 2:
		p = append(p[:at], append([]byte{byte(rng.Uint32())}, p[at:]...)...)
	case 3:
		p = p[:at]
	case 4:
		p = append(p, p[at:]...)
	}
	return p
}

// TestOutOfOrder: whatever comes when nothing is read, of another type, or too long
// is a violation and ends the exchange.
func TestOutOfOrder(t *testing.T) {
	newOne := func(m Method) *Exchange {
		return NewExchange(Decision{Method: m}, testPeer(false), Plain("p"), NewKeys())
	}
	f := func(x *Exchange, typ byte, body []byte, want string) {
		t.Helper()
		out, step, refused := x.Receive(typ, body, nil)
		if refused == nil || len(out) > 0 || step != More || refused.Fields.Code != protocol.CodeProtocolViolation ||
			!strings.HasPrefix(refused.Fields.Message, want) || refused.Wrong {
			t.Errorf("%+v, want %s", refused, want)
		}
		if _, _, again := x.Receive('p', []byte("p\x00"), nil); again == nil {
			t.Error("goes on after a violation")
		}
		if _, _, again := x.Computed(nil); again == nil {
			t.Error("computes after a violation")
		}
		if _, _, again := x.Retry(Plain("p"), nil); again == nil {
			t.Error("retries after a violation")
		}
	}
	started := func(m Method) *Exchange {
		x := newOne(m)
		x.Start(nil)
		return x
	}
	f(newOne(Password), 'p', []byte("p\x00"), "message type 112 at a time")
	f(started(Trust), 'p', []byte("p\x00"), "message type 112 at a time")
	f(started(Password), 'Q', []byte("p\x00"), "expected password response, got message type 81")
	f(started(SCRAM), 'Q', nil, "expected SASL response, got message type 81")
	f(started(Password), 'p', nil, "invalid password packet size")
	f(started(Password), 'p', []byte("p"), "invalid password packet size")
	f(started(MD5), 'p', []byte("p\x00p\x00"), "invalid password packet size")
	f(started(Password), 'p', make([]byte, maxPassword+1), "password response is too long")
	f(started(SCRAM), 'p', initial(mechanism, "n,,n=,r="+strings.Repeat("r", maxSASL)), "SASL response is too long")
	f(started(SCRAM), 'p', []byte(mechanism+"\x00\xff\xff\xff\xff"), "insufficient data left in message")
	x := started(Password)
	if _, step, _ := x.Receive('p', []byte("p\x00"), nil); step != Compute {
		t.Fatal(step)
	}
	f(x, 'p', []byte("p\x00"), "message type 112 at a time")
}

func TestLongPassword(t *testing.T) {
	long := strings.Repeat("geheim", 700)
	keys := NewKeys()
	for _, m := range []Method{Password, MD5, SCRAM} {
		x := NewExchange(Decision{Method: m}, testPeer(true), Plain(long), keys)
		if o := run(t, x, &client{user: "alice", password: long}); o.refused != nil {
			t.Error(m, o)
		}
	}
}

// TestRetry: a proof is judged again with a fresh secret where that can be.
func TestRetry(t *testing.T) {
	keys := NewKeys()
	now := secretsOf(t, "alice", "new")
	old := secretsOf(t, "alice", "old")
	otherSalt := parse(t, stored("new", "another salt 012", 4096))
	f := func(m Method, cached, fresh Secret, want bool) {
		t.Helper()
		x := NewExchange(Decision{Method: m}, testPeer(false), cached, keys)
		c := &client{user: "alice", password: "new"}
		o := run(t, x, c)
		if o.refused == nil || !o.refused.Wrong {
			t.Fatalf("%v: %v", m, o)
		}
		out, step, refused := x.Retry(fresh, nil)
		if step == Compute {
			x.Compute()
			out, step, refused = x.Computed(nil)
		}
		if (step == Done) != want || (refused == nil) != want {
			t.Errorf("%v: %v, %+v", m, step, refused)
		}
		if want && x.sasl != nil {
			_, data := authentication(t, out)
			if _, err := c.conv.Step(string(data)); err != nil || !c.conv.Valid() {
				t.Error("the client does not accept our signature")
			}
		}
		if !want && (refused.Fields != o.refused.Fields || !refused.Wrong) {
			t.Errorf("another answer than before: %+v", refused)
		}
	}
	for _, kind := range []string{"plain", "md5", "scram"} {
		f(Password, old[kind], now["plain"], true)
		f(Password, old[kind], now["md5"], true)
		f(Password, old[kind], now["scram"], true)
		f(Password, old[kind], old["plain"], false)
		f(Password, old[kind], Secret{}, false)
	}
	f(MD5, old["md5"], now["md5"], true)
	f(MD5, old["plain"], now["md5"], true)
	f(MD5, old["md5"], now["plain"], true)
	f(MD5, old["md5"], now["scram"], false)
	f(MD5, old["md5"], old["md5"], false)
	f(SCRAM, old["scram"], now["scram"], true) // of one salt
	f(SCRAM, old["scram"], otherSalt, false)
	f(SCRAM, old["plain"], now["plain"], true)
	f(SCRAM, Secret{}, now["plain"], true)
	f(SCRAM, old["scram"], now["plain"], false)
	f(SCRAM, old["plain"], now["md5"], false)
	f(SCRAM, old["plain"], Secret{}, false)

	x := NewExchange(Decision{Method: MD5}, testPeer(false), old["md5"], keys)
	run(t, x, &client{user: "alice", password: "new"})
	x.Receive('p', []byte("p\x00"), nil)
	if _, step, _ := x.Retry(now["md5"], nil); step == Done {
		t.Error("gets in after a second message")
	}
}
