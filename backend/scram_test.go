package backend

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/xdg-go/scram"
)

// RFC 7677, section 3: the example exchange of SCRAM-SHA-256.
func TestRFC7677(t *testing.T) {
	const nonce = "rOprNGfwEbeRWgbNEkqO"
	first, x, err := newExchange(nil, "user", "pencil", func() string { return nonce })
	if err != nil {
		t.Fatal(err)
	}
	if want := "n,,n=user,r=" + nonce; first != want {
		t.Errorf("client-first-message %q, want %q", first, want)
	}
	const combined = nonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	if known, err := x.challenge("r=" + combined + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"); known || err != nil {
		t.Fatal(known, err)
	}
	x.derive()
	final, err := x.proof()
	if want := "c=biws,r=" + combined + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="; err != nil || final != want {
		t.Errorf("client-final-message %q, %v, want %q", final, err, want)
	}
	if err := x.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="); err != nil {
		t.Error(err)
	}
}

// scramServer is PostgreSQL's side: it knows the verifier of one password.
func scramServer(t *testing.T, password, salt string, iterations int) *scram.ServerConversation {
	t.Helper()
	client, err := scram.SHA256.NewClientUnprepped("", password, "")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: salt, Iters: iterations})
	if err != nil {
		t.Fatal(err)
	}
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
	if err != nil {
		t.Fatal(err)
	}
	return server.NewConversation()
}

// saslLogin runs a login up to Done; computed says whether it took a helper.
func saslLogin(l *Login, server *scram.ServerConversation, offered string) (computed bool, err error) {
	l.Start(nil)
	m := auth(authSASL, offered)
	out, _, err := l.Receive(m.typ, []byte(m.body), nil)
	if err != nil {
		return false, err
	}
	const head = 5 + len(scramSHA256) + 1 + 4
	first, err := server.Step(string(out[head:]))
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

func TestSCRAMLogin(t *testing.T) {
	f := func(password, verifier, offered, want string) {
		t.Helper()
		cfg := config()
		cfg.Password = password
		computed, err := saslLogin(NewLogin(cfg), scramServer(t, verifier, "salt", 4096), offered)
		if fmt.Sprint(err) != want || !computed {
			t.Errorf("password %q, verifier of %q, %q: computed %t, %v, want %s", password, verifier, offered, computed, err, want)
		}
	}
	const plain, plus = "SCRAM-SHA-256\x00", "SCRAM-SHA-256-PLUS\x00"
	const wrong = "PostgreSQL refused the login: password authentication failed (SQLSTATE 28P01)"
	f("secret", "secret", plain+"\x00", "<nil>")
	f("secret", "secret", plus+plain+"\x00", "<nil>")
	f("secret", "secret", plain+plus+"\x00", "<nil>")
	f("secret", "secret", "OTHER\x00"+plain, "<nil>")
	f("secret", "Secret", plain+"\x00", wrong)
	// SASLprep: compatibility forms are composed, soft hyphens vanish; what it
	// refuses (a control character, invalid UTF-8) or empties is taken as it is.
	f("\u2168", "IX", plain+"\x00", "<nil>")
	f("I\u00adX", "IX", plain+"\x00", "<nil>")
	f("a\tb", "a\tb", plain+"\x00", "<nil>")
	f("\xff\xfe", "\xff\xfe", plain+"\x00", "<nil>")
	f("\u00ad", "\u00ad", plain+"\x00", "<nil>")
	f("\U0001f418", "\U0001f418", plain+"\x00", "<nil>")
	f(strings.Repeat("p", 4096), strings.Repeat("p", 4096), plain+"\x00", "<nil>")
}

func TestSCRAMFewIterations(t *testing.T) {
	if _, err := saslLogin(NewLogin(config()), scramServer(t, "secret", "s", 1), "SCRAM-SHA-256\x00\x00"); err != nil {
		t.Error(err)
	}
}

// What the server sends is bounded before anything is computed for it, and a
// server that cannot prove itself is not believed.
func TestSCRAMHostileServer(t *testing.T) {
	f := func(challenge, want string) {
		t.Helper()
		l := NewLogin(config())
		l.Start(nil)
		m := auth(authSASL, "SCRAM-SHA-256\x00\x00")
		out, _, err := l.Receive(m.typ, []byte(m.body), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, nonce, _ := strings.Cut(string(out), "r=")
		m = auth(authSASLContinue, strings.ReplaceAll(challenge, "NONCE", nonce))
		out, step, err := l.Receive(m.typ, []byte(m.body), nil)
		if err == nil && step == Compute {
			l.Compute()
			out, _, err = l.Computed(nil)
		}
		var v *ViolationError
		if !errors.As(err, &v) || !strings.Contains(v.What, want) || len(out) > 0 {
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
	f("r=other,s=c2FsdA==,i=1", "did not extend")
	f("r=NONCEx,s=?,i=1", "SCRAM")
}

func TestSCRAMServerSignature(t *testing.T) {
	f := func(final, want string) {
		t.Helper()
		_, x, err := newExchange(nil, "", "secret", func() string { return "n" })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.challenge("r=nx,s=c2FsdA==,i=1"); err != nil {
			t.Fatal(err)
		}
		x.derive()
		if err := x.verify(final); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", final, err, want)
		}
	}
	f("v=AAAA", "signature is wrong")
	f("", "signature is wrong")
	f("v=", "signature is wrong")
	f("e=invalid-proof", "SCRAM authentication failed: invalid-proof (SQLSTATE 28P01)")
}

func TestKeyCache(t *testing.T) {
	const offered = "SCRAM-SHA-256\x00\x00"
	cfg := config()
	cfg.Keys = &KeyCache{}
	f := func(name, password, salt string, wantComputed bool) {
		t.Helper()
		c := cfg
		c.Password = password
		computed, err := saslLogin(NewLogin(c), scramServer(t, password, salt, 4096), offered)
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
		if len(cfg.Keys.known) > maxDerivedKeys+1 {
			t.Fatalf("%d keys kept", len(cfg.Keys.known))
		}
	}
}

func TestKeyCacheConcurrently(t *testing.T) {
	cfg := config()
	cfg.Keys = &KeyCache{}
	var wg sync.WaitGroup
	for i := range 8 {
		server := scramServer(t, "secret", fmt.Sprint(i%3), 10)
		wg.Go(func() {
			if _, err := saslLogin(NewLogin(cfg), server, "SCRAM-SHA-256\x00\x00"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
