package auth

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgkinetic/protocol/scram"
)

func TestParseSecret(t *testing.T) {
	f := func(text string, want Kind) {
		t.Helper()
		s, err := ParseSecret(text)
		if err != nil || s.Kind() != want {
			t.Errorf("%q: kind %d, %v; want %d", text, s.Kind(), err, want)
		}
		if want == PlainSecret && s.Reveal() != text {
			t.Errorf("%q became %q", text, s.Reveal())
		}
	}
	const digest = "45f2603610af569b6155c45067268c6b"
	f("", NoSecret)
	f("pencil", PlainSecret)
	f("md5"+digest, MD5Secret)
	f("MD5"+digest, PlainSecret)
	f("md5"+strings.ToUpper(digest), PlainSecret)
	f("md5"+digest+"0", PlainSecret)
	f("md5"+digest[1:], PlainSecret)
	f("scram-sha-256$4096:", PlainSecret)
	f("SCRAM-SHA-256", PlainSecret)
	f(pencilSecret, SCRAMSecret)
	f(strings.Repeat("x", maxSecret), PlainSecret)

	wrong := func(text string) {
		t.Helper()
		if s, err := ParseSecret(text); err == nil || s.Kind() != NoSecret {
			t.Errorf("%q: kind %d", text, s.Kind())
		}
	}
	for cut := len(scramPrefix); cut < len(pencilSecret); cut++ {
		wrong(pencilSecret[:cut])
	}
	edit := func(old, with string) { wrong(strings.Replace(pencilSecret, old, with, 1)) }
	edit("4096", "0")
	edit("4096", "-1")
	edit("4096", "10000001")
	edit("4096", "99999999999999999999")
	edit("4096", "4096 ")
	edit("W22ZaJ0SNY7soEsUEjb6gQ==", "")
	edit("W22ZaJ0SNY7soEsUEjb6gQ==", "W22ZaJ0SNY7soEsUEjb6gR==") // bits beyond the end
	edit("W22Z", "W22Z\n")
	edit("W22Z", "W*2Z")
	edit("WG5d", "WG5")
	edit("WG5d", "WG5d\r")
	edit("WG5d", "WG5dWG5d")
	edit("T4qY=", "T4qYY")
	wrong(pencilSecret + "=")
	wrong(pencilSecret + "\x00")
	wrong(strings.Repeat("x", maxSecret+1))
}

// TestNothingPrintsASecret plants secrets everywhere and looks for them, and for
// what is made of them, in whatever a log or a console could print.
func TestNothingPrintsASecret(t *testing.T) {
	const password = "planted-password"
	scramText := stored(password, "0123456789abcdef", 4096) // that of secretsOf
	planted := []string{
		password, encode64([]byte(password)), fmt.Sprintf("%x", password), fmt.Sprintf("%v", []byte(password)),
		strings.SplitAfterN(scramText, ":", 3)[2], hashMD5(password + "alice")[3:],
	}
	v := parse(t, scramText).verifier()
	salted, err := pbkdf2.Key(sha256.New, password, v.salt, v.iterations, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []key{v.storedKey, v.serverKey, scram.MAC(salted, "Client Key")} {
		planted = append(planted, encode64(k[:]), fmt.Sprintf("%x", k), fmt.Sprintf("%v", k))
	}
	look := func(what string, printed ...string) {
		t.Helper()
		for _, text := range printed {
			for _, p := range planted {
				if strings.Contains(strings.ToLower(text), strings.ToLower(strings.Trim(p, "[]"))) {
					t.Fatalf("%s shows a secret: %s", what, text)
				}
			}
		}
	}
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"}
	show := func(what string, value any) {
		t.Helper()
		for _, verb := range verbs {
			look(what, fmt.Sprintf(verb, value))
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		encoded, _ := json.Marshal(value)
		look(what, log.String(), string(encoded))
	}
	// showAlsoWithin prints it as a part of another struct too, where nobody asks its methods.
	showAlsoWithin := func(what string, value any) {
		t.Helper()
		show(what, value)
		for _, verb := range verbs {
			look(what+" within", fmt.Sprintf(verb, struct{ inner any }{value}))
		}
	}
	users, _ := load("\"alice\" \"" + password + "\"\n\"bob\" \"" + scramText + "\"\n\"carol\" \"" + hashMD5(password+"alice") + "\"\n")
	showAlsoWithin("Users", users)
	showAlsoWithin("Users", *users)
	keys := NewKeys()
	keys.derive("alice", password)
	showAlsoWithin("Keys", keys)
	for kind, secret := range secretsOf(t, "alice", password) {
		showAlsoWithin("Secret", secret)
		for _, m := range []Method{Password, MD5, SCRAM} {
			for _, sent := range []string{password, "other"} {
				x := NewExchange(Decision{Method: m}, testPeer(false), secret, keys)
				o := run(t, x, &client{user: "alice", password: sent})
				showAlsoWithin("Exchange "+kind, x)
				showAlsoWithin("Exchange "+kind, *x)
				if o.refused != nil {
					showAlsoWithin("Refusal", o.refused)
				}
				if k := x.Keys(); k != nil {
					show("Keys", k)
					show("Keys", *k)
				}
				showAlsoWithin("Password", x.Password())
			}
		}
	}
	for _, text := range []string{
		"\"alice\" \"" + password, "\"alice\" " + password, "\"alice\" \"SCRAM-SHA-256$" + password + "\"",
		"\"alice\" \"" + password + "\x00\"", "\"a\" \"" + password + "\"\n\"a\" \"" + password + "\"",
		"\"alice\" \"" + password + strings.Repeat("x", maxSecret) + "\"", "\"alice " + password,
	} {
		users, problems := load(text)
		if users != nil || problems == "" {
			t.Errorf("%q is in order", text)
		}
		look("a problem of a file", problems)
	}
}
