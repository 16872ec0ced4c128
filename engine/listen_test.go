package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// listenText is one simple query for operations: +a listens to a, -a does so no more, -* not to anything.
func listenText(words ...string) []byte {
	var sql strings.Builder
	for _, word := range words {
		name := `"` + strings.ReplaceAll(word[1:], `"`, `""`) + `"`
		switch {
		case word == "-*":
			sql.WriteString("unlisten *;")
		case word[0] == '+':
			sql.WriteString("listen " + name + ";")
		default:
			sql.WriteString("unlisten " + name + ";")
		}
	}
	return pgwire.Query(sql.String())
}

// listens has a client carry out operations in one transaction; it gives the error, if any.
func listens(t testing.TB, c *pgwire.Conn, words ...string) *pgwire.Error {
	t.Helper()
	send(t, c, listenText(words...))
	all, err := c.ReadUntil('Z', 1)
	if err != nil {
		t.Fatalf("listen %v: %v after %s", words, err, pgwire.Transcript(all))
	}
	for _, m := range all {
		if m.Type == 'E' {
			return pgwire.ErrorOf(m)
		}
	}
	return nil
}

// subscribed is listens that must succeed.
func subscribed(t testing.TB, c *pgwire.Conn, words ...string) {
	t.Helper()
	if e := listens(t, c, words...); e != nil {
		t.Fatalf("listen %v: %v", words, e)
	}
}

// hears reads one message, a notification, and checks channel and payload.
func hears(t testing.TB, c *pgwire.Conn, channel, payload string) {
	t.Helper()
	m, err := c.Read()
	if err != nil {
		t.Fatalf("waiting for %s %s: %v", channel, payload, err)
	}
	if want := channel + "\x00" + payload + "\x00"; m.Type != 'A' || len(m.Body) < 4 || string(m.Body[4:]) != want {
		t.Fatalf("got %s, want notification %s %s", m, channel, payload)
	}
}

// warned reads one message, a warning that notifications were lost.
func warned(t testing.TB, c *pgwire.Conn) {
	t.Helper()
	m, err := c.Read()
	if err != nil || m.Type != 'N' {
		t.Fatalf("got %s, %v, want a notice", m, err)
	}
	if f := pgwire.ErrorOf(m).Fields; f['S'] != "WARNING" || f['C'] != "01000" || !strings.Contains(f['M'], "lost") {
		t.Fatalf("got %v, want a warning that notifications were lost", f)
	}
}

// listener is the view of the only listener, once its connection is up and nothing is pending.
func listener(t testing.TB, e *engine.Engine) (v engine.ListenerView) {
	t.Helper()
	until(t, "one listener at rest", func() bool {
		all := e.ListenerViews()
		if len(all) != 1 || all[0].PID == 0 || all[0].Pending != 0 {
			return false
		}
		v = all[0]
		return true
	})
	return v
}

// deaf waits until nobody listens to anything.
func deaf(t testing.TB, e *engine.Engine) {
	t.Helper()
	until(t, "no channel left", func() bool {
		for _, v := range e.ListenerViews() {
			if v.Channels > 0 {
				return false
			}
		}
		return true
	})
}

// channelOf is a channel of this test alone.
func channelOf(t testing.TB) string {
	return strings.ToLower(strings.NewReplacer("/", "_", "#", "_").Replace(t.Name()))
}

// ST-13 and U-3: who listens hears, whatever loop it lives on, and nobody else does.
func TestListenFansOut(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	const loops = 3
	e, address := startYAML(t, databases(pg), fmt.Sprintf("--server.loops=%d", loops))
	all := crowd(t, address, loops, 9, "user", "postgres", "database", "postgres")
	a, b := channelOf(t)+"_a", channelOf(t)+`_"B" ü`
	for i, c := range all {
		switch i % 3 { // neighbours live on different loops, so every loop has every kind after three
		case 0:
			subscribed(t, c, "+"+a)
		case 1:
			subscribed(t, c, "+"+b, "+"+a)
		}
	}
	notify := login(t, address)
	for i := range 20 {
		exec(t, notify, fmt.Sprintf("select pg_notify('%s', 'a%d'), pg_notify('%s', 'b%d')", a, i, b, i))
	}
	for i, c := range all {
		for n := range 20 {
			if i%3 < 2 {
				hears(t, c, a, fmt.Sprint("a", n))
			}
			if i%3 == 1 {
				hears(t, c, b, fmt.Sprint("b", n))
			}
		}
		if got := one(t, c, "select 'quiet'"); got != "quiet" {
			t.Fatalf("got %q", got)
		}
	}
	if v := listener(t, e); v.Channels != 2 {
		t.Errorf("the listener has %d channels, want 2", v.Channels)
	}
	if n := pg.Value(t, fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d and application_name = 'pg-kinetic listener'",
		listener(t, e).PID)); n != "1" {
		t.Errorf("%s sessions of the listener, want 1", n)
	}
	if s := e.ListenStats(); s.Delivered != 20*9 || s.Lost != 0 {
		t.Errorf("delivered %d, lost %d, want %d and 0", s.Delivered, s.Lost, 20*9)
	}
}

// A notification that is committed after the end of a LISTEN request is never missed, also while others come and go.
func TestListenHoldsBeforeReady(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--server.loops=2")
	channel := channelOf(t)
	var wait sync.WaitGroup
	for i := range 4 {
		c, notify := login(t, address), login(t, address)
		name := fmt.Sprintf("%s_%d", channel, i/2) // two share one
		wait.Go(func() {
			for n := range 50 {
				mark := fmt.Sprintf("%d.%d", i, n)
				if _, err := c.Exec("listen " + name); err != nil {
					t.Error(err)
					return
				}
				if _, err := notify.Exec(fmt.Sprintf("select pg_notify('%s', '%s')", name, mark)); err != nil {
					t.Error(err)
					return
				}
				for {
					m, err := c.Read()
					if err != nil {
						t.Errorf("%s was missed: %v", mark, err)
						return
					}
					if m.Type == 'A' && strings.Contains(string(m.Body), mark+"\x00") {
						break
					}
				}
				if _, err := c.Exec("unlisten *"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	deaf(t, e)
}

func TestUnlisten(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	c, other, third := login(t, address), login(t, address), login(t, address)
	a, b := channelOf(t)+"_a", channelOf(t)+"_b"
	both := fmt.Sprintf("select pg_notify('%s', ''), pg_notify('%s', '')", a, b)
	subscribed(t, other, "+"+a, "+"+b)
	subscribed(t, c, "+"+a, "+"+b)
	subscribed(t, c, "-*", "+"+a, "+"+b)
	exec(t, third, both)
	hears(t, c, a, "")
	hears(t, c, b, "")
	subscribed(t, c, "-"+a)
	exec(t, third, both)
	hears(t, c, b, "")
	subscribed(t, c, "-*")
	if v := listener(t, e); v.Channels != 2 {
		t.Errorf("%d channels, want the two of the other client", v.Channels)
	}
	exec(t, third, both)
	for range 3 {
		hears(t, other, a, "")
		hears(t, other, b, "")
	}
	if got := types(t, c, 0) + one(t, c, "select 'quiet'"); got != "quiet" {
		t.Errorf("got %q", got)
	}
	subscribed(t, other, "-*")
	deaf(t, e)
}

// A client inside a block, or with a request under way, hears afterwards, in order and at most noticesMax; then it is told.
func TestListenWhileBusy(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	c, notify := login(t, address), login(t, address)
	channel := channelOf(t)
	subscribed(t, c, "+"+channel, "+"+channel+"_other")
	exec(t, c, "begin")
	exec(t, notify, fmt.Sprintf("select pg_notify('%s_other', ''), pg_notify('%s', g::text) from generate_series(1, 1500) g", channel, channel))
	until(t, "the rest is lost", func() bool { return e.ListenStats().Lost == 501 })
	if n := e.Noticed(c.PID); n != 1000 {
		t.Errorf("%d notifications wait, want 1000", n)
	}
	if got := types(t, c, 0) + one(t, c, "select 'in the block'"); got != "in the block" {
		t.Errorf("got %q", got)
	}
	send(t, c, pgwire.Query("commit"))
	if got := types(t, c, 1); got != "CZI" {
		t.Fatalf("COMMIT gave %s", got)
	}
	hears(t, c, channel+"_other", "")
	for i := range 999 {
		hears(t, c, channel, fmt.Sprint(i+1))
	}
	warned(t, c)
	exec(t, notify, fmt.Sprintf("select pg_notify('%s', 'again')", channel))
	hears(t, c, channel, "again")

	// What waits is of no interest any more once the client does not listen.
	exec(t, c, "begin")
	exec(t, notify, fmt.Sprintf("select pg_notify('%s', ''), pg_notify('%s_other', 'kept')", channel, channel))
	until(t, "two wait", func() bool { return e.Noticed(c.PID) == 2 })
	exec(t, c, "unlisten "+channel)
	exec(t, c, "commit")
	hears(t, c, channel+"_other", "kept")
}

// A client that does not read loses what its buffer cannot hold, is told so where it is missing, and costs nobody else
// anything.
func TestListenClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--server.loops=1", "--capacity.max-backend-buffer-bytes=65536",
		"--capacity.client-write-timeout-ms=60000")
	c, reader := login(t, address), login(t, address)
	channel := channelOf(t)
	subscribed(t, c, "+"+channel)
	subscribed(t, reader, "+"+channel)
	const rounds, each = 60, 50
	long := strings.Repeat("x", 7000)
	for i := range rounds {
		pg.Exec(t, fmt.Sprintf("select pg_notify('%s', g || '.%s') from generate_series(%d, %d) g", channel, long, i*each, i*each+each-1))
		for n := range each {
			hears(t, reader, channel, fmt.Sprintf("%d.%s", i*each+n, long))
		}
	}
	lost := int(e.ListenStats().Lost)
	if lost == 0 {
		t.Fatal("nothing was lost: the test is too small for this machine's socket buffers")
	}
	next, got, gaps := 0, 0, 0
	for missing := false; got < rounds*each-lost; {
		m, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == 'N' {
			missing = true
			gaps++
			continue
		}
		number, _, _ := strings.Cut(string(m.Body[4+len(channel)+1:]), ".")
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil {
			t.Fatal(err)
		}
		if n != next && !missing || n < next {
			t.Fatalf("%d follows %d, told of a gap: %v", n, next-1, missing)
		}
		missing = false
		next, got = n+1, got+1
	}
	if gaps == 0 && next == rounds*each {
		t.Error("never told")
	}
}

// The connection is lost: it comes back, and each client is told once.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--server.loops=2")
	all := crowd(t, address, 2, 4, "user", "postgres", "database", "postgres")
	channel := channelOf(t)
	for _, c := range all {
		subscribed(t, c, "+"+channel+"_a", "+"+channel+"_b")
	}
	for range 3 {
		before := listener(t, e).PID
		pg.Exec(t, fmt.Sprintf("select pg_terminate_backend(%d)", before))
		for _, c := range all {
			warned(t, c)
		}
		if v := listener(t, e); v.PID == before || v.Channels != 2 {
			t.Fatalf("after the loss: %+v", v)
		}
		pg.Exec(t, fmt.Sprintf("select pg_notify('%s_a', ''), pg_notify('%s_b', '')", channel, channel))
		for _, c := range all {
			hears(t, c, channel+"_a", "")
			hears(t, c, channel+"_b", "")
		}
	}
	if s := e.ListenStats(); s.ListenersLost != 3 || s.Warned != 12 {
		t.Errorf("%d connections lost, %d clients told, want 3 and 12", s.ListenersLost, s.Warned)
	}
}

// The warning does not get into the middle of an answer.
func TestListenerLostDuringAnswer(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	c := login(t, address)
	subscribed(t, c, "+"+channelOf(t))
	const size = 30_000_000 // more than the socket and the buffers here take
	send(t, c, pgwire.Query(fmt.Sprintf("select repeat('x', %d)", size)))
	if m, err := c.Read(); err != nil || m.Type != 'T' {
		t.Fatalf("got %s, %v", m, err)
	}
	pg.Exec(t, fmt.Sprintf("select pg_terminate_backend(%d)", listener(t, e).PID))
	until(t, "the loss is known", func() bool { return e.ListenStats().Warned == 1 })
	all, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(all) != "DCZI" || len(pgwire.Values(all[0])[0]) != size {
		t.Fatalf("got %s, %v", typesOf(all), err)
	}
	warned(t, c)
	usable(t, c)
}

// A connection whose other end has stopped is found out.
func TestListenerThatHangs(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--capacity.connect-timeout-ms=500")
	e.SetListenerClocks(time.Minute, 50*time.Millisecond)
	c := login(t, address)
	channel := channelOf(t)
	subscribed(t, c, "+"+channel)
	before := int(listener(t, e).PID)
	if err := syscall.Kill(before, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(before, syscall.SIGCONT) })
	warned(t, c)
	until(t, "another connection", func() bool { return int(listener(t, e).PID) != before })
	pg.Exec(t, fmt.Sprintf("select pg_notify('%s', 'back')", channel))
	hears(t, c, channel, "back")
}

// Without clients that listen the connection is given up after a while, and opened again when needed.
func TestListenerRetires(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	e.SetListenerClocks(20*time.Millisecond, time.Minute)
	c := login(t, address)
	channel := channelOf(t)
	for range 3 {
		subscribed(t, c, "+"+channel)
		pid := listener(t, e).PID
		pg.Exec(t, fmt.Sprintf("select pg_notify('%s', '')", channel))
		hears(t, c, channel, "")
		subscribed(t, c, "-*")
		until(t, "no listener", func() bool { return len(e.ListenerViews()) == 0 })
		until(t, "its session has ended", func() bool {
			return pg.Value(t, fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d", pid)) == "0"
		})
	}
}

// Channels of clients that leave, in whatever way, are given up.
func TestListenClientsLeave(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg), "--server.loops=2")
	all := crowd(t, address, 2, 12, "user", "postgres", "database", "postgres")
	channel := channelOf(t)
	for i, c := range all {
		subscribed(t, c, "+"+channel, fmt.Sprintf("+%s_%d", channel, i))
	}
	if v := listener(t, e); v.Channels != 13 {
		t.Errorf("%d channels, want 13", v.Channels)
	}
	for i, c := range all {
		switch i % 3 {
		case 0:
			send(t, c, pgwire.Terminate())
		case 1:
			c.Reset()
		default:
			c.Close()
		}
	}
	deaf(t, e)
}

// A thousand clients on one channel: one LISTEN, and each hears everything in order.
func TestListenCrowd(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	const n, loops, messages = 1000, 2, 5
	e, address := startYAML(t, databases(pg), fmt.Sprintf("--server.loops=%d", loops))
	all := crowd(t, address, loops, n, "user", "postgres", "database", "postgres")
	channel := channelOf(t)
	for _, c := range all {
		send(t, c, listenText("+"+channel))
	}
	for _, c := range all {
		types(t, c, 1)
	}
	for i := range messages {
		pg.Exec(t, fmt.Sprintf("select pg_notify('%s', '%d')", channel, i))
	}
	for _, c := range all {
		for i := range messages {
			hears(t, c, channel, fmt.Sprint(i))
		}
	}
	if v := listener(t, e); v.Channels != 1 {
		t.Errorf("%d channels, want 1", v.Channels)
	}
	for _, c := range all {
		c.Close()
	}
	deaf(t, e)
}

// Payloads and names come in the client's encoding.
func TestListenEncodings(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	channel := channelOf(t)
	utf8, latin := login(t, address), login(t, address, "client_encoding", "iso-8859-1")
	subscribed(t, utf8, "+"+channel+"_é")
	subscribed(t, latin, "+"+channel+"_\xe9")
	exec(t, login(t, address), fmt.Sprintf("select pg_notify('%s_é', 'où')", channel))
	hears(t, utf8, channel+"_é", "où")
	hears(t, latin, channel+"_\xe9", "o\xf9")
	if n := len(e.ListenerViews()); n != 2 {
		t.Errorf("%d listeners, want one for each encoding", n)
	}
}

func TestListenBoundOfChannels(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, databases(pg))
	c := login(t, address)
	channel := channelOf(t)
	var words []string
	for i := range 1001 {
		words = append(words, fmt.Sprintf("+%s_%d", channel, i))
	}
	if wrong := listens(t, c, words...); wrong == nil || wrong.Code() != "54000" || wrong.Fields['V'] != "ERROR" {
		t.Errorf("1001 channels: %v", wrong)
	}
	if v := listener(t, e); v.Channels != 1000 {
		t.Errorf("%d channels, want 1000", v.Channels)
	}
	usable(t, c)
	subscribed(t, c, "-*", "+"+channel)
	until(t, "one channel left", func() bool { return listener(t, e).Channels == 1 })
}

// No connection for the listener: the cause at the LISTEN, the session goes on.
func TestListenerRefused(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	name := role(t, pg)
	pg.Exec(t, "alter role "+name+" nosuperuser connection limit 1")
	e, address := startYAML(t, databases(pg))
	c := pgwire.Login(t, "tcp", address, "user", name, "database", "postgres")
	usable(t, c) // its backend is the one connection that the role may have
	if wrong := listens(t, c, "+"+name); wrong == nil || wrong.Code() != "53300" || wrong.Fields['V'] != "ERROR" {
		t.Errorf("a listener that is refused: %v", wrong)
	}
	deaf(t, e)
	usable(t, c)
	pg.Exec(t, "alter role "+name+" connection limit 2")
	subscribed(t, c, "+"+name)
	pg.Exec(t, fmt.Sprintf("select pg_notify('%s', '')", name))
	hears(t, c, name, "")
}

func TestListenerUnreachable(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=300")
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Script(pgmock.Reset()) // whoever comes next; the pool has its backend
	begin := time.Now()
	wrong := listens(t, c, "+c")
	if wrong == nil || wrong.Code() != "08006" || !strings.Contains(wrong.Fields['M'], mock.Addr()) {
		t.Errorf("a listener that cannot connect: %v", wrong)
	}
	if took := time.Since(begin); took < 290*time.Millisecond || took > 5*time.Second {
		t.Errorf("told after %v, want 300 ms", took)
	}
	mock.Script(pgmock.Login(), pgmock.Serve("x"))
	subscribed(t, c, "+c")
}

// A login that hangs ends with its time-out, and does not keep the process from ending.
func TestListenerLoginHangs(t *testing.T) {
	t.Parallel()
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=300")
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Script(pgmock.Hang())
	if wrong := listens(t, c, "+c"); wrong == nil || wrong.Code() != "08006" {
		t.Errorf("a listener that gets no answer: %v", wrong)
	}
	e2, address2 := startAt(t, mock.Addr(), "--capacity.connect-timeout-ms=60000")
	mock.Script(pgmock.Login(), pgmock.Serve("alive"))
	c2 := login(t, address2)
	usable2(t, c2, "alive")
	mock.Script(pgmock.Hang())
	opened := mock.Opened()
	send(t, c2, listenText("+c"))
	until(t, "the login has begun", func() bool { return mock.Opened() > opened })
	begin := time.Now()
	stopNow(t, e2)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// What PostgreSQL says of a session is not what the listener takes for its end.
func TestListenerIgnoresNotices(t *testing.T) {
	t.Parallel()
	notice := pgwire.Raw('N', bytes.Join([][]byte{[]byte("SNOTICE"), []byte("VNOTICE"), []byte("C00000"), []byte("Mhello"), nil, nil}, []byte{0}))
	body := append([]byte{0, 0, 0, 9}, "c\x00hello\x00"...)
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr())
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Script(pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(pgmock.Answer("x")), pgmock.Expect('Q'),
		pgmock.Send(pgmock.Complete("LISTEN"), pgmock.Ready('I'), notice, pgmock.ParameterStatus("TimeZone", "UTC"), pgwire.Raw('A', body)),
		pgmock.Serve("x"))
	subscribed(t, c, "+c")
	hears(t, c, "c", "hello")
}

// asked is a step that reads a Query with n times LISTEN.
func asked(n int) pgmock.Step {
	return func(c *pgmock.Conn) error {
		m, err := c.Read()
		if err == nil && strings.Count(string(m.Body), "LISTEN ") != n {
			return fmt.Errorf("got %q, want %d times LISTEN", m.Body, n)
		}
		return err
	}
}

// standbyRefuses is read_only_sql_transaction; here it reaches no client.
const standbyRefuses = "25006"

// A LISTEN that PostgreSQL refuses after a reconnect, as a standby does, is tried again, and does not keep others from
// being heard.
func TestListenerAsksAgain(t *testing.T) {
	t.Parallel()
	lose := make(chan struct{})
	complete := pgmock.Send(pgmock.Complete("LISTEN"), pgmock.Ready('I'))
	refuse := pgmock.Send(pgmock.Error("ERROR", standbyRefuses, "cannot execute LISTEN during recovery"), pgmock.Ready('I'))
	hello := []pgmock.Step{pgmock.Login(), asked(0), pgmock.Send(pgmock.Answer("x"))}
	body := append([]byte{0, 0, 0, 9}, "c\x00promoted\x00"...)
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Serve("alive"))
	e, address := startAt(t, mock.Addr())
	e.SetListenerClocks(time.Minute, 50*time.Millisecond)
	c := login(t, address)
	usable2(t, c, "alive")
	mock.Script(append(hello, asked(1), complete, asked(1), complete, pgmock.Wait(lose), pgmock.Reset())...)
	subscribed(t, c, "+c")
	subscribed(t, c, "+d")
	mock.Script(append(hello, asked(2), refuse, asked(1), complete, asked(1), refuse,
		asked(0), pgmock.Send(pgwire.Raw('I', nil), pgmock.Ready('I')), // the probe
		asked(1), complete, pgmock.Send(pgwire.Raw('A', body)), pgmock.Serve("x"))...)
	close(lose)
	warned(t, c)
	hears(t, c, "c", "promoted")
}

// What a group has committed stays, whatever becomes of the groups behind it.
func TestListenInPipelines(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := startYAML(t, databases(pg))
	c := login(t, address)
	channel := channelOf(t)
	group := func(sql ...string) (all []byte) {
		for _, one := range sql {
			all = append(append(append(all, pgwire.Parse("", one)...), pgwire.Bind("", "")...), pgwire.Execute("", 0)...)
		}
		return append(all, pgwire.Sync()...)
	}
	send(t, c, group("select 1"), group("listen "+channel+"_1"), group("listen "+channel+"_2", "select 1/0"), group("listen "+channel+"_3"), group("select 1/0"))
	if got := types(t, c, 5); got != "12DCZI12CZI12C1EZI12CZI1EZI" {
		t.Fatalf("got %s", got)
	}
	notify := fmt.Sprintf("select pg_notify('%s_' || g, '') from generate_series(1, 3) g", channel)
	pg.Exec(t, notify)
	hears(t, c, channel+"_1", "")
	hears(t, c, channel+"_3", "")
	send(t, c, group("begin", "unlisten *", "savepoint s", "listen "+channel+"_1", "rollback to s", "listen "+channel+"_2"), group("commit"))
	if got := types(t, c, 2); got != "12C12C12C12C12C12CZT12CZI" {
		t.Fatalf("got %s", got)
	}
	pg.Exec(t, notify)
	hears(t, c, channel+"_2", "")
	usable(t, c)
}

// LISTEN follows the transaction that it is in.
func TestListenIsTransactional(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := startYAML(t, databases(pg))
	channel := channelOf(t)
	for i, step := range []struct {
		sql   []string
		hears bool
	}{
		{[]string{"listen %s"}, true},
		{[]string{"listen %s; select 1/0"}, false},
		{[]string{"listen %s; commit; select 1/0"}, true},
		{[]string{"begin; listen %s", "rollback"}, false},
		{[]string{"begin", "listen %s", "commit"}, true},
		{[]string{"begin", "listen %s", "select 1/0", "commit"}, false},
		{[]string{"begin", "savepoint s", "listen %s", "rollback to s", "commit"}, false},
		{[]string{"begin", "listen %s", "savepoint s", "select 1/0", "rollback to s", "commit"}, true},
		{[]string{"listen %s", "begin", "unlisten *", "rollback"}, true},
		{[]string{"listen %s", "discard all"}, false},
	} {
		c := login(t, address)
		name := fmt.Sprintf("%s_%d", channel, i)
		for _, sql := range step.sql {
			_, _ = c.Exec(strings.ReplaceAll(sql, "%s", name)) // some fail, and are to
		}
		subscribed(t, c, "+"+channel)
		pg.Exec(t, fmt.Sprintf("select pg_notify('%s', ''), pg_notify('%s', '')", name, channel))
		if step.hears {
			hears(t, c, name, "")
		}
		hears(t, c, channel, "")
	}
}
