package engine_test

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestStatementModeLargeSet: a SET that is too large to be refused before it is
// sent keeps no backend in statement mode, and leaves nothing on it.
func TestStatementModeLargeSet(t *testing.T) {
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--server.pool-mode=statement")
	c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	send(t, c, pgwire.Query("/* "+strings.Repeat("x", 40000)+" */ set work_mem = '7MB'"))
	if _, err := c.ReadUntil('Z', 1); err != nil {
		t.Fatal(err)
	}
	other := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	if got := one(t, other, "show work_mem"); got != "4MB" {
		t.Errorf("the next client sees %s", got)
	}
}
