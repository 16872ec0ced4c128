package auth

import (
	"bytes"
	"crypto/md5"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

const (
	// maxSecret bounds a stored secret, in bytes.
	maxSecret = 8 << 10
	// maxIterations bounds the PBKDF2 iterations of a stored secret: seconds of CPU
	// for each login by the method password.
	maxIterations = 10_000_000

	md5Prefix   = "md5"
	scramPrefix = "SCRAM-SHA-256$"
	mask        = "***"
)

// Kind is the form in which a secret is stored.
type Kind uint8

// The zero Kind is that of a user who cannot log in by a password.
const (
	NoSecret Kind = iota
	PlainSecret
	MD5Secret
	SCRAMSecret
)

// Secret is what is stored of a user's password. The zero value is none: nothing
// proves a user who has it. It is a small value, never changed, safe for all
// goroutines.
//
// No print, log or encoder shows it. What it holds is behind two pointers, because
// a print of a struct around it asks no method of it, and may follow one.
type Secret struct{ p *secret }

type secret struct {
	kind     Kind
	text     *string // of kinds plain and md5
	verifier *verifier
}

// Plain returns the secret of a password that is stored as it is; an empty one is none.
func Plain(password string) Secret {
	if password == "" {
		return Secret{}
	}
	return Secret{&secret{kind: PlainSecret, text: &password}}
}

// ParseSecret reads a secret as PostgreSQL's pg_authid and PgBouncer's user list
// write it: md5 and 32 lower-case hexadecimal digits, or
// SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey; anything else is the password
// itself, and nothing is none. What begins like a SCRAM secret and is not one is an
// error, where PostgreSQL would take it for a password: more likely it was cut off.
// No error shows any part of it.
func ParseSecret(text string) (Secret, error) {
	switch {
	case len(text) > maxSecret:
		return Secret{}, fmt.Errorf("a secret of %d bytes (at most %d)", len(text), maxSecret)
	case strings.IndexByte(text, 0) >= 0:
		return Secret{}, errors.New("a secret with a NUL byte")
	case strings.HasPrefix(text, scramPrefix):
		v, ok := parseVerifier(text[len(scramPrefix):])
		if !ok {
			return Secret{}, errors.New("a secret that begins with " + scramPrefix +
				" must go on with iterations:salt$StoredKey:ServerKey")
		}
		return Secret{&secret{kind: SCRAMSecret, verifier: v}}, nil
	case isMD5(text):
		return Secret{&secret{kind: MD5Secret, text: &text}}, nil
	}
	return Plain(text), nil
}

func isMD5(text string) bool {
	digits, found := strings.CutPrefix(text, md5Prefix)
	return found && len(digits) == 2*md5.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// parseVerifier reads iterations:salt$StoredKey:ServerKey.
func parseVerifier(text string) (*verifier, bool) {
	head, keys, _ := strings.Cut(text, "$")
	count, salt, _ := strings.Cut(head, ":")
	stored, server, _ := strings.Cut(keys, ":")
	v := &verifier{}
	var err error
	v.iterations, err = strconv.Atoi(count)
	if err != nil || v.iterations < 1 || v.iterations > maxIterations {
		return nil, false
	}
	v.salt, err = decode64(salt)
	if err != nil || len(v.salt) == 0 {
		return nil, false
	}
	return v, decodeKey(&v.storedKey, stored) && decodeKey(&v.serverKey, server)
}

// decode64 is the strict form: no line breaks, no bits beyond the end.
func decode64[T string | []byte](text T) ([]byte, error) {
	p := []byte(text)
	if bytes.ContainsAny(p, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(p)))
	n, err := base64.StdEncoding.Strict().Decode(out, p)
	return out[:n], err
}

// decodeKey fills in k, of which text must be the whole.
func decodeKey[T string | []byte](k *key, text T) bool {
	p, err := decode64(text)
	if err != nil || len(p) != len(k) {
		return false
	}
	copy(k[:], p)
	return true
}

// Kind returns the form in which the secret is stored.
func (s Secret) Kind() Kind {
	if s.p == nil {
		return NoSecret
	}
	return s.p.kind
}

// Reveal returns the text of a secret of kind plain (the password) or md5 (with
// its prefix), for a login to PostgreSQL; "" of other kinds. The caller must not
// print or log it.
func (s Secret) Reveal() string {
	if s.p == nil || s.p.text == nil {
		return ""
	}
	return *s.p.text
}

// verifier returns the stored verifier, nil for other kinds than SCRAM.
func (s Secret) verifier() *verifier {
	if s.p == nil {
		return nil
	}
	return s.p.verifier
}

// hashed is md5(password user) as "md5" and hexadecimal digits; ok is false for
// kinds that it cannot be had from.
func (s Secret) hashed(user string) (text string, ok bool) {
	switch s.Kind() {
	case MD5Secret:
		return s.Reveal(), true
	case PlainSecret:
		return hashMD5(s.Reveal() + user), true
	case NoSecret, SCRAMSecret:
	}
	return "", false
}

func hashMD5(text string) string {
	sum := md5.Sum([]byte(text))
	return md5Prefix + hex.EncodeToString(sum[:])
}

// equal compares in a time that depends on the lengths only.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// String returns "***", and nothing for none, so that "is one set?" stays visible.
func (s Secret) String() string {
	if s.p == nil {
		return ""
	}
	return mask
}

// Format writes the mask for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText masks the secret in every text encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks the secret in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
