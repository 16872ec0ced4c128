package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/bench/scram"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/testcert"
)

// gate is a TLS server before PostgreSQL, which PostgreSQL does not know of: what it has decrypted goes on as it is.
type gate struct {
	answer    byte // to an SSLRequest
	piece     int  // it sends so many bytes at a time
	config    *tls.Config
	handshook atomic.Int64
}

func newGate(piece int) *gate {
	cert := testcert.Authority("a").Issue(testcert.Request{CommonName: "server"}).TLS()
	return &gate{answer: 'S', piece: piece, config: &tls.Config{Certificates: []tls.Certificate{cert}}}
}

func (g *gate) start(t *testing.T, behind string) Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go g.serve(c, behind)
		}
	}()
	return Server{Network: "tcp", Address: ln.Addr().String(), User: "postgres", Database: "postgres", TLS: true}
}

func (g *gate) serve(c net.Conn, behind string) {
	defer c.Close()
	var request [8]byte
	if _, err := io.ReadFull(c, request[:]); err != nil || string(request[:]) != string(sslRequest) {
		return
	}
	if _, err := c.Write([]byte{g.answer}); err != nil {
		return
	}
	inner := tls.Server(&pieces{c, g.piece}, g.config)
	if inner.Handshake() != nil {
		return
	}
	g.handshook.Add(1)
	server, err := net.Dial("tcp", behind)
	if err != nil {
		hangUp(c)
		return
	}
	defer server.Close()
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, inner)
	}()
	_, _ = io.Copy(inner, server)
}

// hangUp ends a connection so that the other side sees its end: closed with bytes unread, TCP resets it instead.
func hangUp(c net.Conn) {
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// pieces cuts what is written.
type pieces struct {
	net.Conn
	size int
}

func (p *pieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = p.Conn.Write(b[n:min(n+p.size, len(b))])
		n += k
	}
	return n, err
}

// TestOverTLS runs a little of everything against PostgreSQL, with TLS that comes in small pieces.
func TestOverTLS(t *testing.T) {
	pg := pgtest.Shared(t)
	pg.Exec(t, "create table if not exists load_input (n int, t text)")
	s := newGate(700).start(t, pg.Addr())
	t.Run("loops", func(t *testing.T) { loopsAgainst(t, s) })
	t.Run("clients", func(t *testing.T) { clientsAgainst(t, s) })
	t.Run("streams", func(t *testing.T) { streamsAgainst(t, s) })
}

func TestLoginsBySCRAMOverTLS(t *testing.T) {
	pg := pgtest.Shared(t)
	secret, err := scram.Secret("right")
	if err != nil {
		t.Fatal(err)
	}
	pg.Exec(t, "CREATE ROLE load_scram LOGIN PASSWORD '"+secret+"'")
	pg.HBA(t, "host all load_scram 127.0.0.1/32 scram-sha-256")
	defer pg.HBA(t)
	s := newGate(1).start(t, pg.Addr())
	s.User = "load_scram"
	for password, answered := range map[string]int{"right": 20, "wrong": 0} {
		user := scram.NewUser(password)
		s.Authenticate = func() Authenticator { return user.Login() }
		got, err := Storm{Clients: 20, Query: "select 1", Limit: time.Minute}.Run(context.Background(), s)
		if err != nil || got.Answered != answered || got.Refused != 20-answered {
			t.Errorf("%s: %+v, %v", password, counts(got), err)
		}
		if answered == 0 && got.Codes[0].SQLState != "28P01" {
			t.Errorf("%+v", got.Codes)
		}
	}
}

func TestServersWithoutTLS(t *testing.T) {
	g := newGate(1)
	g.answer = 'N'
	churn := Churn{Clients: 2, Logins: 4}
	got, err := churn.Run(context.Background(), g.start(t, ""))
	if err != nil || got.Failed != 4 || !strings.Contains(got.Err.Error(), `'N'`) {
		t.Errorf("%+v, %v", counts(got), err)
	}
	g = newGate(1)
	g.config.CurvePreferences = []tls.CurveID{tls.CurveP521}
	got, err = churn.Run(context.Background(), g.start(t, ""))
	if err != nil || got.Failed != 4 || got.Err == nil {
		t.Errorf("a handshake that fails: %+v, %v", counts(got), err)
	}
	g = newGate(1)
	got, err = churn.Run(context.Background(), g.start(t, "127.0.0.1:1"))
	if err != nil || got.Failed != 4 || !errors.Is(got.Err, errClosed) {
		t.Errorf("nobody behind the handshake: %+v, %v", counts(got), err)
	}
}

// TestHandshakesEndWithTheirRun: a server that falls silent within handshakes keeps neither a run nor its coroutines.
func TestHandshakesEndWithTheirRun(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ended := make(chan error)
	const clients = 5
	go func() {
		for range clients {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, len(sslRequest)))
				_, _ = c.Write([]byte{'S'})
				_, err := io.Copy(io.Discard, c)
				ended <- err
			}()
		}
	}()
	s := Server{Network: "tcp", Address: ln.Addr().String(), TLS: true}
	got, err := Storm{Clients: clients, Limit: 100 * time.Millisecond}.Run(context.Background(), s)
	if err != nil || got.Unanswered != clients {
		t.Errorf("%+v, %v", counts(got), err)
	}
	for range clients {
		<-ended
	}
}

func TestSilentSockets(t *testing.T) {
	g := newGate(1 << 20)
	s := g.start(t, "")
	silent, err := NewSilent(context.Background(), s, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(silent.sockets) != 10 || silent.TurnedAway != 0 {
		t.Errorf("%d sockets, %d were turned away", len(silent.sockets), silent.TurnedAway)
	}
	// The server has answered the whole ClientHello, and not the one without its end, as more of it shows.
	if n, err := silent.sockets[0].Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	hello, err := clientHello()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := silent.sockets[1].Write(hello[len(hello)-1:]); err != nil {
		t.Fatal(err)
	}
	if n, err := silent.sockets[1].Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	silent.Close()
	if g.handshook.Load() != 0 {
		t.Error("a handshake of a silent socket has ended")
	}
	g.answer = 'N'
	if _, err := NewSilent(context.Background(), s, 1); err == nil {
		t.Error("a server without TLS")
	}
	s.Address = closing(t)
	if silent, err = NewSilent(context.Background(), s, 3); err != nil || silent.TurnedAway != 3 {
		t.Errorf("a server that closes at once: %+v, %v", silent, err)
	}
}

// closing is a server that accepts and closes.
func closing(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return ln.Addr().String()
}
