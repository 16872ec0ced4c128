// Package proxyproto decodes the header of the PROXY protocol, versions 1 and 2
// (HAProxy's doc/proxy-protocol.txt): what a load balancer puts before the bytes
// of a connection to tell whose connection it is.
//
// A header is believed by whoever calls Decode, so it is called only for peers
// that are trusted to tell the truth.
//
// The decoder is our own since it has to work on an event loop: it is given the
// bytes that have arrived, and says at once whether they can be a header. The
// known library for Go (github.com/pires/go-proxyproto) reads from a
// bufio.Reader and blocks until the header is there.
package proxyproto

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"pgkinetic/protocol"
)

// Errors of Decode beside protocol.ErrShort. None of them holds bytes of the
// peer.
var (
	// ErrAbsent: the bytes do not begin as a header does. A PostgreSQL start-up
	// packet and a TLS ClientHello give it at their first byte.
	ErrAbsent   = errors.New("proxyproto: not a PROXY header")
	ErrLine     = errors.New("proxyproto: malformed PROXY header of version 1")
	ErrVersion  = errors.New("proxyproto: unknown version or command in a PROXY header")
	ErrFamily   = errors.New("proxyproto: unknown address family or transport in a PROXY header")
	ErrLength   = errors.New("proxyproto: wrong or too large length in a PROXY header")
	ErrTLV      = errors.New("proxyproto: malformed extension in a PROXY header")
	ErrChecksum = errors.New("proxyproto: wrong checksum of a PROXY header")
)

// MaxHeader is the most bytes that Decode asks for: those of version 2, whose
// extensions it bounds to 4096 bytes with the addresses. The specification
// would allow 65535, and expects below 536.
const MaxHeader = prefixLen + maxBlock

const (
	prefixLen = 16   // of version 2: signature, command, family, length
	maxBlock  = 4096 // of version 2: addresses and extensions
)

// signature begins a header of version 2.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// Header is what a proxy tells about the connection that it relays.
type Header struct {
	// Source and Destination are the two ends of the client's connection to the
	// proxy, IPv4-mapped IPv6 addresses unmapped. They are invalid where the
	// proxy names none that is an IP address with a TCP port: for a connection
	// of its own (LOCAL, such as a health check), of an unknown kind, or of a
	// client behind a Unix socket. The ends of the socket itself count then.
	Source, Destination netip.AddrPort
}

// Decode decodes the header at the start of p and returns how many bytes it
// takes. It fails with protocol.ErrShort while p is the beginning of a header
// (at most MaxHeader bytes are needed), with another error as soon as p cannot
// become one. It allocates nothing for version 2, keeps nothing of p, and what
// follows the header in p has no influence.
func Decode(p []byte) (h Header, n int, err error) {
	if len(p) == 0 {
		return Header{}, 0, protocol.ErrShort
	}
	if p[0] == signature[0] {
		return decodeBinary(p)
	}
	return decodeLine(p)
}

// begins tells whether p begins with text (n = its length), may do so when more
// bytes are there (ErrShort), or does not (ErrAbsent).
func begins(p []byte, text string) (n int, err error) {
	n = min(len(p), len(text))
	switch {
	case string(p[:n]) != text[:n]:
		return 0, ErrAbsent
	case n < len(text):
		return 0, protocol.ErrShort
	}
	return n, nil
}

// The fields of version 2.
const (
	commandLocal = 0x20 // with the version in the upper half
	commandProxy = 0x21

	familyUnspec, familyInet, familyInet6, familyUnix = 0, 1, 2, 3 // upper half
	transportUnspec, transportStream, transportDgram  = 0, 1, 2    // lower half
)

// addressesLen is the length of the addresses of each family.
var addressesLen = [...]int{familyUnspec: 0, familyInet: 12, familyInet6: 36, familyUnix: 216}

func decodeBinary(p []byte) (Header, int, error) {
	at, err := begins(p, signature)
	if err != nil {
		return Header{}, 0, err
	}
	rest := p[at:]
	if len(rest) > 0 && rest[0] != commandLocal && rest[0] != commandProxy {
		return Header{}, 0, ErrVersion
	}
	if len(rest) > 1 && rest[0] == commandProxy && (rest[1]>>4 > familyUnix || rest[1]&15 > transportDgram) {
		return Header{}, 0, ErrFamily
	}
	if len(rest) < 4 {
		return Header{}, 0, protocol.ErrShort
	}
	size := int(binary.BigEndian.Uint16(rest[2:]))
	family, transport := rest[1]>>4, rest[1]&15
	if rest[0] == commandLocal || transport == transportUnspec {
		family = familyUnspec // its block is skipped unread
	}
	if size > maxBlock || size < addressesLen[family] {
		return Header{}, 0, ErrLength
	}
	n := prefixLen + size
	if len(p) < n {
		return Header{}, 0, protocol.ErrShort
	}
	if family == familyUnspec {
		return Header{}, n, nil
	}
	if err := checkExtensions(p[:n], prefixLen+addressesLen[family]); err != nil {
		return Header{}, 0, err
	}
	if family == familyUnix || transport == transportDgram {
		return Header{}, n, nil
	}
	return addresses(p[prefixLen:], addressesLen[family]), n, nil
}

// addresses decodes the block of a family whose addresses have ports: source,
// destination, source port, destination port.
func addresses(block []byte, size int) Header {
	width := size/2 - 2
	end := func(i int) netip.AddrPort {
		addr, _ := netip.AddrFromSlice(block[i*width : (i+1)*width]) // 4 or 16 bytes
		return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(block[2*width+2*i:]))
	}
	return Header{Source: end(0), Destination: end(1)}
}
