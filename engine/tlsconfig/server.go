package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"pgkinetic/configs"
)

// ServerMode says whether TLS to PostgreSQL is tried, and what follows when it is not to be had: tls.server_mode.
func (s *Set) ServerMode() configs.TLSMode { return s.settings.ServerMode }

// Server is for a connection to the host. It shows our certificate, if there is one, whatever authorities the server names;
// its name is sent (SNI) unless it is an address. Nil: never TLS, as by the mode, and on Unix sockets.
func (s *Set) Server(host configs.Host) *tls.Config {
	if s.settings.ServerMode == configs.TLSDisable || host.Network == "unix" {
		return nil
	}
	name, _, err := net.SplitHostPort(host.Address)
	if err != nil {
		name = host.Address // not reached with a loaded Host
	}
	return &tls.Config{
		ServerName: name,
		MinVersion: s.minVersion,
		NextProtos: []string{alpn},
		// crypto/tls would verify the host's name always, and by other rules than libpq's.
		InsecureSkipVerify:          true,
		VerifyConnection:            func(state tls.ConnectionState) error { return s.verifyServer(state.PeerCertificates, name) },
		GetClientCertificate:        func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &s.own, nil },
		DynamicRecordSizingDisabled: true,
	}
}

func (s *Set) readServer() error {
	t := &s.settings
	if t.ServerMode == configs.TLSDisable {
		return nil
	}
	var err, wrong error
	switch t.ServerCAFile {
	case "":
		if t.ServerMode.Verifies() {
			err = fmt.Errorf("tls.server_mode is %s, but tls.server_ca_file is not set", t.ServerMode)
		}
	case configs.SystemCAs:
		if s.roots, err = x509.SystemCertPool(); err != nil {
			err = named("server_ca_file", t.ServerCAFile, fmt.Errorf("the system's authorities cannot be read: %w", err))
		}
	default:
		s.roots, err = authorities("server_ca_file", t.ServerCAFile)
	}
	if t.ServerCertFile != "" {
		s.own, wrong = pair("server_cert_file", t.ServerCertFile, "server_key_file", t.ServerKeyFile)
	}
	return errors.Join(err, wrong)
}

// verifyServer judges PostgreSQL's certificate, the first of those it has sent.
func (s *Set) verifyServer(sent []*x509.Certificate, host string) error {
	switch {
	case s.roots == nil:
		return nil
	case len(sent) == 0:
		return errors.New("the server has sent no certificate") // not reached: crypto/tls insists on one
	}
	chain := x509.NewCertPool()
	for _, cert := range sent[1:] {
		chain.AddCert(cert)
	}
	if _, err := sent[0].Verify(x509.VerifyOptions{Roots: s.roots, Intermediates: chain}); err != nil {
		return &certificateError{fmt.Errorf("the server's certificate is not good by tls.server_ca_file %q: %w", s.settings.ServerCAFile, err)}
	}
	if s.settings.ServerMode == configs.TLSVerifyFull {
		if err := matchHost(sent[0], host); err != nil {
			return &certificateError{err}
		}
	}
	return nil
}

// certificateError is a certificate that is not accepted, in a handshake.
type certificateError struct{ error }

func (e *certificateError) Unwrap() error { return e.error }

// Denied tells whether a handshake has failed because we do not accept the other side's certificate.
func Denied(err error) bool {
	var theirs *tls.CertificateVerificationError
	var ours *certificateError
	return errors.As(err, &theirs) || errors.As(err, &ours)
}
