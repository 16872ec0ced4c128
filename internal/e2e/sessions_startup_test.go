package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// judge logs in with the parameters and returns the login's error or what the session sees.
func (s *stage) judge(params ...string) string {
	s.t.Helper()
	c := pgwire.Dial(s.t, "tcp", s.address)
	defer c.Close()
	if _, err := c.Login(0, startup(params)...); err != nil {
		return fmt.Sprintf("%v: %v", params, code(err))
	}
	seen := ""
	for range 2 {
		s.move()
		seen = ask(s.t, c, everything) + "|" + ask(s.t, c, "SELECT current_setting('lock_timeout') || '|' || current_setting('geqo')")
	}
	return fmt.Sprintf("%v: %s", params, seen)
}

// sameVerdicts compares what PostgreSQL and the pooler make of logins. A parameter that cannot be changed when a session
// starts (55P02) is no reason for a pooler to refuse it: it goes on without.
func sameVerdicts(t *testing.T, logins [][]string) {
	t.Helper()
	var want []string
	play(t, staging{setup: settingRoles}, func(s *stage) {
		for i, params := range logins {
			got := s.judge(params...)
			switch {
			case s.direct():
				want = append(want, got)
			case strings.HasSuffix(want[i], ": 55P02"):
				if _, seen, _ := strings.Cut(want[0], ": "); !strings.HasSuffix(got, seen) {
					s.t.Errorf("%q is refused by PostgreSQL; through the pooler %s", params, got)
				}
			case got != want[i]:
				s.t.Errorf("with PostgreSQL %s\nthrough the pooler %s", want[i], got)
			}
		}
	})
}

// TestST09StartupParameters: what drivers send is honoured, an unknown one is left to PostgreSQL's judgement.
func TestST09StartupParameters(t *testing.T) {
	sameVerdicts(t, [][]string{
		{"options", ""},
		{"extra_float_digits", "2"},
		{"geqo", "off"},
		{"IntervalStyle", "iso_8601"},
		{"lock_timeout", "5s"},
		{"statement_timeout", "12345"},
		{"search_path", "s1, public"},
		{"default_transaction_read_only", "on"},
		{"work_mem", "6MB"},
		{"app.tenant", "seven"},
		{"role", "tenant"},
		{"SEARCH_PATH", "upper"},
		{"client_encoding", "latin1"},
		{"client_encoding", "'utf-8'"},
		{"client_encoding", "nonsense"},
		{"DateStyle", "nonsense"},
		{"TimeZone", "Mars/Olympus"},
		{"work_mem", "lots"},
		{"no_such_parameter", "1"},
		{"no_such_parameter", "2"},
		{"shared_buffers", "1GB"},
		{"port", "1"},
		{"log_connections", "off"},
		{"role", "nobody_here"},
		{"session_authorization", "tenant"},
		{"application_name", strings.Repeat("long ", 30)},
		{"application_name", "with \x01 control é"},
		{"a.b", "c", "a.d", "e"},
		{"standard_conforming_strings", "off"},
		{"client_min_messages", "error"},
		{"is_superuser", "off"},
	})
}

// TestST10Options: every way to write options, with escapes, and nothing is dropped in silence.
func TestST10Options(t *testing.T) {
	var logins [][]string
	for _, options := range []string{
		"", "-c search_path=s1,public -c statement_timeout=12345", "--search_path=x", "--statement-timeout=777", "--work_mem=6MB --TimeZone=Asia/Tokyo",
		`-c search_path=s1,\ public`, `-c app.tenant=a\ b\\c`, `--app.tenant=a\ b`, "-cwork_mem=7MB", "  -c   work_mem=8MB  ", "-c work_mem=5MB -c work_mem=9MB",
		"-c work_mem = 5MB", "-c", "-c work_mem", "--work_mem", "-x", "nonsense", "-c no_such_parameter=1", "-c work_mem=lots", "-c geqo=off", `-c app.tenant=`,
		"-c DateStyle=SQL,DMY", `-c DateStyle=SQL,\ DMY`, "-c IntervalStyle=iso_8601 -c extra_float_digits=3", "-c role=tenant", "-c shared_buffers=1GB",
		"-c\twork_mem=9MB\n-c\tgeqo=off", "-c application_name=opt -c client_encoding=LATIN1",
	} {
		logins = append(logins, []string{"options", options})
	}
	logins = append(logins, []string{"options", "-c work_mem=5MB", "work_mem", "6MB"}, []string{"work_mem", "6MB", "options", "-c work_mem=5MB"},
		[]string{"application_name", "plain", "options", "-c application_name=opt"})
	sameVerdicts(t, logins)
}

// TestST09ReportedAtLogin: the login tells the values that the client has asked for.
func TestST09ReportedAtLogin(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		for _, params := range [][]string{
			nil,
			{"DateStyle", "german", "TimeZone", "asia/tokyo", "client_encoding", "latin1"},
			{"options", "-c IntervalStyle=iso_8601 -c standard_conforming_strings=off"},
			{"application_name", "é\x02", "default_transaction_read_only", "on"},
		} {
			a := s.client(params...)
			var reported []pgwire.Message
			for _, m := range a.login {
				if m.Type == 'S' {
					reported = append(reported, m)
				}
			}
			a.record(reported)
			a.query(everything)
			s.move()
			a.query(everything)
		}
	})
}

// TestST06NewDefaults: ALTER ROLE and ALTER DATABASE reach clients with backends that log in later; only what a client has
// asked for is set again.
func TestST06NewDefaults(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	s.Exec(t, "CREATE ROLE defaults LOGIN")
	p := pooler.Start(t, s, pooler.Options{PoolSize: 2})
	show := func(c *pgwire.Conn) string {
		return ask(t, c, "SELECT current_setting('TimeZone') || '|' || current_setting('work_mem')")
	}
	enter := func(params ...string) *pgwire.Conn {
		return pgwire.Login(t, "tcp", p.Addr(), append([]string{"user", "defaults", "database", "postgres"}, params...)...)
	}
	old, asked := enter(), enter("TimeZone", "Europe/Zurich")
	if got := show(old) + " " + show(asked); got != "UTC|4MB Europe/Zurich|4MB" {
		t.Fatalf("at first: %s", got)
	}
	s.Exec(t, "ALTER ROLE defaults SET timezone = 'Asia/Tokyo'; ALTER DATABASE postgres SET work_mem = '7MB'")
	s.KillBackends(t, "usename = 'defaults'")
	until(t, 10*time.Second, "the new defaults", func() bool {
		c := enter()
		defer c.Close()
		rows, err := c.Exec("SELECT current_setting('TimeZone') || '|' || current_setting('work_mem')")
		return err == nil && rows[0][0] == "Asia/Tokyo|7MB"
	})
	if got := show(asked); got != "Europe/Zurich|7MB" {
		t.Errorf("a client that asked for its zone sees %s", got)
	}
}

// TestST07InHotStandby: after a promotion a new login is told so.
func TestST07InHotStandby(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Start(t)
	if err := s.Stop(pgtest.Fast); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.SocketDir(), "data", "standby.signal"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAgain(); err != nil {
		t.Fatal(err)
	}
	p := pooler.Start(t, s, pooler.Options{PoolSize: 2})
	standby := func() string {
		c := pgwire.Dial(t, "tcp", p.Addr())
		defer c.Close()
		all, err := c.Login(0, startup(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "SELECT 1")
		_, value, _ := strings.Cut(pgwire.Transcript(all), "in_hot_standby=")
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	if got := standby(); got != "on" {
		t.Fatalf("of a standby the login says in_hot_standby=%q", got)
	}
	s.Exec(t, "SELECT pg_promote()")
	until(t, 5*time.Second, "in_hot_standby=off at a login", func() bool { return standby() == "off" })
}
