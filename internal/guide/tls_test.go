package guide

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/tlsconfig"
	"pgkinetic/internal/testcert"
)

const encryption page = "../../docs/tls.md"

// tlsFiles makes the files that the page names, and returns their directory.
func tlsFiles(t *testing.T, authority *testcert.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"server", "pooler"} {
		if _, _, err := authority.Issue(testcert.Request{CommonName: name}).Write(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"clients-ca.crt", "postgres-ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), authority.PEM(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "users.txt"), []byte("\"app\" \"secret\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSettingsOfTLS: each file that the page shows is valid and complete, has no warning, and its certificates can be read.
func TestSettingsOfTLS(t *testing.T) {
	t.Parallel()
	dir := tlsFiles(t, testcert.Authority("authority"))
	for _, language := range []string{"toml", "yaml"} {
		for _, text := range encryption.blocks(t, language) {
			text = strings.ReplaceAll(text, "/etc/pg-kinetic", dir)
			c, o, problems := configs.Load(write(t, "tls."+language, text), nil, nil)
			if c != nil {
				problems = append(configs.Incomplete(c, o), configs.Warnings(c, o, 0)...)
				if _, err := tlsconfig.New(c.TLS); err != nil {
					t.Errorf("%v in\n%s", err, text)
				}
			}
			for _, p := range problems {
				t.Errorf("%s in\n%s", p.String(), text)
			}
		}
	}
}

// handshake tells whether both sides are content with each other.
func handshake(t *testing.T, serverConfig, clientConfig *tls.Config) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_, err = tls.Server(c, serverConfig).Write([]byte{1}) // after the handshake
		}
		served <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tls.Client(c, clientConfig).Read(make([]byte, 1))
	c.Close()
	return <-served == nil && err == nil
}

// TestClientModesOfTLS: the page's table of client_mode says what a handshake does.
func TestClientModesOfTLS(t *testing.T) {
	t.Parallel()
	authority := testcert.Authority("authority")
	in := tlsFiles(t, authority) + "/"
	good := authority.Issue(testcert.Request{CommonName: "app"}).TLS()
	bad := testcert.Authority("authority").Issue(testcert.Request{CommonName: "app"}).TLS()
	rows := encryption.table(t, "`client_mode`")
	if len(rows) != 6 {
		t.Errorf("%d modes", len(rows))
	}
	for _, row := range rows {
		mode := configs.TLSMode(code(row[0]))
		set, err := tlsconfig.New(configs.TLS{
			ClientMode: mode, ClientCertFile: in + "server.crt", ClientKeyFile: in + "server.key", ClientCAFile: in + "clients-ca.crt",
			ServerMode: configs.TLSDisable,
		})
		if err != nil {
			t.Fatal(err)
		}
		if comesIn := row[1] == "comes in"; comesIn == mode.Requires() {
			t.Errorf("%s without TLS: the page says %q", mode, row[1])
		}
		if mode == configs.TLSDisable {
			if set.Client() != nil || strings.Join(row[2:], "") != "–––" {
				t.Errorf("%s: %v", mode, row)
			}
			continue
		}
		for i, shown := range []*tls.Certificate{{}, &good, &bad} {
			client := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }}
			if taken, says := handshake(t, set.Client(), client), row[2+i]; taken != strings.HasPrefix(says, "comes in") || !taken && says != "refused" {
				t.Errorf("%s: the page says %q of certificate %d, taken: %v", mode, says, i, taken)
			}
		}
	}
}

// TestServerModesOfTLS: so does that of server_mode.
func TestServerModesOfTLS(t *testing.T) {
	t.Parallel()
	authority := testcert.Authority("authority")
	ca := filepath.Join(tlsFiles(t, authority), "postgres-ca.crt")
	serve := func(issuer *testcert.Certificate, name string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{issuer.Issue(testcert.Request{Names: []string{name}}).TLS()}}
	}
	stranger, misnamed := serve(testcert.Authority("authority"), "db.example.org"), serve(authority, "db2.example.org")
	rows := encryption.table(t, "`server_mode`")
	if len(rows) != 6 {
		t.Errorf("%d modes", len(rows))
	}
	for _, row := range rows {
		mode := configs.TLSMode(code(row[0]))
		f := func(says, ca string, server *tls.Config) {
			t.Helper()
			set, err := tlsconfig.New(configs.TLS{ClientMode: configs.TLSDisable, ServerMode: mode, ServerCAFile: ca})
			got := "an error of the settings"
			if err == nil {
				config := set.Server(configs.Host{Network: "tcp", Address: "db.example.org:5432"})
				switch {
				case config == nil:
					got = "–"
				case handshake(t, server, config):
					got = "not verified"
				default:
					got = "verified"
				}
			}
			if got != says {
				t.Errorf("%s, authorities %q: the page says %q, found %q", mode, ca, says, got)
			}
		}
		f(row[2], "", stranger)
		f(row[3], ca, stranger)
		f(row[4], ca, misnamed)
	}
}
