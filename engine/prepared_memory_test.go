//go:build !race

package engine_test

import (
	"fmt"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// executeUnnamed are the messages that execute a statement through the unnamed portal.
func executeUnnamed(statement string, params ...[]byte) []byte {
	return append(pgwire.Bind("", statement, params...), pgwire.Execute("", 0)...)
}

// memoryRounds are what a client may do for ever; each gives the messages of a round and the ReadyForQuery that end it.
var memoryRounds = map[string]func(i int) (messages [][]byte, ends int){
	"texts": func(i int) ([][]byte, int) { // distinct ones under one name
		text := fmt.Sprintf("SELECT %d, 'of some length, so that keeping it would show'", i)
		return [][]byte{pgwire.Close('S', "s"), pgwire.Parse("s", text), executeUnnamed("s"), pgwire.Sync()}, 1
	},
	"unnamed": func(i int) ([][]byte, int) { // parsed in a group of its own
		text := fmt.Sprintf("SELECT %d, 'of some length, so that keeping it would show'", i)
		return [][]byte{pgwire.Parse("", text), pgwire.Sync(), executeUnnamed(""), pgwire.Sync()}, 2
	},
	"names": func(i int) ([][]byte, int) { // new ones, taken away in each of the ways
		name := fmt.Sprint("a name that is never used again ", i)
		parse := pgwire.Parse(name, "SELECT $1::text")
		switch i % 4 {
		case 0:
			return [][]byte{parse, pgwire.Sync(), pgwire.Query("DISCARD ALL")}, 2
		case 1:
			return [][]byte{parse, pgwire.Parse("", "DEALLOCATE ALL"), executeUnnamed(""), pgwire.Sync()}, 1
		case 2:
			return [][]byte{parse, pgwire.Sync(), pgwire.Query(`DEALLOCATE "` + name + `"`)}, 2
		}
		return [][]byte{parse, executeUnnamed(name, []byte("x")), pgwire.Close('S', name), pgwire.Sync()}, 1
	},
	"errors": func(i int) ([][]byte, int) { // texts that fail, and names behind an error
		bad := pgwire.Parse(fmt.Sprint("bad ", i), fmt.Sprintf("SELECT no_such_column_%d", i))
		return [][]byte{bad, pgwire.Parse(fmt.Sprint("skipped ", i), "SELECT 1"), pgwire.Sync()}, 1
	},
	// Ever new values, and channels that are left. Few application_names: a new one is a new route, which lives for a while.
	"settings": func(i int) ([][]byte, int) {
		switch i % 3 {
		case 0:
			return [][]byte{pgwire.Query(fmt.Sprintf("SET application_name = 'name %d'; SET app.custom = 'value %d'", i%20, i))}, 1
		case 1:
			return [][]byte{pgwire.Query(fmt.Sprintf("LISTEN channel_%d; UNLISTEN *", i))}, 1
		}
		return [][]byte{pgwire.Query("RESET ALL")}, 1
	},
	"pins": func(i int) ([][]byte, int) { // causes that come and go
		if i%4 > 0 {
			return [][]byte{pgwire.Query("SELECT 1")}, 1
		}
		return [][]byte{pgwire.Query(fmt.Sprintf("PREPARE p_%d AS SELECT 1; EXECUTE p_%d; DEALLOCATE p_%d", i, i, i))}, 1
	},
}

// TestPS28MemoryOfTheHeap: whatever one client does again and again, what lives in the heap does not grow. The caches that
// fill once are nearly full when the counting begins.
func TestPS28MemoryOfTheHeap(t *testing.T) {
	const (
		warm   = 3000
		rounds = 4000
		limit  = rounds * 48 // bytes; a table that doubles is less
	)
	for kind, round := range memoryRounds {
		t.Run(kind, func(t *testing.T) {
			e, address := startYAML(t, databases(pgtest.Shared(t)), "--server.loops=2", "--capacity.pool-max-size=2")
			c := login(t, address)
			play := func(from, to int) int {
				for i := from; i < to; i++ {
					messages, ends := round(i)
					send(t, c, messages...)
					if all, err := c.ReadUntil('Z', ends); err != nil {
						t.Fatalf("round %d: %v after\n%s", i, err, pgwire.Transcript(all))
					}
				}
				return int(heap())
			}
			before := play(0, warm)
			grown := play(warm, warm+rounds) - before
			t.Logf("%d KiB live, grown by %d bytes in %d rounds", before>>10, grown, rounds)
			if grown > limit {
				t.Errorf("the heap has grown by %d bytes a round", grown/rounds)
			}
			for reason, n := range e.Totals().Pinned {
				if n != 0 {
					t.Errorf("%d pins %s are left", n, reason)
				}
			}
			usable(t, c)
		})
	}
}
