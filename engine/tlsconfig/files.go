package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxFile bounds each file. The bundle of every authority that a system trusts has about 250 KiB.
const maxFile = 4 << 20

// readFile reads a file of bounded size; the error is without its name.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err == nil {
		defer func() { _ = f.Close() }() // read only: nothing to lose
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil {
			if len(data) > maxFile {
				return nil, fmt.Errorf("it has more than %d bytes", maxFile)
			}
			return data, nil
		}
	}
	var withPath *fs.PathError
	if errors.As(err, &withPath) {
		err = withPath.Err
	}
	return nil, fmt.Errorf("it cannot be read: %w", err)
}

// certificates reads every certificate of a file, of which there must be one. What is no certificate is passed over, as
// OpenSSL does, so that a key may stand in the same file.
func certificates(path string) (text []byte, certs []*x509.Certificate, err error) {
	if text, err = readFile(path); err != nil {
		return nil, nil, err
	}
	rest := text
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("certificate %d in it is not valid: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, nil, errors.New("it has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
	return text, certs, nil
}

// pair reads a certificate with its chain, and its private key.
func pair(certSetting, certPath, keySetting, keyPath string) (tls.Certificate, error) {
	none := tls.Certificate{}
	certText, _, err := certificates(certPath)
	if err != nil {
		return none, named(certSetting, certPath, err)
	}
	keyText, err := readFile(keyPath)
	if err != nil {
		return none, named(keySetting, keyPath, err)
	}
	if encrypted(keyText) {
		return none, named(keySetting, keyPath, errors.New("the key is encrypted, and there is nobody to ask for its passphrase: store it without one (openssl pkey -in KEY -out NEW)"))
	}
	cert, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return none, named(keySetting, keyPath, fmt.Errorf("it does not go with tls.%s %q: %w; the certificate must be the first of its file, before its chain", certSetting, certPath, err))
	}
	return cert, nil
}

// encrypted reports whether the first private key of a file needs a passphrase.
func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		}
	}
	return false
}

// authorities reads a file of certificates that are trusted to sign others.
func authorities(setting, path string) (*x509.CertPool, error) {
	_, certs, err := certificates(path)
	if err != nil {
		return nil, named(setting, path, err)
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool, nil
}
