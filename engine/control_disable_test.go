package engine_test

import (
	"strings"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestDisable: new logins are refused, whoever is there notices nothing, a reload changes neither.
func TestDisable(t *testing.T) {
	t.Parallel()
	e, address := twoDatabases(t)
	there := loginTo(t, address, "a")
	must(t, e.Disable("a"))
	must(t, e.Disable("a"))
	check := func() {
		t.Helper()
		c := pgwire.Dial(t, "tcp", address)
		_, err := c.Login(0, "user", "postgres", "database", "a")
		c.Close()
		if f := refused(t, err, "FATAL", "57P03"); !strings.Contains(f.Fields['M'], `"a"`) {
			t.Errorf("message %q", f.Fields['M'])
		}
		usable(t, there)
		usable(t, loginTo(t, address, "b"))
		if !e.Disabled("a") || e.Disabled("b") {
			t.Errorf("a disabled %v, b %v", e.Disabled("a"), e.Disabled("b"))
		}
	}
	check()
	reload(t, e, twoEntries(t), "--capacity.pool-max-size=7")
	check()
	pauseNow(t, e, view.Scope{Database: "a"}) // which has nothing to do with it
	must(t, e.Resume(view.Scope{Database: "a"}))
	check()
	until(t, "three refused", func() bool { return e.Totals().Closed["database_disabled"] == 3 })
	must(t, e.Enable("a"))
	must(t, e.Enable("a"))
	usable(t, loginTo(t, address, "a"))
}

// TestDisableNames: an entry, or a name that clients of the entry for all names may ask for, before anybody has.
func TestDisableNames(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t))
	refusedTo := func(database string) {
		t.Helper()
		_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", database)
		refused(t, err, "FATAL", "57P03")
	}
	must(t, e.Disable("template1"))
	refusedTo("template1")
	usable(t, login(t, address))
	must(t, e.Disable("*"))
	refusedTo("postgres")
	usable(t, loginTo(t, address, "session")) // an entry of its own
	must(t, e.Enable("*"))
	usable(t, login(t, address))
	refusedTo("template1") // still, by its own name
	must(t, e.Enable("template1"))
	usable(t, loginTo(t, address, "template1"))
	for _, disable := range []func(string) error{e.Disable, e.Enable} {
		if err := disable(""); err == nil {
			t.Error("no name was taken")
		}
	}
	e, _ = twoDatabases(t)
	for _, disable := range []func(string) error{e.Disable, e.Enable} {
		if err := disable("aa"); err == nil || !strings.Contains(err.Error(), `nearest: "a"`) {
			t.Errorf("an unknown name: %v", err)
		}
	}
}
