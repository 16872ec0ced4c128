package engine_test

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// running waits until n sessions of a role run a statement.
func running(t testing.TB, pg *pgtest.Server, role string, n int) {
	t.Helper()
	until(t, "a running statement", func() bool {
		return len(pg.Exec(t, "select 1 from pg_stat_activity where state = 'active' and usename = '"+role+"'")) == n
	})
}

// loginAs opens a session of a role in a database entry.
func loginAs(t testing.TB, address, role, database string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", address, "user", role, "database", database)
}

// TestBackendKilledAtBoundary: the running requests fail with the server's word, the session stays.
func TestBackendKilledAtBoundary(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	who := role(t, pg)
	c := loginAs(t, address, who, "postgres")
	send(t, c, pgwire.Query("select pg_sleep(60)"))
	running(t, pg, who, 1)
	pg.KillBackends(t, "usename = '"+who+"'")
	all, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(all[len(all)-2:]) != "EZI" {
		t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
	}
	refused(t, pgwire.ErrorOf(all[len(all)-2]), "ERROR", "57P01")
	usable(t, c)

	// Two Sync groups owed, and an open third one: an ERROR and one ReadyForQuery for each Sync.
	send(t, c, pgwire.Parse("", "select pg_sleep(60)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(),
		pgwire.Query("select 2"), pgwire.Parse("", "select 3"))
	running(t, pg, who, 1)
	pg.KillBackends(t, "usename = '"+who+"'")
	got := types(t, c, 2)
	if strings.TrimLeft(got, "12") != "EZIEZI" {
		t.Errorf("pipeline: %s", got)
	}
	send(t, c, pgwire.Bind("", ""), pgwire.Sync(), pgwire.Query("select 4"))
	if got := types(t, c, 2); strings.Count(got, "E") != 1 || !strings.HasPrefix(got, "EZI") || !strings.HasSuffix(got, "DCZI") {
		t.Errorf("the open group: %s", got)
	}
}

// TestBackendKilledElsewhere: with an open block, a pin or a held session the client's session ends, with one FATAL.
func TestBackendKilledElsewhere(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	for _, c := range []struct{ name, database, before, run string }{
		{"idle in a block", "postgres", "begin", ""},
		{"running in a block", "postgres", "begin", "select pg_sleep(60)"},
		{"failed block", "postgres", "begin; select 1/0", ""},
		{"pinned", "postgres", "create temp table lost_pin (a int)", ""},
		{"pinned, running", "postgres", "select pg_advisory_lock(99)", "select pg_sleep(60)"},
		{"session mode", "session", "select 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			who := role(t, pg)
			conn := loginAs(t, address, who, c.database)
			_, _ = conn.Exec(c.before) // one of them fails as it should
			if c.run != "" {
				send(t, conn, pgwire.Query(c.run))
				running(t, pg, who, 1)
			}
			pg.KillBackends(t, "usename = '"+who+"'")
			ended(t, conn, "57P01")
		})
	}
}

// TestIdleBackendKilled: nobody notices, but the log tells why it has ended.
func TestIdleBackendKilled(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address, log := startJournal(t)
	who := role(t, pg)
	c := loginAs(t, address, who, "postgres")
	usable(t, c)
	pg.KillBackends(t, "usename = '"+who+"'")
	until(t, "the loss seen", func() bool { return e.Totals().Servers == 0 })
	usable(t, c)
	until(t, "the log tells it", func() bool {
		lines := log.lines(t, "server disconnected")
		return len(lines) == 1 && lines[0]["sqlstate"] == "57P01"
	})
}

// TestIdleTransactionOfServer: PostgreSQL's own time-out is told as it is, once.
func TestIdleTransactionOfServer(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	c := login(t, address)
	exec(t, c, "begin; set local idle_in_transaction_session_timeout = 100")
	ended(t, c, "25P03")
}

// TestServerEndsInsideMessage: half a message was passed on, so no word fits: the client is closed without one.
func TestServerEndsInsideMessage(t *testing.T) {
	t.Parallel()
	row := pgmock.DataRow(strings.Repeat("x", 1000))
	for name, last := range map[string]pgmock.Step{"closes": pgmock.Delay(0), "resets": pgmock.Reset()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(pgmock.Row("a"), row[:500]), last)
			e, address := startAt(t, mock.Addr())
			c := login(t, address)
			send(t, c, pgwire.Query("select"))
			all, err := c.ReadAll()
			if err != nil || typesOf(all) != "TD" && name == "closes" || strings.ContainsAny(typesOf(all), "EZ") {
				t.Errorf("got %s, %v", typesOf(all), err)
			}
			until(t, "the client gone", func() bool { return e.Totals().Clients == 0 })
		})
	}
}

// TestServerEndsWithoutWord: 08006 for what is owed; what the client has not been told stays a session.
func TestServerEndsWithoutWord(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(pgmock.Row("a")))
	_, address := startAt(t, mock.Addr())
	c := login(t, address)
	send(t, c, pgwire.Query("select"))
	all, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(all) != "TDEZI" {
		t.Fatalf("got %s, %v", typesOf(all), err)
	}
	refused(t, pgwire.ErrorOf(all[2]), "ERROR", "08006")
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	usable2(t, c, "alive")
}

// TestServerBreaksProtocol: an answer that nobody asked for, CopyBothResponse, an absurd length: the server is closed.
func TestServerBreaksProtocol(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string][]byte{
		"not asked for":   pgmock.Answer("a"),
		"CopyBoth":        pgwire.Raw('W', []byte{0, 0, 0}),
		"absurd length":   {'D', 0xff, 0xff, 0xff, 0xf0},
		"no such message": pgwire.Raw('!', nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var extra []byte
			if name == "not asked for" {
				extra = pgmock.Answer("b")
			}
			mock := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(bytes, extra), pgmock.Hang())
			_, address := startAt(t, mock.Addr())
			c := login(t, address)
			send(t, c, pgwire.Query("select"))
			mock.Script(pgmock.Login(), pgmock.Serve("alive"))
			types(t, c, 1)
			usable2(t, c, "alive")
		})
	}
}
