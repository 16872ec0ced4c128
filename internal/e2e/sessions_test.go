package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestEachClientItsOwnSettings: three clients with other start-up values share one backend.
func TestEachClientItsOwnSettings(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	const show = `SELECT concat_ws('|', current_setting('application_name'), current_setting('client_encoding'), current_setting('DateStyle'),
		current_setting('TimeZone'), current_setting('search_path'), current_setting('statement_timeout'))`
	type client struct {
		c    *pgwire.Conn
		want string
	}
	var clients []client
	for i, encoding := range []string{"UTF8", "LATIN1", "WIN1252"} {
		zone := fmt.Sprintf("Etc/GMT+%d", i+1)
		c := pgwire.Dial(t, "tcp", p.Addr())
		all, err := c.Login(0, "user", "postgres", "application_name", fmt.Sprint("app ", i), "client_encoding", encoding,
			"DateStyle", "SQL, DMY", "TimeZone", zone, "options", fmt.Sprintf(`-c search_path=s%d,public --statement-timeout=%d`, i, 10001+i))
		if err != nil {
			t.Fatal(err)
		}
		transcript := pgwire.Transcript(all)
		for _, status := range []string{fmt.Sprint("application_name=app ", i), "client_encoding=" + encoding, "DateStyle=SQL, DMY", "TimeZone=" + zone} {
			if strings.Count(transcript, "ParameterStatus "+status+"\n") != 1 {
				t.Errorf("client %d: the login lacks %q:\n%s", i, status, transcript)
			}
		}
		want := fmt.Sprintf("app %d|%s|SQL, DMY|%s|s%d,public|%dms", i, encoding, zone, i, 10001+i)
		clients = append(clients, client{c, want})
	}
	for range 5 {
		for i, c := range clients {
			if got := ask(t, c.c, show); got != c.want {
				t.Errorf("client %d sees %q, want %q", i, got, c.want)
			}
		}
	}
	plain := login(t, p)
	direct := pgwire.Login(t, "tcp", s.Addr(), "user", "postgres", "database", "postgres")
	if got, want := ask(t, plain, show), ask(t, direct, show); got != want {
		t.Errorf("a client without settings sees %q, with PostgreSQL it sees %q", got, want)
	}
}

// TestUnnamedStatementIsNobodyElses: an unnamed statement of one round must never be met by another client's Bind.
func TestUnnamedStatementIsNobodyElses(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 4, Flags: []string{"--capacity.checkout-timeout-ms=20000"}})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for round := range 10 {
				c, err := open(p)
				if err != nil {
					t.Error(err)
					return
				}
				nonce := fmt.Sprintf("client %d round %d", i, round)
				if err := twoRounds(c, nonce); err != nil {
					t.Errorf("%s: %v", nonce, err)
				}
				c.Close()
			}
		})
	}
	all.Wait()
}

func twoRounds(c *pgwire.Conn, nonce string) error {
	err := c.Send(pgwire.Parse("", "SELECT '"+nonce+"'"), pgwire.Describe('S', ""), pgwire.Sync())
	if err != nil {
		return err
	}
	if _, err := c.ReadUntil('Z', 1); err != nil {
		return err
	}
	if err := c.Send(pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()); err != nil {
		return err
	}
	answers, err := c.ReadUntil('Z', 1)
	if err != nil {
		return err
	}
	if got := pgwire.Transcript(answers); !strings.Contains(got, "\""+nonce+"\"") {
		return fmt.Errorf("got %s", got)
	}
	return nil
}

// TestVanishedGroupIsNotCommitted: what a client had not yet ended with Sync is undone when it vanishes, as PostgreSQL
// does, also though the pooler itself ends the group to keep the backend.
func TestVanishedGroupIsNotCommitted(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "DROP TABLE IF EXISTS vanished; CREATE TABLE vanished(a int); DROP TABLE IF EXISTS vanished_copy; CREATE TABLE vanished_copy(a int)")
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	insert := [][]byte{pgwire.Parse("", "INSERT INTO vanished VALUES (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0)}
	for name, test := range map[string]struct {
		send [][]byte
		read byte
	}{
		"group":       {append(insert, pgwire.Flush()), 'C'},
		"half a sync": {append(insert, pgwire.Flush(), pgwire.Sync()[:3]), 'C'},
		"block":       {[][]byte{pgwire.Query("BEGIN; INSERT INTO vanished VALUES (1)")}, 'Z'},
		"copy":        {[][]byte{pgwire.Query("COPY vanished_copy FROM STDIN"), pgwire.CopyData([]byte("1\n"))}, 'G'},
	} {
		for _, vanish := range []func(*pgwire.Conn){(*pgwire.Conn).Close, (*pgwire.Conn).Reset} {
			c := login(t, p)
			if err := c.Send(test.send...); err != nil {
				t.Fatal(err)
			}
			if _, err := c.ReadUntil(test.read, 1); err != nil {
				t.Fatal(err)
			}
			vanish(c)
			next := login(t, p)
			ask(t, next, "SELECT 1") // the only backend has been recovered
			next.Close()
			until(t, 5*time.Second, "the vanished session has ended", func() bool {
				return p.Target == pooler.Kinetic || s.Backends(t) == 0
			})
			last := login(t, p)
			if got := ask(t, last, "SELECT (SELECT count(*) FROM vanished) + (SELECT count(*) FROM vanished_copy)"); got != "0" {
				t.Errorf("%s: %s rows of a client that vanished are committed", name, got)
				s.Exec(t, "TRUNCATE vanished; TRUNCATE vanished_copy")
			}
			last.Close()
		}
	}
}

func TestCancel(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	victim, waiter := login(t, p), login(t, p)
	running := func() bool {
		return s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT pg_sleep'") == "1"
	}
	for round := range 5 {
		if err := victim.Send(pgwire.Query("SELECT pg_sleep(30)")); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the query runs", running)
		if err := waiter.Send(pgwire.Query("SELECT 'waiter'")); err != nil {
			t.Fatal(err)
		}
		if !waiter.Silent(20 * time.Millisecond) {
			t.Fatal("the second client was not made to wait")
		}
		// A wrong key is ignored; the waiter's cancel ends its wait and nothing else.
		if err := pgwire.Cancel("tcp", p.Addr(), victim.PID, []byte{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			cancels(t, p, waiter)
			if !victim.Silent(50 * time.Millisecond) {
				t.Error("the waiter's cancel reached the running query")
			}
		}
		cancels(t, p, victim)
		if round%2 == 1 {
			if all, err := waiter.ReadUntil('Z', 1); err != nil || !strings.Contains(pgwire.Transcript(all), "waiter") {
				t.Errorf("the waiter got %s, %v", pgwire.Transcript(all), err)
			}
		}
	}
}

// cancels cancels what the client does and wants it to be told.
func cancels(t *testing.T, p *pooler.Pooler, c *pgwire.Conn) {
	t.Helper()
	if err := pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 1)
	if err != nil || !strings.Contains(pgwire.Transcript(all), `"57014"`) {
		t.Errorf("after its cancel a client got %s, %v", pgwire.Transcript(all), err)
	}
}

// TestCancelStorm: cancels that race with the end of their query never hit somebody else's.
func TestCancelStorm(t *testing.T) {
	onlyKinetic(t)
	const size = 4
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: size})
	before := baseline(t, p)
	others := start(t, p, 8, ", pg_sleep(0.002)")
	end := time.Now().Add(long(3 * time.Second))
	var all sync.WaitGroup
	for i := range 8 {
		c, err := open(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for n := 0; time.Now().Before(end); n++ {
				cancelled := make(chan error, 1)
				go func() { cancelled <- pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key) }()
				err := expect(c, fmt.Sprintf("canceller %d query %d", i, n), ", pg_sleep(0.005)")
				if err != nil && code(err) != "57014" {
					t.Errorf("canceller %d: %v", i, err)
					return
				}
				if err := <-cancelled; err != nil {
					t.Errorf("canceller %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	others.end()
	t.Logf("%d answers to others", others.answers.Load())
	steady(t, s, p, size, before)
}

func TestStatementMode(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Mode: "statement", PoolSize: 1})
	c := login(t, p)
	if _, err := c.Exec("BEGIN"); code(err) != "0A000" {
		t.Errorf("BEGIN got %v, want 0A000", err)
	}
	if got := ask(t, c, "SELECT 'stays'"); got != "stays" {
		t.Errorf("got %q", got)
	}
	if err := twoRounds(c, "named"); err != nil {
		t.Errorf("an unnamed statement bound in a later group: %v", err)
	}
	ask(t, login(t, p), "SELECT 1")
}

func TestSessionModeKeepsItsBackend(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Mode: "session", PoolSize: 1})
	first, second := login(t, p), login(t, p)
	pid := ask(t, first, "SELECT pg_backend_pid()")
	ask(t, first, "SET work_mem = '7MB'; PREPARE p AS SELECT 1; LISTEN c; CREATE TEMP TABLE tt(a int)")
	if err := second.Send(pgwire.Query("SHOW work_mem")); err != nil {
		t.Fatal(err)
	}
	if !second.Silent(50 * time.Millisecond) {
		t.Error("the second client was served although the first one is still there")
	}
	if got := ask(t, first, "SHOW work_mem"); got != "7MB" {
		t.Errorf("the first client sees %q", got)
	}
	first.Close()
	all, err := second.ReadUntil('Z', 1)
	if err != nil || strings.Contains(pgwire.Transcript(all), "7MB") {
		t.Errorf("the second client got %s, %v", pgwire.Transcript(all), err)
	}
	got := ask(t, second, "SELECT concat_ws('|', pg_backend_pid(), (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()))")
	if got != pid+"|0|0" {
		t.Errorf("the second client finds %q, want %s|0|0", got, pid)
	}
}

// TestTerminateBehindARequest: good-bye takes effect after the answer.
func TestTerminateBehindARequest(t *testing.T) {
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	c := login(t, p)
	if err := c.Send(pgwire.Query("SELECT 'answered', pg_sleep(0.1)"), pgwire.Terminate()); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadAll()
	if err != nil || !strings.Contains(pgwire.Transcript(all), "answered") {
		t.Errorf("got %s, %v", pgwire.Transcript(all), err)
	}
}
