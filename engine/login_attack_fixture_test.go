package engine_test

// What the attacks on the login path stand on: an engine that asks for every kind of proof, over TLS and in clear, and
// strangers who send what they like.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/configs"
	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/testcert"
)

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// The users of a fort: how each of them logs in is what the rules say of the name.
const (
	fortRules = "host all password_user,quick_user all password\nhost all md5_user all md5\nhost all trust_user all trust\n" +
		"host all reject_user all reject\nhost all all all scram-sha-256\nlocal all all scram-sha-256\n"
	fortPassword = "Pw-of-every-user"
)

// fort is an engine whose login path is attacked.
type fort struct {
	*engine.Engine
	address string
	ca      *testcert.Certificate
	log     *journal
	dir     string // of its files: k.yaml, users, rules, server.crt, server.key
	asked   *pgmock.Server
	block   chan struct{} // closed when the server of look-ups is to answer
}

// answerLookUps finds every user, with fortPassword as the password, once block is closed.
func answerLookUps(block <-chan struct{}) pgmock.Step {
	return func(c *pgmock.Conn) error {
		user := ""
		for {
			m, err := c.Read()
			if err != nil {
				return io.EOF
			}
			switch m.Type {
			case 'B': // no names, no formats, one parameter with its length
				size := binary.BigEndian.Uint32(m.Body[6:])
				user = string(m.Body[10 : 10+size])
			case 'S':
				if err := pgmock.Wait(block)(c); err != nil {
					return err
				}
				if err := pgmock.Send(foundUser(user))(c); err != nil {
					return io.EOF
				}
			}
		}
	}
}

// foundUser is the answer to a query for a user.
func foundUser(user string) []byte {
	column := func(name string) string {
		return name + "\x00" + string([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0})
	}
	value := func(text string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text }
	return slices.Concat(pgwire.Raw('1', nil), pgwire.Raw('2', nil),
		pgwire.Raw('T', []byte("\x00\x02"+column("name")+column("secret"))),
		pgwire.Raw('D', []byte("\x00\x02"+value(user)+value(fortPassword))),
		pgmock.Complete("SELECT 1"), pgmock.Ready('I'))
}

// besiege starts a fort. The database "asked" looks its users up in a PostgreSQL that does not answer before unblock is
// closed; all others lie in the shared one, as postgres.
func besiege(t testing.TB, settings ...string) *fort {
	t.Helper()
	pg := pgtest.Shared(t)
	f := &fort{log: &journal{}, dir: t.TempDir(), ca: testcert.Authority("the fort's"), block: make(chan struct{})}
	f.asked = pgmock.Start(t, pgmock.Login(), answerLookUps(f.block))
	_, _, err := f.ca.Issue(testcert.Request{CommonName: "fort", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}).Write(f.dir, "server")
	must(t, err)
	f.write(t, "rules", fortRules)
	f.write(t, "users", fmt.Sprintf("%q %q\n%q %q\n%q %q\n%q %q\n%q %q\n", "plain_user", fortPassword, "password_user", fortPassword, "md5_user", fortPassword,
		"scram_user", scramSecret(fortPassword, 4096), "quick_user", scramSecret(fortPassword, 1))) // a proof costs next to nothing
	f.write(t, "k.yaml", fmt.Sprintf(`server: {listen: ["127.0.0.1:0"], loops: 2}
databases:
  - {name: asked, hosts: [%q], auth_query: select $1, auth_user: asker}
  - {name: "*", hosts: [%q], user: postgres}
auth: {method: hba, hba_file: %[3]s/rules, users_file: %[3]s/users}
tls: {client_mode: allow, client_cert_file: %[3]s/server.crt, client_key_file: %[3]s/server.key}
`, f.asked.Addr(), pg.Addr(), f.dir))
	f.Engine, err = engine.New(f.settings(t, settings...), slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	must(t, err)
	f.Start()
	t.Cleanup(func() {
		stopNow(t, f.Engine)
		if text := f.log.String(); strings.Contains(text, "panic") || strings.Contains(text, "BUG") {
			t.Errorf("the log tells of a panic:\n%s", text)
		}
	})
	f.address = f.Listeners()[0].Address
	return f
}

func (f *fort) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// settings reads the fort's file.
func (f *fort) settings(t testing.TB, flags ...string) *configs.Config {
	t.Helper()
	cfg, _, problems := configs.Load(filepath.Join(f.dir, "k.yaml"), nil, flags)
	for _, p := range problems {
		t.Fatal(p.String())
	}
	return cfg
}

// empty waits until nobody is there and nothing counts anybody.
func (f *fort) empty(t testing.TB) {
	t.Helper()
	rest := func() string {
		text := ""
		if n := f.Totals().Clients; n != 0 {
			text = fmt.Sprint(n, " clients; ")
		}
		for _, r := range f.Limits() {
			if (r.Name == "max_unauthenticated" || r.Name == "max_clients") && r.Current != 0 {
				text += fmt.Sprintf("%s of %q is %d; ", r.Name, r.Of, r.Current)
			}
		}
		return text
	}
	for end := time.Now().Add(patience); rest() != ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not empty: %s", rest())
		}
	}
}

// open logs somebody in by the right password and runs a query: the door is still there for those who may pass.
func (f *fort) open(t testing.TB, user, more string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(f.address)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=postgres %s", host, port, user, fortPassword, more))
	must(t, err)
	cfg.DialFunc = dialer(stranger127()).DialContext
	c, err := pgconn.ConnectConfig(ctx, cfg)
	must(t, err)
	if _, err := c.Exec(ctx, "select 1").ReadAll(); err != nil {
		t.Error(err)
	}
	must(t, c.Close(ctx))
}

// scramSecret is a password's SCRAM secret as PostgreSQL stores it.
func scramSecret(password string, iterations int) string {
	salt := []byte("sixteen of salt.")
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		panic(err)
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored, b64 := sha256.Sum256(mac("Client Key")), base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(mac("Server Key")))
}

var strangers atomic.Uint32

// stranger127 is an address of this machine from which nobody has failed yet.
func stranger127() net.IP {
	n := strangers.Add(1)
	return net.IPv4(127, 1+byte(n>>16), byte(n>>8), byte(n))
}

// dialer dials from an address; what it dials has a small window and small segments, so that a few
// hundred KiB fill it.
func dialer(from net.IP) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: from}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10)
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		})
	}}
}

// stranger is a connection to the login path.
type stranger struct {
	t   testing.TB
	f   *fort
	tcp net.Conn
	net.Conn
	r     *bufio.Reader
	nonce string // of the server, once it has sent its challenge
	// release lets go on what the stage that the stranger is in has stopped.
	release func()
}

func (f *fort) stranger(t testing.TB) *stranger { return f.strangerFrom(t, stranger127()) }

func (f *fort) strangerFrom(t testing.TB, from net.IP) *stranger {
	t.Helper()
	s := f.dial(t, from)
	t.Cleanup(func() { _ = s.tcp.Close() })
	return s
}

// dial is strangerFrom for a connection that the test closes.
func (f *fort) dial(t testing.TB, from net.IP) *stranger {
	t.Helper()
	c, err := dialer(from).Dial("tcp", f.address)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return &stranger{t: t, f: f, tcp: c, Conn: c, r: bufio.NewReader(c), release: func() {}}
}

func (s *stranger) send(messages ...[]byte) {
	s.t.Helper()
	if _, err := s.Write(bytes.Join(messages, nil)); err != nil {
		s.t.Fatal(err)
	}
}

// say sends what may not be taken any more.
func (s *stranger) say(p []byte) { _, _ = s.Write(p) }

// askTLS is an SSLRequest that is granted.
func (s *stranger) askTLS() {
	s.t.Helper()
	s.send(pgwire.SSLRequest())
	if b, err := s.r.ReadByte(); err != nil || b != 'S' {
		s.t.Fatalf("TLS: answered %q, %v", b, err)
	}
}

// secure asks for TLS and shakes hands.
func (s *stranger) secure() {
	s.t.Helper()
	s.askTLS()
	s.handshake(&tls.Config{RootCAs: s.f.ca.Pool(), ServerName: "127.0.0.1"})
}

func (s *stranger) handshake(config *tls.Config) *tls.Conn {
	s.t.Helper()
	c := tls.Client(s.tcp, config)
	must(s.t, c.Handshake())
	s.Conn, s.r = c, bufio.NewReader(c)
	return c
}

// message reads one message. The answers to encryption requests, one byte each, are passed over: no message but these has
// anything but a zero behind its type. One behind which nothing comes is an end.
func (s *stranger) message() (m pgwire.Message, err error) {
	for {
		p, _ := s.r.Peek(2)
		if len(p) < 2 || p[0] != 'S' && p[0] != 'N' || p[1] == 0 {
			break
		}
		_, _ = s.r.Discard(1)
	}
	var head [5]byte
	if n, err := io.ReadFull(s.r, head[:]); err != nil {
		if n == 1 && (head[0] == 'S' || head[0] == 'N') {
			err = io.EOF
		}
		return m, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] >= 20 && head[0] <= 23: // records of a handshake that the stranger has left
		if _, err := io.Copy(io.Discard, s.r); err != nil {
			return m, err
		}
		return m, io.EOF
	case n < 4 || n > 1<<16:
		s.t.Errorf("a message %q of %d bytes", head[0], n)
		return m, io.EOF
	}
	m = pgwire.Message{Type: head[0], Body: make([]byte, n-4)}
	_, err = io.ReadFull(s.r, m.Body)
	return m, err
}

// asked reads a request for a proof of the kind.
func (s *stranger) asked(kind uint32) []byte {
	s.t.Helper()
	m, err := s.message()
	if err != nil || m.Type != 'R' || binary.BigEndian.Uint32(m.Body) != kind {
		s.t.Fatalf("asked %v, %v, want authentication %d", m, err, kind)
	}
	return m.Body[4:]
}

// ends reads to the end and gives the SQLSTATE of the error before it, "" if there was none. More than one error, or
// anything that lets somebody in, fails the test.
func (s *stranger) ends() (code string) {
	s.t.Helper()
	var all []pgwire.Message
	for {
		m, err := s.message()
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			s.t.Errorf("not closed; got %s", pgwire.Transcript(all))
			return "hangs"
		case errors.Is(err, io.ErrUnexpectedEOF):
			s.t.Errorf("closed inside a message, behind %s", pgwire.Transcript(all))
			return "cut"
		case err != nil: // the end, or a reset
			return code
		}
		all = append(all, m)
		switch {
		case code != "":
			s.t.Errorf("something behind an error: %s", pgwire.Transcript(all))
		case m.Type == 'E':
			e := pgwire.ErrorOf(m)
			if code = e.Code(); e.Fields['V'] != "FATAL" || len(code) != 5 || e.Fields['M'] == "" {
				s.t.Errorf("an error of the wrong form: %v", e)
			}
		case m.Type == 'Z', m.Type == 'K', m.Type == 'R' && binary.BigEndian.Uint32(m.Body) == 0:
			s.t.Errorf("let in: %s", pgwire.Transcript(all))
		}
	}
}

// endsWith checks that it ends with the error, and with no other.
func (s *stranger) endsWith(what, code string) {
	s.t.Helper()
	if got := s.ends(); got != code {
		s.t.Errorf("%s: ended with %q, want %q", what, got, code)
	}
}

// noMore ends the stranger's side. What it has sent is read; the answer may be lost.
func (s *stranger) noMore() { _ = s.tcp.(*net.TCPConn).CloseWrite() }

func saslInitial(mechanism, text string) []byte {
	body := append([]byte(mechanism), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(len(text)))
	return pgwire.Raw('p', append(body, text...))
}

const saslFirst = "n,,n=,r=abcdefghijklmnop"

// challenged begins SCRAM up to the server's challenge.
func (s *stranger) challenged(database, user string) {
	s.t.Helper()
	s.send(pgwire.Startup(0, "user", user, "database", database))
	s.asked(10)
	s.send(saslInitial("SCRAM-SHA-256", saslFirst))
	text := string(s.asked(11))
	s.nonce = strings.TrimPrefix(strings.Split(text, ",")[0], "r=")
}

// wrongProof is a proof of the right form.
func (s *stranger) wrongProof() []byte {
	return pgwire.Raw('p', []byte("c=biws,r="+s.nonce+",p="+base64.StdEncoding.EncodeToString(make([]byte, 32))))
}

// failing is an address whose next failure is answered after five seconds.
func (f *fort) failing(t testing.TB) net.IP {
	t.Helper()
	from := stranger127()
	for range 10 {
		s := f.strangerFrom(t, from)
		s.send(pgwire.Startup(0, "user", "md5_user"))
		s.asked(5)
		n := f.denied()
		s.send(pgwire.Raw('p', []byte("md5"+strings.Repeat("0", 32)+"\x00")))
		until(t, "a failure", func() bool { return f.denied() > n })
		must(t, s.tcp.Close())
	}
	return from
}

// delayed has sent a wrong proof from an address that is failing.
func (f *fort) delayed(t testing.TB, from net.IP) *stranger {
	t.Helper()
	s := f.strangerFrom(t, from)
	s.challenged("", "scram_user")
	n := f.denied()
	s.send(s.wrongProof())
	until(t, "a delayed answer", func() bool { return f.denied() > n })
	return s
}

// denied counts wrong proofs.
func (f *fort) denied() (n uint64) {
	for _, by := range f.Totals().AuthAttempts {
		n += by["denied"]
	}
	return n
}
