package auth

import (
	"bytes"
	"testing"
)

// FuzzUsersFile: whatever is in the file, it is read or refused, and what is read is
// what the file says.
func FuzzUsersFile(f *testing.F) {
	f.Add([]byte("\"alice\" \"pencil\"\n; comment\n\"b\"\"ob\" \"" + pencilSecret + "\" more"))
	f.Add([]byte("\"a\" \"p\"\r\n\"a\" \"q\""))
	f.Add([]byte("\"alice\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, problems := load(string(text))
		if (users == nil) != (problems != "") {
			t.Fatalf("users %v, problems %q", users, problems)
		}
		if users == nil {
			return
		}
		var again bytes.Buffer
		for user, secret := range users.secrets {
			if user == "" {
				t.Fatal("a user without a name")
			}
			if secret.Kind() == SCRAMSecret {
				continue
			}
			again.WriteString(quote(user) + " " + quote(secret.Reveal()) + "\n")
		}
		reread, problems := load(again.String())
		if problems != "" {
			t.Fatal(problems)
		}
		for user := range reread.secrets {
			if a, b := users.secrets[user], reread.secrets[user]; a.Kind() != b.Kind() || a.Reveal() != b.Reveal() {
				t.Fatalf("user %q: another secret than was read", user)
			}
		}
	})
}

func quote(s string) string {
	return `"` + string(bytes.ReplaceAll([]byte(s), []byte(`"`), []byte(`""`))) + `"`
}

// FuzzSASLInitialResponse: a challenge or a refusal, and never more.
func FuzzSASLInitialResponse(f *testing.F) {
	for _, tls := range []bool{false, true} {
		f.Add(initial(mechanism, "n,,n=,r=abc"), tls)
		f.Add(initial(mechanismPlus, "p=tls-server-end-point,,n=,r=abc"), tls)
		f.Add(initial(mechanism, "y,,n=user,r=abc,x=extension"), tls)
		f.Add(initial(mechanism, "n,a=other,n=,r=abc"), tls)
	}
	secret, keys := parse(f, pencilSecret), NewKeys()
	f.Fuzz(func(t *testing.T, body []byte, tls bool) {
		x := NewExchange(Decision{Method: SCRAM}, testPeer(tls), secret, keys)
		x.Start(nil)
		before := bytes.Clone(body)
		out, step, refused := x.Receive('p', body, nil)
		if !bytes.Equal(before, body) || step != More || (refused == nil) != (len(out) > 0) {
			t.Fatalf("step %v, %q, %+v", step, out, refused)
		}
		if refused == nil {
			code, data := authentication(t, out)
			if code != authSASLContinue || !bytes.HasPrefix(data, append([]byte("r="), x.sasl.nonce...)) {
				t.Fatalf("%d %q", code, data)
			}
		}
	})
}

// FuzzSASLResponse: no response gets in but the one, and nothing follows a refusal.
func FuzzSASLResponse(f *testing.F) {
	const header = "c=biws,r=abcdef"
	f.Add([]byte(header + ",p=" + encode64(make([]byte, 32))))
	f.Add([]byte(header + ",x=y,p=" + encode64(make([]byte, 32))))
	f.Add([]byte("c=eSws,r=abcdef,p=" + encode64(make([]byte, 32))))
	f.Add([]byte(header))
	secret, keys := parse(f, pencilSecret), NewKeys()
	f.Fuzz(func(t *testing.T, body []byte) {
		x := NewExchange(Decision{Method: SCRAM}, testPeer(false), secret, keys)
		x.Start(nil)
		if _, _, refused := x.Receive('p', initial(mechanism, "n,,n=,r=abc"), nil); refused != nil {
			t.Fatal(refused)
		}
		// A nonce that the corpus can know.
		x.sasl.nonce = []byte("abcdef")
		out, step, refused := x.Receive('p', body, nil)
		if refused == nil || len(out) > 0 || step != More {
			t.Fatalf("%q got in: %v, %q", body, step, out)
		}
		if _, _, again := x.Receive('p', body, nil); again == nil {
			t.Fatal("goes on after a refusal")
		}
	})
}
