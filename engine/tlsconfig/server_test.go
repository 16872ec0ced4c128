package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/testcert"
)

func tcp(address string) configs.Host { return configs.Host{Network: "tcp", Address: address} }

// serverCase is a certificate of PostgreSQL's with the host that we look for.
type serverCase struct {
	what        string
	host        string
	cert        *testcert.Certificate
	chain, name bool // it is of a known authority and valid; it is for the host
}

func ips(texts ...string) (all []net.IP) {
	for _, text := range texts {
		all = append(all, net.ParseIP(text))
	}
	return all
}

func serverCases(authority *testcert.Certificate) []serverCase {
	const host = "db.example.org"
	f := func(what, host string, r testcert.Request, name bool) serverCase {
		return serverCase{what, host, authority.Issue(r), true, name}
	}
	good := testcert.Request{Names: []string{host}}
	usage := func(use x509.ExtKeyUsage) *testcert.Certificate {
		return authority.Issue(testcert.Request{Names: []string{host}, Usage: []x509.ExtKeyUsage{use}})
	}
	return []serverCase{
		// chains
		{"good", host, authority.Issue(good), true, true},
		{"below an intermediate", host, authority.Issue(testcert.Request{CommonName: "between", Authority: true}).Issue(good), true, true},
		{"for servers", host, usage(x509.ExtKeyUsageServerAuth), true, true},
		{"for clients", host, usage(x509.ExtKeyUsageClientAuth), false, true},
		{"of another authority", host, testcert.Authority("authority").Issue(good), false, true},
		{"self-signed", host, testcert.AuthorityWith(good), false, true},
		{"expired", host, authority.Issue(testcert.Request{Names: []string{host}, Expired: true}), false, true},
		{"not yet valid", host, authority.Issue(testcert.Request{Names: []string{host}, NotYet: true}), false, true},
		// names
		f("another name", host, testcert.Request{Names: []string{"db2.example.org"}}, false),
		f("capitals", "DB.example.org", testcert.Request{Names: []string{"db.Example.ORG"}}, true),
		f("the second name", host, testcert.Request{Names: []string{"a", host}}, true),
		f("many names", host, testcert.Request{Names: []string{"a", "b", "c", "d"}}, false),
		f("a wildcard", host, testcert.Request{Names: []string{"*.example.org"}}, true),
		f("a wildcard for two labels", "a.db.example.org", testcert.Request{Names: []string{"*.example.org"}}, false),
		f("a wildcard for none", "example.org", testcert.Request{Names: []string{"*.example.org"}}, false),
		f("a wildcard within a label", host, testcert.Request{Names: []string{"d*.example.org"}}, false),
		f("a wildcard within the name", host, testcert.Request{Names: []string{"db.*.org"}}, false),
		f("a star alone", "db", testcert.Request{Names: []string{"*"}}, false),
		f("a name with a NUL", host, testcert.Request{Names: []string{host + "\x00.evil"}}, false),
		f("a NUL before the right name", host, testcert.Request{Names: []string{"x\x00", host}}, false),
		// the common name
		f("a common name", host, testcert.Request{CommonName: host}, true),
		f("a common name with a wildcard", host, testcert.Request{CommonName: "*.example.org"}, true),
		f("another common name", host, testcert.Request{CommonName: "example.org"}, false),
		f("a common name beside another name", host, testcert.Request{CommonName: host, Names: []string{"a"}}, false),
		f("a common name beside an address", host, testcert.Request{CommonName: host, Addresses: ips("10.0.0.1")}, true),
		f("no name at all", host, testcert.Request{}, false),
		// addresses
		f("an address", "10.0.0.1", testcert.Request{Addresses: ips("10.0.0.1")}, true),
		f("another address", "10.0.0.1", testcert.Request{Addresses: ips("10.0.0.2")}, false),
		f("an IPv6 address", "2001:db8::1", testcert.Request{Addresses: ips("2001:db8:0::1")}, true),
		f("another IPv6 address", "2001:db8::1", testcert.Request{Addresses: ips("2001:db8::2", "10.0.0.1")}, false),
		f("an address as a name", "10.0.0.1", testcert.Request{Names: []string{"10.0.0.1"}}, true),
		f("an address as a common name", "10.0.0.1", testcert.Request{CommonName: "10.0.0.1"}, true),
		f("the same beside a name", "10.0.0.1", testcert.Request{CommonName: "10.0.0.1", Names: []string{"a"}}, true),
		f("the same beside another address", "10.0.0.1", testcert.Request{CommonName: "10.0.0.1", Addresses: ips("10.0.0.2")}, false),
		f("a wildcard for an address", "10.0.0.1", testcert.Request{Names: []string{"*.0.0.1"}}, true),
	}
}

// taken says whether libpq takes the certificate in a mode.
func (c *serverCase) taken(mode configs.TLSMode, withCA bool) bool {
	switch {
	case !withCA:
		return true
	case mode == configs.TLSVerifyFull:
		return c.chain && c.name
	}
	return c.chain
}

func address(host string) configs.Host { return tcp(net.JoinHostPort(host, "5432")) }

func TestServerModes(t *testing.T) {
	authority := testcert.Authority("authority")
	caFile, _ := write(t, authority)
	for _, c := range serverCases(authority) {
		server := &tls.Config{Certificates: []tls.Certificate{c.cert.TLS()}}
		for _, mode := range modes[1:] {
			for _, ca := range []string{"", caFile} {
				if ca == "" && mode.Verifies() {
					continue
				}
				set := mustNew(t, configs.TLS{ServerMode: mode, ServerCAFile: ca})
				_, _, err := meet(server, set.Server(address(c.host)))
				if want := c.taken(mode, ca != ""); (err == nil) != want {
					t.Errorf("%s, authorities %q, %s for %s: %v, want it taken: %v", mode, ca, c.what, c.host, err, want)
				}
				if err != nil && c.chain && mode == configs.TLSVerifyFull && !strings.Contains(err.Error(), c.host) && !strings.Contains(err.Error(), "NUL") {
					t.Errorf("%s: %v does not tell the host", c.what, err)
				}
				if err != nil && !c.chain && !strings.Contains(err.Error(), "tls.server_ca_file") {
					t.Errorf("%s: %v does not tell the setting", c.what, err)
				}
			}
		}
	}
}

func TestServerOff(t *testing.T) {
	set := mustNew(t, configs.TLS{ServerMode: configs.TLSDisable, ServerCAFile: missing(t), ServerCertFile: missing(t), ServerKeyFile: missing(t)})
	if set.Server(tcp("h:5432")) != nil || set.ServerMode() != configs.TLSDisable {
		t.Error("TLS although it is disabled")
	}
	set = mustNew(t, configs.TLS{ServerMode: configs.TLSRequire})
	if set.Server(configs.Host{Network: "unix", Address: "/run/.s.PGSQL.5432"}) != nil {
		t.Error("TLS on a Unix socket")
	}
	if _, err := New(configs.TLS{ClientMode: configs.TLSDisable, ServerMode: configs.TLSVerifyCA}); err == nil {
		t.Error("nothing to verify by, and yet a set")
	}
}

// The name that we send is the host's; an address is not sent.
func TestServerName(t *testing.T) {
	cert := testcert.Authority("authority").TLS()
	set := mustNew(t, configs.TLS{ServerMode: configs.TLSRequire})
	f := func(address, want string) {
		t.Helper()
		got := "nothing was asked"
		server := &tls.Config{
			Certificates: []tls.Certificate{cert}, NextProtos: []string{"postgresql"},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { got = hello.ServerName; return nil, nil },
		}
		state, serverErr, err := meet(server, set.Server(tcp(address)))
		if err != nil || serverErr != nil || got != want || state.NegotiatedProtocol != "postgresql" {
			t.Errorf("%s: %q with protocol %q, %v, %v", address, got, state.NegotiatedProtocol, serverErr, err)
		}
	}
	f("db.example.org:5432", "db.example.org")
	f("db:1", "db")
	f("10.0.0.1:5432", "")
	f("[2001:db8::1]:5432", "")
	f("[fe80::1%eth0]:5432", "")
}

// Our certificate is shown to every server that asks for one, whichever authorities it names.
func TestOwnCertificate(t *testing.T) {
	authority := testcert.Authority("authority")
	certFile, keyFile := write(t, authority.Issue(testcert.Request{CommonName: "between", Authority: true}).Issue(testcert.Request{CommonName: "pooler"}))
	f := func(s configs.TLS, asks tls.ClientAuthType, known *testcert.Certificate, want string, taken bool) {
		t.Helper()
		server := &tls.Config{Certificates: []tls.Certificate{authority.TLS()}, ClientAuth: asks, ClientCAs: known.Pool()}
		s.ServerMode = configs.TLSRequire
		state, _, err := meet(server, mustNew(t, s).Server(tcp("h:1")))
		got := ""
		if len(state.PeerCertificates) > 0 {
			got = state.PeerCertificates[0].Subject.CommonName
		}
		if got != want || (err == nil) != taken {
			t.Errorf("shown %q, want %q; %v", got, want, err)
		}
	}
	own := configs.TLS{ServerCertFile: certFile, ServerKeyFile: keyFile}
	f(own, tls.NoClientCert, authority, "", true)
	f(own, tls.RequireAndVerifyClientCert, authority, "pooler", true)
	f(own, tls.RequireAnyClientCert, testcert.Authority("another"), "pooler", true)
	f(configs.TLS{}, tls.VerifyClientCertIfGiven, authority, "", true)
	f(configs.TLS{}, tls.RequireAnyClientCert, authority, "", false)
}

// The authorities that the system trusts, from the file that crypto/x509 is told to take for them. It reads them once in a
// process, so this one has a process of its own.
func TestSystemAuthorities(t *testing.T) {
	const alone = "PGKINETIC_TEST_ALONE"
	if os.Getenv(alone) == "" {
		again := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.count", "1")
		again.Env = append(os.Environ(), alone+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	authority := testcert.Authority("authority")
	caFile, _ := write(t, authority)
	t.Setenv("SSL_CERT_FILE", caFile)
	t.Setenv("SSL_CERT_DIR", filepath.Dir(missing(t)))
	set := mustNew(t, configs.TLS{ServerMode: configs.TLSVerifyFull, ServerCAFile: configs.SystemCAs})
	f := func(issuer *testcert.Certificate, want bool) {
		t.Helper()
		server := &tls.Config{Certificates: []tls.Certificate{issuer.Issue(testcert.Request{Names: []string{"db"}}).TLS()}}
		if err := met(server, set.Server(tcp("db:5432"))); (err == nil) != want {
			t.Errorf("%v, want it taken: %v", err, want)
		}
	}
	f(authority, true)
	f(testcert.Authority("authority"), false)
}
