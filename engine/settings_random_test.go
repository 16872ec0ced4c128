package engine_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/setscript"
)

// TestSettingsAsWithPostgreSQL: three clients on two backends do to their settings
// what they like, and see at every step what PostgreSQL itself would show them.
func TestSettingsAsWithPostgreSQL(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, setscript.Roles)
	_, address := start(t, pg, "--capacity.pool-max-size=2")
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		var clients [3]twins
		for i := range clients {
			startup := setscript.Startups[(seed+i)%len(setscript.Startups)]
			direct := append([]string{"user", "postgres", "database", "postgres"}, startup...)
			clients[i] = twins{direct: pgwire.Login(t, "tcp", pg.Addr(), direct...), pooled: login(t, address, startup...)}
		}
		for range 120 {
			c := &clients[rng.IntN(len(clients))]
			if inBlock(clients[:], c) < 2 { // one backend is left for it
				c.step(t, rng)
			}
		}
		for _, c := range clients {
			c.direct.Close()
			c.pooled.Close()
		}
	}
}

// twins are a client of PostgreSQL and one of the pooler that send the same.
type twins struct {
	direct, pooled *pgwire.Conn
	script         []string
	block          bool
}

// inBlock counts the others that keep a backend.
func inBlock(clients []twins, but *twins) (n int) {
	for i := range clients {
		if c := &clients[i]; c.block && c != but {
			n++
		}
	}
	return n
}

func (c *twins) step(t *testing.T, rng *rand.Rand) {
	t.Helper()
	requests := setscript.Pipeline(rng)
	c.script = append(c.script, setscript.Line(requests))
	want := setscript.Run(t, c.direct, requests)
	got := setscript.Run(t, c.pooled, requests)
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Fatalf("got %q, PostgreSQL says %q, after\n%s", got, want, strings.Join(c.script, "\n"))
	}
	c.block = !strings.HasSuffix(want[len(want)-1], "I")
	if diff := setscript.Difference(setscript.ValuesOf(t, c.pooled), setscript.ValuesOf(t, c.direct)); diff != "" {
		t.Fatalf("%s after\n%s", diff, strings.Join(c.script, "\n"))
	}
}
