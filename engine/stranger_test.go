package engine_test

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestStrangersUnnamedStatement: what another client left as the unnamed statement
// on the backend is never run, also when an error makes PostgreSQL skip the
// client's own Parse.
func TestStrangersUnnamedStatement(t *testing.T) {
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	theirs := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	mine := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	for _, c := range []struct {
		name     string
		dialogue [][]byte
	}{
		{"bind", [][]byte{pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()}},
		{"describe", [][]byte{pgwire.Describe('S', ""), pgwire.Sync()}},
		{"after a flush", [][]byte{pgwire.Flush(), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()}},
		// The last one: its Parse without a Bind in the group keeps the backend.
		{"after a skipped one", [][]byte{pgwire.Describe('S', "none"), pgwire.Parse("", "select 'mine'"), pgwire.Sync(), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			send(t, theirs, pgwire.Parse("", "select 'theirs'"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync())
			if all, err := theirs.ReadUntil('Z', 1); err != nil || !strings.Contains(pgwire.Transcript(all), "theirs") {
				t.Fatalf("%v %s", err, pgwire.Transcript(all))
			}
			syncs := 0
			for _, m := range c.dialogue {
				if m[0] == 'S' {
					syncs++
				}
			}
			send(t, mine, c.dialogue...)
			all, err := mine.ReadUntil('Z', syncs)
			if err != nil {
				t.Fatal(err)
			}
			if got := pgwire.Transcript(all); strings.Contains(got, "theirs") || !strings.Contains(got, "26000") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
