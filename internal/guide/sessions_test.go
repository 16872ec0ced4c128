package guide

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestSettingsOfSessions: each file that the page shows is valid.
func TestSettingsOfSessions(t *testing.T) {
	t.Parallel()
	for _, text := range sessions.blocks(t, "yaml") {
		_, _, problems := configs.Load(write(t, "sessions.yaml", text), nil, nil)
		for _, p := range problems {
			t.Errorf("%s in\n%s", p.String(), text)
		}
	}
}

// TestTranscriptOfSessions types what the page shows while others use both backends, with a search_path of their own.
func TestTranscriptOfSessions(t *testing.T) {
	s := pgtest.Shared(t)
	p := start(t, s, "", "--capacity.pool-max-size=2")
	done, ended := make(chan struct{}), make(chan error, 3)
	for i := range cap(ended) {
		c := login(t, p)
		must(t, c, fmt.Sprintf("set search_path = other_%d", i))
		go func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					ended <- nil
					return
				default:
				}
				if _, err := c.Exec("begin; select 1; commit"); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	want, got := replay(t, s, p, sessions.block(t, "", "search_path=tenant_a"))
	if got != want {
		t.Errorf("psql prints\n%s\nthe page shows\n%s", got, want)
	}
	close(done)
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestTranscriptOfPins types what the page shows of a pool whose only place is taken.
func TestTranscriptOfPins(t *testing.T) {
	s := pgtest.Shared(t)
	p := start(t, s, sessions.block(t, "yaml", "max_pinned"))
	must(t, login(t, p), "select pg_advisory_lock(42)")
	if want, got := replay(t, s, p, sessions.block(t, "", "basket")); got != want {
		t.Errorf("psql prints\n%s\nthe page shows\n%s", got, want)
	}
}

var quoted = regexp.MustCompile("`([^`]*)`")

// code is the first quoted part of a cell, "" if there is none.
func code(cell string) string {
	if m := quoted.FindStringSubmatch(cell); m != nil {
		return m[1]
	}
	return ""
}

// soon waits until a condition holds; nobody tells when it does.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still not: " + what)
		}
	}
}

func parse(t *testing.T, c *pgwire.Conn, name, sql string) error {
	t.Helper()
	if err := c.Send(pgwire.Parse(name, sql), pgwire.Sync()); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Type == 'E' {
			return pgwire.ErrorOf(m)
		}
	}
	return nil
}

// TestPinsOfSessions: each reason of the table begins and ends as the table says, and what it leaves is undone so.
func TestPinsOfSessions(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	e, address := startInside(t, "--capacity.pool-max-size=1", "--capacity.max-client-buffer-bytes=32768")
	rows := sessions.table(t, "reason | begins")
	if len(rows) != 6 {
		t.Errorf("%d reasons", len(rows))
	}
	begin := func(row []string) (c *pgwire.Conn, pid string) {
		c = pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
		if code(row[0]) == "large_parse" {
			if err := parse(t, c, "large", "select 1 /* "+strings.Repeat("x", 40<<10)+" */"); err != nil {
				t.Fatal(err)
			}
		} else {
			must(t, c, code(row[1]))
		}
		pid = must(t, c, "select pg_backend_pid()")[0][0]
		if pins := e.Pinning(); len(pins) != 1 || pins[0].Reasons != code(row[0]) {
			t.Errorf("%s: %+v", row[0], pins)
		}
		return c, pid
	}
	for _, row := range rows {
		if ends := code(row[2]); ends != "" {
			c, _ := begin(row)
			must(t, c, ends)
			soon(t, row[0]+" ends with "+ends, func() bool { return len(e.Pinning()) == 0 })
			c.Close()
		}
		c, pid := begin(row)
		c.Close()
		last := "select coalesce(max(query), 'closed') from pg_stat_activity where pid = " + pid
		want := code(row[3])
		if code(row[0]) == "unknown" {
			want = "closed"
		}
		soon(t, want+" undoes "+row[0], func() bool { return s.Value(t, last) == want })
	}
}

// TestStatementsFullOfSessions provokes the error of too many statements.
func TestStatementsFullOfSessions(t *testing.T) {
	t.Parallel()
	_, address := startInside(t, "--capacity.max-client-buffer-bytes=32768")
	c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	text := sessions.text(t)
	for i := range 40 {
		err := parse(t, c, fmt.Sprint("s", i), fmt.Sprintf("select %d /* %s */", i, strings.Repeat("x", 30<<10)))
		if err == nil {
			continue
		}
		if e := refusal(t, answer{err: err}); e.Code() != "54000" || !strings.Contains(text, "`"+e.Fields['M']+"`") {
			t.Errorf("got %v, which the page does not tell", e)
		}
		if i != 16 { // 16 x 32 KiB hold 16 of 30 KiB and what they cost beyond that
			t.Errorf("refused was the %d.", i+1)
		}
		return
	}
	t.Error("1.2 MB of statements were kept")
}

// TestSettingRefusedLater: a role that a client has set, and that has been dropped since.
func TestSettingRefusedLater(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	s.Exec(t, "drop role if exists refused_later; create role refused_later")
	_, address := startInside(t, "--capacity.pool-max-size=1")
	c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	must(t, c, "set role refused_later")
	s.Exec(t, "drop role refused_later")
	must(t, pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres"), "select 1")
	_, err := c.Exec("select 1")
	if e := refusal(t, answer{err: err}); e.Code() != "22023" || e.Fields['V'] != "FATAL" || e.Fields['M'] != `role "refused_later" does not exist` {
		t.Errorf("got %v", e)
	}
}

// TestResetCheckOfSessions: what a function has left is removed when the request has ended, for the client as well.
func TestResetCheckOfSessions(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	s.Exec(t, `create or replace function leaves() returns void language plpgsql as $$ begin
		perform set_config('work_mem', '9MB', false), pg_advisory_lock(4711);
		create temp table left_behind (a int);
		execute 'declare kept cursor with hold for select 1'; end $$`)
	_, address := startInside(t, "--capacity.pool-max-size=1", "--capacity.reset-check=true")
	for _, sql := range []string{"select leaves()", "begin; select leaves(); commit"} {
		c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
		must(t, c, sql)
		other := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
		for _, who := range []*pgwire.Conn{other, c} {
			rows := must(t, who, `select current_setting('work_mem'), (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
				(select count(*) from pg_cursors), coalesce(to_regclass('left_behind')::text, 'none')`)
			if got := strings.Join(rows[0], " "); got != "4MB 0 0 none" {
				t.Errorf("%s left %s", sql, got)
			}
		}
		c.Close()
	}
}

// TestCleaningOfSessions: what is sent between two clients, by reset_query.
func TestCleaningOfSessions(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	for _, k := range []struct{ reset, sql, want string }{
		{"smart", "select 'clean'", "select 'clean'"},
		{"smart", "set work_mem = '7MB'", "set work_mem = '7MB'"},
		{"smart", "do 'begin end'", "CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();DISCARD TEMP;"},
		{"discard", "select 'any'", "DISCARD ALL"},
		{"select 'mine'", "select 'any'", "select 'mine'"},
	} {
		_, address := startInside(t, "--capacity.pool-max-size=1", "--capacity.reset-query="+k.reset)
		c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
		pid := must(t, c, "select pg_backend_pid()")[0][0]
		must(t, c, k.sql)
		last := "select query from pg_stat_activity where state = 'idle' and pid = " + pid
		soon(t, k.reset+" sends "+k.want, func() bool { return s.Value(t, last) == k.want })
		c.Close()
	}
	text := sessions.text(t)
	for _, word := range []string{"`UNLISTEN *;`", "| `smart` (default) |", "| `discard` | `DISCARD ALL` after every transaction"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page does not say %s", word)
		}
	}
}
