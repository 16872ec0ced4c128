//go:build !race

package e2e

import (
	"fmt"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// flatPooler has tables that are full soon: each new application_name is a route, of which ten thousand may be kept, a
// kilobyte each. And it collects often: what died since the last collection is resident, too, by default up to 4 MiB.
func flatPooler(t *testing.T) *pooler.Pooler {
	t.Helper()
	onlyKinetic(t)
	return pooler.Start(t, pgtest.Shared(t), pooler.Options{
		PoolSize: 2, Flags: []string{"--admission.max-routes=100"}, Env: []string{"GOGC=10"},
	})
}

const (
	settled = 10_000  // rounds after which the runtime touches no further pages
	breath  = 1 << 20 // resident memory varies by less
	warming = 3 << 20 // what it grows by before it has settled
)

// flat lets one client make rounds and wants the pooler's memory to be after all of them what it was after a tenth. With
// -many 100000 that comes to twelve bytes a round; the test of the engine's heap is as exact with few.
func flat(t *testing.T, round func(c *pgwire.Conn, i int) error) {
	t.Helper()
	p := flatPooler(t)
	c := login(t, p)
	play := func(from, to int) int {
		for i := from; i < to; i++ {
			if err := round(c, i); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		return resident(t, p.PID())
	}
	before := play(0, *many/10)
	after := play(*many/10, *many)
	t.Logf("%d rounds: %d KiB, %d rounds: %d KiB", *many/10, before>>10, *many, after>>10)
	limit := before + breath
	if *many/10 < settled {
		limit += warming
	}
	if after > limit {
		t.Errorf("memory has grown by %d bytes a round", (after-before)/(*many*9/10))
	}
}

// exchange sends messages and reads n answers; an error that the server sends is an error.
func exchange(c *pgwire.Conn, n int, messages ...[]byte) error {
	if err := c.Send(messages...); err != nil {
		return err
	}
	all, err := c.ReadUntil('Z', n)
	if err == nil && errorCode(all) != "" {
		err = fmt.Errorf("got\n%s", pgwire.Transcript(all))
	}
	return err
}

// TestPS28MemoryOfResets: new names, cleared by DISCARD ALL, by DEALLOCATE ALL in a pipeline, and by Close.
func TestPS28MemoryOfResets(t *testing.T) {
	flat(t, func(c *pgwire.Conn, i int) error {
		name := fmt.Sprint("a name that is never used again ", i)
		parse := pgwire.Parse(name, "SELECT $1::text")
		switch i % 3 {
		case 0:
			return exchange(c, 2, parse, pgwire.Sync(), pgwire.Query("DISCARD ALL"))
		case 1:
			return exchange(c, 1, parse, pgwire.Parse("", "DEALLOCATE ALL"), invoke(""), pgwire.Sync())
		}
		return exchange(c, 1, parse, invoke(name, "x"), pgwire.Close('S', name), pgwire.Sync())
	})
}

// TestPS28MemoryOfTexts: distinct texts under one name.
func TestPS28MemoryOfTexts(t *testing.T) {
	flat(t, func(c *pgwire.Conn, i int) error {
		return exchange(c, 1, pgwire.Close('S', "s"), pgwire.Parse("s", fmt.Sprintf("SELECT %d, 'a text of some length, so that keeping it would show'", i)),
			invoke("s"), pgwire.Sync())
	})
}

// TestPS28MemoryOfCopies: COPY by the extended protocol, in both directions.
func TestPS28MemoryOfCopies(t *testing.T) {
	pgtest.Shared(t).Exec(t, "DROP TABLE IF EXISTS ps28; CREATE TABLE ps28(a int)")
	flat(t, func(c *pgwire.Conn, i int) error {
		if i%2 == 0 {
			return exchange(c, 1, pgwire.Parse("", "COPY (SELECT 1) TO STDOUT"), invoke(""), pgwire.Sync())
		}
		return exchange(c, 1, pgwire.Parse("", "COPY ps28 FROM STDIN"), invoke(""), pgwire.CopyData([]byte("1\n")), pgwire.CopyDone(), pgwire.Sync())
	})
}

// TestPS28MemoryOfSettings: ever new values, and channels that are left.
func TestPS28MemoryOfSettings(t *testing.T) {
	flat(t, func(c *pgwire.Conn, i int) error {
		switch i % 3 {
		case 0:
			return exchange(c, 1, pgwire.Query(fmt.Sprintf("SET application_name = 'name %d'; SET app.custom = 'value %d'", i, i)))
		case 1:
			return exchange(c, 1, pgwire.Query(fmt.Sprintf("LISTEN channel_%d; UNLISTEN *", i)))
		}
		return exchange(c, 1, pgwire.Query("RESET ALL"))
	})
}

// TestPS28MemoryOfClients: clients that come, prepare and go.
func TestPS28MemoryOfClients(t *testing.T) {
	p := flatPooler(t)
	come := func(n int) int {
		for i := range n {
			c := login(t, p, "application_name", fmt.Sprint("client ", i%50))
			if err := exchange(c, 1, pgwire.Parse("s", fmt.Sprintf("SELECT %d", i)), invoke("s"), pgwire.Sync()); err != nil {
				t.Fatal(err)
			}
			c.Reset()
		}
		return resident(t, p.PID())
	}
	rounds := *many / 5
	before := come(rounds)
	after := come(rounds)
	t.Logf("%d clients: %d KiB, %d clients: %d KiB", rounds, before>>10, 2*rounds, after>>10)
	if after > before+1<<20+rounds*100 {
		t.Errorf("each client that has left costs %d bytes", (after-before)/rounds)
	}
}
