package engine_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/engine/reactor"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// relayed is an engine of one backend behind a relay.
func relayed(t *testing.T) (r *relay, e *engine.Engine, address string) {
	t.Helper()
	r = startRelay(t, pgtest.Shared(t).Addr())
	e, address = startAt(t, r.address, "--capacity.pool-max-size=1", "--server.loops=1")
	return r, e, address
}

// invoke runs a prepared statement and asks for its columns.
func invoke(name string) []byte {
	return slices.Concat(pgwire.Bind("", name), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
}

// TestCommandCompleteInPieces: what a statement has done follows from its tag, wherever the network has cut that.
func TestCommandCompleteInPieces(t *testing.T) {
	t.Parallel()
	r, e, address := relayed(t)
	c := login(t, address)
	send(t, c, pgwire.Parse("s", "select 1"), invoke("s"))
	types(t, c, 1)
	r.inPieces(e, "C")
	_, err := c.Exec("deallocate all; select 1/0")
	refused(t, err, "ERROR", "22012")
	send(t, c, invoke("s"))
	if got := types(t, c, 1); got != "EZI" {
		t.Errorf("a statement that is gone: %s", got)
	}
	exec(t, c, "begin; set work_mem = '9MB'")
	_, err = c.Exec("select 1/0")
	refused(t, err, "ERROR", "22012")
	exec(t, c, "commit")
	if got := one(t, c, "show work_mem"); got != "4MB" {
		t.Errorf("a setting that was rolled back: %s", got)
	}
}

// TestLossBehindAReset: the server ends while the ReadyForQuery of a RESET is held: the session ends, and does not wait
// for ever.
func TestLossBehindAReset(t *testing.T) {
	t.Parallel()
	r, _, address := relayed(t)
	c := login(t, address, "TimeZone", "Asia/Tokyo")
	usable(t, c)
	reset := false
	see := func(p []byte) bool { // the next write behind the RESET has the client's own values
		if strings.Contains(string(p), "reset timezone") {
			reset = true
			return true
		}
		return !reset
	}
	r.toServer.Store(&see)
	send(t, c, pgwire.Query("reset timezone"))
	ended(t, c, "08006")
}

// TestBehindASecondTry: what a client sends while its group is about to be sent again is answered behind it.
func TestBehindASecondTry(t *testing.T) {
	t.Parallel()
	large := pgwire.Parse("large", "select 7 --"+strings.Repeat(" ", 100_000))
	for name, test := range map[string]struct {
		early, late []byte
		want        string
	}{
		"query":       {pgwire.Query("select 7"), nil, "2TDCZITDCZI"},
		"large Parse": {large[:70_000], slices.Concat(large[70_000:], pgwire.Sync()), "2TDCZI1ZI"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e, address := relayed(t)
			pg := pgtest.Shared(t)
			table := role(t, pg)
			pg.Exec(t, "create table "+table+" as select 1 as x")
			c := login(t, address)
			send(t, c, pgwire.Parse("s", "select * from "+table), invoke("s"))
			types(t, c, 1)
			pg.Exec(t, "alter table "+table+" add y int")
			var once sync.Once
			failed, goOn := make(chan struct{}), make(chan struct{})
			pass := func(c net.Conn, m []byte) {
				if m[0] == 'Z' {
					once.Do(func() { close(failed); <-goOn })
				}
				_, _ = c.Write(m)
			}
			r.toEngine.Store(&pass)
			send(t, c, invoke("s"))
			<-failed
			until(t, "the error read", func() bool { return e.Totals().ServerErrors == 1 })
			send(t, c, test.early)
			c.Silent(20 * time.Millisecond) // nothing tells that it is not read yet
			close(goOn)
			send(t, c, test.late)
			if got := types(t, c, 2); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestMuchBehindASecondTry: as much as is read in advance waits behind a group that is sent again.
func TestMuchBehindASecondTry(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	r, e, address := relayed(t)
	table := role(t, pg)
	pg.Exec(t, "create table "+table+" as select 1 as x")
	text := pgwire.Parse("s", "select * from "+table)
	warm, c := login(t, address), login(t, address)
	send(t, warm, text, invoke("s"))
	types(t, warm, 1)
	send(t, c, text, pgwire.Sync())
	types(t, c, 1)
	pg.Exec(t, "alter table "+table+" add y int")
	var once sync.Once
	failed, goOn := make(chan struct{}), make(chan struct{})
	pass := func(c net.Conn, m []byte) {
		once.Do(func() { close(failed); <-goOn })
		_, _ = c.Write(m)
	}
	r.toEngine.Store(&pass)
	send(t, c, invoke("s")) // its first use: what is behind it waits
	<-failed
	read := e.Totals().BytesFromClients + reactor.ScratchBytes
	query := pgwire.Query("select 7 --" + strings.Repeat(" ", 1000))
	send(t, c, bytes.Repeat(query, 140))
	until(t, "a buffer full", func() bool { return e.Totals().BytesFromClients == read })
	close(goOn)
	if got := types(t, c, 141); got != "2TDCZI"+strings.Repeat("TDCZI", 140) {
		t.Errorf("%.80s…", got)
	}
}

// TestPreparedLimitWhileRunning: another max_prepared_statements holds for the backends that there are.
func TestPreparedLimitWhileRunning(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1")
	c := login(t, address)
	for i := range 8 {
		send(t, c, pgwire.Parse(fmt.Sprint("s", i), fmt.Sprint("select ", i)), pgwire.Sync())
		types(t, c, 1)
	}
	for _, limit := range []string{"3", "0", "5"} {
		if err := e.SetLimit("capacity.max_prepared_statements", limit); err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			send(t, c, invoke(fmt.Sprint("s", i)))
			if got := types(t, c, 1); got != "2TDCZI" {
				t.Errorf("limit %s: %s", limit, got)
			}
		}
		if got := one(t, c, "select count(*) from pg_prepared_statements"); got != limit {
			t.Errorf("%s copies, limit %s", got, limit)
		}
	}
}
