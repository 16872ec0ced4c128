package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"pgkinetic/configs"
)

// alpn is the name of PostgreSQL's protocol. A client that begins with TLS instead of asking for it must name it.
const alpn = "postgresql"

// Set is one generation: the settings, and what their files held when it was made. It and the configurations that it gives
// are immutable and for all goroutines; a handshake under way keeps those it has begun with.
type Set struct {
	settings configs.TLS

	client, direct *tls.Config // nil under client_mode disable
	endPoint       []byte

	minVersion uint16
	roots      *x509.CertPool  // of PostgreSQL's certificates; nil: none are verified
	own        tls.Certificate // shown to PostgreSQL; empty: none
}

// New reads the files that the settings name. The error names each file that is not good, by its setting, and the remedy; it
// holds nothing of a key.
func New(settings configs.TLS) (*Set, error) {
	s := &Set{settings: settings, minVersion: tls.VersionTLS12}
	if settings.MinVersion == configs.TLS13 {
		s.minVersion = tls.VersionTLS13
	}
	if err := errors.Join(s.readClient(), s.readServer()); err != nil {
		return nil, err
	}
	return s, nil
}

// named begins an error about a file: the setting, the file's name.
func named(setting, path string, err error) error {
	return fmt.Errorf("tls.%s %q: %w", setting, path, err)
}
