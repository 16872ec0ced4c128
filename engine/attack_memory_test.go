//go:build !race

package engine_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"pgkinetic/engine/reactor"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestMemoryOfLocalAnswers: answers made here wait for a client that reads nothing within its bound, and all come in the end.
func TestMemoryOfLocalAnswers(t *testing.T) {
	pg := pgtest.Shared(t)
	_, address := start(t, pg, "--capacity.pool-max-size=1", "--capacity.max-backend-buffer-bytes=65536")
	c := login(t, address)
	send(t, c, pgwire.Parse("s", "select 1"), pgwire.Sync(), pgwire.Query("begin"))
	types(t, c, 2)
	const n = 1 << 19 // 5 MB of answers: more than the kernel keeps for a socket
	all := append(bytes.Repeat(slices.Concat(pgwire.Parse("t", "select 1"), pgwire.Close('S', "t")), n), pgwire.Sync()...)
	_ = c.Net.(*net.TCPConn).SetWriteBuffer(64 << 10)
	_ = c.Net.(*net.TCPConn).SetReadBuffer(64 << 10) // else the kernel may hold all answers
	_ = c.Net.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	taken, err := c.Net.Write(all)
	if held := reactor.BufferBytes(); err == nil || held > 2<<20 {
		t.Errorf("%v; %d bytes wait for a client that reads nothing", err, held)
	}
	sent := make(chan error, 1)
	go func() { sent <- c.Send(all[taken:]) }()
	answers := make([]byte, 10*n)
	if _, err := io.ReadFull(c.Net, answers); err != nil || !bytes.Equal(answers, bytes.Repeat([]byte("1\x00\x00\x00\x043\x00\x00\x00\x04"), n)) {
		t.Errorf("the answers are not those of %d pairs, %v", n, err)
	}
	if got := types(t, c, 1); got != "ZT" {
		t.Error(got)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
