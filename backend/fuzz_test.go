package backend

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgkinetic/protocol/scram"
)

// FuzzLogin feeds a login whatever a server may send: records of type, 16-bit
// length, body. The word NONCE stands for the nonce the client sent. known says
// what is known of the user, over how. Nothing panics; an error appends nothing
// and is final; Done comes once.
func FuzzLogin(f *testing.F) {
	pack := func(script ...msg) []byte {
		var b []byte
		for _, m := range script {
			b = append(b, m.typ)
			b = binary.BigEndian.AppendUint16(b, uint16(len(m.body)))
			b = append(b, m.body...)
		}
		return b
	}
	f.Add(byte(0), pack(okay, status("server_version", "15.4"), keyData, ready))
	f.Add(byte(0), pack(notice, auth(authCleartext, ""), okay, keyData, ready))
	f.Add(byte(0), pack(auth(authMD5, "abcd"), okay, ready))
	f.Add(byte(0), pack(auth(authSASL, "SCRAM-SHA-256\x00\x00"), auth(authSASLContinue, "r=NONCEx,s=c2FsdA==,i=3"), auth(authSASLFinal, "v=AAAA")))
	f.Add(byte(0), pack(msg{'v', "\x00\x03\x00\x00\x00\x00\x00\x00"}, auth(authGSS, "")))
	f.Add(byte(0), pack(okay, errorResponse("SFATAL", "C53300", "Msorry", "RInitProcess")))
	f.Add(byte(0), pack(msg{'E', "Mno end"}))
	f.Add(fuzzTLS, pack(auth(authSASL, offersBoth), auth(authSASLContinue, "r=NONCEx,s=c2FsdA==,i=3"), auth(authSASLFinal, "v=AAAA")))
	f.Add(fuzzTLS|fuzzKeys, pack(auth(authSASL, offersPlain), auth(authSASLContinue, "r=NONCEx,s=c2FsdA==,i=3,x=y"), auth(authSASLFinal, "e=no")))
	f.Add(fuzzKeys, pack(auth(authMD5, "abcd"), okay, ready))
	f.Add(fuzzSource, pack(auth(authCleartext, ""), okay, ready))
	f.Fuzz(func(t *testing.T, known byte, data []byte) {
		l := fuzzLogin(known)
		sent := l.Start(nil)
		over := false
		for len(data) >= 3 {
			typ, n := data[0], int(binary.BigEndian.Uint16(data[1:]))
			body := data[3:min(len(data), 3+n)]
			data = data[3+len(body):]
			if _, nonce, found := bytes.Cut(sent, []byte("r=")); found {
				body = bytes.ReplaceAll(body, []byte("NONCE"), nonce)
			}
			out, step, err := l.Receive(typ, body, nil)
			if step == Compute {
				if x := l.proof.sasl; x != nil && x.iterations > 1000 {
					return // allowed, and too slow for a fuzzer
				}
				l.Compute()
				out, step, err = l.Computed(nil)
			}
			switch {
			case over && err == nil:
				t.Fatalf("message %q accepted after the end", typ)
			case err != nil && len(out) > 0:
				t.Fatalf("sends %q along with %v", out, err)
			case err != nil:
				a := AnswerOf(err)
				if a.Message == "" || !sqlstate(a.Code) {
					t.Fatalf("no answer for clients: %+v of %v", a, err)
				}
			}
			over = over || err != nil || step == Done
			sent = append(sent, out...)
		}
		if over && l.Params().Len() > maxParams {
			t.Fatalf("%d parameters", l.Params().Len())
		}
	})
}

// What a fuzzed login knows, instead of the plain password without TLS.
const (
	fuzzTLS    = byte(1) << iota
	fuzzKeys   // a client's
	fuzzSource // of the password
)

func fuzzLogin(known byte) *Login {
	c := NewCredentials("u", nil)
	switch {
	case known&fuzzSource != 0:
		c = NewCredentials("u", func() (string, error) { return "p", nil })
	case known&fuzzKeys != 0:
		c.Set(Stored{SCRAM: true})
		c.Learn("u", scram.Keys{Salt: "salt", Iterations: 3})
	default:
		c.Set(Stored{Password: "p"})
	}
	l := NewLogin(LoginConfig{User: "u", Database: "d", Credentials: c, Minor: 2})
	if known&fuzzTLS != 0 {
		l.BindTo([]byte("end point"))
	}
	return l
}
