// Package testcert makes certificates for tests, and for programs that try TLS: authorities, and what they sign. Nothing of
// it is fit for anything else.
package testcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Key is a kind of private key.
type Key uint8

// The kinds; ECDSA is on P-256, RSA of 2048 bits.
const (
	ECDSA Key = iota
	RSA
	Ed25519
)

// Certificate is a certificate with its key. It can sign others if it is an Authority's or an intermediate's.
type Certificate struct {
	X509  *x509.Certificate
	Key   crypto.Signer
	chain []*Certificate // above it, without the root
}

// Request says what a certificate is to hold. Without Names and Addresses it has no alternative names.
type Request struct {
	CommonName string
	Subject    *pkix.Name // instead of CommonName
	Names      []string   // DNS names
	Addresses  []net.IP
	Key        Key
	Signature  x509.SignatureAlgorithm // of the issuer's key; 0: its usual one
	Expired    bool
	NotYet     bool               // valid from tomorrow
	Authority  bool               // it can sign others
	Usage      []x509.ExtKeyUsage // none: any
}

var serial atomic.Int64

// Authority is a self-signed certificate with a name.
func Authority(name string) *Certificate {
	return AuthorityWith(Request{CommonName: name})
}

// AuthorityWith is a self-signed certificate as requested.
func AuthorityWith(r Request) *Certificate {
	r.Authority = true
	return sign(nil, r)
}

// Issue signs a certificate.
func (c *Certificate) Issue(r Request) *Certificate { return sign(c, r) }

func sign(issuer *Certificate, r Request) *Certificate {
	key := newKey(r.Key)
	from, to := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	switch {
	case r.Expired:
		to = time.Now().Add(-time.Hour)
	case r.NotYet:
		from = time.Now().Add(23 * time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: r.CommonName},
		NotBefore: from, NotAfter: to, DNSNames: r.Names, IPAddresses: r.Addresses, SignatureAlgorithm: r.Signature,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: r.Usage, BasicConstraintsValid: true, IsCA: r.Authority,
	}
	if r.Subject != nil {
		template.Subject = *r.Subject
	}
	if r.Authority {
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	c := &Certificate{Key: key}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.X509, issuer.Key
		if len(issuer.chain) > 0 || issuer.X509.Issuer.String() != issuer.X509.Subject.String() {
			c.chain = append([]*Certificate{issuer}, issuer.chain...)
		}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))
	c.X509 = must(x509.ParseCertificate(der))
	return c
}

func newKey(kind Key) crypto.Signer {
	switch kind {
	case RSA:
		return must(rsa.GenerateKey(rand.Reader, 2048))
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return must(key, err)
	}
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// must is for what fails only where the request makes no sense, which is a bug of the test.
func must[T any](v T, err error) T {
	if err != nil {
		panic("testcert: " + err.Error())
	}
	return v
}

// PEM is the certificate, and the intermediate ones above it.
func (c *Certificate) PEM() []byte {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.X509.Raw})
	for _, above := range c.chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: above.X509.Raw})...)
	}
	return text
}

// KeyPEM is the private key, not encrypted.
func (c *Certificate) KeyPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(c.Key))})
}

// TLS is the certificate with its chain and key, for crypto/tls.
func (c *Certificate) TLS() tls.Certificate { return must(tls.X509KeyPair(c.PEM(), c.KeyPEM())) }

// Pool trusts the certificate.
func (c *Certificate) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.X509)
	return pool
}

// Write writes name.crt and name.key into a directory and returns their paths. The key is readable by this user alone.
func (c *Certificate) Write(dir, name string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(certFile, c.PEM(), 0o644); err != nil {
		return "", "", err
	}
	return certFile, keyFile, os.WriteFile(keyFile, c.KeyPEM(), 0o600)
}
