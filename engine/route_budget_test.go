package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestMaxClientsOfEachKind: of the process, of a database entry, of a user. Whoever is beyond is told so and closed; others are not
// disturbed; a client that leaves makes room.
func TestMaxClientsOfEachKind(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	capped := role(t, pg)
	e, address := startYAML(t, fmt.Sprintf(`server: {max_clients: 6}
databases:
  - {name: small, hosts: [%q], dbname: postgres, max_clients: 2}
  - {name: "*", hosts: [%[1]q]}
users: [{name: %s, max_clients: 3}]
`, pg.Addr(), capped), "--server.loops=2")
	open := func(user, database string) *pgwire.Conn { return loginAs(t, address, user, database) }
	beyond := func(user, database string) {
		t.Helper()
		c := pgwire.Dial(t, "tcp", address)
		_, err := c.Login(0, "user", user, "database", database)
		f := refused(t, err, "FATAL", "53300")
		if !strings.Contains(f.Fields['M'], "sorry, too many clients already") {
			t.Errorf("message %q", f.Fields['M'])
		}
		if all, err := c.ReadAll(); err != nil || len(all) != 0 {
			t.Errorf("after the refusal: %v, %v", all, err)
		}
	}
	both := open(capped, "small")
	plain := open("postgres", "small")
	beyond("postgres", "small")
	beyond(capped, "small")
	a, b := open(capped, "postgres"), open(capped, "postgres")
	beyond(capped, "postgres") // three: the one in small counts as well
	for range 2 {
		open("postgres", "postgres")
	}
	beyond("postgres", "postgres") // six in the process
	for _, c := range []*pgwire.Conn{both, plain, a, b} {
		usable(t, c)
	}
	both.Close()
	until(t, "the client gone", func() bool { return e.Totals().Clients == 5 })
	again := open(capped, "small")
	beyond("postgres", "postgres")
	again.Close()
	plain.Close()
	until(t, "the clients gone", func() bool { return e.Totals().Clients == 4 })
	usable(t, open(capped, "postgres"))
	beyond(capped, "small")
	usable(t, open("postgres", "small"))
}

// TestRefusedLoginsDisturbNobody: while logins beyond max_clients storm in, those that are in go on.
func TestRefusedLoginsDisturbNobody(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--server.max-clients=2", "--server.loops=2")
	a, b := login(t, address), login(t, address)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := 0; n < 50; n++ {
				c, err := pgwire.Open("tcp", address)
				if err == nil {
					_, err = c.Login(0, "user", "postgres", "database", "postgres")
					c.Reset()
				}
				if f, ok := err.(*pgwire.Error); !ok || f.Code() != "53300" {
					t.Errorf("got %v, want 53300", err)
				}
			}
		})
	}
	go func() { all.Wait(); close(stop) }()
	served := 0
	for done := false; !done; served++ {
		usable(t, a)
		usable(t, b)
		select {
		case <-stop:
			done = true
		default:
		}
	}
	until(t, "only the two left", func() bool { return e.Totals().Clients == 2 })
	if served < 10 {
		t.Errorf("only %d answers meanwhile", served)
	}
}

// TestDatabaseCapOverPools: max_backends of a database entry bounds its pools together; a backend that one of them lets go is
// closed for the other that waits.
func TestDatabaseCapOverPools(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	a, b := role(t, pg), role(t, pg)
	e, address := startYAML(t, fmt.Sprintf(`databases:
  - {name: postgres, hosts: [%q], max_backends: 2, checkout_timeout_ms: 300}
  - {name: free, hosts: [%[1]q], dbname: postgres}
`, pg.Addr()), "--server.loops=2")
	x, y := loginAs(t, address, a, "postgres"), loginAs(t, address, a, "postgres")
	exec(t, x, "begin")
	exec(t, y, "begin")
	other := loginAs(t, address, b, "free")
	usable(t, other) // another entry has nothing to do with it
	c := pgwire.Dial(t, "tcp", address)
	_, err := c.Login(0, "user", b, "database", "postgres")
	overloaded(t, err, "FATAL", "53300")
	exec(t, y, "commit")
	usable(t, loginAs(t, address, b, "postgres"))
	if n := pg.Value(t, fmt.Sprintf("select count(*) filter (where usename = '%s') || ' ' || count(*) filter (where usename = '%s') from pg_stat_activity", a, b)); n != "1 2" {
		t.Errorf("backends of the two users: %s, want 1 and, in both entries, 2", n)
	}
	exec(t, x, "commit")
	rested(t, e)
}

// TestSaturatedPoolsShareHost: three pools that want the whole of a full host each have their third within 2 s, whoever came
// first; and what others leave is taken by those that stay.
func TestSaturatedPoolsShareHost(t *testing.T) {
	const backends, clients = 6, 8
	pg := pgtest.Shared(t)
	users := []string{role(t, pg), role(t, pg), role(t, pg)}
	e, address := startYAML(t, databases(pg), fmt.Sprintf("--capacity.max-backends=%d", backends), "--server.loops=2",
		"--capacity.checkout-timeout-ms=20000")
	in := fmt.Sprintf("('%s')", strings.Join(users, "', '"))
	has := func() (n [3]int) {
		for _, row := range pg.Exec(t, "select usename, count(*) from pg_stat_activity where usename in "+in+" group by 1") {
			for i, u := range users {
				if row[0] == u {
					_, _ = fmt.Sscan(row[1], &n[i]) // a number
				}
			}
		}
		if n[0]+n[1]+n[2] > backends {
			t.Errorf("%v backends, the host may have %d", n, backends)
		}
		return n
	}
	var stops [3]chan struct{}
	var pressing [3]sync.WaitGroup
	begin := func(i int) {
		stops[i] = make(chan struct{})
		press(t, crowd(t, address, 2, clients, "user", users[i], "database", "postgres"), "select pg_sleep(0.01)", stops[i], &pressing[i])
	}
	end := func(i int) {
		close(stops[i])
		pressing[i].Wait()
	}
	reach := func(what string, want [3]int) {
		t.Helper()
		since := time.Now()
		until(t, what, func() bool { n := has(); return n[0] >= want[0] && n[1] >= want[1] && n[2] >= want[2] })
		d := time.Since(since)
		t.Logf("%s after %v", what, d)
		if d > 2*time.Second {
			t.Errorf("%s only after %v", what, d)
		}
	}
	begin(0)
	reach("the first has all", [3]int{6, 0, 0})
	begin(1)
	begin(2)
	reach("each has its third", [3]int{2, 2, 2})
	end(0)
	reach("two have a half", [3]int{0, 3, 3})
	end(1)
	reach("the last has all", [3]int{0, 0, 6})
	end(2)
	rested(t, e)
}
