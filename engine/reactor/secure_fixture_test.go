package reactor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testKeys are an authority and what it has signed: a server "localhost" and a
// client "alice".
type testKeys struct {
	authority      *x509.CertPool
	server, client tls.Certificate
}

var keysOnce = sync.OnceValue(func() testKeys {
	root, rootKey := signed("authority", nil, nil)
	server, serverKey := signed("localhost", root, rootKey)
	client, clientKey := signed("alice", root, rootKey)
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return testKeys{
		pool,
		tls.Certificate{Certificate: [][]byte{server.Raw}, PrivateKey: serverKey, Leaf: server},
		tls.Certificate{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey, Leaf: client},
	}
})

func signed(name string, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: by == nil,
	}
	if by == nil {
		by, byKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, byKey)
	if err != nil {
		panic(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return c, key
}

// secureCase is one way to be secure.
type secureCase struct {
	version uint16
	client  bool // the loop is the TLS client
	network string
}

func (c secureCase) String() string {
	role := "server"
	if c.client {
		role = "client"
	}
	return fmt.Sprintf("%s %s %s", tls.VersionName(c.version), role, c.network)
}

var secureCases = func() (cases []secureCase) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, client := range []bool{false, true} {
			for _, network := range networks {
				cases = append(cases, secureCase{version, client, network})
			}
		}
	}
	return cases
}()

func (c secureCase) serverConfig() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{keysOnce().server}, MinVersion: c.version, MaxVersion: c.version,
		NextProtos: []string{"postgresql"}, DynamicRecordSizingDisabled: true,
	}
}

func (c secureCase) clientConfig() *tls.Config {
	return &tls.Config{
		RootCAs: keysOnce().authority, ServerName: "localhost", MinVersion: c.version, MaxVersion: c.version,
		NextProtos: []string{"postgresql"}, // and small records first
	}
}

// configs are the loop's and the peer's.
func (c secureCase) configs() (ours, theirs *tls.Config) {
	if c.client {
		return c.clientConfig(), c.serverConfig()
	}
	return c.serverConfig(), c.clientConfig()
}

// peer is the other end of the connection as TLS.
func (c secureCase) peer(conn net.Conn, theirs *tls.Config) *tls.Conn {
	if c.client {
		return tls.Server(conn, theirs)
	}
	return tls.Client(conn, theirs)
}

// secureSocket is a socket with a test's handlers.
type secureSocket struct {
	Socket
	secured chan error
	onReady func(s *Socket, ev Events)
}

func (h *secureSocket) OnReady(s *Socket, ev Events) {
	if h.onReady != nil {
		h.onReady(s, ev)
	}
}

func (h *secureSocket) OnSecured(_ *Socket, err error) { h.secured <- err }

func (h *secureSocket) OnUnsent(*Socket, []byte, error) {
	panic("the TLS layer keeps what is not sent")
}

func testHelpers(t testing.TB) *Helpers {
	h := NewHelpers(1, 1, func(err error) { t.Error(err) })
	t.Cleanup(h.Close)
	return h
}

// begin registers fd on the loop and begins its handshake.
func (c secureCase) begin(t testing.TB, l *Loop, fd int, helpers *Helpers, ours *tls.Config, onReady func(*Socket, Events)) *secureSocket {
	t.Helper()
	h := &secureSocket{secured: make(chan error, 1), onReady: onReady}
	on(t, l, func() {
		if err := l.Add(&h.Socket, fd, c.network == "unix", h); err != nil {
			t.Error(err)
			return
		}
		h.Secure(Security{Config: ours, Client: c.client, Helpers: helpers})
	})
	return h
}

// secureEcho is an echo on a secure socket.
type secureEcho struct {
	echo
	secured chan error
}

func (e *secureEcho) OnSecured(_ *Socket, err error) { e.secured <- err }

// smallPair is a pair between which the kernel keeps little.
func smallPair(t testing.TB, network string) (fd int, conn net.Conn) {
	t.Helper()
	fd, conn = pair(t, network)
	if err := conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(128 << 10); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10); err != nil {
		t.Fatal(err)
	}
	return fd, conn
}

// echo starts an echo on the loop and returns its peer after the handshake.
func (c secureCase) echo(t testing.TB, l *Loop, limit int) (*secureEcho, *tls.Conn) {
	t.Helper()
	ours, theirs := c.configs()
	fd, conn := smallPair(t, c.network)
	e := &secureEcho{echo: echo{limit: limit}, secured: make(chan error, 1)}
	on(t, l, func() {
		if err := l.Add(&e.Socket, fd, c.network == "unix", e); err != nil {
			t.Error(err)
			return
		}
		e.Secure(Security{Config: ours, Client: c.client, Helpers: testHelpers(t)})
	})
	peer := c.peer(conn, theirs)
	if err := peer.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := await(t, e.secured, "the handshake"); err != nil {
		t.Fatal(err)
	}
	return e, peer
}

// eachSecure runs fn for every way to be secure.
func eachSecure(t *testing.T, fn func(t *testing.T, c secureCase)) {
	for _, c := range secureCases {
		t.Run(c.String(), func(t *testing.T) { fn(t, c) })
	}
}

// roundTrip sends text to an echo and reads it back.
func roundTrip(t testing.TB, peer io.ReadWriter, text string) {
	t.Helper()
	if _, err := io.WriteString(peer, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(peer, got); err != nil || string(got) != text {
		t.Fatalf("%q, %v; want %q", got, err, text)
	}
}
