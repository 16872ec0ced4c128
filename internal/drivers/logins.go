package main

import (
	"encoding/pem"
	"net"
	"os"
	"path/filepath"

	"pgkinetic/internal/testcert"
)

// loginRoles are the users of the scenario login, each of which has one way in. Their password is `secret`; everybody else,
// as in all other scenarios, comes in without.
const loginRoles = `
DROP ROLE IF EXISTS by_scram, by_md5, by_password, by_cert;
CREATE ROLE by_scram LOGIN;
CREATE ROLE by_md5 LOGIN;
CREATE ROLE by_password LOGIN;
CREATE ROLE by_cert LOGIN;
`

const (
	loginRules = `
host    all by_scram    all scram-sha-256
host    all by_md5      all md5
hostssl all by_password all password
hostssl all by_cert     all cert
host    all by_password,by_cert all reject
host    all all         all trust
local   all all             trust
`
	loginUsers = `"by_scram" "secret"
"by_md5" "secret"
"by_password" "secret"
`
)

// logins is what the scenario login needs: a directory with ca.crt, and client.crt, client.key and client.pk8 of by_cert.
type logins struct{ dir string }

// makeLogins writes the files into a directory.
func makeLogins(dir string) (*logins, error) {
	l := &logins{dir}
	authority := testcert.Authority("drivers")
	if _, _, err := authority.Write(dir, "ca"); err != nil {
		return nil, err
	}
	if _, _, err := authority.Issue(testcert.Request{CommonName: "pooler", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}).Write(dir, "server"); err != nil {
		return nil, err
	}
	client := authority.Issue(testcert.Request{CommonName: "by_cert"})
	if _, _, err := client.Write(dir, "client"); err != nil {
		return nil, err
	}
	key, _ := pem.Decode(client.KeyPEM())
	for name, text := range map[string][]byte{"client.pk8": key.Bytes, "rules": []byte(loginRules), "users": []byte(loginUsers)} {
		if err := os.WriteFile(l.path(name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *logins) path(name string) string { return filepath.Join(l.dir, name) }

// flags are those of pg-kinetic.
func (l *logins) flags() []string {
	return []string{
		"--auth.method=hba", "--auth.hba-file=" + l.path("rules"), "--auth.users-file=" + l.path("users"),
		"--tls.client-mode=prefer", "--tls.client-cert-file=" + l.path("server.crt"), "--tls.client-key-file=" + l.path("server.key"),
		"--tls.client-ca-file=" + l.path("ca.crt"), "--admin.users=postgres",
	}
}
