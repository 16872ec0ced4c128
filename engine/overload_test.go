package engine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

func TestRouteQueueFull(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=1",
		"--capacity.overload-error-code=53400", "--admission.route-key=database,user")
	hold, first, c := holder(t, address), login(t, address), login(t, address)
	queue(t, e, first, "select 'first'")

	_, err := c.Exec("select 1")
	f := overloaded(t, err, "ERROR", "53400")
	if !regexp.MustCompile(`^retry after \d+ ms$`).MatchString(f.Fields['H']) {
		t.Errorf("hint %q", f.Fields['H'])
	}
	for _, figure := range []string{"1 of 1 in flight", "1 of 1 waiting", "postgres/postgres"} {
		if !strings.Contains(f.Fields['D'], figure) {
			t.Errorf("detail %q has no %q", f.Fields['D'], figure)
		}
	}
	// Extended: the ERROR, then nothing up to Sync, then exactly one ReadyForQuery per Sync.
	send(t, c, pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0))
	if m, err := c.Read(); err != nil || m.Type != 'E' {
		t.Fatalf("got %v, %v", m, err)
	}
	send(t, c, pgwire.Query("select 2"), pgwire.Describe('S', ""), pgwire.Sync(), pgwire.Sync(), pgwire.Query("select 3"))
	if got := types(t, c, 3); got != "ZIZIEZI" {
		t.Errorf("after the refusal: %s", got)
	}
	exec(t, hold, "commit")
	if got, err := first.ReadUntil('Z', 1); err != nil || typesOf(got) != "TDCZI" {
		t.Errorf("the waiter got %s, %v", typesOf(got), err)
	}
	usable(t, c)
	quiet(t, e)
}

func TestProcessQueueFull(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.max-checkout-waiters=1")
	hold, first, c := holder(t, address), login(t, address), login(t, address)
	queue(t, e, first, "select 1")
	_, err := c.Exec("select 1")
	if f := overloaded(t, err, "ERROR", "53300"); !strings.Contains(f.Fields['D'], "1 waiting of 1") {
		t.Errorf("detail %q", f.Fields['D'])
	}
	exec(t, hold, "commit")
	types(t, first, 1)
	usable(t, c)
}

// TestLoginFindsNoRoom: a login that needs a backend waits like a request; without room it is refused FATAL.
func TestLoginFindsNoRoom(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.max-route-waiters=1",
		"--capacity.checkout-timeout-ms=5000")
	hold, first := holder(t, address), login(t, address)
	queue(t, e, first, "select 1")
	c := pgwire.Dial(t, "tcp", address)
	_, err := c.Login(0, "user", "postgres", "database", "postgres", "options", "-c work_mem=1234kB")
	overloaded(t, err, "FATAL", "53300")
	if all, err := c.ReadAll(); err != nil || len(all) != 0 {
		t.Errorf("after the FATAL: %v, %v", all, err)
	}
	login(t, address) // needs no backend
	exec(t, hold, "commit")
	types(t, first, 1)
}

func TestCheckoutTimeout(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.checkout-timeout-ms=150")
	hold, c := holder(t, address), login(t, address)
	begin := time.Now()
	_, err := c.Exec("select 1")
	took := time.Since(begin)
	f := overloaded(t, err, "ERROR", "53300")
	if took < 140*time.Millisecond {
		t.Errorf("refused after %v, want 150 ms at least", took)
	}
	// The message itself names the wait, the pool, its size, how many are in use and how many wait.
	shape := regexp.MustCompile(`after 1[4-9]\d ms|after [2-9]\d\d ms|after \d{4,} ms`)
	for _, want := range []string{"postgres/postgres", "1 of 1 backends", "1 in use", "waiting"} {
		if !strings.Contains(f.Fields['M'], want) || !shape.MatchString(f.Fields['M']) {
			t.Errorf("message %q lacks %q", f.Fields['M'], want)
		}
	}
	_, err = pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "postgres", "options", "-c work_mem=1235kB")
	overloaded(t, err, "FATAL", "53300")
	exec(t, hold, "commit")
	usable(t, c)
}

// TestCancelWhileWaiting: the waiting client is answered, its place is given up, its connection stays.
func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.max-route-waiters=1")
	hold, c, other := holder(t, address), login(t, address), login(t, address)
	for _, extended := range []bool{false, true} {
		messages, want := pgwire.Query("select 1"), "EZI"
		if extended {
			messages = pgwire.Parse("", "select 1")
		}
		send(t, c, messages)
		waiting(t, e, 1)
		if err := pgwire.Cancel("tcp", address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
		if extended {
			send(t, c, pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
		}
		all, err := c.ReadUntil('Z', 1)
		if err != nil || typesOf(all) != want {
			t.Fatalf("extended %v: got %s, %v", extended, typesOf(all), err)
		}
		refused(t, pgwire.ErrorOf(all[0]), "ERROR", "57014")
	}
	queue(t, e, other, "select 1") // the place is free again
	exec(t, hold, "commit")
	types(t, other, 1)
	usable(t, c)
	if n := e.Totals().Cancels; n != 0 {
		t.Errorf("%d cancels went to PostgreSQL", n)
	}
}

// TestWrongCancelKeys: no effect, no answer.
func TestWrongCancelKeys(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	hold, c := login(t, address), login(t, address)
	exec(t, hold, "begin")
	queue(t, e, c, "select 1")
	wrong := append([]byte(nil), c.Key...)
	wrong[3] ^= 1
	long := make([]byte, 256)
	for _, k := range []struct {
		pid uint32
		key []byte
	}{
		{c.PID, wrong}, {c.PID, long}, {c.PID ^ 1, c.Key}, {c.PID ^ 1<<24, c.Key}, {c.PID | 0xff0000, c.Key}, {0, []byte{0, 0, 0, 0}},
	} {
		x := pgwire.Dial(t, "tcp", address)
		send(t, x, pgwire.CancelRequest(k.pid, k.key))
		if all, err := x.ReadAll(); err != nil || len(all) > 0 {
			t.Errorf("pid %#x key %x: answered %v, %v", k.pid, k.key, all, err)
		}
	}
	x := pgwire.Dial(t, "tcp", address)
	send(t, x, pgwire.CancelRequest(c.PID, c.Key)[:9]) // half a packet
	x.Close()
	x = pgwire.Dial(t, "tcp", address)
	send(t, x, pgwire.CancelRequest(hold.PID, wrong))
	x.Reset()
	waiting(t, e, 1)
	exec(t, hold, "commit")
	if got := types(t, c, 1); got != "TDCZI" {
		t.Errorf("the waiter got %s", got)
	}
}

// TestWaitersInOrder: with fifo_slack_ms 0 they are served oldest first.
func TestWaitersInOrder(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--admission.fifo-slack-ms=0", "--server.loops=2")
	const n = 12
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists served; create table served (id serial, who int)")
	hold := holder(t, address)
	var clients []*pgwire.Conn
	for i := range n {
		c := login(t, address)
		queue(t, e, c, fmt.Sprintf("insert into served (who) values (%d)", i))
		clients = append(clients, c)
	}
	exec(t, hold, "commit")
	for _, c := range clients {
		types(t, c, 1)
	}
	for i, row := range pg.Exec(t, "select who from served order by id") {
		if row[0] != fmt.Sprint(i) {
			t.Fatalf("place %d was served to waiter %s", i, row[0])
		}
	}
}

// TestPermitsExact: 8 in flight and 4 waiting are allowed: the 13th is refused, also on several loops.
func TestPermitsExact(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.max-route-in-flight=8", "--capacity.max-route-waiters=4",
		"--capacity.pool-max-size=8", "--server.loops=3")
	var holders, waiters []*pgwire.Conn
	for range 8 {
		holders = append(holders, holder(t, address))
	}
	for range 4 {
		c := login(t, address)
		queue(t, e, c, "select 1")
		waiters = append(waiters, c)
	}
	for range 5 {
		_, err := login(t, address).Exec("select 1")
		overloaded(t, err, "ERROR", "53300")
	}
	for _, c := range holders {
		exec(t, c, "rollback")
	}
	for _, c := range waiters {
		types(t, c, 1)
	}
	quiet(t, e)
}
