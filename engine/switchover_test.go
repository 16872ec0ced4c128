package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// FO-04, FO-05: a switchover as operators make it. The old primary comes back as a standby, first in the list; nothing is
// written there, not even tried, and idle backends of before are given to nobody.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	old := pgtest.Start(t)
	old.Exec(t, "create table written (n int)")
	next := old.Standby(t)
	e, address := startHosts(t, ", target_session_attrs: read-write", quoted(old, next), "--capacity.connect-timeout-ms=1000", "--capacity.pool-max-size=4")
	var clients []*pgwire.Conn
	for range 4 { // as many idle backends
		c := login(t, address)
		exec(t, c, "begin")
		clients = append(clients, c)
	}
	for _, c := range clients {
		exec(t, c, "insert into written values (1)")
		exec(t, c, "commit")
	}
	must(t, old.Stop(pgtest.Fast))
	must(t, old.StartAsStandby())
	// Nobody can write now: 08006 that tells why, and never 25006.
	_, err := clients[0].Exec("insert into written values (2)")
	refused(t, err, "ERROR", "08006")
	next.Promote(t)
	until(t, "a write", func() bool {
		_, err := clients[0].Exec("insert into written values (2)")
		if err != nil {
			refused(t, err, "ERROR", "08006")
		}
		return err == nil
	})
	for _, c := range clients[1:] {
		exec(t, c, "insert into written values (2)")
	}
	must(t, e.Reconnect(""))
	closedAll(t, e, "")
	for _, c := range clients { // the old primary is tried again, and is of no use
		exec(t, c, "insert into written values (2)")
	}
	if n := next.Value(t, "select count(*)::text from written where n = 2"); n != "8" {
		t.Errorf("%s rows at the new primary, want 8", n)
	}
	rested(t, e)
}

// reporting is a scripted login at a server that says what it is; each query is answered with name, with news before the first.
func reporting(standby, name string, news ...[]byte) []pgmock.Step {
	return []pgmock.Step{asRole(standby), func(c *pgmock.Conn) error {
		if _, err := c.Read(); err != nil {
			return err
		}
		return pgmock.Send(append([][]byte{pgmock.Row(name), pgmock.Complete("SELECT 1")}, append(news, pgmock.Ready('I'))...)...)(c)
	}, pgmock.Serve(name)}
}

// FO-05: a backend that reports that it is a standby now moves its pool before another request: also the idle ones of that
// host serve nobody any more.
func TestDemotionReported(t *testing.T) {
	t.Parallel()
	for _, attrs := range []string{"read-write", "primary"} {
		t.Run(attrs, func(t *testing.T) {
			t.Parallel()
			was := pgmock.Start(t, reporting("off", "was", pgmock.ParameterStatus("in_hot_standby", "on"))...)
			is := named(t, "is", "off")
			_, address := startHosts(t, ", target_session_attrs: "+attrs, addrs(was, is), "--server.loops=1")
			idle, other := login(t, address), login(t, address)
			exec(t, other, "") // the first backend reports with this answer
			was.Script(asRole("on"), pgmock.Serve("was"))
			usable2(t, idle, "is")
			usable2(t, other, "is")
		})
	}
}

// FO-09: while a database is paused its host goes, and a reload names another: after RESUME those who have waited, and
// whoever comes, are served there. No error comes from it.
func TestHostChangesWhilePaused(t *testing.T) {
	t.Parallel()
	a, b := named(t, "a", ""), named(t, "b", "")
	e, address, change := rehosted(t, "", a)
	waiter, late := login(t, address), login(t, address)
	usable2(t, waiter, "a")
	s := view.Scope{Database: "postgres"}
	pauseNow(t, e, s)
	queue(t, e, waiter, "select")
	a.Down()
	change("", b)
	waiting(t, e, 1)
	must(t, e.Resume(s))
	answered(t, waiter, "TDCZI")
	usable2(t, late, "b")
}

// FO-10: PostgreSQL is away for a second. What comes meanwhile waits and is served.
func TestRestartIsWaitedOut(t *testing.T) {
	t.Parallel()
	mock := named(t, "alive", "")
	e, address := startAt(t, mock.Addr(), "--capacity.pool-max-size=3")
	var clients []*pgwire.Conn
	for range 8 {
		clients = append(clients, login(t, address))
	}
	usable2(t, clients[0], "alive")
	mock.Down()
	until(t, "the loss seen", func() bool { return e.Totals().Servers == 0 })
	for _, c := range clients {
		send(t, c, pgwire.Query("select"))
	}
	waiting(t, e, len(clients)-3) // three hold the places that are being opened
	time.Sleep(time.Second)       // the restart
	mock.Up()
	begin := time.Now()
	for _, c := range clients {
		answered(t, c, "TDCZI")
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("served %v after PostgreSQL was back, want 1 s", took)
	}
}

// FO-11: a pooler that has found its PostgreSQL dead for long serves within a second of its return, whoever asks.
func TestBackAfterLong(t *testing.T) {
	t.Parallel()
	mock := named(t, "alive", "")
	mock.Down()
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=200")
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		c, err := tryLogin(t, address)
		refused(t, err, "FATAL", "08006")
		c.Close()
	}
	mock.Up()
	begin := time.Now()
	until(t, "a login", func() bool {
		return letIn(t, address, "user", fmt.Sprint("u", time.Now().UnixNano()%3)) // pools of others, which are new
	})
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("served after %v, want 1 s", took)
	}
}
