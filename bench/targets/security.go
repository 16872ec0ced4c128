package targets

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"pgkinetic/bench/scram"
	"pgkinetic/internal/testcert"
)

// Security is what a Choice asks for beyond the plain case, which is neither TLS nor passwords. The definition's templates must
// know of it, see Definition.Secure.
type Security struct {
	// TLS is "" for none, "clients" where clients connect with it, "both" where PostgreSQL is reached with it as well.
	TLS string `yaml:"tls"`
	// Scram has clients log in by SCRAM-SHA-256. PostgreSQL is not asked for passwords because of it.
	Scram bool `yaml:"scram"`
}

// ClientTLS tells whether clients connect with TLS.
func (s Security) ClientTLS() bool { return s.TLS != "" }

// ServerTLS tells whether PostgreSQL is reached with TLS.
func (s Security) ServerTLS() bool { return s.TLS == "both" }

// Check tells what is wrong.
func (s Security) Check() error {
	switch s.TLS {
	case "", "clients", "both":
		return nil
	}
	return fmt.Errorf(`tls is "clients" or "both", not %q`, s.TLS)
}

// CertificateFiles writes a new certificate for this machine and its key into a directory, for owner if there is one. Their kind,
// ECDSA on P-256, is what the machine's own time for a handshake depends on most.
func CertificateFiles(dir string, owner *syscall.Credential) (cert, key string, err error) {
	c := testcert.Authority("bench").Issue(testcert.Request{CommonName: "localhost", Names: []string{"localhost"}})
	if cert, key, err = c.Write(dir, "server"); err != nil || owner == nil {
		return cert, key, err
	}
	return cert, key, os.Chown(key, int(owner.Uid), int(owner.Gid))
}

// secure adds to a place what its Security needs.
func (p *Place) secure(owner *syscall.Credential) (err error) {
	if p.ClientTLS() {
		if _, _, err = CertificateFiles(p.Dir, owner); err != nil {
			return err
		}
	}
	if p.Scram {
		p.Secret, err = scram.Secret(p.Password())
	}
	return err
}

// Cert and Key are the files of the certificate for clients.
func (p Place) Cert() string { return filepath.Join(p.Dir, "server.crt") }

// Key is that of Cert.
func (p Place) Key() string { return filepath.Join(p.Dir, "server.key") }
