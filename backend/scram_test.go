package backend

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/xdg-go/scram"

	"pgkinetic/configs"

	ours "pgkinetic/protocol/scram"
)

// rfc7677 is the example exchange of SCRAM-SHA-256 in section 3 of RFC 7677.
var rfc7677 = struct{ nonce, combined, challenge, first, final, verified string }{
	nonce:     "rOprNGfwEbeRWgbNEkqO",
	combined:  "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
	challenge: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
	first:     "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
	final:     "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
	verified:  "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
}

func TestRFC7677(t *testing.T) {
	x := &exchange{gs2: gs2None, nonce: rfc7677.nonce, user: "user"}
	if got := x.clientFirst(); got != rfc7677.first {
		t.Errorf("client-first-message %q, want %q", got, rfc7677.first)
	}
	if err := x.challenge(rfc7677.challenge); err != nil {
		t.Fatal(err)
	}
	keys, err := ours.Derive("pencil", x.salt, x.iterations)
	if err != nil {
		t.Fatal(err)
	}
	if got := x.final(keys); got != rfc7677.final {
		t.Errorf("client-final-message %q, want %q", got, rfc7677.final)
	}
	if err := x.verify(rfc7677.verified); err != nil {
		t.Error(err)
	}
}

// scramServer is PostgreSQL's side, played by a library: it knows the verifier
// of one password. With an endPoint it runs over TLS.
type scramServer struct {
	*scram.ServerConversation
	mechanism string
}

// verifier is what a server stores.
func verifier(t *testing.T, password, salt string, iterations int) scram.StoredCredentials {
	t.Helper()
	client, err := scram.SHA256.NewClientUnprepped("", password, "")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: salt, Iters: iterations})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func newServer(t *testing.T, stored scram.StoredCredentials) *scram.Server {
	t.Helper()
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func plainServer(t *testing.T, password, salt string, iterations int) scramServer {
	t.Helper()
	return scramServer{newServer(t, verifier(t, password, salt, iterations)).NewConversation(), scramSHA256}
}

// saslLogin runs a login up to Done; computed says whether it took a helper.
func saslLogin(l *Login, server scramServer, offered string) (computed bool, err error) {
	l.Start(nil)
	m := auth(authSASL, offered)
	out, _, err := l.Receive(m.typ, []byte(m.body), nil)
	if err != nil {
		return false, err
	}
	mechanism, rest, _ := strings.Cut(string(out[5:]), "\x00")
	if mechanism != server.mechanism {
		return false, fmt.Errorf("mechanism %q", mechanism)
	}
	first, err := server.Step(rest[4:])
	if err != nil {
		return false, err
	}
	m = auth(authSASLContinue, first)
	out, step, err := l.Receive(m.typ, []byte(m.body), nil)
	if err != nil {
		return false, err
	}
	if computed = step == Compute; computed {
		l.Compute()
		if out, _, err = l.Computed(nil); err != nil {
			return computed, err
		}
	}
	final, err := server.Step(string(out[5:]))
	if err != nil {
		m = errorResponse("SFATAL", "C28P01", "Mpassword authentication failed")
	} else {
		m = auth(authSASLFinal, final)
	}
	for _, m := range []msg{m, okay, keyData, ready} {
		if _, step, err = l.Receive(m.typ, []byte(m.body), nil); err != nil {
			return computed, err
		}
	}
	if step != Done {
		return computed, errors.New("not done")
	}
	return computed, nil
}

const (
	offersPlain = "SCRAM-SHA-256\x00\x00"
	offersBoth  = "SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"
)

func TestSCRAMLogin(t *testing.T) {
	f := func(password, known, offered, want string) {
		t.Helper()
		cfg := config()
		cfg.Credentials.Set(Stored{Password: configs.Secret(password)})
		computed, err := saslLogin(NewLogin(cfg), plainServer(t, known, "salt", 4096), offered)
		if fmt.Sprint(err) != want || !computed {
			t.Errorf("password %q, verifier of %q, %q: computed %t, %v, want %s", password, known, offered, computed, err, want)
		}
	}
	const wrong = "PostgreSQL refused the login: password authentication failed (SQLSTATE 28P01)"
	f("secret", "secret", offersPlain, "<nil>")
	f("secret", "secret", offersBoth, "<nil>")
	f("secret", "secret", "SCRAM-SHA-256\x00SCRAM-SHA-256-PLUS\x00\x00", "<nil>")
	f("secret", "secret", "OTHER\x00SCRAM-SHA-256\x00", "<nil>")
	f("secret", "Secret", offersPlain, wrong)
	// SASLprep: compatibility forms are composed, soft hyphens vanish; what it
	// refuses (a control character, invalid UTF-8) or empties is taken as it is.
	f("\u2168", "IX", offersPlain, "<nil>")
	f("I\u00adX", "IX", offersPlain, "<nil>")
	f("a\tb", "a\tb", offersPlain, "<nil>")
	f("\xff\xfe", "\xff\xfe", offersPlain, "<nil>")
	f("\u00ad", "\u00ad", offersPlain, "<nil>")
	f("\U0001f418", "\U0001f418", offersPlain, "<nil>")
	f(strings.Repeat("p", 4096), strings.Repeat("p", 4096), offersPlain, "<nil>")
}

func TestSCRAMFewIterationsAndAnySalt(t *testing.T) {
	for _, salt := range []int{1, 8, 16, 20, 64, 1000} {
		if _, err := saslLogin(NewLogin(config()), plainServer(t, "secret", strings.Repeat("s", salt), 1), offersPlain); err != nil {
			t.Errorf("salt of %d bytes: %v", salt, err)
		}
	}
}

// Over TLS the login is bound to the server's certificate where the server can
// do that, and says that it could be where the server does not offer it, so that
// somebody in between who hides the offer is found out.
func TestSCRAMChannelBinding(t *testing.T) {
	endPoint := []byte("hash of the certificate")
	binding := func(hash string) scram.ChannelBinding {
		return scram.ChannelBinding{Type: scram.ChannelBindingTLSServerEndpoint, Data: []byte(hash)}
	}
	f := func(name string, ours []byte, server scramServer, offered, want string) {
		t.Helper()
		l := NewLogin(config())
		if ours != nil {
			l.BindTo(ours)
		}
		_, err := saslLogin(l, server, offered)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	s := newServer(t, verifier(t, "secret", "salt", 100))
	required := func(hash string) scramServer {
		return scramServer{s.NewConversationWithChannelBindingRequired(binding(hash)), scramSHA256Plus}
	}
	f("bound", endPoint, required(string(endPoint)), offersBoth, "<nil>")
	f("any order", endPoint, required(string(endPoint)), "SCRAM-SHA-256\x00X\x00SCRAM-SHA-256-PLUS\x00\x00", "<nil>")
	f("PLUS alone", endPoint, required(string(endPoint)), "SCRAM-SHA-256-PLUS\x00\x00", "<nil>")
	f("another certificate", endPoint, required("of somebody in between"), offersBoth, "28P01")
	f("no TLS", nil, plainServer(t, "secret", "salt", 100), offersBoth, "<nil>")
	f("not offered", endPoint, plainServer(t, "secret", "salt", 100), offersPlain, "<nil>")
	f("offer hidden", endPoint, scramServer{s.NewConversationWithChannelBinding(binding(string(endPoint))), scramSHA256},
		offersPlain, "downgrade")
	f("PLUS alone without TLS", nil, scramServer{}, "SCRAM-SHA-256-PLUS\x00\x00", "does not support")
}

// What the server sends is bounded before anything is computed for it, and a
// server that cannot prove itself is not believed.
func TestSCRAMHostileServer(t *testing.T) {
	f := func(challenge, want string) {
		t.Helper()
		l := NewLogin(config())
		l.Start(nil)
		m := auth(authSASL, offersPlain)
		out, _, err := l.Receive(m.typ, []byte(m.body), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, nonce, _ := strings.Cut(string(out), "r=")
		m = auth(authSASLContinue, strings.ReplaceAll(challenge, "NONCE", nonce))
		out, step, err := l.Receive(m.typ, []byte(m.body), nil)
		var v *ViolationError
		if !errors.As(err, &v) || !strings.Contains(v.What, want) || len(out) > 0 || step != More {
			t.Errorf("%q: got %q, %v, want a violation about %q", challenge, out, err, want)
		}
	}
	f("", "malformed")
	f("r=NONCEx", "malformed")
	f("r=NONCEx,i=1,s=c2FsdA==", "malformed")
	f("m=x,r=NONCEx,s=c2FsdA==,i=1", "malformed")
	f("r=NONCEx,s=c2FsdA==,i=0", "iteration count")
	f("r=NONCEx,s=c2FsdA==,i=-5", "iteration count")
	f("r=NONCEx,s=c2FsdA==,i=x", "iteration count")
	f("r=NONCEx,s=c2FsdA==,i=10000001", "iteration count")
	f("r=NONCEx,s=c2FsdA==,i=99999999999999999999", "iteration count")
	f("r=NONCE"+strings.Repeat("x", maxServerNonce)+",s=c2FsdA==,i=1", "nonce of")
	f("r=NONCE\x01,s=c2FsdA==,i=1", "unprintable")
	f("r=other,s=c2FsdA==,i=1", "does not extend")
	f("r=NONCEx,s=?,i=1", "salt")
	f("r=NONCEx,s=,i=1", "salt")
}

func TestSCRAMServerSignature(t *testing.T) {
	f := func(final, want string) {
		t.Helper()
		x := &exchange{gs2: gs2None, nonce: "n"}
		if err := x.challenge("r=nx,s=c2FsdA==,i=1"); err != nil {
			t.Fatal(err)
		}
		keys, err := ours.Derive("secret", x.salt, x.iterations)
		if err != nil {
			t.Fatal(err)
		}
		x.final(keys)
		if err := x.verify(final); err == nil || !strings.Contains(err.Error(), want) || ClassOf(err) != LoginFault {
			t.Errorf("%q: got %v, want %q", final, err, want)
		}
	}
	f("v=AAAA", "signature is wrong")
	f("", "signature is wrong")
	f("v=", "signature is wrong")
	f(rfc7677.verified, "signature is wrong")
	f("e=invalid-proof", "SCRAM authentication failed: invalid-proof (SQLSTATE 28P01)")
}

// Keys that were derived once are not derived again, and a server that changes
// its salt each time costs no memory.
func TestDerivedKeys(t *testing.T) {
	cfg := config()
	f := func(name, password, salt string, wantComputed bool) {
		t.Helper()
		cfg.Credentials.Set(Stored{Password: configs.Secret(password)})
		computed, err := saslLogin(NewLogin(cfg), plainServer(t, password, salt, 4096), offersPlain)
		if err != nil || computed != wantComputed {
			t.Errorf("%s: computed %t, want %t, %v", name, computed, wantComputed, err)
		}
	}
	f("first login", "secret", "a", true)
	f("second login", "secret", "a", false)
	f("other salt", "secret", "b", true)
	f("both known", "secret", "a", false)
	f("other password", "other", "a", true)
	f("and back", "secret", "a", true)
	for i := range 4 * maxDerivedKeys {
		f("hostile salts", "secret", fmt.Sprint("salt", i), true)
		if n := len(cfg.Credentials.derived); n > maxDerivedKeys {
			t.Fatalf("%d keys kept", n)
		}
	}
}

func TestLoginsConcurrently(t *testing.T) {
	cfg := config()
	var wg sync.WaitGroup
	for i := range 8 {
		server := plainServer(t, "secret", fmt.Sprint(i%3), 10)
		wg.Go(func() {
			if _, err := saslLogin(NewLogin(cfg), server, offersPlain); err != nil {
				t.Error(err)
			}
			cfg.Credentials.LearnPassword("u", "secret")
			cfg.Credentials.Set(Stored{Password: "secret"})
		})
	}
	wg.Wait()
}
