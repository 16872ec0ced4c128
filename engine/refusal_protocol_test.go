package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestRefusalAtAnyMessage: whatever message a group begins with, its refusal is one ERROR, then nothing until its Sync, then
// one ReadyForQuery for each Sync.
func TestRefusalAtAnyMessage(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t))
	c := login(t, f.address)
	behind := [][]byte{
		pgwire.Bind("", ""), pgwire.Flush(), pgwire.Execute("", 0), pgwire.Query("select 1"), pgwire.Parse("s", "select 2"),
		pgwire.CopyData([]byte("x")), pgwire.CopyDone(), pgwire.CopyFail("x"), pgwire.Close('S', "s"), pgwire.Describe('P', ""),
		pgwire.FunctionCall(1598),
	}
	refused := uint64(0)
	for name, first := range map[string][][]byte{
		"Parse":                    {pgwire.Parse("", "select 1")},
		"Parse with a name":        {pgwire.Parse("s", "select 1")},
		"Parse, Flush":             {pgwire.Parse("", "select 1"), pgwire.Flush()},
		"Bind":                     {pgwire.Bind("", "")},
		"Describe of a statement":  {pgwire.Describe('S', "")},
		"Describe of a portal":     {pgwire.Describe('P', "")},
		"Execute":                  {pgwire.Execute("", 0)},
		"Close of a portal":        {pgwire.Close('P', "none")},
		"Flush before Parse":       {pgwire.Flush(), pgwire.Parse("", "select 1")},
		"stray copy before Bind":   {pgwire.CopyData([]byte("x")), pgwire.CopyDone(), pgwire.Bind("", "")},
		"Flush, Flush, Describe":   {pgwire.Flush(), pgwire.Flush(), pgwire.Describe('S', "")},
		"Execute, Flush, Execute":  {pgwire.Execute("", 1), pgwire.Flush(), pgwire.Execute("", 1)},
		"Parse of what cannot run": {pgwire.Parse("", "no such statement")},
	} {
		send(t, c, slices.Concat(first, behind, [][]byte{pgwire.Sync(), pgwire.Sync()})...)
		overloaded(t, answered(t, c, "EZIZI"), "ERROR", "53300")
		refused++

		send(t, c, first...)
		m, err := c.Read() // without a Sync, and without a Flush: an error is told at once
		if err != nil || m.Type != 'E' {
			t.Fatalf("%s: got %v, %v", name, m, err)
		}
		overloaded(t, pgwire.ErrorOf(m), "ERROR", "53300")
		send(t, c, behind...)
		send(t, c, pgwire.Sync())
		answered(t, c, "ZI")
		refused++
	}
	for _, simple := range [][]byte{pgwire.Query("select 1"), pgwire.Query(""), pgwire.FunctionCall(1598)} {
		send(t, c, simple, pgwire.Sync(), simple)
		overloaded(t, answered(t, c, "EZIZIEZI"), "ERROR", "53300")
		refused += 2
	}
	if n := f.e.Tally(plain).Rejected; n != refused {
		t.Errorf("%d counted as refused, want %d", n, refused)
	}
	gone := login(t, f.address)
	send(t, gone, pgwire.Parse("", "select 1"), pgwire.Terminate())
	if all, err := gone.ReadAll(); err != nil || typesOf(all) != "E" {
		t.Errorf("refused and left: %s, %v", pgwire.Transcript(all), err)
	}
	f.empty(t)
	usable(t, c)
}

// TestRefusalOfPipelinedGroups: each group that finds no room is refused by itself.
func TestRefusalOfPipelinedGroups(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t))
	c := login(t, f.address)
	group := slices.Concat(pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
	send(t, c, group, pgwire.Query("select 2"), group, pgwire.Sync(), pgwire.Query("select 3; select 4"), group)
	answered(t, c, "EZIEZIEZIZIEZIEZI")
	if n := f.e.Tally(plain); n.Rejected != 5 || n.Waiting != 1 {
		t.Errorf("%+v, want 5 refused", n)
	}
	f.empty(t)
	send(t, c, group, pgwire.Query("select 2"), group)
	answered(t, c, "12TDCZITDCZI12TDCZI")
}

// TestRefusalOnlyWhenNothingIsOwed: a group that finds no room behind one that runs is refused after the answers to that.
// The backend is cleaned between two requests, so that it is not to be had while the second one asks.
func TestRefusalOnlyWhenNothingIsOwed(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	for _, loops := range []int{1, 2} {
		g := shut(t, pg, 1)
		e, address := startYAML(t, databases(pg), "--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=1",
			"--admission.route-key=database,user", "--capacity.reset-query=discard", fmt.Sprintf("--server.loops=%d", loops))
		c, waiter := login(t, address), login(t, address)
		send(t, c, pgwire.Query(g.query(0)))
		g.running(t, 0)
		queue(t, e, waiter, "select pg_sleep(0.2)")
		from := e.Totals().BytesFromClients
		send(t, c, pgwire.Query("select 2"), pgwire.Parse("", "select 3"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
		until(t, "the groups behind read", func() bool { return e.Totals().BytesFromClients > from })
		g.open(t, 0)
		all, err := c.ReadUntil('Z', 3)
		if got := typesOf(all); err != nil || got != "TDCZIEZIEZI" {
			t.Errorf("loops %d: got %s, %v, want the first answer and two refusals", loops, pgwire.Transcript(all), err)
		}
		answered(t, waiter, "TDCZI")
		rested(t, e)
		usable(t, c)
	}
}

// TestNoRefusalInsideBlock: a transaction that has begun is never refused, however full everything is.
func TestNoRefusalInsideBlock(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t), "--capacity.max-checkout-waiters=1", "--capacity.pool-max-size=1", "--capacity.max-backends=1")
	c := f.holder
	for range 20 {
		exec(t, c, "select 1")
		send(t, c, pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush())
		if all, err := c.ReadUntil('C', 1); err != nil {
			t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
		}
		send(t, c, pgwire.Sync(), pgwire.Query("savepoint a"), pgwire.Query("select 1/0"), pgwire.Query("select 2"), pgwire.Query("rollback to a"))
		answered(t, c, "ZTCZTEZEEZECZT")
	}
	send(t, c, pgwire.Query("select 1/0"), pgwire.Query("select 1"))
	answered(t, c, "EZEEZE")
	other := login(t, f.address)
	_, err := other.Exec("select 1")
	overloaded(t, err, "ERROR", "53300")
	send(t, c, pgwire.Query("rollback"), pgwire.Query("select 1")) // a block that ends: what is behind it asks anew
	answered(t, f.waiter, "TDCZI")
	answered(t, c, "CZITDCZI")
	rested(t, f.e)
	if n := f.e.Tally(plain).Rejected; n != 1 {
		t.Errorf("%d refused, want only the other client's", n)
	}
}

// TestIdlePipelineIsOneRequest: three Sync groups in one write run on one permit while nobody waits.
func TestIdlePipelineIsOneRequest(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.route-key=database,user", "--capacity.max-route-in-flight=1")
	c := login(t, address)
	usable(t, c)
	rested(t, e)
	before := e.Tally(plain).Admitted
	group := slices.Concat(pgwire.Parse("", "select 1"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
	send(t, c, group, pgwire.Query("select 2"), group)
	answered(t, c, "12DCZITDCZI12DCZI")
	if n := e.Tally(plain).Admitted - before; n != 1 {
		t.Errorf("%d permits were taken, want 1", n)
	}
}

// TestContendedPipelineIsSeveralRequests: while others wait, each Sync group asks anew, in its turn.
func TestContendedPipelineIsSeveralRequests(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists turns; create table turns (id serial, who text)")
	e, address := startYAML(t, databases(pg), "--admission.route-key=database,user", "--capacity.max-route-in-flight=1",
		"--server.loops=1", "--admission.fifo-slack-ms=0")
	hold := holder(t, address)
	before := e.Tally(plain).Admitted
	clients := crowd(t, address, 1, 3, "user", "postgres", "database", "postgres")
	for i, c := range clients {
		insert := func(n int) string { return fmt.Sprintf("insert into turns (who) values ('%c%d')", 'a'+i, n) }
		send(t, c, pgwire.Query(insert(1)), pgwire.Parse("", insert(2)), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(), pgwire.Query(insert(3)))
		waiting(t, e, i+1)
	}
	exec(t, hold, "commit")
	for _, c := range clients {
		answered(t, c, "CZI12CZICZI")
	}
	var turns []string
	for _, row := range pg.Exec(t, "select who from turns order by id") {
		turns = append(turns, row[0])
	}
	if got := strings.Join(turns, " "); got != "a1 b1 c1 a2 b2 c2 a3 b3 c3" {
		t.Errorf("the groups ran as %s", got)
	}
	if n := e.Tally(plain).Admitted - before; n != 9 {
		t.Errorf("%d permits were taken, want one for each of 9 groups", n)
	}
	rested(t, e)
}

// TestRefusalOfLargeMessages: a message above 16 KiB is refused when its first part is here; the rest is passed over.
func TestRefusalOfLargeMessages(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t), "--capacity.max-client-buffer-bytes=32768")
	c := login(t, f.address)
	text := "select '" + strings.Repeat("x", 300_000) + "'"
	for name, large := range map[string]struct {
		message []byte
		simple  bool
	}{
		"Query":        {pgwire.Query(text), true},
		"Parse":        {pgwire.Parse("", text), false},
		"Bind":         {pgwire.Bind("", "", []byte(text)), false},
		"FunctionCall": {pgwire.FunctionCall(1598, []byte(text)), true},
	} {
		// In one go, with more behind it.
		end := pgwire.Sync()
		want := "EZI"
		if large.simple {
			want = "EZIZI"
		}
		send(t, c, large.message, end)
		overloaded(t, answered(t, c, want), "ERROR", "53300")
		// In parts: the refusal comes before the rest has been sent.
		send(t, c, large.message[:20_000])
		m, err := c.Read()
		if err != nil || m.Type != 'E' {
			t.Fatalf("%s: got %v, %v", name, m, err)
		}
		if large.simple {
			answered(t, c, "ZI")
		}
		for part := range slices.Chunk(large.message[20_000:], 70_001) {
			send(t, c, part)
		}
		send(t, c, end, pgwire.Query("select 1"))
		answered(t, c, "ZIEZI")
	}
	f.empty(t)
	usable(t, c)
}

// TestRefusalOfWaitingLargeMessage: a large message whose request waits, in part, and is cancelled: the rest is passed over.
func TestRefusalOfWaitingLargeMessage(t *testing.T) {
	t.Parallel()
	f := fill(t, pgtest.Shared(t), "--capacity.max-route-waiters=2")
	c := login(t, f.address)
	text := "select '" + strings.Repeat("x", 300_000) + "'"
	for _, extended := range []bool{false, true} {
		message, want := pgwire.Query(text), "EZI"
		if extended { // larger than what is kept: a smaller one asks for admission when it is whole
			text := "select '" + strings.Repeat("x", 1_100_000) + "'"
			message, want = slices.Concat(pgwire.Parse("", text), pgwire.Bind("", ""), pgwire.Execute("", 0)), "E"
		}
		send(t, c, message[:40_000])
		waiting(t, f.e, 2)
		if err := pgwire.Cancel("tcp", f.address, c.PID, c.Key); err != nil {
			t.Fatal(err)
		}
		all, err := c.ReadUntil(want[max(0, len(want)-2)], 1)
		if err != nil || typesOf(all) != want {
			t.Fatalf("got %s, %v, want %s", pgwire.Transcript(all), err, want)
		}
		refused(t, pgwire.ErrorOf(all[0]), "ERROR", "57014")
		send(t, c, message[40_000:], pgwire.Sync())
		answered(t, c, "ZI")
	}
	f.empty(t)
	usable(t, c)
}

// TestRefusalOfCopy: a COPY that is refused takes no data; what a client sends nevertheless is passed over.
func TestRefusalOfCopy(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists copied; create table copied (a text)")
	f := fill(t, pg)
	c := login(t, f.address)
	for _, sql := range []string{"copy copied from stdin", "copy (select 1) to stdout"} {
		send(t, c, pgwire.Query(sql), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone(), pgwire.Query(sql))
		answered(t, c, "EZIEZI")
		send(t, c, pgwire.Parse("", sql), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone(), pgwire.Sync())
		answered(t, c, "EZI")
		send(t, c, pgwire.Parse("", sql), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(), pgwire.CopyFail("x"), pgwire.Sync())
		answered(t, c, "EZIZI")
	}
	f.empty(t)
	if got := pg.Value(t, "select count(*) from copied"); got != "0" {
		t.Errorf("%s rows were copied by refused requests", got)
	}
	send(t, c, pgwire.Query("copy copied from stdin"))
	if m, err := c.Read(); err != nil || m.Type != 'G' {
		t.Fatalf("got %v, %v", m, err)
	}
	send(t, c, pgwire.CopyData([]byte("x\n")), pgwire.CopyDone())
	answered(t, c, "CZI")
}
