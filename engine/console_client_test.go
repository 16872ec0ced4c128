package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/admin/view"
	"pgkinetic/engine"
	"pgkinetic/engine/reactor"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// tinyConsole is a session that knows a few commands: "who" tells whom it is for, "many N" answers with N rows of 1 KiB,
// "wait" until it is cancelled or the client is gone, which it tells over gone; "leave" ends it with last words, "panic" without.
func tinyConsole(gone chan<- string) engine.ServeConsole {
	return func(ctx context.Context, conn io.ReadWriter, who engine.ConsoleClient) {
		b := pgproto3.NewBackend(conn, conn)
		b.Send(&pgproto3.BackendKeyData{ProcessID: who.PID, SecretKey: who.Key})
		for {
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				gone <- "flush"
				return
			}
			m, err := b.Receive()
			q, ok := m.(*pgproto3.Query)
			if ctx.Err() != nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01"})
				_ = b.Flush()
			}
			if err != nil || !ok {
				gone <- fmt.Sprintf("%T %v", m, err)
				return
			}
			var n int
			switch {
			case q.String == "who":
				text := fmt.Sprintf("%s %s %v %v", who.User, who.Database, who.Params, who.Admin)
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(text)}})
			case q.String == "rights":
				all, look := who.Allowed()
				b.Send(&pgproto3.DataRow{Values: [][]byte{fmt.Appendf(nil, "%v %v", all, look)}})
			case q.String == "leave":
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "last words"})
				_ = b.Flush()
				return
			case q.String == "panic":
				panic("of a console")
			case q.String == "wait":
				b.Send(&pgproto3.NoticeResponse{Message: "waits"})
				if b.Flush() != nil {
					gone <- "flush"
					return
				}
				select {
				case <-ctx.Done():
				case <-who.Canceled:
				}
			default:
				_, _ = fmt.Sscanf(q.String, "many %d", &n)
			}
			for range n {
				b.Send(&pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("x"), 1024)}})
				if b.Flush() != nil {
					gone <- "flush"
					return
				}
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
		}
	}
}

const consoleSettings = `
admin: {users: [root], stats_users: [watcher]}
server: {max_clients: 1}
`

func startConsole(t *testing.T, host, text string, settings ...string) (e *engine.Engine, address string, gone chan string) {
	gone = make(chan string, 100)
	text = fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n", host) + text
	e, address = startWith(t, text, slog.New(slog.DiscardHandler), []engine.Option{engine.WithConsole(tinyConsole(gone))}, settings...)
	return e, address, gone
}

// Operators get in under both names while ordinary clients have no room left, everybody else is told who may.
func TestConsoleLogin(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address, _ := startConsole(t, pg.Addr(), consoleSettings)
	only := login(t, address)
	exec(t, only, "select 1")
	for _, user := range []string{"root", "watcher"} {
		for _, database := range []string{"pg_kinetic", "pgbouncer"} {
			c := pgwire.Login(t, "tcp", address, "user", user, "database", database, "application_name", "a b", "extra", "1")
			got := one(t, c, "who")
			if !strings.HasPrefix(got, user+" "+database) || !strings.HasSuffix(got, fmt.Sprint(user == "root")) || !strings.Contains(got, "{application_name a b}") {
				t.Errorf("%q", got)
			}
			if !slices.ContainsFunc(slices.Collect(e.Clients()), func(r view.Client) bool {
				return r.User == user && r.Database == database && r.ApplicationName == "a b" && !r.RequestTime.Before(r.ConnectTime)
			}) {
				t.Errorf("%s on %s is not shown as it is", user, database)
			}
		}
	}
	c := pgwire.Dial(t, "tcp", address)
	_, err := c.Login(0, "user", "postgres", "database", "pgbouncer")
	if e := refused(t, err, "FATAL", "28000"); !strings.Contains(e.Fields['M'], "admin.users") {
		t.Errorf("%v", e)
	}
	c = pgwire.Dial(t, "tcp", address)
	_, err = c.Login(0, "user", "root", "database", "postgres")
	refused(t, err, "FATAL", "53300")
	c.Close()
	until(t, "one client is left, consoles not being counted among them", func() bool { return e.Totals().Clients == 1 })
}

// There are at most 64 consoles, of which users who may only look cannot have the last 8, and whoever leaves makes room.
func TestConsolesAreBounded(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	_, address, gone := startConsole(t, host.Addr(), consoleSettings)
	var all []*pgwire.Conn
	full := func(user string) {
		t.Helper()
		_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", user, "database", "pgbouncer")
		refused(t, err, "FATAL", "53300")
	}
	for i := range 64 {
		user := "watcher"
		if i >= 56 {
			full(user)
			user = "root"
		}
		all = append(all, pgwire.Login(t, "tcp", address, "user", user, "database", "pgbouncer"))
	}
	full("root")
	send(t, all[0], pgwire.Terminate())
	if why := <-gone; !strings.Contains(why, "Terminate") {
		t.Errorf("the session ended by %s", why)
	}
	until(t, "there is room", func() bool {
		c := pgwire.Dial(t, "tcp", address)
		_, err := c.Login(0, "user", "root", "database", "pgbouncer")
		return err == nil
	})
}

// What a console sends is bounded by what its client takes; pipelined requests are all answered, in order.
func TestConsoleFlow(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	_, address, _ := startConsole(t, host.Addr(), consoleSettings)
	c := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	const requests, rows = 40, 500
	sent := make(chan error)
	go func() {
		for i := range requests {
			if err := c.Send(pgwire.Query(fmt.Sprintf("many %d", rows) + strings.Repeat(" ", 5000*i))); err != nil { // up to thrice what the bridge holds
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range requests {
		all, err := c.ReadUntil('Z', 1)
		if err != nil || len(all) != rows+2 {
			t.Fatalf("request %d: %d messages, %v", i, len(all), err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// An operator gets in, and is served, while clients that do not read hold all the memory there is for buffers.
func TestConsoleWithoutMemory(t *testing.T) {
	pg := pgtest.Shared(t)
	_, address, _ := startConsole(t, pg.Addr(), "admin: {users: [root]}\n", "--server.max-buffer-memory=1MiB", "--server.loops=1",
		"--capacity.max-backend-buffer-bytes=1048576")
	hog := login(t, address)
	send(t, hog, pgwire.Query("select repeat('x', 100000) from generate_series(1, 200)"))
	until(t, "the memory is full", func() bool { return reactor.BufferBytes() >= 1<<20 })
	one(t, pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer"), "who")
	if n := reactor.BufferBytes(); n < 1<<20 {
		t.Errorf("%d bytes are held", n)
	}
	if _, err := hog.ReadUntil('Z', 1); err != nil {
		t.Error(err)
	}
}

// What an operator may do follows the settings while he is connected.
func TestConsoleRights(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	e, address, _ := startConsole(t, host.Addr(), consoleSettings)
	c := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	f := func(admin, want string) {
		t.Helper()
		reload(t, e, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\nadmin: {%s}\n", host.Addr(), admin))
		if got := one(t, c, "rights"); got != want {
			t.Errorf("%s: %s, want %s", admin, got, want)
		}
	}
	f("users: [a, root]", "true true")
	f("stats_users: [root]", "false true")
	f("users: [a]", "false false")
}

// What a session says last reaches its client, and a session that breaks takes nobody with it.
func TestConsoleEnds(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	e, address, _ := startConsole(t, host.Addr(), consoleSettings)
	for range 20 {
		c := pgwire.Login(t, "tcp", address, "user", "watcher", "database", "pgbouncer")
		send(t, c, pgwire.Query("leave"))
		if all, err := c.ReadAll(); err != nil || typesOf(all) != "E" {
			t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
		}
	}
	broken := pgwire.Login(t, "tcp", address, "user", "watcher", "database", "pgbouncer")
	send(t, broken, pgwire.Query("panic"))
	if all, _ := broken.ReadAll(); len(all) != 0 {
		t.Errorf("got %s", pgwire.Transcript(all))
	}
	one(t, pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer"), "who")
	if err := e.Alive(); err != nil {
		t.Error(err)
	}
}

// A CancelRequest reaches the session, and one that waits ends with its client.
func TestConsoleCancel(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	_, address, gone := startConsole(t, host.Addr(), consoleSettings)
	for _, minor := range []uint16{0, 2} {
		c := pgwire.Dial(t, "tcp", address)
		if _, err := c.Login(minor, "user", "watcher", "database", "pgbouncer"); err != nil {
			t.Fatal(err)
		}
		send(t, c, pgwire.Query("wait")) // a cancel that comes before it is for it as well
		if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
		if got := types(t, c, 1); got != "NCZI" {
			t.Errorf("after the cancel: %s", got)
		}
		send(t, c, pgwire.Query("wait"))
		if _, err := c.ReadUntil('N', 1); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if why := <-gone; why != "flush" {
			t.Errorf("the session ended by %s", why)
		}
	}
}

// Whoever watches a drain is let in during it and stays until the end; the drain does not wait for him.
func TestConsoleDuringDrain(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address, gone := startConsole(t, pg.Addr(), consoleSettings)
	busy := login(t, address)
	exec(t, busy, "begin")
	before := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
	drained := make(chan error)
	go func() { drained <- e.Drain(patience, nil) }()
	until(t, "it drains", func() bool {
		c := pgwire.Dial(t, "tcp", address)
		_, err := c.Login(0, "user", "postgres", "database", "postgres")
		return err != nil && strings.Contains(err.Error(), "57P01")
	})
	for _, c := range []*pgwire.Conn{before, pgwire.Login(t, "tcp", address, "user", "watcher", "database", "pgbouncer")} {
		one(t, c, "who")
	}
	exec(t, busy, "commit")
	if err := <-drained; err != nil {
		t.Error(err)
	}
	one(t, before, "who")
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if all, err := before.ReadAll(); err != nil || typesOf(all) != "E" {
		t.Errorf("the end came with %s, %v", pgwire.Transcript(all), err)
	}
	for range 2 {
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatal("a session outlives the process's end")
		}
	}
}

// The console's name is a setting; a client that asks for another database does not get there.
func TestConsoleName(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address, _ := startConsole(t, pg.Addr(), "admin: {users: [postgres], database: ops}\n")
	if got := one(t, pgwire.Login(t, "tcp", address, "user", "postgres", "database", "ops"), "who"); !strings.HasPrefix(got, "postgres ops ") {
		t.Errorf("%s", got)
	}
	if got := one(t, login(t, address), "select 40 + 2"); got != "42" {
		t.Errorf("%s", got)
	}
}

// The console's own names are no databases to act on.
func TestConsoleIsNoDatabase(t *testing.T) {
	t.Parallel()
	e, _, _ := startConsole(t, pgmock.Start(t).Addr(), consoleSettings)
	for command, act := range map[string]func(string) error{
		"pause": func(name string) error { return e.Pause(t.Context(), view.Scope{Database: name}) },
		"kill":  e.Kill, "disable": e.Disable, "enable": e.Enable, "reconnect": e.Reconnect,
	} {
		for _, name := range []string{"pg_kinetic", "pgbouncer"} {
			if err := act(name); err == nil || !strings.Contains(err.Error(), "the console itself") {
				t.Errorf("%s %s: %v", command, name, err)
			}
		}
	}
}

// A console's client that sends Terminate and closes is not told to be gone without a word, whatever its session has read by then.
func TestConsoleSaysWhoLeft(t *testing.T) {
	t.Parallel()
	host := pgmock.Start(t)
	log := &journal{}
	text := fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n%s", host.Addr(), consoleSettings)
	_, address := startWith(t, text, slog.New(slog.NewJSONHandler(log, nil)), []engine.Option{engine.WithConsole(tinyConsole(make(chan string, 100)))})
	const rounds = 30
	for i := range 2 * rounds {
		c := pgwire.Login(t, "tcp", address, "user", "root", "database", "pgbouncer")
		if i%2 == 0 {
			send(t, c, pgwire.Terminate())
		}
		c.Close()
	}
	until(t, "all have left", func() bool { return len(log.lines(t, "console disconnected")) == 2*rounds })
	causes := map[any]int{}
	for _, line := range log.lines(t, "console disconnected") {
		causes[line["cause"]]++
	}
	if causes["client_gone"] != rounds || causes["client_terminate"] != rounds {
		t.Errorf("%v", causes)
	}
}
