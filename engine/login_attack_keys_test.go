package engine_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

// keyUpdates writes TLS 1.3 records in a client's place, also KeyUpdates, which crypto/tls never sends. It knows
// TLS_AES_128_GCM_SHA256. Source: RFC 8446, sections 5.2, 5.3, 7.1 to 7.3.
type keyUpdates struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func (k *keyUpdates) use(t testing.TB, secret []byte) {
	t.Helper()
	block, err := aes.NewCipher(label(t, secret, "key", 16))
	must(t, err)
	k.aead, err = cipher.NewGCM(block)
	must(t, err)
	k.secret, k.iv, k.seq = secret, label(t, secret, "iv", 12), 0
}

func label(t testing.TB, secret []byte, name string, size int) []byte {
	t.Helper()
	name = "tls13 " + name
	out, err := hkdf.Expand(sha256.New, secret, string([]byte{byte(size >> 8), byte(size), byte(len(name))})+name+"\x00", size)
	must(t, err)
	return out
}

func (k *keyUpdates) record(kind byte, text ...byte) []byte {
	plain := append(bytes.Clone(text), kind)
	header := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(plain)+16))
	nonce := bytes.Clone(k.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(k.seq >> (56 - 8*i))
	}
	k.seq++
	return k.aead.Seal(header, nonce, plain, header)
}

// TestLoginAttackKeyUpdates: a client that asks for new keys and reads nothing makes us owe it answers; a startup packet
// that is refused meanwhile ends it, and nothing else. It runs by itself, since it looks at the buffers of the process.
func TestLoginAttackKeyUpdates(t *testing.T) {
	f := besiege(t, "--server.login-timeout-ms=10000")
	s := f.stranger(t)
	s.askTLS()
	var log strings.Builder
	c := s.handshake(&tls.Config{RootCAs: f.ca.Pool(), ServerName: "127.0.0.1", KeyLogWriter: &log})
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("this machine prefers another cipher suite")
	}
	var k keyUpdates
	for line := range strings.Lines(log.String()) {
		if part := strings.Fields(line); part[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(part[2])
			must(t, err)
			k.use(t, secret)
		}
	}
	packet := pgwire.Startup(0, "user", "trust_user", "replication", "true", "options", strings.Repeat(" ", 9000))
	at, before := 0, f.Totals()
	for at < 1000 && f.Totals().BufferBytes-before.BufferBytes < 4<<10 { // of which the packet's part has one
		var burst []byte
		for range 4 {
			burst = append(burst, k.record(23, packet[at])...)
			at++
			for range 15 { // crypto/tls takes 16 between two records of data
				burst = append(burst, k.record(22, 24, 0, 0, 1, 1)...)
				k.use(t, label(t, k.secret, "traffic upd", 32))
			}
		}
		if _, err := s.tcp.Write(burst); err != nil {
			t.Fatal(err)
		}
		until(t, "it is read", func() bool { return f.Totals().BytesFromClients-before.BytesFromClients == uint64(at) })
	}
	if at >= 1000 {
		t.Fatal("all its answers were taken")
	}
	if _, err := s.tcp.Write(k.record(23, packet[at:]...)); err != nil {
		t.Fatal(err)
	}
	until(t, "it is ended", func() bool { return f.Totals().Closed["login_refused"] == 1 })
	f.open(t, "scram_user", "sslmode=require")
}
