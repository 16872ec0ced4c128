package scram

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRFC7677 computes the example of RFC 7677, section 3.
func TestRFC7677(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := Derive("pencil", string(salt), 4096)
	if err != nil {
		t.Fatal(err)
	}
	nonce := "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	message := "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=" + nonce
	stored := StoredKey(keys.ClientKey)
	proof := MAC(stored[:], message)
	subtle.XORBytes(proof[:], proof[:], keys.ClientKey[:])
	if got := base64.StdEncoding.EncodeToString(proof[:]); got != "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=" {
		t.Errorf("proof %s", got)
	}
	signature := MAC(keys.ServerKey[:], message)
	if got := base64.StdEncoding.EncodeToString(signature[:]); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("signature %s", got)
	}
}

func TestPrepare(t *testing.T) {
	f := func(given, want string) {
		t.Helper()
		if got := Prepare(given); got != want {
			t.Errorf("%q: %q, not %q", given, got, want)
		}
	}
	f("pencil", "pencil")
	f("I\u00adX", "IX")     // RFC 4013, section 3
	f("\u2168", "IX")       // the same
	f("\u0007", "\u0007")   // prohibited: taken as it is
	f("a\xff", "a\xff")     // no UTF-8: the same
	f("\u00ad", "\u00ad")   // nothing would be left
	f("a\u00a0b", "a b")    // a space of another kind
	f("\u0627a", "\u0627a") // both directions: refused
}

func TestKeysAreNotShown(t *testing.T) {
	k := Keys{Salt: "planted"}
	copy(k.ClientKey[:], "planted")
	text := fmt.Sprintf("%v %+v %#v %s %x %d %q", k, k, k, k, k, k, &k)
	j, err := json.Marshal(map[string]any{"keys": k})
	if text += string(j); err != nil || strings.Contains(text, "planted") || strings.Contains(text, "112") || strings.Contains(text, "706c61") {
		t.Errorf("%s, %v", text, err)
	}
}
