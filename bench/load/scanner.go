package load

import (
	"encoding/binary"
	"fmt"
)

// scanner finds the messages of a server in a stream that comes in pieces, and keeps the bodies that matter. Rows are only
// passed over: a generator that looked at them would use more CPU than what it measures.
//
// State: the header of the message under way as far as it has come, and how much of its body is to come. Invariant: left is
// 0 while the header is not whole.
type scanner struct {
	head [headerSize]byte
	have int    // bytes of head
	left int    // bytes of the body that have not come
	body []byte // what has come of a body that is kept
}

const (
	headerSize = 5
	maxMessage = 1 << 30 // what PostgreSQL sends at most
	maxKept    = 8 << 10 // of a body
)

// next passes over data up to the end of one message, and gives its type and, if it is kept, its body, which is valid until
// the next call. The type is 0 when data ends before the message does.
func (s *scanner) next(data []byte) (typ byte, body, rest []byte, err error) {
	if s.have < headerSize {
		n := copy(s.head[s.have:], data)
		s.have, data = s.have+n, data[n:]
		if s.have < headerSize {
			return 0, nil, nil, nil
		}
		length := binary.BigEndian.Uint32(s.head[1:])
		if length < 4 || length > maxMessage {
			return 0, nil, nil, fmt.Errorf("message %q of length %d", s.head[0], length)
		}
		s.left, s.body = int(length)-4, s.body[:0]
	}
	n := min(s.left, len(data))
	if kept(s.head[0]) {
		s.body = append(s.body, data[:min(n, maxKept-len(s.body))]...)
	}
	if s.left -= n; s.left > 0 {
		return 0, nil, nil, nil
	}
	s.have = 0
	return s.head[0], s.body, data[n:], nil
}

// kept tells whether somebody reads the body of a message: ErrorResponse, Authentication.
func kept(typ byte) bool { return typ == 'E' || typ == 'R' }
