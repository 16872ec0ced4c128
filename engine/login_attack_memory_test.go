//go:build !race

package engine_test

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"pgkinetic/internal/pgwire"
)

// live is the heap that is in use, and the stacks of goroutines.
func live() (heap, stacks uint64) {
	runtime.GC()
	runtime.GC() // what the first one has finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}

// keep keeps a connection open by a descriptor alone, so that the memory of this side of it can go.
func keep(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(t, err)
	fd := -1
	must(t, raw.Control(func(of uintptr) { fd, err = syscall.Dup(int(of)) }))
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	must(t, c.Close())
}

// TestLoginMemory: what a socket costs in each stage of a login.
func TestLoginMemory(t *testing.T) {
	const sockets = 200
	hello := clientHello(t)
	proof := func(s *stranger) {
		s.challenged("", "scram_user")
		s.send(s.wrongProof())
	}
	for _, c := range []struct {
		name  string
		most  uint64 // KiB a socket
		reach func(*stranger)
	}{
		{"silent", 2, func(*stranger) {}},
		{"half a startup packet", 4, func(s *stranger) { s.send(pgwire.Startup(0, "user", "scram_user")[:11]) }},
		{"half a ClientHello", 16, func(s *stranger) { s.askTLS(); s.send(hello[:100]) }},
		{"ServerHello sent", 36, func(s *stranger) {
			s.askTLS()
			s.send(hello)
			if _, err := s.r.Peek(1); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"asked for SASL", 4, func(s *stranger) { s.send(pgwire.Startup(0, "user", "scram_user")); s.asked(10) }},
		{"answer delayed", 5, proof},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := besiege(t)
			f.open(t, "scram_user", "sslmode=require")
			from := stranger127()
			if c.name == "answer delayed" {
				from = f.failing(t)
			}
			f.empty(t)
			n := f.denied()
			heap, stacks := live()
			for range sockets {
				s := f.dial(t, from)
				c.reach(s)
				keep(t, s.tcp)
			}
			until(t, "all are there", func() bool { return f.Totals().Clients == sockets })
			if c.name == "answer delayed" {
				until(t, "all have failed", func() bool { return f.denied() == n+sockets })
			}
			heapNow, stacksNow := live()
			each := (heapNow + stacksNow - heap - stacks) / sockets
			t.Logf("%d bytes a socket", each)
			if each > c.most<<10 {
				t.Errorf("%d bytes a socket, want at most %d KiB", each, c.most)
			}
		})
	}
}

// TestIdleTLSMemory: the heap that a client over TLS keeps that has logged in and is idle: after small records, and after large ones.
func TestIdleTLSMemory(t *testing.T) {
	const clients = 400
	for _, c := range []struct {
		name, sql string
		most      uint64
	}{
		{"small records", "select 1", 12},
		{"large records", "select length('" + strings.Repeat("x", 40000) + "')", 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := besiege(t)
			f.open(t, "scram_user", "sslmode=require")
			f.empty(t)
			before, _ := live()
			for range clients {
				s := f.dial(t, stranger127())
				s.secure()
				s.send(pgwire.Startup(0, "user", "trust_user", "database", "postgres"))
				readReady(t, s)
				s.send(pgwire.Query(c.sql))
				readReady(t, s)
				keep(t, s.tcp)
			}
			now, _ := live()
			each := (now - before) / clients
			t.Logf("%d bytes a client", each)
			if f.Totals().Clients != clients {
				t.Error("they are gone")
			}
			if each > c.most<<10 {
				t.Errorf("%d bytes a client, want at most %d KiB", each, c.most)
			}
		})
	}
}

// readReady reads, in the clear text of s, up to a ReadyForQuery.
func readReady(t *testing.T, s *stranger) {
	t.Helper()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(s.r, head); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, s.r, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil {
			t.Fatal(err)
		}
		if head[0] == 'Z' {
			return
		}
	}
}
