// Package testdns is a small name server for tests: it answers for the names that it is told, over UDP and TCP.
package testdns

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Server answers until the test ends. Any goroutine may use it.
type Server struct {
	udp  net.PacketConn
	tcp  net.Listener
	mu   sync.Mutex
	zone map[string]Zone
	all  int
}

// Zone is what the server says of a name.
type Zone struct {
	Addrs  []string // IPv4 and IPv6
	TTL    uint32   // s
	Alias  string   // the name has this other name, to which Addrs belong
	Silent bool     // no answer
	Fail   bool     // SERVFAIL
	FailV6 bool     // SERVFAIL to the question for IPv6 addresses
	ByTCP  bool     // UDP gets a truncated answer
}

// Start starts one on a free port of the loopback, the same one for UDP and TCP.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{zone: map[string]Zone{}}
	for range 20 {
		var err error
		if s.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if s.tcp, err = net.Listen("tcp", s.udp.LocalAddr().String()); err == nil {
			break
		}
		s.udp.Close()
	}
	if s.tcp == nil {
		t.Fatal("no port that is free for both UDP and TCP")
	}
	var all sync.WaitGroup
	all.Go(s.serveUDP)
	all.Go(s.serveTCP)
	t.Cleanup(func() {
		s.udp.Close()
		s.tcp.Close()
		all.Wait()
	})
	return s
}

// Addr is host:port.
func (s *Server) Addr() string { return s.udp.LocalAddr().String() }

// Set replaces what is said of a name.
func (s *Server) Set(name string, z Zone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[strings.ToLower(strings.TrimSuffix(name, "."))] = z
}

// Questions is how many have come.
func (s *Server) Questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *Server) serveUDP() {
	buf := make([]byte, 4096)
	for {
		n, from, err := s.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n], true); answer != nil {
			_, _ = s.udp.WriteTo(answer, from)
		}
	}
}

func (s *Server) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				q := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, q); err != nil {
					return
				}
				answer := s.answer(q, false)
				if answer == nil {
					return
				}
				framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)
				for _, b := range framed { // in the smallest pieces
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
				}
			}
		}()
	}
}

func (s *Server) answer(question []byte, udp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	s.mu.Lock()
	s.all++
	z, known := s.zone[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	s.mu.Unlock()
	if z.Silent {
		return nil
	}
	out := dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionAvailable: true}
	six := q.Type == dnsmessage.TypeAAAA
	switch {
	case !known:
		out.RCode = dnsmessage.RCodeNameError
	case z.Fail || z.FailV6 && six:
		out.RCode = dnsmessage.RCodeServerFailure
	case z.ByTCP && udp:
		out.Truncated = true
	}
	b := dnsmessage.NewBuilder(nil, out)
	_ = b.StartQuestions()
	_ = b.Question(q)
	_ = b.StartAnswers()
	if out.RCode == dnsmessage.RCodeSuccess && !out.Truncated {
		z.records(&b, q)
	}
	answer, _ := b.Finish()
	return answer
}

func (z *Zone) records(b *dnsmessage.Builder, q dnsmessage.Question) {
	name := q.Name
	if z.Alias != "" {
		to := dnsmessage.MustNewName(strings.TrimSuffix(z.Alias, ".") + ".")
		_ = b.CNAMEResource(dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: z.TTL}, dnsmessage.CNAMEResource{CNAME: to})
		name = to
	}
	for _, a := range z.Addrs {
		addr := netip.MustParseAddr(a)
		h := dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: z.TTL}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			_ = b.AResource(h, dnsmessage.AResource{A: addr.As4()})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			_ = b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
	}
}
