package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/internal/pooler"
	"pgkinetic/internal/testcert"
)

// TestEveryModeOfLibpq: each tls.client_mode with each sslmode, with a certificate and without, and what the session is then.
func TestEveryModeOfLibpq(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "moded", "secret")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "moded"}), "moded")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "somebody"}), "misnamed")
	x.write(t, testcert.Authority("another").Issue(testcert.Request{CommonName: "moded"}), "foreign")
	file := users(t, "moded", "secret")
	const (
		clear, secure = "clear", "TLS"
		noTLS         = "server does not support SSL, but SSL was required"
		needsTLS      = "connections without TLS are not let in"
		shut          = "psql: error" // the handshake has failed, in words of the library that libpq uses
		wrongName     = `password authentication failed for user "moded"`
	)
	disabled := []string{clear, clear, clear, noTLS, noTLS, noTLS}
	preferred := []string{clear, clear, secure, secure, secure, secure}
	required := []string{needsTLS, secure, secure, secure, secure, secure}
	misnamed := []string{needsTLS, wrongName, wrongName, wrongName, wrongName, wrongName}
	refused := []string{needsTLS, shut, shut, shut, shut, shut}
	for _, test := range []struct {
		mode string
		want map[string][]string // by certificate, and then by sslmode: clear, TLS, or a part of the complaint
	}{
		{"disable", map[string][]string{"": disabled}},
		{"allow", map[string][]string{"": preferred}},
		{"prefer", map[string][]string{"": preferred}},
		{"require", map[string][]string{"": required, "misnamed": required}},
		{"verify-ca", map[string][]string{"moded": required, "misnamed": required, "foreign": refused, "": refused}},
		{"verify-full", map[string][]string{"moded": required, "misnamed": misnamed, "": refused}},
	} {
		t.Run(test.mode, func(t *testing.T) {
			flags := []string{"--tls.client-mode=" + test.mode, "--auth.users-file=" + file}
			if test.mode != "disable" {
				flags = append(flags, "--tls.client-ca-file="+x.path("ca.crt"))
			}
			p := x.door(t, nil, flags...)
			for certificate, want := range test.want {
				x.everySSLMode(t, p, certificate, want)
			}
			refusal := regexp.MustCompile(`login refused.* address=127\.0\.0\.1:\d+ database=postgres user=moded .*without TLS`)
			if configs.TLSMode(test.mode).Requires() {
				until(t, 5*time.Second, "a line that tells who came without TLS", func() bool { return refusal.MatchString(p.Log()) })
			}
		})
	}
}

// everySSLMode tries libpq's modes with a certificate.
func (x *site) everySSLMode(t *testing.T, p *pooler.Pooler, certificate string, want []string) {
	t.Helper()
	for i, sslmode := range []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"} {
		info := []string{"user=moded password=secret", "sslmode=" + sslmode, "sslrootcert=" + x.path("ca.crt")}
		if certificate != "" {
			info = append(info, "sslcert="+x.path(certificate+".crt"), "sslkey="+x.path(certificate+".key"))
		}
		out, ok := psql(t, nil, conninfo(p, info...), `\conninfo`)
		got := out
		if ok {
			if got = "clear"; strings.Contains(out, "SSL connection") {
				got = "TLS"
			}
		}
		if in := want[i] == "clear" || want[i] == "TLS"; ok != in || !strings.Contains(got, want[i]) {
			t.Errorf("certificate %q, sslmode=%s: want %q, got %q", certificate, sslmode, want[i], out)
		}
	}
}
