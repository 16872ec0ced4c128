package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgkinetic/configs"

	"pgkinetic/protocol/scram"
)

// serverMethod is how PostgreSQL asks, and how it judges the answer: with the
// secret that it has of "secret".
type serverMethod struct {
	name string
	run  func(t *testing.T, l *Login) error
}

var serverMethods = []serverMethod{
	{"trust", func(_ *testing.T, l *Login) error { return passwordLogin(l, okay, "") }},
	{"password", func(_ *testing.T, l *Login) error { return passwordLogin(l, auth(authCleartext, ""), "secret") }},
	{"md5", func(_ *testing.T, l *Login) error {
		return passwordLogin(l, auth(authMD5, "\x01\x02\x03\x04"), "md5dffd2564502f75393b3854e1532b9fa6")
	}},
	{"scram A", func(t *testing.T, l *Login) error {
		_, err := saslLogin(l, plainServer(t, "secret", "salt A", 100), offersPlain)
		return err
	}},
	{"scram B", func(t *testing.T, l *Login) error {
		_, err := saslLogin(l, plainServer(t, "secret", "salt B", 100), offersPlain)
		return err
	}},
}

// passwordLogin runs a login against a server that asks by request and expects
// the given password message; none with trust.
func passwordLogin(l *Login, request msg, want string) error {
	l.Start(nil)
	script := []msg{request, okay, keyData, ready}
	if want == "" {
		script = script[1:]
	}
	for i, m := range script {
		out, step, err := l.Receive(m.typ, []byte(m.body), nil)
		if err == nil && step == Compute {
			l.Compute()
			out, _, err = l.Computed(nil)
		}
		if err != nil {
			return err
		}
		if i == 0 && want != "" && string(out[5:]) != want+"\x00" {
			refusal := errorResponse("SFATAL", "C28P01", "Mpassword authentication failed")
			_, _, err := l.Receive(refusal.typ, []byte(refusal.body), nil)
			return err
		}
	}
	return nil
}

func keysOf(t *testing.T, password, salt string) scram.Keys {
	t.Helper()
	keys, err := scram.Derive(password, salt, 100)
	if err != nil {
		t.Fatal(err)
	}
	return *keys
}

// Whatever a pool knows of its user, by whatever method PostgreSQL asks: the
// login works where that is mathematically possible, the first time and every
// time after; else its error says which kind of secret is missing.
func TestWhatIsKnownAgainstWhatIsAsked(t *testing.T) {
	const md5OfSecret = "md514ac701963725e89bfe34a2219d114a2" // md5("secretu"), by md5sum
	learn := func(user string, keys ...scram.Keys) func(*Credentials) {
		return func(c *Credentials) {
			for _, k := range keys {
				c.Learn(user, k)
			}
		}
	}
	const (
		none, onlySCRAM = "and none is known", "and only its SCRAM secret is known"
		noProof         = "which checks logins and makes none"
		noFit           = "does not fit PostgreSQL's SCRAM secret"
		onlyMD5, md5Not = "and only its md5 hash is known", "which serves the method md5 alone"
	)
	rows := []struct {
		name   string
		stored Stored
		learn  func(*Credentials)
		want   [5]string // of trust, password, md5, scram A, scram B; empty: it works
	}{
		{"nothing", Stored{}, nil, [5]string{"", none, none, none, none}},
		{"password", Stored{Password: "secret"}, nil, [5]string{}},
		{"password, forced user", Stored{Password: "secret"}, learn("other", keysOf(t, "wrong", "salt A")), [5]string{}},
		{"password and keys", Stored{Password: "secret"}, learn("u", keysOf(t, "wrong", "salt A")), [5]string{}},
		{"md5", Stored{MD5: md5OfSecret}, nil, [5]string{"", onlyMD5, "", md5Not, md5Not}},
		{"md5 and keys A", Stored{MD5: md5OfSecret}, learn("u", keysOf(t, "secret", "salt A")), [5]string{"", onlySCRAM, "", "", noFit}},
		{"secret A, nobody yet", Stored{SCRAM: true}, nil, [5]string{"", onlySCRAM, onlySCRAM, noProof, noProof}},
		{"secret A, a client", Stored{SCRAM: true}, learn("u", keysOf(t, "secret", "salt A")), [5]string{"", onlySCRAM, onlySCRAM, "", noFit}},
		{"secret B, a client", Stored{SCRAM: true}, learn("u", keysOf(t, "secret", "salt B")), [5]string{"", onlySCRAM, onlySCRAM, noFit, ""}},
		{"two clients", Stored{SCRAM: true}, learn("u", keysOf(t, "secret", "salt B"), keysOf(t, "secret", "salt A")), [5]string{"", onlySCRAM, onlySCRAM, "", noFit}},
		{"secret A, forced user", Stored{SCRAM: true}, learn("other", keysOf(t, "secret", "salt A")), [5]string{"", onlySCRAM, onlySCRAM, noProof, noProof}},
		{"certificate, nothing stored", Stored{}, func(c *Credentials) { c.LearnPassword("other", "secret") }, [5]string{"", none, none, none, none}},
		{"a client's password", Stored{}, func(c *Credentials) { c.LearnPassword("u", "secret") }, [5]string{}},
		{"a client's password, secret A", Stored{SCRAM: true}, func(c *Credentials) { c.LearnPassword("u", "secret") }, [5]string{}},
	}
	for _, row := range rows {
		for i, method := range serverMethods {
			c := knowing("u", row.stored)
			if row.learn != nil {
				row.learn(c)
			}
			for attempt := range 3 {
				err := method.run(t, NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c}))
				var unable *UnableError
				switch want := row.want[i]; {
				case want == "" && err != nil:
					t.Errorf("%s, %s, login %d: %v", row.name, method.name, attempt, err)
				case want != "" && (!errors.As(err, &unable) || !strings.Contains(unable.Message, want) || unable.Hint == ""):
					t.Errorf("%s, %s, login %d: got %v, want %q", row.name, method.name, attempt, err, want)
				}
			}
		}
	}
}

// What PostgreSQL refuses of what was learnt is forgotten, that and nothing else.
func TestRefusedKeysAreForgotten(t *testing.T) {
	scramA := serverMethods[3].run
	fresh := func(c *Credentials) *Login { return NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c}) }
	refused := func(name string, err error) {
		t.Helper()
		var r *RefusedError
		if !errors.As(err, &r) || r.Fields.Code != "28P01" {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong, right := keysOf(t, "changed", "salt A"), keysOf(t, "secret", "salt A")

	c := knowing("u", Stored{SCRAM: true})
	c.Learn("u", wrong)
	refused("wrong keys", scramA(t, fresh(c)))
	if c.learntKeys != nil {
		t.Error("refused keys are kept")
	}

	// While the login with the old keys runs, a client brings new ones.
	c.Learn("u", wrong)
	l := fresh(c)
	l.proof.used.keys = c.learntKeys
	c.Learn("u", right)
	refused("overtaken", l.failed(&RefusedError{Fields: newRefused([]byte("C28P01\x00\x00")).Fields}))
	if err := scramA(t, fresh(c)); err != nil {
		t.Errorf("the new keys are gone: %v", err)
	}

	c.LearnPassword("u", "changed") // goes before keys
	refused("wrong password", scramA(t, fresh(c)))
	if err := scramA(t, fresh(c)); err != nil {
		t.Errorf("the keys are gone with the password: %v", err)
	}

	c = knowing("u", Stored{MD5: "md500000000000000000000000000000000"})
	c.Learn("u", right)
	refused("wrong md5", serverMethods[2].run(t, fresh(c)))
	if err := scramA(t, fresh(c)); err != nil {
		t.Errorf("the keys are gone with a hash that they are not of: %v", err)
	}
	c.Learn("u", right)
	l = fresh(c)
	l.proof.used.keys = c.learntKeys
	_ = l.failed(&RefusedError{Fields: newRefused([]byte("C53300\x00\x00")).Fields})
	if c.learntKeys == nil {
		t.Error("a full server made us forget keys")
	}
}

// Each login asks the source anew, on a helper, and keys of the password before
// are not used for the next.
func TestPasswordSource(t *testing.T) {
	password, asked := "", 0
	var failure error
	c := NewCredentials("u", func() (string, error) { asked++; return password, failure })
	f := func(now string, fails error, want string) {
		t.Helper()
		password, failure = now, fails
		for _, method := range serverMethods[1:] {
			before := asked
			err := method.run(t, NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c}))
			if got := fmt.Sprint(err); !strings.Contains(got, want) {
				t.Errorf("%q, %s: got %s, want %s", now, method.name, got, want)
			}
			if asked != before+1 {
				t.Errorf("%q, %s: the source was asked %d times", now, method.name, asked-before)
			}
		}
	}
	f("secret", nil, "<nil>")
	f("changed", nil, "28P01")
	f("secret", nil, "<nil>")
	f(strings.Repeat("p", 4096), nil, "28P01")
	f("", errors.New("password_file: no such file"), "and it cannot be had: password_file: no such file")
	f("", nil, "none is known")

	before := asked
	if err := serverMethods[0].run(t, NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c})); err != nil || asked != before {
		t.Errorf("trust: %v, asked %d times", err, asked-before)
	}
}

func TestNothingOfCredentialsIsPrinted(t *testing.T) {
	const planted = "planted-secret"
	keys := scram.Keys{Salt: planted, Iterations: 1}
	copy(keys.ClientKey[:], planted)
	stored := Stored{Password: planted, MD5: planted}
	c := knowing("u", stored)
	c.Learn("u", keys)
	c.LearnPassword("u", planted)
	var b strings.Builder
	for _, v := range []any{keys, &keys, c, stored, LoginConfig{Credentials: c}, NewLogin(LoginConfig{Credentials: c})} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&b, verb, v)
		}
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		text, err := json.Marshal(v)
		if err != nil {
			t.Errorf("%T: %v", v, err)
		}
		b.Write(text)
	}
	for _, leak := range []string{planted, fmt.Sprintf("%x", planted), strings.Trim(fmt.Sprint([]byte(planted)), "[]")} {
		if strings.Contains(b.String(), leak) {
			t.Errorf("%q is printed", leak)
		}
	}
	c.Set(Stored{Password: configs.Secret(planted)})
	for _, method := range serverMethods[1:] {
		if err := method.run(t, NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c})); err == nil || strings.Contains(err.Error(), planted) {
			t.Errorf("%s: %v", method.name, err)
		}
	}
}
