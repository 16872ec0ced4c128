package backend

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// How a login proves who it is: the part of Login between the StartupMessage and
// AuthenticationOk.

// Authentication codes, from "Message Formats" in PostgreSQL's documentation.
const (
	authOk           = 0
	authKerberosV5   = 2
	authCleartext    = 3
	authMD5          = 5
	authGSS          = 7
	authGSSContinue  = 8
	authSSPI         = 9
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// proof is what a login knows of the proof that the server asks for. Compute
// writes used, text and err; nothing else runs meanwhile.
type proof struct {
	method uint32 // authCleartext, authMD5 or authSASL; 0: none was asked for
	salt   [4]byte
	sasl   *exchange
	used   material // of the Credentials: what the proof was made of
	text   string
	err    error
}

// authenticate takes an Authentication message.
func (l *Login) authenticate(body, dst []byte) ([]byte, Step, error) {
	if len(body) < 4 {
		return dst, More, violation("malformed Authentication message")
	}
	code, data := binary.BigEndian.Uint32(body), body[4:]
	switch code {
	case authOk:
		if l.state != loginRequested && l.state != loginAnswered && l.state != loginVerified {
			return dst, More, violation("AuthenticationOk before the server proved itself")
		}
		l.state = loginSettling
		return dst, More, nil
	case authSASLContinue:
		if l.state != loginSASLFirst {
			return dst, More, violation("unexpected AuthenticationSASLContinue")
		}
		if err := l.proof.sasl.challenge(string(data)); err != nil {
			return dst, More, err
		}
		return l.prove(dst)
	case authSASLFinal:
		if l.state != loginSASLFinal {
			return dst, More, violation("unexpected AuthenticationSASLFinal")
		}
		if err := l.proof.sasl.verify(string(data)); err != nil {
			return dst, More, err
		}
		l.state = loginVerified
		return dst, More, nil
	}
	if l.state != loginRequested {
		return dst, More, violation("the server asks a second time for a proof of identity")
	}
	l.proof.method = code
	switch code {
	case authCleartext:
		return l.prove(dst)
	case authMD5:
		if copy(l.proof.salt[:], data) != len(data) || len(data) != len(l.proof.salt) {
			return dst, More, violation("md5 salt of %d bytes", len(data))
		}
		return l.prove(dst)
	case authSASL:
		return l.saslFirst(data, dst)
	}
	return dst, More, l.unsupported(methodName(code))
}

// saslFirst chooses among the offered mechanisms, in whatever order they come.
func (l *Login) saslFirst(offered, dst []byte) ([]byte, Step, error) {
	names := strings.Split(string(bytes.TrimRight(offered, "\x00")), "\x00")
	var plain, plus bool
	for _, name := range names {
		plain = plain || name == scramSHA256
		plus = plus || name == scramSHA256Plus
	}
	mechanism, gs2 := scramSHA256, gs2None
	switch {
	case plus && l.endPoint != nil:
		mechanism, gs2 = scramSHA256Plus, gs2EndPoint
	case !plain:
		return dst, More, l.unsupported("SASL " + clean([]byte(strings.Join(names, ", "))))
	case l.endPoint != nil:
		gs2 = gs2Unoffered
	}
	l.proof.sasl = newExchange(gs2, l.endPoint)
	first := &pgproto3.SASLInitialResponse{AuthMechanism: mechanism, Data: []byte(l.proof.sasl.clientFirst())}
	out, err := first.Encode(dst)
	if err != nil {
		return dst, More, violation("SCRAM: %v", err)
	}
	l.state = loginSASLFirst
	return out, More, nil
}

// prove sends the proof, or has it made by a helper first.
func (l *Login) prove(dst []byte) ([]byte, Step, error) {
	l.state = loginProving
	if l.cfg.Credentials.blocks(l.proof.sasl) {
		return dst, Compute, nil
	}
	l.Compute()
	return l.computed(dst)
}

// Compute makes the proof of identity: for SCRAM milliseconds of CPU, seconds at
// the bound, and where a file holds the password it reads that. It may run on any
// goroutine, after Receive returned Step Compute and before Computed is called.
func (l *Login) Compute() { l.proof.text, l.proof.err = l.makeProof() }

// Computed appends the proof that Compute has made to dst. Errors as Receive.
func (l *Login) Computed(dst []byte) (out []byte, step Step, err error) {
	if l.state != loginProving {
		return dst, More, l.failed(violation("nothing was to be computed"))
	}
	out, step, err = l.computed(dst)
	if err != nil {
		return dst, More, l.failed(err)
	}
	return out, step, nil
}

func (l *Login) computed(dst []byte) ([]byte, Step, error) {
	text := l.proof.text
	l.proof.text = ""
	if l.proof.err != nil {
		return dst, More, l.proof.err
	}
	if l.proof.method != authSASL {
		l.state = loginAnswered
		return protocol.AppendPassword(dst, text), More, nil
	}
	out, err := (&pgproto3.SASLResponse{Data: []byte(text)}).Encode(dst)
	if err != nil {
		return dst, More, violation("SCRAM: %v", err)
	}
	l.state = loginSASLFinal
	return out, More, nil
}

func (l *Login) makeProof() (string, error) {
	m, err := l.cfg.Credentials.material()
	if err != nil {
		return "", l.unable("and it cannot be had: "+err.Error(), "make it readable for pg-kinetic")
	}
	used := &l.proof.used
	used.password, used.learntPassword = m.password, m.learntPassword
	switch {
	case l.proof.method == authSASL:
		keys, err := l.cfg.Credentials.keysFor(m, l.proof.sasl)
		if err != nil {
			return "", violation("SCRAM: %v", err)
		}
		if keys == nil {
			return "", l.lacking(m)
		}
		if m.password == "" {
			used.keys = keys
		}
		return l.proof.sasl.final(keys), nil
	case l.proof.method == authMD5 && m.password != "":
		return md5Proof(md5Secret(l.cfg.User, m.password), l.proof.salt), nil
	case l.proof.method == authMD5 && m.md5 != "":
		return md5Proof(m.md5, l.proof.salt), nil
	case l.proof.method == authCleartext && m.password != "":
		return m.password, nil
	}
	return "", l.lacking(m)
}

// lacking says which kind of secret is missing: having one of another kind is
// what confuses people most.
func (l *Login) lacking(m material) error {
	scram := l.proof.method == authSASL
	switch {
	case scram && m.keys != nil:
		return l.unable("and what a client's login has proved does not fit PostgreSQL's SCRAM secret, which has another salt or iteration count",
			"let users log in against PostgreSQL's own secret, by auth_query or a copy of pg_authid.rolpassword in users_file, or give the password")
	case scram && m.scram:
		return l.unable("and only its SCRAM secret is known, which checks logins and makes none",
			"a client that logs in as this user by scram-sha-256 against the same secret brings what is missing; or give the password")
	case scram && m.md5 != "":
		return l.unable("and only its md5 hash is known, which serves the method md5 alone",
			"give the password, or PostgreSQL's own SCRAM secret to users who log in by scram-sha-256")
	case m.scram || m.keys != nil:
		return l.unable("and only its SCRAM secret is known",
			"use scram-sha-256 for this pooler in pg_hba.conf, or give the password")
	case m.md5 != "":
		return l.unable("and only its md5 hash is known", "use md5 for this pooler in pg_hba.conf, or give the password")
	}
	return l.unable("and none is known", passwordRemedy)
}

const passwordRemedy = "set password, password_env or password_file of the database's entry, or put the user's password into users_file"

// unable ends "PostgreSQL asks for a password (scram-sha-256) of user … for database …, ".
func (l *Login) unable(why, hint string) error {
	return &UnableError{
		Message: fmt.Sprintf("PostgreSQL asks for a password (%s) of user %q for database %q, %s",
			methodName(l.proof.method), l.cfg.User, l.cfg.Database, why),
		Hint: hint,
	}
}

func (l *Login) unsupported(method string) error {
	return &UnableError{
		Message: fmt.Sprintf("PostgreSQL asks for %s authentication of user %q for database %q, which pg-kinetic does not support", method, l.cfg.User, l.cfg.Database),
		Hint:    "use scram-sha-256, md5, password or trust for this pooler in pg_hba.conf",
	}
}

// methodName names an authentication code as pg_hba.conf does.
func methodName(code uint32) string {
	switch code {
	case authCleartext:
		return "password"
	case authMD5:
		return "md5"
	case authSASL:
		return "scram-sha-256"
	case authKerberosV5:
		return "Kerberos V5"
	case authGSS, authGSSContinue:
		return "GSSAPI"
	case authSSPI:
		return "SSPI"
	}
	return fmt.Sprintf("unknown (code %d)", code)
}

// md5Secret is what PostgreSQL stores for a password under the method md5.
func md5Secret(user, password string) string {
	inner := md5.Sum([]byte(password + user))
	return "md5" + hex.EncodeToString(inner[:])
}

// md5Proof is "md5" md5(secret salt), as "md5" in PostgreSQL's chapter on
// password authentication; secret is without its "md5".
func md5Proof(secret string, salt [4]byte) string {
	outer := md5.Sum(append([]byte(strings.TrimPrefix(secret, "md5")), salt[:]...))
	return "md5" + hex.EncodeToString(outer[:])
}
