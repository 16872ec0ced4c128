package reactor

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// recordWriter writes TLS 1.3 records in a client's place, also those that
// crypto/tls never sends. It knows TLS_AES_128_GCM_SHA256. Source: RFC 8446,
// sections 5.2, 5.3, 7.1 to 7.3.
type recordWriter struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func expandLabel(secret []byte, label string, size int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label...)
	info = append(info, 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), size)
	if err != nil {
		panic(err)
	}
	return out
}

func (w *recordWriter) use(secret []byte) {
	block, err := aes.NewCipher(expandLabel(secret, "key", 16))
	if err != nil {
		panic(err)
	}
	if w.aead, err = cipher.NewGCM(block); err != nil {
		panic(err)
	}
	w.secret, w.iv, w.seq = secret, expandLabel(secret, "iv", 12), 0
}

// record appends a record to out.
func (w *recordWriter) record(out []byte, kind byte, text ...byte) []byte {
	plain := append(bytes.Clone(text), kind)
	header := []byte{23, 3, 3}
	header = binary.BigEndian.AppendUint16(header, uint16(len(plain)+16))
	nonce := bytes.Clone(w.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(w.seq >> (56 - 8*i))
	}
	w.seq++
	return w.aead.Seal(append(out, header...), nonce, plain, header)
}

// keyUpdateInTwo is keyUpdate in two records.
func (w *recordWriter) keyUpdateInTwo() (first, second []byte) {
	first, second = w.record(nil, 22, 24, 0), w.record(nil, 22, 0, 1, 1)
	w.use(expandLabel(w.secret, "traffic upd", 32))
	return first, second
}

// keyUpdate appends a KeyUpdate that asks for one in return.
func (w *recordWriter) keyUpdate(out []byte) []byte {
	out = w.record(out, 22, 24, 0, 0, 1, 1)
	w.use(expandLabel(w.secret, "traffic upd", 32))
	return out
}

func (w *recordWriter) data(out []byte, text ...byte) []byte { return w.record(out, 23, text...) }

// secureRecords makes a secure socket and returns its client's writer.
func secureRecords(t *testing.T, l *Loop, onReady func(*Socket, Events)) (*secureSocket, *tls.Conn, *recordWriter) {
	t.Helper()
	c := secureCase{tls.VersionTLS13, false, "tcp"}
	fd, conn := smallPair(t, "tcp")
	h := c.begin(t, l, fd, testHelpers(t), c.serverConfig(), onReady)
	var log strings.Builder
	config := c.clientConfig()
	config.KeyLogWriter = &log
	peer := tls.Client(conn, config)
	fatal(t, peer.Handshake())
	fatal(t, await(t, h.secured, "the handshake"))
	if suite := peer.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("this machine prefers another cipher suite:", tls.CipherSuiteName(suite))
	}
	w := new(recordWriter)
	for line := range strings.Lines(log.String()) {
		if part := strings.Fields(line); part[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(part[2])
			fatal(t, err)
			w.use(secret)
		}
	}
	return h, peer, w
}

// filler keeps a socket full.
type filler struct {
	on   bool
	size int // of the pattern, written
}

func (f *filler) fill(t *testing.T, s *Socket) {
	p := make([]byte, 10_000)
	for f.on {
		pattern(p, f.size)
		n, err := s.Write(p)
		if err == unix.EAGAIN {
			return
		}
		fatal(t, err)
		f.size += n
	}
}

// TestSecureKeyUpdate: new keys, also while output waits for the socket.
func TestSecureKeyUpdate(t *testing.T) {
	l := startLoop(t)
	got := make(chan string, 1)
	var full filler
	h, peer, w := secureRecords(t, l, func(s *Socket, _ Events) {
		full.fill(t, s)
		if n, _ := s.Read(l.Scratch()); n > 0 {
			got <- string(l.Scratch()[:n])
		}
	})
	send := func(conn net.Conn, p []byte, want string) {
		t.Helper()
		_, err := conn.Write(p)
		fatal(t, err)
		if text := await(t, got, "the bytes"); text != want {
			t.Fatalf("read %q", text)
		}
	}
	send(peer.NetConn(), w.data(w.keyUpdate(w.data(nil, 'a')), 'b'), "ab")
	first, second := w.keyUpdateInTwo()
	_, err := peer.NetConn().Write(first)
	fatal(t, err)
	for half := false; !half; { // crypto/tls has been told that there is no more for now
		on(t, l, func() { half = h.secure.taken == len(first) })
	}
	send(peer.NetConn(), w.data(second, 'b'), "b")
	on(t, l, func() {
		full.on = true
		full.fill(t, &h.Socket)
	})
	for range 5 {
		send(peer.NetConn(), w.data(w.keyUpdate(nil), 'c'), "c")
	}
	on(t, l, func() {
		if h.secure.pending.Len() == 0 {
			t.Error("nothing waits")
		}
		full.on = false
	})
	readPattern(t, peer, full.size, 1000)
	for done := false; !done; {
		on(t, l, func() {
			n, err := h.Write([]byte("with new keys"))
			if done = n > 0; !done && err != unix.EAGAIN {
				t.Fatal(err)
			}
		})
	}
	expect(t, peer, []byte("with new keys"))
	send(peer.NetConn(), w.data(w.keyUpdate(nil), 'd'), "d")
}

// TestSecureKeyUpdateFlood: who asks for new keys and never reads the answers makes
// us owe a bounded number of bytes, and is read again when they are gone.
func TestSecureKeyUpdateFlood(t *testing.T) {
	const updates = 3000
	l := startLoop(t)
	read, most := 0, 0
	whole := make(chan struct{})
	full := filler{on: true}
	h, peer, w := secureRecords(t, l, func(s *Socket, _ Events) {
		full.fill(t, s)
		for {
			n, err := s.Read(l.Scratch())
			most = max(most, s.secure.pending.Len())
			if read += n; err != nil {
				break
			}
		}
		if read == updates {
			read = 0
			close(whole)
		}
	})
	var flood []byte
	for range updates {
		flood = w.data(w.keyUpdate(flood), 'x')
	}
	go func() { _, _ = peer.NetConn().Write(flood) }()
	for held := false; !held; {
		on(t, l, func() { held = h.secure.held })
	}
	on(t, l, func() { full.on = false })
	go func() { // reads, and understands nothing
		buf := make([]byte, 64<<10)
		for err := error(nil); err == nil; {
			_, err = peer.NetConn().Read(buf)
		}
	}()
	await(t, whole, "all bytes")
	on(t, l, func() {
		if most <= pendingMax || most > pendingMax+1000 {
			t.Errorf("up to %d bytes were owed, pendingMax is %d", most, pendingMax)
		}
		h.Close()
	})
}
