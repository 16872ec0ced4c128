package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// ErrStartup: the start-up packet is whole but not laid out as the protocol
// asks. PostgreSQL answers it with FATAL 08P01.
var ErrStartup = errors.New("protocol: invalid startup packet layout")

// StartupKind tells what the first packet of a connection asks for.
type StartupKind uint8

// The packets that may come first. They have no type byte.
const (
	KindStartup StartupKind = iota
	KindSSLRequest
	KindGSSENCRequest
	KindCancelRequest
)

// Request codes in the place of the protocol version.
const (
	codeCancelRequest = 1234<<16 | 5678
	codeSSLRequest    = 1234<<16 | 5679
	codeGSSENCRequest = 1234<<16 | 5680
)

// pqOptionPrefix begins the names of protocol options in a StartupMessage.
const pqOptionPrefix = "_pq_."

// Param is one run-time parameter of a StartupMessage.
type Param struct{ Name, Value string }

// Startup is a decoded start-up packet. It shares no memory with the bytes that
// it was decoded from.
type Startup struct {
	Kind StartupKind
	// Major and Minor are the protocol version of a StartupMessage. With a Major
	// other than 3 nothing else is decoded; the caller refuses it.
	Major, Minor uint16
	// Params are in the order in which they were sent, repeats included.
	Params []Param
	// PqOptions are the names that begin with "_pq_."; none is defined up to
	// protocol 3.2, so each is answered by NegotiateProtocolVersion.
	PqOptions []string
	// CancelPID and CancelKey are those of a CancelRequest.
	CancelPID uint32
	CancelKey []byte
}

// Get returns the value of a parameter. The last one wins, as in PostgreSQL.
func (s *Startup) Get(name string) (string, bool) {
	for i := len(s.Params) - 1; i >= 0; i-- {
		if s.Params[i].Name == name {
			return s.Params[i].Value, true
		}
	}
	return "", false
}

// DecodeStartup decodes the packet at the start of p and returns how many bytes
// it takes. Errors: ErrShort until the packet is whole (p never needs more than
// MaxStartupPacket + 4 bytes), ErrLength when its length is below 8, above the
// maximum or wrong for its kind, ErrStartup when its layout is wrong.
func DecodeStartup(p []byte) (Startup, int, error) {
	if len(p) < 4 {
		return Startup{}, 0, ErrShort
	}
	n := binary.BigEndian.Uint32(p)
	if n < 8 || n > MaxStartupPacket+4 {
		return Startup{}, 0, ErrLength
	}
	if len(p) < int(n) {
		return Startup{}, 0, ErrShort
	}
	code := binary.BigEndian.Uint32(p[4:])
	body := p[8:n]
	s, err := decodeStartupBody(code, body)
	if err != nil {
		return Startup{}, 0, err
	}
	return s, int(n), nil
}

func decodeStartupBody(code uint32, body []byte) (Startup, error) {
	switch code {
	case codeSSLRequest, codeGSSENCRequest:
		if len(body) != 0 {
			return Startup{}, ErrLength
		}
		if code == codeSSLRequest {
			return Startup{Kind: KindSSLRequest}, nil
		}
		return Startup{Kind: KindGSSENCRequest}, nil
	case codeCancelRequest:
		if len(body) < 4+MinCancelKey || len(body) > 4+MaxCancelKey {
			return Startup{}, ErrLength
		}
		return Startup{
			Kind:      KindCancelRequest,
			CancelPID: binary.BigEndian.Uint32(body),
			CancelKey: bytes.Clone(body[4:]),
		}, nil
	}
	s := Startup{Major: uint16(code >> 16), Minor: uint16(code)}
	if s.Major != Major {
		return s, nil
	}
	return s, s.decodeParams(body)
}

// decodeParams reads name and value pairs, each ended by a zero byte, up to an
// empty name, which must be the last byte of the packet.
func (s *Startup) decodeParams(body []byte) error {
	for {
		name, rest, ok := cutString(body)
		if !ok {
			return ErrStartup
		}
		if len(name) == 0 {
			if len(rest) != 0 {
				return ErrStartup
			}
			return nil
		}
		value, rest, ok := cutString(rest)
		if !ok {
			return ErrStartup
		}
		body = rest
		if strings.HasPrefix(string(name), pqOptionPrefix) {
			s.PqOptions = append(s.PqOptions, string(name))
			continue
		}
		s.Params = append(s.Params, Param{Name: string(name), Value: string(value)})
	}
}

// cutString splits b after its first zero byte, which belongs to neither part.
func cutString(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i:i], b[i+1:], true
}
