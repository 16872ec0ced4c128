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

// New reads the files that the settings name. The error joins one for each file that is not good (a FileError), with the
// remedy; it holds nothing of a key.
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

// FileError is about a file that a setting of tls names.
type FileError struct {
	Setting string // its whole path, such as tls.client_ca_file
	Path    string
	Err     error
}

// Error begins with the setting and the file's name.
func (e *FileError) Error() string { return fmt.Sprintf("%s %q: %v", e.Setting, e.Path, e.Err) }

// Unwrap returns what is wrong with the file.
func (e *FileError) Unwrap() error { return e.Err }

// named makes the error about the file of a setting of tls.
func named(setting, path string, err error) error { return &FileError{"tls." + setting, path, err} }
