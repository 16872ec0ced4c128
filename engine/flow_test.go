package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgkinetic/engine/reactor"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// The tests of this file look at reactor.BufferBytes, which counts the buffers of all engines of this process: they do not
// run in parallel.

// watch samples the process's buffers until stopped and gives the highest sample.
func watch() (stop func() int64) {
	done, result := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			most = max(most, reactor.BufferBytes())
			select {
			case <-done:
				result <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(done)
		return <-result
	}
}

// buffers waits until no connection holds a buffer.
func buffers(t testing.TB) {
	t.Helper()
	until(t, "all buffers given back", func() bool { return reactor.BufferBytes() == 0 })
}

// TestSlowReader: a result that its client takes slowly, then fast, is held back at its source.
func TestSlowReader(t *testing.T) {
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--capacity.max-backend-buffer-bytes=262144")
	c := login(t, address)
	buffers(t)
	stop := watch()
	const rows, size = 240, 100 << 10
	send(t, c, pgwire.Query(fmt.Sprintf("select repeat('x', %d) from generate_series(1, %d)", size, rows)))
	var got int64
	begin := time.Now()
	for got < 4<<20 { // 4 MB/s
		n, err := io.CopyN(io.Discard, c.Net, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		got += n
		time.Sleep(time.Until(begin.Add(time.Duration(got) * time.Second / (8 << 20))))
	}
	all := make([]byte, 256<<10)
	for last := ""; last != "Z\x00\x00\x00\x05I"; {
		n, err := c.Net.Read(all)
		if err != nil {
			t.Fatal(err)
		}
		got += int64(n)
		last = string(all[max(0, n-6):n])
	}
	if got < rows*size {
		t.Errorf("%d bytes came, want %d at least", got, rows*size)
	}
	if most := stop(); most > 262144+2*64<<10 {
		t.Errorf("%d bytes were held, the cap is 262144", most)
	}
	buffers(t)
}

// TestLargeMessages: a 200 MB Query and 100 MB of rows stream through in constant memory.
func TestLargeMessages(t *testing.T) {
	const size = 200 << 20
	mock := pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		var n int64
		m, err := c.ReadHeader()
		if err == nil {
			n, err = c.Discard(m)
		}
		if err != nil {
			return err
		}
		return pgmock.Send(pgmock.Answer(fmt.Sprint(n)))(c)
	}, pgmock.Serve("next"))
	_, address := startAt(t, mock.Addr())
	c := login(t, address)
	stop := watch()
	send(t, c, binary.BigEndian.AppendUint32([]byte{'Q'}, size+4))
	part := []byte(strings.Repeat("x", 1<<20))
	for range size>>20 - 1 {
		send(t, c, part)
	}
	part[len(part)-1] = 0
	send(t, c, part)
	rows, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(rows) != "TDCZI" || pgwire.Values(rows[1])[0] != fmt.Sprint(size) {
		t.Fatalf("got %s, %v", pgwire.Transcript(rows), err)
	}
	usable2(t, c, "next")
	if most := stop(); most > 2<<20 {
		t.Errorf("%d bytes were held", most)
	}
	buffers(t)
}

// TestLargeRow: one row of 100 MB from PostgreSQL.
func TestLargeRow(t *testing.T) {
	_, address := start(t, pgtest.Shared(t))
	c := login(t, address)
	stop := watch()
	const size = 100 << 20
	send(t, c, pgwire.Query(fmt.Sprintf("select repeat('x', %d)", size)))
	rows, err := c.ReadUntil('Z', 1)
	if err != nil || typesOf(rows) != "TDCZI" || len(rows[1].Body) != size+6 {
		t.Fatalf("got %s, %v", typesOf(rows), err)
	}
	if most := stop(); most > 2<<20 {
		t.Errorf("%d bytes were held", most)
	}
	buffers(t)
}

// TestSlowServer: what a client sends faster than PostgreSQL takes it is held back in the client's socket.
func TestSlowServer(t *testing.T) {
	release := make(chan struct{})
	mock := pgmock.Start(t, pgmock.Login(), pgmock.Wait(release), pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.max-client-buffer-bytes=131072")
	c := login(t, address)
	stop := watch()
	sent := make(chan error)
	go func() { sent <- c.Send(pgwire.Query(strings.Repeat("x", 40<<20))) }()
	until(t, "a full buffer", func() bool { return reactor.BufferBytes() > 100000 })
	close(release)
	types(t, c, 1)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if most := stop(); most > 131072+2*64<<10 {
		t.Errorf("%d bytes were held, the cap is 131072", most)
	}
	buffers(t)
}

// TestBufferMemory: above max_buffer_memory clients wait and go on later; nobody who reads is closed.
func TestBufferMemory(t *testing.T) {
	e, address := start(t, pgtest.Shared(t), "--server.max-buffer-memory=1MiB", "--capacity.pool-max-size=10",
		"--capacity.max-backend-buffer-bytes=524288")
	var clients []*pgwire.Conn
	for range 4 {
		c := login(t, address)
		send(t, c, pgwire.Query("select repeat('x', 100000) from generate_series(1, 200)"))
		clients = append(clients, c)
	}
	// Those with most unread output are closed until the rest fits. A client that comes meanwhile is let in, and then not read.
	until(t, "somebody closed", func() bool { return e.Totals().Closed["buffer_memory"] > 0 })
	late := pgwire.Dial(t, "tcp", address)
	send(t, late, pgwire.Startup(0, "user", "postgres", "database", "postgres"))
	closed := 0
	for _, c := range clients {
		all, err := c.ReadUntil('Z', 1)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "reset"):
			closed++
			if n := len(all); n > 0 && all[n-1].Type == 'E' {
				refused(t, pgwire.ErrorOf(all[n-1]), "FATAL", "53200")
			}
		default:
			t.Error(err)
		}
	}
	if n := e.Totals().Closed["buffer_memory"]; uint64(closed) != n || closed == len(clients) {
		t.Errorf("%d of %d clients ended, %d were closed for memory", closed, len(clients), n)
	}
	if _, err := late.ReadUntil('Z', 1); err != nil {
		t.Errorf("the client that came meanwhile: %v", err)
	}
	usable(t, late)
	buffers(t)
}

// TestSlowServerIsNoStall: a client whose copy data PostgreSQL is slow to take owes nothing; client_stall_timeout_ms
// does not run for it, while it ends the session of one that really stalls.
func TestSlowServerIsNoStall(t *testing.T) {
	release := make(chan struct{})
	mock := pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		m, err := c.Read()
		if err != nil || m.Type != 'Q' {
			return err
		}
		if err = pgmock.Send(pgwire.Raw('G', []byte{0, 0, 0}))(c); err == nil {
			err = pgmock.Wait(release)(c)
		}
		for err == nil && m.Type != 'c' {
			m, err = c.Read()
		}
		if err != nil {
			return err
		}
		return pgmock.Send(pgmock.Complete("COPY 1"), pgmock.Ready('I'))(c)
	}, pgmock.Serve("alive"))
	_, address := startAt(t, mock.Addr(), "--capacity.max-client-buffer-bytes=131072", "--capacity.client-stall-timeout-ms=1000")
	c := login(t, address)
	send(t, c, pgwire.Query("copy t from stdin"))
	if all, err := c.ReadUntil('G', 1); err != nil {
		t.Fatalf("%v %s", err, pgwire.Transcript(all))
	}
	sent := make(chan error)
	go func() { // a message that passes through in parts, then small ones
		sent <- c.Send(pgwire.CopyData(make([]byte, 20<<20)), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone())
	}()
	until(t, "a full buffer", func() bool { return reactor.BufferBytes() > 100000 })
	stalled := login(t, address)
	send(t, stalled, pgwire.Parse("", "select 1"))
	ended(t, stalled, "08006")
	close(release)
	if got := types(t, c, 1); got != "CZI" {
		t.Errorf("got %s", got)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	buffers(t)
}
