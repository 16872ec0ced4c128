package tlsconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/testcert"
)

// clientCertificates are what clients may show, and whether each is good by the authority.
func clientCertificates(authority *testcert.Certificate) map[string]struct {
	shown *testcert.Certificate
	good  bool
} {
	type shown = struct {
		shown *testcert.Certificate
		good  bool
	}
	r := testcert.Request{CommonName: "app"}
	usage := func(use x509.ExtKeyUsage) testcert.Request {
		return testcert.Request{CommonName: "app", Usage: []x509.ExtKeyUsage{use}}
	}
	return map[string]shown{
		"good":                  {authority.Issue(r), true},
		"good, RSA":             {authority.Issue(testcert.Request{CommonName: "app", Key: testcert.RSA}), true},
		"for clients":           {authority.Issue(usage(x509.ExtKeyUsageClientAuth)), true},
		"below an intermediate": {authority.Issue(testcert.Request{CommonName: "between", Authority: true}).Issue(r), true},
		"for servers":           {authority.Issue(usage(x509.ExtKeyUsageServerAuth)), false},
		"of another authority":  {testcert.Authority("authority").Issue(r), false},
		"self-signed":           {testcert.Authority("app"), false},
		"expired":               {authority.Issue(testcert.Request{CommonName: "app", Expired: true}), false},
		"not yet valid":         {authority.Issue(testcert.Request{CommonName: "app", NotYet: true}), false},
		"with a NUL":            {authority.Issue(testcert.Request{CommonName: "app\x00.evil"}), false},
	}
}

// Each mode takes exactly the certificates of clients that it says, whatever TLS they speak.
func TestClientModes(t *testing.T) {
	authority := testcert.Authority("authority")
	certFile, keyFile := write(t, authority.Issue(testcert.Request{CommonName: "pooler"}))
	caFile, _ := write(t, authority)
	kinds := clientCertificates(authority)
	for _, mode := range modes[1:] {
		for _, ca := range []string{"", caFile} {
			if ca == "" && mode.Verifies() {
				continue
			}
			set := mustNew(t, configs.TLS{ClientMode: mode, ClientCertFile: certFile, ClientKeyFile: keyFile, ClientCAFile: ca})
			f := func(what string, certs []tls.Certificate, want bool) {
				t.Helper()
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					client := &tls.Config{
						RootCAs: authority.Pool(), InsecureSkipVerify: true, MaxVersion: version,
						GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
							if certs == nil {
								return &tls.Certificate{}, nil
							}
							return &certs[0], nil
						},
					}
					if err := met(set.Client(), client); (err == nil) != want {
						t.Errorf("%s, authorities %q, TLS %#x, certificate %s: %v, want it taken: %v", mode, ca, version, what, err, want)
					}
				}
			}
			f("none", nil, !mode.Verifies())
			for what, kind := range kinds {
				f(what, []tls.Certificate{kind.shown.TLS()}, kind.good || ca == "")
			}
		}
	}
}

func TestClientOff(t *testing.T) {
	set := mustNew(t, configs.TLS{ClientMode: configs.TLSDisable, ClientCertFile: missing(t), ClientKeyFile: missing(t), ClientCAFile: missing(t)})
	if set.Client() != nil || set.ClientDirect() != nil || set.ClientEndPoint() != nil || set.ClientMode() != configs.TLSDisable {
		t.Errorf("%+v", set)
	}
}

// The names of protocols that clients offer: without any only a client that has asked for TLS is let in, a wrong one never.
func TestClientProtocolNames(t *testing.T) {
	authority := testcert.Authority("authority")
	certFile, keyFile := write(t, authority.Issue(testcert.Request{}))
	caFile, _ := write(t, authority)
	set := mustNew(t, configs.TLS{ClientMode: configs.TLSAllow, ClientCertFile: certFile, ClientKeyFile: keyFile, ClientCAFile: caFile})
	f := func(protocols []string, asked, direct bool) {
		t.Helper()
		client := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
		if err := met(set.Client(), client); (err == nil) != asked {
			t.Errorf("%v after SSLRequest: %v", protocols, err)
		}
		state, err, _ := meet(set.ClientDirect(), client)
		if (err == nil) != direct || direct && state.NegotiatedProtocol != "postgresql" {
			t.Errorf("%v, direct: %v, %q", protocols, err, state.NegotiatedProtocol)
		}
		if err != nil && len(protocols) == 0 && !strings.Contains(err.Error(), "ALPN") {
			t.Errorf("direct without a name: %v", err)
		}
	}
	f(nil, true, false)
	f([]string{"postgresql"}, true, true)
	f([]string{"h2", "postgresql"}, true, true)
	f([]string{"h2"}, false, false)
	f([]string{"http/1.1"}, false, false)
	f([]string{"PostgreSQL"}, false, false)
	bad := testcert.Authority("another").Issue(testcert.Request{CommonName: "app"}).TLS()
	if err := met(set.ClientDirect(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}, Certificates: []tls.Certificate{bad}, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &bad, nil }}); err == nil {
		t.Error("direct: a certificate of another authority was taken")
	}
}

func TestMinimumVersion(t *testing.T) {
	authority := testcert.Authority("authority")
	certFile, keyFile := write(t, authority.Issue(testcert.Request{}))
	peer := authority.Issue(testcert.Request{}).TLS()
	for _, minimum := range []string{configs.TLS12, configs.TLS13} {
		set := mustNew(t, configs.TLS{
			ClientMode: configs.TLSRequire, ClientCertFile: certFile, ClientKeyFile: keyFile,
			ServerMode: configs.TLSRequire, MinVersion: minimum,
		})
		for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: minimum == configs.TLS12, tls.VersionTLS13: true} {
			if err := met(set.Client(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}); (err == nil) != want {
				t.Errorf("min_version %s, client with %#x: %v", minimum, version, err)
			}
			server := &tls.Config{Certificates: []tls.Certificate{peer}, MinVersion: version, MaxVersion: version}
			if err := met(server, set.Server(tcp("h:5432"))); (err == nil) != want {
				t.Errorf("min_version %s, server with %#x: %v", minimum, version, err)
			}
		}
	}
}

// No session is resumed: each client proves anew that it has its key.
func TestNoTickets(t *testing.T) {
	authority := testcert.Authority("authority")
	certFile, keyFile := write(t, authority.Issue(testcert.Request{}))
	set := mustNew(t, configs.TLS{ClientMode: configs.TLSRequire, ClientCertFile: certFile, ClientKeyFile: keyFile})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{InsecureSkipVerify: true, ServerName: "h", MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		for range 2 {
			if state, err, _ := meet(set.Client(), client); err != nil || state.DidResume {
				t.Errorf("TLS %#x: %v, resumed: %v", version, err, state.DidResume)
			}
		}
	}
}

func TestEndPoint(t *testing.T) {
	f := func(key testcert.Key, signature x509.SignatureAlgorithm, bytesWant int) {
		t.Helper()
		authority := testcert.AuthorityWith(testcert.Request{CommonName: "authority", Key: key})
		cert := authority.Issue(testcert.Request{Signature: signature})
		got := EndPoint(cert.X509)
		if len(got) != bytesWant {
			t.Fatalf("%v: %d bytes, want %d", cert.X509.SignatureAlgorithm, len(got), bytesWant)
		}
		certFile, keyFile := write(t, cert)
		set := mustNew(t, configs.TLS{ClientMode: configs.TLSAllow, ClientCertFile: certFile, ClientKeyFile: keyFile})
		if !bytes.Equal(set.ClientEndPoint(), got) {
			t.Errorf("%v: the set's is another one", cert.X509.SignatureAlgorithm)
		}
	}
	f(testcert.ECDSA, x509.ECDSAWithSHA256, 32)
	f(testcert.ECDSA, x509.ECDSAWithSHA384, 48)
	f(testcert.ECDSA, x509.ECDSAWithSHA512, 64)
	f(testcert.ECDSA, x509.ECDSAWithSHA1, 32)
	f(testcert.RSA, x509.SHA1WithRSA, 32)
	f(testcert.RSA, x509.SHA256WithRSA, 32)
	f(testcert.RSA, x509.SHA256WithRSAPSS, 32)
	f(testcert.RSA, x509.SHA384WithRSAPSS, 48)
	f(testcert.RSA, x509.SHA512WithRSA, 64)
	f(testcert.Ed25519, x509.PureEd25519, 0)
	// MD5, with which nothing can be signed any more; and the hash of known bytes, of "abc" (FIPS 180-2).
	got := fmt.Sprintf("%x", EndPoint(&x509.Certificate{SignatureAlgorithm: x509.MD5WithRSA, Raw: []byte("abc")}))
	if got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("MD5: %s", got)
	}
	got = fmt.Sprintf("%x", EndPoint(&x509.Certificate{SignatureAlgorithm: x509.SHA384WithRSA, Raw: []byte("abc")}))
	if got != "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7" {
		t.Errorf("SHA-384: %s", got)
	}
}
