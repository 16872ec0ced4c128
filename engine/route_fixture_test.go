package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// A gate holds requests inside PostgreSQL: the query of a key runs until its key is opened. Owner: the test's goroutine.
type gate struct {
	conn  *pgwire.Conn // directly to PostgreSQL
	class int32        // of the advisory locks of this gate
}

var gates atomic.Int32

// shut makes a gate with keys 0 to n-1.
func shut(t testing.TB, pg *pgtest.Server, n int) *gate {
	t.Helper()
	g := &gate{class: 1<<24 + gates.Add(1)}
	g.conn = pgwire.Login(t, "unix", pg.SocketPath(), "user", "postgres", "database", "postgres", "application_name", "pgtest")
	exec(t, g.conn, fmt.Sprintf("select pg_advisory_lock(%d, i) from generate_series(0, %d) i", g.class, n-1))
	return g
}

// query is SQL that runs until key is open. It reads, and leaves nothing behind on its backend.
func (g *gate) query(key int) string {
	return fmt.Sprintf("select pg_advisory_xact_lock(%d, %d)", g.class, key)
}

// open lets the queries of the keys end.
func (g *gate) open(t testing.TB, keys ...int) {
	t.Helper()
	for _, k := range keys {
		exec(t, g.conn, fmt.Sprintf("select pg_advisory_unlock(%d, %d)", g.class, k))
	}
}

// inside lists the keys whose queries run now.
func (g *gate) inside(t testing.TB) (keys []string) {
	t.Helper()
	const sql = "select distinct objid from pg_locks where locktype = 'advisory' and classid = %d and not granted order by 1"
	for _, row := range exec(t, g.conn, fmt.Sprintf(sql, g.class)) {
		keys = append(keys, row[0])
	}
	return keys
}

// count is how many queries run now, of all keys.
func (g *gate) count(t testing.TB) (n int) {
	t.Helper()
	const sql = "select count(*) from pg_locks where locktype = 'advisory' and classid = %d and not granted"
	if _, err := fmt.Sscan(one(t, g.conn, fmt.Sprintf(sql, g.class)), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// running waits until the queries of exactly these keys run.
func (g *gate) running(t testing.TB, keys ...int) {
	t.Helper()
	var want []string
	for _, k := range keys {
		want = append(want, fmt.Sprint(k))
	}
	until(t, fmt.Sprintf("queries %v running", want), func() bool { return slices.Equal(g.inside(t), want) })
}

// databases is the entry that leads every database to pg.
func databases(pg *pgtest.Server) string {
	return fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n", pg.Addr())
}

// crowd logs n clients in and returns them so that neighbours sit on different loops: any k in a row are spread as evenly
// as their number allows. Where the acceptor puts a client is its business, so more are logged in than are used.
func crowd(t testing.TB, address string, loops, n int, params ...string) []*pgwire.Conn {
	t.Helper()
	on := make([][]*pgwire.Conn, loops)
	enough := (n + loops - 1) / loops
	for tries := 0; slices.ContainsFunc(on, func(k []*pgwire.Conn) bool { return len(k) < enough }); tries++ {
		if tries > 4*n {
			t.Fatal("the acceptor does not use all loops")
		}
		c := pgwire.Login(t, "tcp", address, params...)
		loop := engine.LoopOf(c.PID)
		on[loop] = append(on[loop], c)
	}
	all := make([]*pgwire.Conn, n)
	for i := range all {
		all[i] = on[i%loops][i/loops]
	}
	return all
}

// spread checks that clients sit on all loops, as evenly as their number allows.
func spread(t testing.TB, loops int, clients []*pgwire.Conn) {
	t.Helper()
	n := make([]int, loops)
	for _, c := range clients {
		n[engine.LoopOf(c.PID)]++
	}
	if slices.Min(n) < len(clients)/loops {
		t.Fatalf("%d clients sit on the loops as %v, want at least %d on each", len(clients), n, len(clients)/loops)
	}
}

// rested waits until nothing is in flight, waiting, used, connecting or closing anywhere.
func rested(t testing.TB, e *engine.Engine) {
	t.Helper()
	var last []string
	defer func() {
		if t.Failed() && len(last) > 0 {
			t.Logf("not at rest: %s", strings.Join(last, ", "))
		}
	}()
	until(t, "every gauge zero", func() bool {
		last = e.Unrest()
		return len(last) == 0
	})
}

// answered reads one answer and checks its messages; what was an error is returned.
func answered(t testing.TB, c *pgwire.Conn, want string) *pgwire.Error {
	t.Helper()
	all, err := c.ReadUntil('Z', strings.Count(want, "Z"))
	if err != nil || typesOf(all) != want {
		t.Fatalf("got %s, %v, want %s", pgwire.Transcript(all), err, want)
	}
	for _, m := range all {
		if m.Type == 'E' {
			return pgwire.ErrorOf(m)
		}
	}
	return nil
}

// full is a route with one request in flight and one waiting, both of them allowed: whoever comes next is refused.
type full struct {
	e              *engine.Engine
	address        string
	holder, waiter *pgwire.Conn
}

// fill makes a full route of database postgres, without parts but database and user.
func fill(t testing.TB, pg *pgtest.Server, settings ...string) full {
	t.Helper()
	e, address := startYAML(t, databases(pg), append([]string{
		"--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=1", "--admission.route-key=database,user",
		"--capacity.checkout-timeout-ms=60000",
	}, settings...)...)
	f := full{e: e, address: address, holder: holder(t, address), waiter: login(t, address)}
	queue(t, e, f.waiter, "select 'waited'")
	return f
}

// plain is the label of the route that fill fills.
const plain = "postgres/postgres//default"

// empty lets holder and waiter end; the route has room again.
func (f *full) empty(t testing.TB) {
	t.Helper()
	exec(t, f.holder, "commit")
	answered(t, f.waiter, "TDCZI")
	rested(t, f.e)
}
