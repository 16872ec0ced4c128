package engine_test

// Every stage of a login, and what a stranger may do in each of them: anything, and nobody is let in, hangs or is
// forgotten in a count.

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// loginStage is a point that a login has come to when somebody does what is not expected of it.
type loginStage struct {
	name  string
	reach func(t testing.TB, f *fort) *stranger
}

// clientHello is what crypto/tls begins with.
func clientHello(t testing.TB) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: "127.0.0.1", NextProtos: []string{"postgresql"}}).Handshake()
	}()
	p := make([]byte, 16<<10)
	n, err := ours.Read(p)
	must(t, err)
	must(t, ours.Close())
	return p[:n]
}

var loginStages = []loginStage{
	{"silent", func(t testing.TB, f *fort) *stranger { return f.stranger(t) }},
	{"half a startup packet", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", "scram_user")[:11])
		return s
	}},
	{"TLS granted", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.askTLS()
		return s
	}},
	{"half a ClientHello", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.askTLS()
		s.send(clientHello(t)[:100])
		return s
	}},
	{"half a direct ClientHello", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(clientHello(t)[:100])
		return s
	}},
	{"handshake computed", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.askTLS()
		s.release = f.HoldHelpers()
		t.Cleanup(s.release)
		s.send(clientHello(t))
		return s
	}},
	{"ServerHello sent", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.askTLS()
		s.send(clientHello(t))
		if _, err := s.r.Peek(1); err != nil {
			t.Fatal(err)
		}
		return s
	}},
	{"secure", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.secure()
		return s
	}},
	{"half a startup packet in TLS", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.secure()
		s.send(pgwire.Startup(0, "user", "scram_user")[:11])
		return s
	}},
	{"asked for SASL", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", "scram_user"))
		s.asked(10)
		return s
	}},
	{"asked for a password in TLS", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.secure()
		s.send(pgwire.Startup(0, "user", "password_user"))
		s.asked(3)
		return s
	}},
	{"half a SASL message", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", "scram_user"))
		s.asked(10)
		s.send(saslInitial("SCRAM-SHA-256", saslFirst)[:20])
		return s
	}},
	{"challenged", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.challenged("", "scram_user")
		return s
	}},
	{"proof computed", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", "password_user"))
		s.asked(3)
		s.release = f.HoldHelpers()
		t.Cleanup(s.release)
		s.send(pgwire.Raw('p', []byte("wrong\x00")))
		return s
	}},
	{"answer delayed", func(t testing.TB, f *fort) *stranger {
		return f.delayed(t, f.failing(t))
	}},
	{"looked up", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", fmt.Sprint("nobody_", strangers.Load()), "database", "asked"))
		return s
	}},
	{"cancelled", func(t testing.TB, f *fort) *stranger {
		s := f.stranger(t)
		s.send(pgwire.CancelRequest(0xffffff, []byte{1, 2, 3, 4}))
		return s
	}},
}

// pieces are what may come where it is not expected.
func pieces(t testing.TB) map[string][]byte {
	random := make([]byte, 64<<10)
	seed := rand.NewChaCha8([32]byte{7})
	_, _ = seed.Read(random) // never fails
	return map[string][]byte{
		"nothing":          nil,
		"Terminate":        pgwire.Terminate(),
		"Query":            pgwire.Query("select 1"),
		"startup":          pgwire.Startup(0, "user", "postgres"),
		"SSLRequest":       pgwire.SSLRequest(),
		"GSSENCRequest":    pgwire.GSSENCRequest(),
		"CancelRequest":    pgwire.CancelRequest(1, []byte{1, 2, 3, 4}),
		"ClientHello":      clientHello(t),
		"PROXY":            []byte("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"),
		"NULs":             make([]byte, 100),
		"ones":             bytes.Repeat([]byte{0xff}, 100),
		"absurd proof":     {'p', 0x7f, 0xff, 0xff, 0xff},
		"negative proof":   {'p', 0xff, 0xff, 0xff, 0xff},
		"short proof":      {'p', 0, 0, 0, 3},
		"empty proof":      pgwire.Raw('p', nil),
		"NULs as a proof":  pgwire.Raw('p', make([]byte, 60)),
		"huge proof":       pgwire.Raw('p', bytes.Repeat([]byte("x"), 16<<10)),
		"huger proof":      pgwire.Raw('p', bytes.Repeat([]byte("x"), 100<<10)),
		"unknown SASL":     saslInitial("SCRAM-SHA-1", saslFirst),
		"PLUS":             saslInitial("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc"),
		"two first ones":   bytes.Repeat(saslInitial("SCRAM-SHA-256", saslFirst), 2),
		"empty SASL":       saslInitial("", ""),
		"an empty proof":   pgwire.Raw('p', []byte("c=biws,r=,p=")),
		"a proof too soon": pgwire.Raw('p', []byte("c=biws,r=abc,p="+"AAAA")),
		"empty password":   pgwire.Raw('p', []byte{0}),
		"random":           random,
	}
}

// census is what must not grow: goroutines and descriptors.
func census(t testing.TB) (goroutines, descriptors int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return runtime.NumGoroutine(), len(fds)
}

// TestLoginAttackPieces: every piece at every stage, behind it the end of what is sent. Nothing is let in, answered by
// more than one error, kept waiting, or left behind. It runs by itself, since it counts goroutines and descriptors.
func TestLoginAttackPieces(t *testing.T) {
	f := besiege(t)
	f.open(t, "scram_user", "sslmode=require")
	f.empty(t)
	goroutines, descriptors := census(t)
	all := pieces(t)
	for _, at := range loginStages {
		t.Run(at.name, func(t *testing.T) {
			if at.name == "answer delayed" { // ten failures for each
				all = map[string][]byte{"nothing": nil, "random": all["random"], "Terminate": all["Terminate"]}
			}
			for name, piece := range all {
				s := at.reach(t, f)
				s.say(piece)
				s.noMore()
				s.release()
				if code := s.ends(); code != "" && code != "08P01" && code[:2] != "28" && code != "0A000" {
					t.Errorf("%s: %s", name, code)
				}
				must(t, s.tcp.Close())
			}
			f.empty(t)
		})
	}
	f.open(t, "scram_user", "sslmode=require")
	f.open(t, "password_user", "sslmode=disable")
	f.empty(t)
	const ofLookUps = 2 * 4 // a goroutine and a descriptor for each session on our side, as many on the mock's
	until(t, "as before", func() bool {
		g, d := census(t)
		return g <= goroutines+ofLookUps && d <= descriptors+ofLookUps
	})
}

// TestLoginAttackHangUp: whoever hangs up or resets at any stage is forgotten at once, whatever is under way for him.
func TestLoginAttackHangUp(t *testing.T) {
	f := besiege(t)
	for _, at := range loginStages {
		t.Run(at.name, func(t *testing.T) {
			for _, how := range []func(s *stranger){
				func(s *stranger) { must(t, s.tcp.Close()) },
				func(s *stranger) { must(t, s.tcp.(*net.TCPConn).SetLinger(0)); must(t, s.tcp.Close()) },
			} {
				s := at.reach(t, f)
				how(s)
				if at.name == "handshake computed" { // which hears of it when it has had its turn
					s.release()
				}
				f.empty(t) // while a helper or a look-up is at work
				s.release()
			}
		})
	}
	f.open(t, "md5_user", "sslmode=require")
	f.empty(t)
}

// TestLoginAttackTimeout: login_timeout_ms ends every stage, from the accept on.
func TestLoginAttackTimeout(t *testing.T) {
	f := besiege(t, "--server.login-timeout-ms=1000")
	expires := func(t *testing.T, at loginStage) {
		begin := time.Now()
		s := at.reach(t, f)
		if code := s.ends(); code != "08006" && code != "" || time.Since(begin) > patience/2 {
			t.Errorf("ended with %q after %v", code, time.Since(begin))
		}
		s.release()
	}
	alone := map[string]bool{"handshake computed": true, "proof computed": true, "answer delayed": true} // they stop the others
	t.Run("together", func(t *testing.T) {
		for _, at := range loginStages {
			if !alone[at.name] {
				t.Run(at.name, func(t *testing.T) { t.Parallel(); expires(t, at) })
			}
		}
	})
	for _, at := range loginStages {
		if alone[at.name] {
			t.Run(at.name, func(t *testing.T) { expires(t, at) })
		}
	}
	f.empty(t)
	if n := f.Totals().Timeouts["login"]; n < uint64(len(loginStages)-1) { // a cancel request ends by itself
		t.Errorf("%d logins have run out of time", n)
	}
}
