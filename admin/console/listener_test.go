package console

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
)

// listener is a port behind which everybody is let in, to a console of their own.
type listener struct {
	address string
	control *fake

	mu      sync.Mutex
	cancels map[uint32]chan struct{}
	hangUps map[uint32]context.CancelFunc
	ended   chan error // by which each session ended; nobody has to take it
}

const testVersion = "1.2.3"

// listen serves consoles for a test. Users whose name begins with "stats" may only
// look.
func listen(t testing.TB, control *fake) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	of := &listener{address: l.Addr().String(), control: control, cancels: map[uint32]chan struct{}{}, hangUps: map[uint32]context.CancelFunc{}, ended: make(chan error, 100)}
	var running sync.WaitGroup
	running.Go(func() {
		for pid := uint32(1); ; pid++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { of.serve(ctx, conn, pid) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		running.Wait()
	})
	return of
}

func (l *listener) serve(ctx context.Context, conn net.Conn, pid uint32) {
	defer func() { _ = conn.Close() }()
	startup, ok := l.startup(conn)
	if !ok {
		return
	}
	canceled := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.cancels[pid], l.hangUps[pid] = canceled, cancel
	l.mu.Unlock()
	if _, err := conn.Write(protocol.AppendAuthenticationOk(nil)); err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	user, _ := startup.Get("user")
	database, _ := startup.Get("database")
	err := Serve(ctx, conn, Session{
		Control: l.control, User: user, Database: database, Admin: len(user) < 5 || user[:5] != "stats", Version: testVersion,
		Params: startup.Params, PID: pid, Key: []byte("key0"), Canceled: canceled,
	})
	select {
	case l.ended <- err:
	default:
	}
}

// hangUp is the end of a session's context, as when its client is gone.
func (l *listener) hangUp(pid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUps[pid]()
}

// startup reads what a client begins with; ok is false if that was a cancel.
func (l *listener) startup(conn net.Conn) (s protocol.Startup, ok bool) {
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(conn, head); err != nil {
			return s, false
		}
		packet := append(head, make([]byte, binary.BigEndian.Uint32(head)-4)...)
		if _, err := io.ReadFull(conn, packet[4:]); err != nil {
			return s, false
		}
		s, _, err := protocol.DecodeStartup(packet)
		if err != nil {
			return s, false
		}
		switch s.Kind {
		case protocol.KindStartup:
			return s, true
		case protocol.KindCancelRequest:
			l.mu.Lock()
			defer l.mu.Unlock()
			if c := l.cancels[s.CancelPID]; c != nil {
				select {
				case c <- struct{}{}:
				default:
				}
			}
			return s, false
		}
		if _, err := conn.Write([]byte{'N'}); err != nil {
			return s, false
		}
	}
}

// client is a raw client of a console.
func client(t testing.TB, l *listener, user string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", l.address, "user", user, "database", "pg_kinetic", "application_name", "test")
}
