package resolve

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// record is what name servers were asked and have answered during one look-up. The standard library asks for both
// kinds of addresses at the same time, and goes on with the next server, or by TCP, where an answer is of no use.
type record struct {
	mu        sync.Mutex
	questions map[dnsmessage.Question]*reply
}

// reply is the best answer to a question so far.
type reply struct {
	good  bool // complete, be it that there is no such name
	found bool // it has records
	ttl   uint32
}

// result: the least TTL of the answers with addresses, and whether a question about a name that exists has got no good
// answer.
func (r *record) result() (ttl time.Duration, timed, partial bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.questions {
		switch {
		case !a.good:
			partial = true
		case a.found && (!timed || time.Duration(a.ttl)*time.Second < ttl):
			ttl, timed = time.Duration(a.ttl)*time.Second, true
		}
	}
	return ttl, timed, partial
}

func (r *record) asked(message []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(message); err != nil {
		return
	}
	q, err := p.Question()
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.questions == nil {
		r.questions = map[dnsmessage.Question]*reply{}
	}
	if r.questions[q] == nil {
		r.questions[q] = &reply{}
	}
}

func (r *record) answered(message []byte) {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || !h.Response || h.Truncated {
		return
	}
	q, err := p.Question()
	if err != nil || p.SkipAllQuestions() != nil {
		return
	}
	a := reply{good: h.RCode == dnsmessage.RCodeSuccess || h.RCode == dnsmessage.RCodeNameError}
	for {
		rr, err := p.AnswerHeader()
		if err != nil {
			break
		}
		if !a.found || rr.TTL < a.ttl { // an alias counts as well
			a.found, a.ttl = true, rr.TTL
		}
		if p.SkipAnswer() != nil {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if had := r.questions[q]; had != nil && !had.good {
		*had = a
	}
}

// listen gives c with an ear. The standard library tells by the type how messages are framed.
func (r *record) listen(c net.Conn) net.Conn {
	if udp, ok := c.(*net.UDPConn); ok {
		return &packets{udp, r}
	}
	return &stream{Conn: c, record: r}
}

// packets is a connection that carries one message in each packet.
type packets struct {
	*net.UDPConn
	record *record
}

func (c *packets) Write(p []byte) (int, error) {
	c.record.asked(p)
	return c.UDPConn.Write(p)
}

func (c *packets) Read(p []byte) (int, error) {
	n, err := c.UDPConn.Read(p)
	c.record.answered(p[:n])
	return n, err
}

// stream is a connection whose messages have their length before them.
type stream struct {
	net.Conn
	record *record
	in     []byte
}

func (c *stream) Write(p []byte) (int, error) {
	if len(p) > lengthSize {
		c.record.asked(p[lengthSize:])
	}
	return c.Conn.Write(p)
}

const lengthSize = 2

func (c *stream) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= lengthSize {
		end := lengthSize + int(binary.BigEndian.Uint16(c.in))
		if len(c.in) < end {
			break
		}
		c.record.answered(c.in[lengthSize:end])
		c.in = c.in[end:]
	}
	return n, err
}
