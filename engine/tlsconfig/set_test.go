package tlsconfig

import (
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/testcert"
)

// place puts texts where the settings look for them.
func place(t *testing.T, texts map[string][]byte) {
	t.Helper()
	for path, text := range texts {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shows is the common name of the certificate that a client of this generation sees.
func shows(t *testing.T, set *Set) string {
	t.Helper()
	name := ""
	client := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		name = state.PeerCertificates[0].Subject.CommonName
		return nil
	}}
	if err := met(set.Client(), client); err != nil {
		t.Fatal(err)
	}
	return name
}

// Files that are replaced make another set, and leave the one before as it was; a bad one is named.
func TestReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	authority := testcert.Authority("authority")
	first, second := authority.Issue(testcert.Request{CommonName: "first"}), authority.Issue(testcert.Request{CommonName: "second"})
	settings := configs.TLS{
		ClientMode: configs.TLSRequire, ClientCertFile: in("crt"), ClientKeyFile: in("key"), ClientCAFile: in("ca"),
		ServerMode: configs.TLSVerifyFull, ServerCAFile: in("sca"), ServerCertFile: in("scrt"), ServerKeyFile: in("skey"),
	}
	good := map[string][]byte{
		in("crt"): first.PEM(), in("key"): first.KeyPEM(), in("ca"): authority.PEM(),
		in("sca"): authority.PEM(), in("scrt"): first.PEM(), in("skey"): first.KeyPEM(),
	}
	place(t, good)
	before := mustNew(t, settings)
	refused := func(setting, path string, text []byte, want string) {
		t.Helper()
		place(t, map[string][]byte{path: text})
		_, err := New(settings)
		if err == nil || !strings.HasPrefix(err.Error(), "tls."+setting+` "`+path+`": `) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
		place(t, good)
	}
	encryptedKey := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	oldEncryptedKey := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte("x")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	for _, side := range []struct{ cert, key, certPath, keyPath string }{
		{"client_cert_file", "client_key_file", in("crt"), in("key")}, {"server_cert_file", "server_key_file", in("scrt"), in("skey")},
	} {
		refused(side.cert, side.certPath, nil, "no certificate in PEM")
		refused(side.cert, side.certPath, first.KeyPEM(), "no certificate in PEM")
		refused(side.cert, side.certPath, append(first.PEM(), broken...), "certificate 2 in it is not valid")
		refused(side.key, side.keyPath, nil, "it does not go with tls."+side.cert)
		refused(side.key, side.keyPath, second.KeyPEM(), "private key does not match")
		refused(side.key, side.keyPath, encryptedKey, "encrypted")
		refused(side.key, side.keyPath, oldEncryptedKey, "encrypted")
		refused(side.key, side.keyPath, make([]byte, maxFile+1), "it has more than")
	}
	refused("client_ca_file", in("ca"), []byte("# none\n"), "no certificate in PEM")
	refused("server_ca_file", in("sca"), broken, "certificate 1 in it is not valid")
	for setting, path := range map[string]string{"client_cert_file": in("crt"), "client_key_file": in("key"), "client_ca_file": in("ca"), "server_ca_file": in("sca")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := New(settings); err == nil || !strings.Contains(err.Error(), "tls."+setting+` "`+path+`": it cannot be read: no such file or directory`) {
			t.Errorf("%s: %v", setting, err)
		}
		place(t, good)
	}
	place(t, map[string][]byte{in("crt"): second.PEM(), in("key"): second.KeyPEM()})
	for set, want := range map[*Set]string{mustNew(t, settings): "second", before: "first"} {
		if got := shows(t, set); got != want {
			t.Errorf("shown is %s, want %s", got, want)
		}
	}
}

// Both sides' problems are told at once, and nothing of a key.
func TestErrorsHoldNoKey(t *testing.T) {
	c := testcert.Authority("a").Issue(testcert.Request{})
	other := testcert.Authority("b").Issue(testcert.Request{})
	text := string(c.KeyPEM())
	certFile, _ := write(t, other)
	for _, key := range []string{text, strings.Replace(text, "PRIVATE KEY", "CERTIFICATE", 2), strings.TrimSuffix(text, "-----\n"), text[:len(text)/2], strings.Replace(text, "M", "!", 1)} {
		path := file(t, []byte(key))
		_, err := New(configs.TLS{
			ClientMode: configs.TLSAllow, ClientCertFile: path, ClientKeyFile: path,
			ServerMode: configs.TLSAllow, ServerCertFile: certFile, ServerKeyFile: path,
		})
		if err == nil || !strings.Contains(err.Error(), "tls.client_cert_file") || !strings.Contains(err.Error(), "tls.server_key_file") {
			t.Fatalf("%v", err)
		}
		for _, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, "-") && len(line) > 8 && strings.Contains(err.Error(), line[:8]) {
				t.Errorf("told: %v", err)
			}
		}
	}
}

// A key may stand in the certificate's file, in any order, and a chain behind the certificate.
func TestOneFile(t *testing.T) {
	authority := testcert.Authority("authority")
	c := authority.Issue(testcert.Request{CommonName: "between", Authority: true}).Issue(testcert.Request{Names: []string{"db"}})
	caFile, _ := write(t, authority)
	for _, text := range [][]byte{append(c.KeyPEM(), c.PEM()...), append(c.PEM(), c.KeyPEM()...)} {
		path := file(t, text)
		set := mustNew(t, configs.TLS{
			ClientMode: configs.TLSRequire, ClientCertFile: path, ClientKeyFile: path,
			ServerMode: configs.TLSVerifyFull, ServerCAFile: caFile,
		})
		if err := met(set.Client(), set.Server(tcp("db:5432"))); err != nil {
			t.Error(err)
		}
	}
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.X509.Raw}), c.PEM()...)
	path, keyPath := file(t, chain), file(t, c.KeyPEM())
	_, err := New(configs.TLS{ClientMode: configs.TLSRequire, ClientCertFile: path, ClientKeyFile: keyPath})
	if err == nil || !strings.Contains(err.Error(), "the certificate must be the first of its file") {
		t.Errorf("the authority before the certificate: %v", err)
	}
}
