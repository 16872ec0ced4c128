package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"pgkinetic/configs"
)

// ClientMode says whom to let in without TLS: tls.client_mode.
func (s *Set) ClientMode() configs.TLSMode { return s.settings.ClientMode }

// Client is for a client that has asked for TLS by SSLRequest. Nil: there is none, the answer is N.
func (s *Set) Client() *tls.Config { return s.client }

// ClientDirect is for a client whose first bytes are a ClientHello: it must name PostgreSQL's protocol (ALPN), so that no
// other protocol's client can be led here. Nil: there is no TLS.
func (s *Set) ClientDirect() *tls.Config { return s.direct }

// ClientEndPoint is EndPoint of the certificate that clients are shown; nil without TLS. Read only.
func (s *Set) ClientEndPoint() []byte { return s.endPoint }

func (s *Set) readClient() error {
	t := &s.settings
	if t.ClientMode == configs.TLSDisable {
		return nil
	}
	cert, err := pair("client_cert_file", t.ClientCertFile, "client_key_file", t.ClientKeyFile)
	var trusted *x509.CertPool
	if t.ClientCAFile != "" {
		var wrong error
		trusted, wrong = authorities("client_ca_file", t.ClientCAFile)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return err
	}
	s.endPoint = EndPoint(cert.Leaf)
	s.client = &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   s.minVersion,
		NextProtos:   []string{alpn},
		// As PostgreSQL: its drivers resume no session, and each ticket would be one more message to encrypt and send.
		SessionTicketsDisabled: true,
		// Rows come in bursts of full buffers: as many small records would cost more than their first byte is worth.
		DynamicRecordSizingDisabled: true,
		VerifyConnection:            verifyClient,
	}
	if trusted != nil {
		s.client.ClientCAs, s.client.ClientAuth = trusted, tls.VerifyClientCertIfGiven
	}
	if t.ClientMode.Verifies() {
		s.client.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.direct = s.client.Clone()
	s.direct.VerifyConnection = func(state tls.ConnectionState) error {
		if state.NegotiatedProtocol != alpn {
			return errors.New("a direct TLS connection must negotiate the protocol postgresql (ALPN)")
		}
		return verifyClient(state)
	}
	return nil
}

// verifyClient judges what crypto/tls does not. A certificate that was shown has been verified before.
func verifyClient(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	if _, err := SubjectOf(state.PeerCertificates[0]); err != nil {
		return &certificateError{err}
	}
	return nil
}
