package engine_test

import (
	"fmt"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestReportedSettingsFollowTheClient: a plain SET of a parameter that PostgreSQL
// reports does not keep the backend; its value holds on whichever backend serves
// the client, and for nobody else.
func TestReportedSettingsFollowTheClient(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2")
	a, b, hold := login(t, address), login(t, address), login(t, address)
	for i, set := range []struct {
		sql, show, want string
	}{
		{"set application_name to 'one'", "application_name", "one"},
		{"set session TimeZone = 'Asia/Tokyo'", "timezone", "Asia/Tokyo"},
		{"begin; set datestyle to 'German'; commit", "datestyle", "German, DMY"},
		{"set intervalstyle to iso_8601; select 1", "intervalstyle", "iso_8601"},
	} {
		exec(t, a, set.sql)
		pid := one(t, a, "select pg_backend_pid()")
		// The backend that a was given last is busy with another client: a gets the other one.
		exec(t, hold, "begin")
		if got := one(t, hold, "select pg_backend_pid()"); got != pid {
			t.Fatalf("%d: the idle backend %s was not reused: %s", i, pid, got)
		}
		if got := one(t, hold, "show "+set.show); got == set.want {
			t.Errorf("%s of another client is seen", set.sql)
		}
		if got := one(t, a, "show "+set.show); got != set.want {
			t.Errorf("%s: on the other backend %q, want %q", set.sql, got, set.want)
		}
		exec(t, hold, "commit")
		if got := one(t, b, "show "+set.show); got == set.want {
			t.Errorf("%s: a stranger sees it", set.sql)
		}
	}
	if n := pinsOfAll(e); n != 0 {
		t.Errorf("%d clients keep their backend", n)
	}
}

// TestSetTakenBack: what PostgreSQL takes back is not the client's either.
func TestSetTakenBack(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=2")
	a, hold := login(t, address, "application_name", "mine"), login(t, address)
	exec(t, a, "begin; set application_name to 'gone'; rollback")
	if _, err := a.Exec("set application_name to 'gone'; select 1/0"); err == nil {
		t.Fatal("no error")
	}
	send(t, a, pgwire.Parse("", "set application_name to 'gone'"), pgwire.Bind("", ""), pgwire.Execute("", 0),
		pgwire.Parse("", "selec"), pgwire.Sync())
	types(t, a, 1)
	for i := range 2 {
		if got := one(t, a, "show application_name"); got != "mine" {
			t.Errorf("backend %d: %q", i, got)
		}
		exec(t, hold, "begin")
	}
}

// TestSetIsLostWithItsBackend: a session whose SET is not known to hold anywhere
// else ends with its backend instead of going on without it.
func TestSetIsLostWithItsBackend(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	user := role(t, pg)
	_, address := start(t, pg)
	c := pgwire.Login(t, "tcp", address, "user", user, "database", "postgres")
	send(t, c, pgwire.Query("set application_name to 'lost'"), pgwire.Query("select pg_sleep(60)"))
	types(t, c, 1)
	pg.Exec(t, fmt.Sprintf("select pg_terminate_backend(pid) from pg_stat_activity where usename = '%s'", user))
	ended(t, c, "57P01")
}
