//go:build !race

package e2e

import (
	"fmt"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// TestLargeResultsOverTLSMemory: 256 MiB in one result, decrypted and encrypted again, leave the process where it was after
// the first 16 MiB. Rows of 1 KiB and of 4 MiB, and COPY.
func TestLargeResultsOverTLSMemory(t *testing.T) {
	const size, limit = 256 << 20, 8 << 20
	x := secured(t)
	x.role(t, "large", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "large", "secret"), "--tls.client-mode=require")
	c, err := x.enter(t, p, "large", pgwire.NewPassword("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{
		"SELECT repeat('x', 1024) FROM generate_series(1, %d / 1024)",
		"SELECT repeat('x', 4194304) FROM generate_series(1, %d / 4194304)",
		"COPY (SELECT repeat('x', 8192) FROM generate_series(1, %d / 8192)) TO STDOUT",
	} {
		drain(t, c, fmt.Sprintf(f, 16<<20), 16<<20)
		before := resident(t, p.PID())
		peak := watchMemory(t, p.PID())
		drain(t, c, fmt.Sprintf(f, size), size)
		most := peak()
		t.Logf("%s: %d KiB, at most %d KiB", f, before>>10, most>>10)
		if most > before+limit {
			t.Errorf("%s: the process grew from %d KiB to %d KiB", f, before>>10, most>>10)
		}
	}
}

// drain runs a query and reads its answer without holding it, which must be at least so long.
func drain(t *testing.T, c *pgwire.Conn, sql string, size int) {
	t.Helper()
	if err := c.Send(pgwire.Query(sql)); err != nil {
		t.Fatal(err)
	}
	if err := c.Net.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	last, total := make([]byte, 6), 0
	piece := make([]byte, 64<<10)
	for string(last) != "Z\x00\x00\x00\x05I" {
		n, err := c.Net.Read(piece)
		if err != nil {
			t.Fatal(err)
		}
		total += n
		joined := append(last, piece[:n]...)
		last = append([]byte{}, joined[len(joined)-6:]...)
	}
	if total < size {
		t.Errorf("%s: %d bytes came", sql, total)
	}
}
