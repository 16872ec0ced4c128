package auth

import (
	"fmt"
	"net/netip"
)

// Peer is what is known of a client before it has proved anything. Its strings
// and slices are only read; the Exchange keeps them.
type Peer struct {
	User, Database string
	// Addr is invalid for a Unix socket.
	Addr netip.Addr
	TLS  bool
	// Verified: the client sent a certificate and it was verified against our CAs.
	// CommonName and DistinguishedName (RFC 2253) are its subject's, empty without.
	Verified                      bool
	CommonName, DistinguishedName string
	// EndPoint is the tls-server-end-point (RFC 5929) of the certificate that we
	// sent; nil without TLS, and for a certificate that has none.
	EndPoint []byte
}

// describe is the client as PostgreSQL's messages about pg_hba.conf show it.
func (p *Peer) describe() string {
	host, encryption := "[local]", "no encryption"
	if p.Addr.IsValid() {
		host = p.Addr.Unmap().String()
	}
	if p.TLS {
		encryption = "SSL encryption"
	}
	return fmt.Sprintf(`host "%s", user "%s", database "%s", %s`, host, p.User, p.Database, encryption)
}
