package auth

import "testing"

// TestVectorOfRFC7677 is the example in its section 3, message by message.
func TestVectorOfRFC7677(t *testing.T) {
	const (
		first  = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
		server = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		shown  = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
		final  = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		signed = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	secret := parse(t, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"+
		"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
	v := secret.verifier()
	if got := derive("pencil", v.salt, v.iterations); got.storedKey != v.storedKey || got.serverKey != v.serverKey {
		t.Error("derived another verifier than that of the password")
	}
	c := &conversation{}
	if refused := c.begin(initial(mechanism, first), false); refused != nil {
		t.Fatal(refused)
	}
	if got := c.challenge(nil, server, v.salt, v.iterations); string(got) != shown {
		t.Errorf("server-first-message %s", got)
	}
	if refused := c.finish([]byte(final), nil); refused != nil {
		t.Fatal(refused)
	}
	clientKey, signature, ok := v.prove(string(c.messages), c.proof)
	if !ok || encode64(signature[:]) != signed {
		t.Errorf("proof %v, signature %s", ok, encode64(signature[:]))
	}
	if got := encode64(clientKey[:]); got != "pg/JI9Z+hkSpLRa5btpe9GVrDHJcSEN0viVTVXaZbos=" {
		t.Errorf("client key %s", got)
	}
}

// TestNonceIsThatOfTheExchange: another one of its length, with any proof.
func TestNonceIsThatOfTheExchange(t *testing.T) {
	f := func(nonce, want string) {
		t.Helper()
		c := &conversation{}
		if refused := c.begin(initial(mechanism, "n,,n=,r=abc"), false); refused != nil {
			t.Fatal(refused)
		}
		c.challenge(nil, "def", []byte("salt"), 1)
		got := ""
		if refused := c.finish([]byte("c=biws,r="+nonce+",p="+encode64(make([]byte, 32))), nil); refused != nil {
			got = refused.Fields.Message + ": " + refused.Fields.Detail
		}
		if got != want {
			t.Errorf("nonce %q: %q, want %q", nonce, got, want)
		}
	}
	const mismatch = "invalid SCRAM response: Nonce does not match."
	f("abcdef", "")
	f("abcdeg", mismatch)
	f("abc", mismatch)
	f("", mismatch)
	f("abcdefg", mismatch)
}
