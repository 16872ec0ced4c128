package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// Silent is sockets that have begun a TLS handshake and say no more. Every other one keeps back the last byte of its
// ClientHello: for these the server still waits for what it can compute with, and for the others it has computed.
type Silent struct {
	sockets []net.Conn
	// TurnedAway is how many the server closed before it answered their SSLRequest.
	TurnedAway int
}

// NewSilent opens n sockets, one after the other.
func NewSilent(ctx context.Context, s Server, n int) (*Silent, error) {
	if err := descriptors(n); err != nil {
		return nil, err
	}
	hello, err := clientHello()
	if err != nil {
		return nil, err
	}
	silent := &Silent{}
	for i := range n {
		if err := silent.open(ctx, s, hello[:len(hello)-i%2]); err != nil {
			silent.Close()
			return nil, err
		}
	}
	return silent, nil
}

func (s *Silent) open(ctx context.Context, server Server, hello []byte) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, server.Network, server.Address)
	if err != nil {
		return err
	}
	var answer [1]byte
	if _, err = c.Write(sslRequest); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err != nil {
		s.TurnedAway++
		return c.Close()
	}
	s.sockets = append(s.sockets, c)
	if answer[0] != 'S' {
		return fmt.Errorf("the server answers %q to an SSLRequest", answer[0])
	}
	_, _ = c.Write(hello) // a server that has closed meanwhile has one of them less to hold
	return nil
}

// Close closes them without a word.
func (s *Silent) Close() {
	for _, c := range s.sockets {
		_ = c.Close()
	}
}

// clientHello is what a handshake begins with.
func clientHello() ([]byte, error) {
	var r recorder
	if err := tls.Client(&r, required).Handshake(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("a handshake with nobody: %w", err)
	}
	return r.written, nil
}

// recorder is a connection to nobody.
type recorder struct {
	net.Conn
	written []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.written = append(r.written, p...)
	return len(p), nil
}

func (r *recorder) Read([]byte) (int, error) { return 0, io.EOF }
func (r *recorder) Close() error             { return nil }
