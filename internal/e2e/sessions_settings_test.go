package e2e

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

// everything is what the tests of settings look at after each step: reported and unreported parameters, one that an
// extension would define (PostgreSQL itself cannot forget that such a one was ever set: what is left is empty), the role and
// the session's user.
const everything = `SELECT concat_ws('|', current_setting('search_path'), current_setting('TimeZone'), current_setting('DateStyle'),
	current_setting('work_mem'), current_setting('statement_timeout'), current_setting('application_name'), current_setting('IntervalStyle'),
	coalesce(current_setting('app.tenant', true), ''), current_user, session_user, current_setting('role'), current_setting('default_transaction_read_only'),
	current_setting('standard_conforming_strings'), current_setting('extra_float_digits'), current_setting('client_min_messages'))`

var settingRoles = []string{`DO $$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenant') THEN CREATE ROLE tenant LOGIN; GRANT ALL ON SCHEMA public TO tenant; END IF;
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'Odd "role') THEN CREATE ROLE "Odd ""role"; END IF;
	END $$`}

// follow runs each statement and looks, on both backends, at what the session is then.
func follow(s *stage, a *actor, statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		a.query(sql)
		s.move()
		a.query(everything)
		s.move()
		a.query(everything)
	}
}

// TestSettingsFollowTheClient: whatever is SET, however it is written, holds on every backend.
func TestSettingsFollowTheClient(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a, b := s.client(), s.client("application_name", "b")
		follow(
			s, a, "SET work_mem = '7MB'", "SET work_mem TO 8192", "set Work_Mem = DEFAULT", "SET SESSION statement_timeout = '12s'",
			"SET search_path = s1, public", `SET search_path TO "$user", 'it''s', "Quoted"`, "SET search_path = ''", "SET search_path = DEFAULT",
			"SET SCHEMA 'other'", "SET TIME ZONE 'Europe/Zurich'", "SET TIME ZONE -7", "SET TIME ZONE INTERVAL '+02:30' HOUR TO MINUTE",
			"SET TIME ZONE LOCAL", "SET TIME ZONE DEFAULT", "SET timezone = 'America/New_York'", "SET DateStyle = 'SQL, DMY'", "SET datestyle TO german",
			"SET DateStyle = ISO, MDY", "SET IntervalStyle = iso_8601", "SET application_name = 'it''s \"me\"'", "SET application_name = E'tab\\t'",
			"SET app.tenant = 'forty two'", "SET app.tenant TO 42", "SET ROLE tenant", `SET ROLE "Odd ""role"`, "SET ROLE NONE", "SET role = 'tenant'",
			"RESET ROLE", "SET SESSION AUTHORIZATION tenant", "SET ROLE tenant", "RESET SESSION AUTHORIZATION", "SET SESSION AUTHORIZATION DEFAULT",
			"SET default_transaction_read_only = on", "SET default_transaction_read_only = off", "SET standard_conforming_strings = off",
			"RESET standard_conforming_strings", "SET extra_float_digits = -3", "SET client_min_messages = error",
			"/* a comment */ SET -- another\n work_mem /* here */ = 9999 ;", "SET work_mem = '10MB'; SET statement_timeout = 77",
			"SELECT 1; SET lock_timeout = 5; SELECT 2; RESET work_mem", `SET "work_mem" = '11MB'`, "RESET ALL",
		)
		b.query(everything)
	})
}

// TestSettingsSetConfig: a query that sets does it for the client as well, and for nobody else.
func TestSettingsSetConfig(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a, b := s.client(), s.client()
		s.spread()
		for _, sql := range []string{
			"SELECT set_config('application_name', 'set', false)", "SELECT set_config('TimeZone', 'Asia/Tokyo', false)",
			"SELECT pg_catalog.set_config('search_path', '', false)", "SELECT set_config('work_mem', '7MB', false)",
			"SELECT set_config('work_mem', '8MB', true)", "SELECT set_config(name, '5s', false) FROM pg_settings WHERE name = 'statement_timeout'",
			"BEGIN; SELECT set_config('work_mem', '9MB', false); ROLLBACK", "SELECT set_config('work_mem', '9MB', false), 1/0",
		} {
			a.query(sql)
			for range 3 {
				b.query(everything)
				a.query(everything)
			}
		}
	})
}

// TestSettingsInCode: what a DO block has set reaches nobody else.
func TestSettingsInCode(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a, b := s.client(), s.client()
		s.spread()
		a.quiet = true
		for _, sql := range []string{
			"DO $$ BEGIN PERFORM set_config('statement_timeout', '5s', false); END $$",
			"DO $$ BEGIN EXECUTE 'SET work_mem = ''7MB'''; SET search_path = 'x'; END $$",
			"DO 'BEGIN EXECUTE ''SET ROLE tenant''; END'",
		} {
			a.exec(sql)
			for range 3 {
				b.query(everything)
			}
		}
	})
}

// TestSettingsByExtendedProtocol, as a named statement that is executed on many backends, too.
func TestSettingsByExtendedProtocol(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("set", "SET work_mem = '7MB'"), pgwire.Parse("reset", "RESET work_mem"), pgwire.Parse("role", "SET ROLE tenant"),
			pgwire.Parse("none", "RESET ROLE"), pgwire.Parse("look", everything))
		for _, name := range []string{"set", "role", "reset", "set", "none", "reset", "role"} {
			s.move()
			a.group(invoke(name))
			s.move()
			a.group(invoke("look"))
		}
		a.group(pgwire.Parse("", "SET TIME ZONE 'Asia/Tokyo'"), pgwire.Bind("", "")) // not executed
		s.move()
		a.group(invoke("look"))
		a.send(pgwire.Parse("", "SET TIME ZONE 'Asia/Tokyo'"), invoke(""), pgwire.Sync(), invoke("look"), pgwire.Sync(), invoke("reset"), pgwire.Sync())
		a.read('Z', 3)
		s.move()
		a.group(invoke("look"))
	})
}

// TestSettingsTakenBack: an error anywhere in the group takes back what the group has set, whatever was answered.
func TestSettingsTakenBack(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a := s.client()
		a.exec("SET work_mem = '5MB'")
		a.exec("SET application_name = 'before'")
		look := func() {
			s.move()
			a.query(everything)
		}
		for _, set := range []string{"SET work_mem = '6MB'", "SET application_name = 'taken back'", "SET ROLE tenant", "RESET ALL", "SET LOCAL work_mem = '9MB'"} {
			a.failsGroup("22012", pgwire.Parse("", set), invoke(""), pgwire.Parse("", "SELECT 1/0"), invoke(""))
			look()
			a.failsGroup("22012", pgwire.Parse("", "SELECT 1/0"), invoke(""), pgwire.Parse("", set), invoke(""))
			look()
			a.fails("22012", set+"; SELECT 1/0")
			look()
			a.fails("22012", "SELECT 1/0; "+set)
			look()
			a.fails("42601", set+"; SELEC")
			look()
			a.fails("22012", "BEGIN; "+set+"; COMMIT; SELECT 1/0")
			look()
			a.exec("SET work_mem = '5MB'; SET application_name = 'before'; RESET ROLE")
		}
		a.fails("22P02", "SET work_mem = '6MB'; SELECT 1; SET statement_timeout = 9; SELECT 'x'::int")
		look()
		a.fails("22023", "SET work_mem = 'much'")
		look()
		a.fails("22023", "SET ROLE nobody_here")
		look()
		a.send(pgwire.Query("SET work_mem = '6MB'"), pgwire.Query("SELECT 1/0"), pgwire.Query("SET statement_timeout = 8"))
		a.read('Z', 3)
		look()
	})
}

// TestSettingsInBlocks: SET follows transactions and savepoints, SET LOCAL ends with its transaction.
func TestSettingsInBlocks(t *testing.T) {
	blocks := []string{
		"BEGIN; SET work_mem = '6MB'; COMMIT", "BEGIN; SET work_mem = '7MB'; ROLLBACK", "BEGIN; SET LOCAL work_mem = '8MB'; COMMIT",
		"BEGIN; SAVEPOINT a; SET work_mem = '9MB'; ROLLBACK TO a; COMMIT", "BEGIN; SAVEPOINT a; SET work_mem = '10MB'; RELEASE a; COMMIT",
		"BEGIN; SAVEPOINT a; SET work_mem = '11MB'; RELEASE a; ROLLBACK",
		"BEGIN; SET work_mem = '12MB'; SAVEPOINT a; SET work_mem = '13MB'; ROLLBACK TO a; SET app.tenant = 'in'; COMMIT",
		"BEGIN; SET work_mem = '14MB'; SELECT 1/0; COMMIT", "BEGIN; SAVEPOINT a; SELECT 1/0; ROLLBACK TO a; SET work_mem = '15MB'; COMMIT",
		"BEGIN; SET work_mem = '16MB'; SAVEPOINT a; SET LOCAL work_mem = '17MB'; COMMIT", "BEGIN; SET LOCAL work_mem = '18MB'; SET work_mem = '19MB'; COMMIT",
		"BEGIN; SET work_mem = '20MB'; COMMIT AND CHAIN; SET work_mem = '21MB'; ROLLBACK", "BEGIN; SET ROLE tenant; COMMIT", "BEGIN; RESET ROLE; ROLLBACK",
		"START TRANSACTION; RESET ALL; ABORT", "BEGIN; SET LOCAL ROLE NONE; SET TIME ZONE 'Asia/Tokyo'; END", "BEGIN; RESET ALL; COMMIT",
		"SET LOCAL work_mem = '22MB'", "BEGIN; SAVEPOINT a; SET work_mem = '23MB'; SAVEPOINT a; SET work_mem = '24MB'; ROLLBACK TO a; RELEASE a; COMMIT",
		"BEGIN; SET application_name = 'block'; SAVEPOINT x; SET application_name = 'inner'; ROLLBACK TO SAVEPOINT x; COMMIT",
		"BEGIN ISOLATION LEVEL SERIALIZABLE; SET work_mem = '25MB'; COMMIT", "BEGIN; SET TRANSACTION READ ONLY; SET work_mem = '26MB'; COMMIT",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "RESET default_transaction_read_only", "ROLLBACK; SET work_mem = '27MB'; BEGIN; ROLLBACK",
		"BEGIN; SET work_mem = '28MB'; PREPARE TRANSACTION 'never'", "BEGIN; DISCARD ALL; ROLLBACK", "BEGIN; SET work_mem = '29MB'; COMMIT; SELECT 1/0",
	}
	for name, step := range map[string]func(a *actor, block string){
		"one by one": func(a *actor, block string) {
			for _, sql := range strings.Split(block, "; ") {
				a.query(sql)
			}
		},
		"one query": func(a *actor, block string) { a.query(block) },
		"one pipeline": func(a *actor, block string) {
			var all [][]byte
			statements := strings.Split(block, "; ")
			for _, sql := range statements {
				all = append(all, pgwire.Parse("", sql), invoke(""), pgwire.Sync())
			}
			a.send(all...)
			a.read('Z', len(statements))
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, staging{setup: settingRoles}, func(s *stage) {
				a := s.client()
				for _, block := range blocks {
					step(a, block)
					a.query("ROLLBACK") // what a failed block has left open
					s.move()
					a.query(everything)
				}
			})
		})
	}
}

// TestSettingsResetToStartup: RESET, RESET ALL and DISCARD ALL go back to what the client sent at its start.
func TestSettingsResetToStartup(t *testing.T) {
	play(t, staging{setup: settingRoles}, func(s *stage) {
		a := s.client("application_name", "started", "TimeZone", "Asia/Tokyo", "options", "-c work_mem=6MB --search_path=s1,public -c app.tenant=t1", "IntervalStyle", "iso_8601")
		b := s.client()
		change := "SET application_name = 'x'; SET TimeZone = 'UTC'; SET work_mem = '9MB'; SET search_path = 'y'; SET app.tenant = 'z'; SET statement_timeout = 5000; SET ROLE tenant; SET IntervalStyle = postgres"
		for _, reset := range []string{
			"RESET ALL", "DISCARD ALL", "RESET work_mem", "RESET application_name; RESET TimeZone", "SET search_path TO DEFAULT", "SET TIME ZONE DEFAULT", "RESET app.tenant",
			"SET app.tenant = DEFAULT", "SET ROLE NONE", "DISCARD PLANS", "DISCARD TEMP", "DISCARD SEQUENCES", "RESET SESSION AUTHORIZATION",
		} {
			a.exec(change)
			follow(s, a, reset)
			b.query(everything)
		}
		a.exec("RESET ROLE")
		a.group(pgwire.Parse("discard", "DISCARD ALL"))
		a.exec(change)
		a.group(invoke("discard"))
		s.move()
		a.query(everything)
	})
}

// TestST08EachItsOwn: start-up values of two clients on one backend, at login and later.
func TestST08EachItsOwn(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client("application_name", "a", "client_encoding", "LATIN1", "DateStyle", "German", "TimeZone", "Asia/Tokyo", "IntervalStyle", "iso_8601")
		b := s.client("application_name", "b", "client_encoding", "UTF8", "DateStyle", "SQL, DMY", "TimeZone", "America/New_York", "IntervalStyle", "sql_standard")
		for range 3 {
			for _, c := range []*actor{a, b} {
				for _, name := range []string{"application_name", "client_encoding", "DateStyle", "TimeZone", "IntervalStyle"} {
					c.query("SHOW " + name)
				}
				c.query("SELECT '2001-02-03'::date, '1 day 02:03'::interval")
			}
			s.move()
		}
	})
}

// TestST20StandardConformingStrings of one client never judges the strings of another.
func TestST20StandardConformingStrings(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		a.exec("SET standard_conforming_strings = off; SET escape_string_warning = off")
		b.exec("SET standard_conforming_strings = on")
		for range 3 {
			a.want(`a\b`, `SELECT 'a\\b'`)
			b.want(`a\\b`, `SELECT 'a\\b'`)
			a.want(`it's`, `SELECT 'it\'s'`)
			s.move()
		}
		// With it off a quote may be escaped: what follows is a string, and no SET.
		a.want(`'; SET work_mem = '9MB`, `SELECT '\'; SET work_mem = \'9MB'`)
		s.move()
		a.want("4MB", "SHOW work_mem")
		b.want("4MB", "SHOW work_mem")
	})
}
