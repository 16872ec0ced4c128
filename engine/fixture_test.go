package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// patience bounds what a test waits for; it is long because the machine may be busy.
const patience = 20 * time.Second

// trusting is settings text by which everybody may log in, where it says nothing else.
func trusting(text string) string {
	if strings.Contains(text, "auth:") {
		return text
	}
	return strings.TrimSuffix(text, "\n") + "\nauth: {method: trust}\n"
}

// startYAML runs an engine with the settings text. Its clients' address is a free port of 127.0.0.1.
func startYAML(t testing.TB, text string, settings ...string) (*engine.Engine, string) {
	t.Helper()
	return startWith(t, text, slog.New(slog.DiscardHandler), nil, settings...)
}

// startWith is startYAML with a log and options for the engine.
func startWith(t testing.TB, text string, log *slog.Logger, options []engine.Option, settings ...string) (*engine.Engine, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "k.yaml")
	if err := os.WriteFile(file, []byte(trusting(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	settings = append([]string{"--server.listen=127.0.0.1:0"}, settings...)
	cfg, _, problems := configs.Load(file, os.Environ(), settings)
	for _, p := range problems {
		t.Fatal(p.String())
	}
	e, err := engine.New(cfg, log, options...)
	if err != nil {
		t.Fatal(err)
	}
	e.Start()
	t.Cleanup(func() { stopNow(t, e) })
	return e, e.Listeners()[0].Address
}

// stopNow ends an engine without waiting for its clients.
func stopNow(t testing.TB, e *engine.Engine) {
	now := make(chan struct{})
	close(now)
	_ = e.Drain(time.Second, now) // whether transactions were cut is the test's business
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

// startAt is an engine whose every database lies at a host.
func startAt(t testing.TB, host string, settings ...string) (*engine.Engine, string) {
	t.Helper()
	return startYAML(t, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n", host), settings...)
}

// login opens a session as postgres in database postgres; more are further startup parameters.
func login(t testing.TB, address string, more ...string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", address, append([]string{"user", "postgres", "database", "postgres"}, more...)...)
}

// exec runs SQL that must succeed.
func exec(t testing.TB, c *pgwire.Conn, sql string) [][]string {
	t.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// one is the single value that SQL gives.
func one(t testing.TB, c *pgwire.Conn, sql string) string {
	t.Helper()
	rows := exec(t, c, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %d rows, want one value", sql, len(rows))
	}
	return rows[0][0]
}

func send(t testing.TB, c *pgwire.Conn, messages ...[]byte) {
	t.Helper()
	if err := c.Send(messages...); err != nil {
		t.Fatal(err)
	}
}

// types reads up to and including the n-th ReadyForQuery and gives the type bytes of all messages; 'Z' is followed by its
// status.
func types(t testing.TB, c *pgwire.Conn, n int) string {
	t.Helper()
	all, err := c.ReadUntil('Z', n)
	if err != nil {
		t.Fatalf("after %s: %v", pgwire.Transcript(all), err)
	}
	return typesOf(all)
}

func typesOf(all []pgwire.Message) string {
	var out []byte
	for _, m := range all {
		out = append(out, m.Type)
		if m.Type == 'Z' {
			out = append(out, m.Body...)
		}
	}
	return string(out)
}

// refused checks an error: severity, SQLSTATE; it returns it for more.
func refused(t testing.TB, err error, severity, code string) *pgwire.Error {
	t.Helper()
	var e *pgwire.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %s %s", err, severity, code)
	}
	if e.Fields['V'] != severity || e.Fields['S'] != severity || e.Code() != code || e.Fields['M'] == "" {
		t.Fatalf("got %v, want %s %s with S, V, C and M", e, severity, code)
	}
	return e
}

// overloaded checks an overload refusal: what refused checks, and its detail and hint.
func overloaded(t testing.TB, err error, severity, code string) *pgwire.Error {
	t.Helper()
	e := refused(t, err, severity, code)
	if e.Fields['D'] == "" || e.Fields['H'] == "" {
		t.Fatalf("got %v, want a detail and a hint", e)
	}
	return e
}

// usable checks that the session goes on.
func usable(t testing.TB, c *pgwire.Conn) {
	t.Helper()
	if got := one(t, c, "select 42"); got != "42" {
		t.Fatalf("select 42 gave %q", got)
	}
}

// ended reads to the end of the connection: exactly one ErrorResponse, FATAL with the code, behind any other messages.
func ended(t testing.TB, c *pgwire.Conn, code string) *pgwire.Error {
	t.Helper()
	all, err := c.ReadAll()
	if err != nil {
		t.Fatalf("not closed: %v; got %s", err, pgwire.Transcript(all))
	}
	var e *pgwire.Error
	for i, m := range all {
		if m.Type == 'E' {
			if e != nil || i != len(all)-1 {
				t.Fatalf("an ErrorResponse that is not the last message: %s", pgwire.Transcript(all))
			}
			e = pgwire.ErrorOf(m)
		}
	}
	if e == nil {
		t.Fatalf("closed without an error, want %s; got %s", code, pgwire.Transcript(all))
	}
	return refused(t, e, "FATAL", code)
}

// until waits for a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// waiting waits until n requests are queued.
func waiting(t testing.TB, e *engine.Engine, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d waiting", n), func() bool { return e.Totals().Waiting == int64(n) })
}

// queue sends a simple query that has to wait and returns once it is queued.
func queue(t testing.TB, e *engine.Engine, c *pgwire.Conn, sql string) {
	t.Helper()
	n := int(e.Totals().Waiting)
	send(t, c, pgwire.Query(sql))
	waiting(t, e, n+1)
}

// holder is a client that keeps one backend inside a block.
func holder(t testing.TB, address string) *pgwire.Conn {
	t.Helper()
	c := login(t, address)
	exec(t, c, "begin")
	return c
}

// quiet waits until nobody is queued.
func quiet(t testing.TB, e *engine.Engine) {
	t.Helper()
	waiting(t, e, 0)
}

var roles struct {
	sync.Mutex
	n int
}

// role makes a login role whose sessions a test can tell from those of other tests.
func role(t testing.TB, pg *pgtest.Server) string {
	t.Helper()
	roles.Lock()
	roles.n++
	name := fmt.Sprintf("role_%d", roles.n)
	roles.Unlock()
	pg.Exec(t, "create role "+name+" login superuser")
	return name
}
