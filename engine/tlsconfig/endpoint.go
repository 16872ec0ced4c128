package tlsconfig

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
)

// EndPoint returns the tls-server-end-point of a server's certificate (RFC 5929, section 4), which binds SCRAM to the TLS
// connection: the certificate's hash, by the hash of its signature, but SHA-256 for MD5 and SHA-1. Nil: the signature has no
// such hash (Ed25519), and there is nothing to bind to. PostgreSQL and libpq fail with such a certificate where SCRAM is
// bound; so the way without must be taken.
func EndPoint(cert *x509.Certificate) []byte {
	switch cert.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
		x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.DSAWithSHA256, x509.ECDSAWithSHA256:
		sum := sha256.Sum256(cert.Raw)
		return sum[:]
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		sum := sha512.Sum384(cert.Raw)
		return sum[:]
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		sum := sha512.Sum512(cert.Raw)
		return sum[:]
	}
	return nil
}
