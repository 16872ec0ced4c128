package tlsconfig

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/testcert"
)

// file writes a file of the test's and returns its path.
func file(t testing.TB, text []byte) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func write(t testing.TB, c *testcert.Certificate) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile, err := c.Write(t.TempDir(), "c")
	if err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// mustNew makes a set; a side whose mode is not given has no TLS.
func mustNew(t testing.TB, settings configs.TLS) *Set {
	t.Helper()
	for _, mode := range []*configs.TLSMode{&settings.ClientMode, &settings.ServerMode} {
		if *mode == "" {
			*mode = configs.TLSDisable
		}
	}
	set, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// connected returns both ends of a TCP connection. A pipe has no buffer: two sides that write, one of them an alert, would
// wait for each other.
func connected() (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	if b, err = net.Dial("tcp", l.Addr().String()); err != nil {
		panic(err)
	}
	if a, err = l.Accept(); err != nil {
		panic(err)
	}
	return a, b
}

// meet lets two sides shake hands, and the server send one byte: only that tells a client of TLS 1.3 that its certificate
// was taken. It returns what each side says, and the server's state.
func meet(serverConfig, clientConfig *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	a, b := connected()
	done := make(chan struct{})
	server := tls.Server(a, serverConfig)
	go func() {
		defer close(done)
		defer a.Close()
		if serverErr = server.Handshake(); serverErr == nil {
			_, serverErr = server.Write([]byte{1})
		}
	}()
	client := tls.Client(b, clientConfig)
	if clientErr = client.Handshake(); clientErr == nil {
		_, clientErr = client.Read(make([]byte, 1))
	}
	b.Close()
	<-done
	return server.ConnectionState(), serverErr, clientErr
}

// met is meet for those who want the verdict alone.
func met(serverConfig, clientConfig *tls.Config) error {
	_, serverErr, clientErr := meet(serverConfig, clientConfig)
	return errors.Join(serverErr, clientErr)
}

var modes = []configs.TLSMode{
	configs.TLSDisable, configs.TLSAllow, configs.TLSPrefer, configs.TLSRequire, configs.TLSVerifyCA, configs.TLSVerifyFull,
}

// missing is the path of a file that is not there.
func missing(t *testing.T) string { return filepath.Join(t.TempDir(), "missing") }
