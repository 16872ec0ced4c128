package scram

import (
	"encoding/binary"
	"strings"
	"testing"
)

func authentication(kind uint32, text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, kind), text...)
}

// initial is the client-first-message of a SASLInitialResponse.
func initial(t *testing.T, message []byte) string {
	t.Helper()
	rest, ok := strings.CutPrefix(string(message[5:]), mechanism+"\x00")
	if !ok || message[0] != 'p' || int(binary.BigEndian.Uint32([]byte(rest))) != len(rest)-4 {
		t.Fatalf("%q is no SASLInitialResponse", message)
	}
	return rest[4:]
}

// TestExample is the exchange in section 3 of RFC 7677, whose nonce and user name are fixed.
func TestExample(t *testing.T) {
	const nonce, server = "rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	const first = "r=" + server + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	l := &Login{user: NewUser("pencil"), first: "n=user,r=" + nonce, nonce: nonce}
	if err := l.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="); err == nil {
		t.Error("a signature was taken before our proof")
	}
	got, err := l.Answer(authentication(kindSASLContinue, first))
	const want = "c=biws,r=" + server + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	if err != nil || string(got[5:]) != want {
		t.Fatalf("%q, %v", got, err)
	}
	if m, err := l.Answer(authentication(kindSASLFinal, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")); err != nil || m != nil {
		t.Errorf("%q, %v", m, err)
	}
	if _, err := l.Answer(authentication(kindSASLFinal, "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")); err == nil {
		t.Error("a wrong signature was taken")
	}
}

func TestKeysAreDerivedOnce(t *testing.T) {
	u := NewUser("x")
	answer := func(salt string) *keys {
		l := u.Login()
		m, err := l.Answer(authentication(kindSASL, "SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"))
		if err != nil {
			t.Fatal(err)
		}
		nonce := strings.TrimPrefix(initial(t, m), gs2+"n=,r=")
		if len(nonce) < 20 {
			t.Fatalf("nonce %q", nonce)
		}
		if _, err := l.Answer(authentication(kindSASLContinue, "r="+nonce+"more,s="+encode([]byte(salt))+",i=2")); err != nil {
			t.Fatal(err)
		}
		return u.known
	}
	a := answer("one")
	if answer("one") != a {
		t.Error("derived again for the same salt")
	}
	if answer("two") == a {
		t.Error("not derived for another salt")
	}
}

func TestWhatIsNoScram(t *testing.T) {
	for name, bodies := range map[string][][]byte{
		"too short":         {{0, 0}},
		"a password":        {authentication(3, "")},
		"other mechanisms":  {authentication(kindSASL, "SCRAM-SHA-256-PLUS\x00\x00")},
		"no beginning":      {authentication(kindSASLContinue, "r=x,s=YQ==,i=1")},
		"a foreign nonce":   {authentication(kindSASL, mechanism+"\x00\x00"), authentication(kindSASLContinue, "r=x,s=YQ==,i=1")},
		"no fields":         {authentication(kindSASLContinue, "r=x")},
		"a bad salt":        {authentication(kindSASLContinue, "r=x,s=?,i=1")},
		"a bad number":      {authentication(kindSASLContinue, "r=x,s=YQ==,i=0")},
		"other fields":      {authentication(kindSASLContinue, "q=x,s=YQ==,i=1")},
		"an early approval": {authentication(kindSASLFinal, "v=")},
	} {
		l, err := NewUser("x").Login(), error(nil)
		for _, body := range bodies {
			_, err = l.Answer(body)
		}
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestSecret(t *testing.T) {
	a, err := Secret("bench")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Secret("bench")
	if a == b || !strings.HasPrefix(a, "SCRAM-SHA-256$4096:") || len(a) != 133 {
		t.Errorf("%s and %s", a, b)
	}
}
