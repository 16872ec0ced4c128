package engine_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// startJournal is startYAML with everything in front of PostgreSQL and a log of JSON.
func startJournal(t testing.TB, settings ...string) (*engine.Engine, string, *journal) {
	t.Helper()
	log := &journal{}
	text := fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n", pgtest.Shared(t).Addr())
	e, address := startWith(t, text, slog.New(slog.NewJSONHandler(log, nil)), nil, settings...)
	return e, address, log
}

// lines gives the entries with a message.
func (j *journal) lines(t testing.TB, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(j.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

// A query that took long has a line with its text, in whatever way it was sent, and never with a constant of it.
func TestSlowQueries(t *testing.T) {
	t.Parallel()
	f := func(name, statement string, further float64, send func(t *testing.T, c *pgwire.Conn)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, address, log := startJournal(t, "--log.slow-query-ms=100")
			c := login(t, address, "application_name", "slow app")
			send(t, c)
			exec(t, c, "select 'quick'")
			lines := log.lines(t, "slow query")
			if len(lines) != 1 || e.Totals().SlowQueries != 1 {
				t.Fatalf("%d lines, %d counted:\n%s", len(lines), e.Totals().SlowQueries, log.String())
			}
			l := lines[0]
			if l["statement"] != statement || l["further_statements"] != further || l["ms"].(float64) < 100 || l["application"] != "slow app" ||
				l["user"] != "postgres" || l["database"] != "postgres" || l["pid"].(float64) == 0 || l["client"].(float64) == 0 || l["level"] != "WARN" {
				t.Errorf("%v", l)
			}
			if strings.Contains(log.String(), "hunter2") {
				t.Errorf("the log has a constant:\n%s", log.String())
			}
		})
	}
	const sleep = "select 'hunter2', pg_sleep(0.11) -- hunter2"
	simple := func(t *testing.T, c *pgwire.Conn) { exec(t, c, sleep) }
	f("simple", "select ?, pg_sleep(?)", 0, simple)
	f("a backslash that escaped only when it was sent", "select ?, …, pg_sleep(?); set standard_conforming_strings = off", 0, func(t *testing.T, c *pgwire.Conn) {
		exec(t, c, `select '\', ' hunter2', pg_sleep(0.11); set standard_conforming_strings = off`)
	})
	f("no constants in a large one", "select "+strings.Repeat("a, ", 200)[:502]+"…", 0, func(t *testing.T, c *pgwire.Conn) {
		list := strings.Repeat("a, ", 1600)
		exec(t, c, "select "+list+" pg_sleep(0.11) from (select 'hunter2' as a) x")
	})
	extended := func(name, sql string, messages ...[]byte) func(t *testing.T, c *pgwire.Conn) {
		return func(t *testing.T, c *pgwire.Conn) {
			send(t, c, append([][]byte{pgwire.Parse(name, sql)}, messages...)...)
			if got := types(t, c, 1); !strings.HasSuffix(got, "ZI") || strings.Contains(got, "E") {
				t.Errorf("%s", got)
			}
		}
	}
	f("unnamed", "select ?, pg_sleep(?)", 0, extended("", sleep, pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()))
	f("pipelined", "select $1 :: text", 1, extended("q", "select $1 :: text /* hunter2 */", pgwire.Bind("", "q", []byte("hunter2")), pgwire.Execute("", 0),
		pgwire.Parse("", sleep), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()))
	f("prepared before", "select pg_sleep($1)", 0, func(t *testing.T, c *pgwire.Conn) {
		extended("q", "select pg_sleep($1)", pgwire.Sync())(t, c)
		send(t, c, pgwire.Bind("p", "q", []byte("0.11")), pgwire.Execute("p", 0), pgwire.Sync())
		types(t, c, 1)
	})
	f("strings in which a backslash escapes", "select ?, pg_sleep(?)", 0, func(t *testing.T, c *pgwire.Conn) {
		exec(t, c, "set standard_conforming_strings = off")
		exec(t, c, `select 'a\' hunter2', pg_sleep(0.11)`)
	})
}

// The limit is a reload's to change, and many slow queries are counted, not told.
func TestSlowQueriesAreBounded(t *testing.T) {
	t.Parallel()
	e, address, log := startJournal(t)
	c := login(t, address)
	exec(t, c, "select pg_sleep(0.01)")
	if n := len(log.lines(t, "slow query")); n != 0 {
		t.Errorf("%d lines without a limit", n)
	}
	cfg, origins := settingsOf(t, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\nlog: {slow_query_ms: 1}\n", pgtest.Shared(t).Addr()))
	_, err := e.Reload(cfg, origins)
	must(t, err)
	until(t, "the limit holds", func() bool {
		exec(t, c, "select pg_sleep(0.002)")
		return e.Totals().SlowQueries > 0
	})
	const queries = 200
	began := time.Now()
	for range queries {
		exec(t, c, "select pg_sleep(0.0011)")
	}
	if n := e.Totals().SlowQueries; n < queries/2 { // some may have been quick
		t.Errorf("%d counted", n)
	}
	seconds := int(time.Since(began).Seconds()) + 2 // those that have begun, with the one before
	if n := len(log.lines(t, "slow query")); n > 20*seconds {
		t.Errorf("%d lines in %d seconds", n, seconds)
	}
}
