// Package tlsconfig makes crypto/tls configurations from the settings of tls: for the clients that connect to us, and for
// our connections to PostgreSQL, whose modes are libpq's.
//
// A Set is one generation of them, immutable; what it needs of the files it has read, so that replaced files make a new Set
// and concern no handshake that has begun. What the modes mean for users is in docs/tls.md.
package tlsconfig
