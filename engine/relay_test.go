package engine_test

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/engine"
)

// relay stands between an engine and PostgreSQL, message by message.
type relay struct {
	address string
	// toServer sees what a read from the engine gave; false: both connections end, and nothing of it is passed on.
	toServer atomic.Pointer[func(p []byte) bool]
	// toEngine writes a message of PostgreSQL's, in the pieces that it likes.
	toEngine atomic.Pointer[func(c net.Conn, m []byte)]
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait() // the engine was stopped before
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			all.Go(func() { r.up(c, s) })
			all.Go(func() { r.down(c, s) })
		}
	})
	return r
}

func (r *relay) up(c, s net.Conn) {
	defer s.Close()
	defer c.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if see := r.toServer.Load(); see != nil && !(*see)(buf[:n]) {
			return
		}
		if _, err := s.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (r *relay) down(c, s net.Conn) {
	defer s.Close()
	defer c.Close()
	for {
		m := make([]byte, 5)
		if _, err := io.ReadFull(s, m); err != nil {
			return
		}
		m = append(m, make([]byte, binary.BigEndian.Uint32(m[1:])-4)...)
		if _, err := io.ReadFull(s, m[5:]); err != nil {
			return
		}
		if pass := r.toEngine.Load(); pass != nil {
			(*pass)(c, m)
		} else if _, err := c.Write(m); err != nil {
			return
		}
	}
}

// inPieces lets every message of PostgreSQL's of a type come in two pieces, the second one when the first was read.
func (r *relay) inPieces(e *engine.Engine, types string) {
	pass := func(c net.Conn, m []byte) {
		k := len(m)
		for i := range types {
			if types[i] == m[0] {
				k = len(m) / 2
			}
		}
		before := e.Totals().BytesFromServers
		_, _ = c.Write(m[:k]) // an end is seen by the next read
		for end := time.Now().Add(patience); e.Totals().BytesFromServers < before+uint64(k) && time.Now().Before(end); {
			runtime.Gosched()
		}
		_, _ = c.Write(m[k:])
	}
	r.toEngine.Store(&pass)
}
