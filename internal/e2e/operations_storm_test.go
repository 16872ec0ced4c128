package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
	"pgkinetic/internal/testcert"
)

// operations is a pooler that is operated while clients use it.
type operations struct {
	*operated
	t      *testing.T
	s      *pgtest.Server
	p      *pooler.Pooler
	random *rand.Rand
	calm   bool // PostgreSQL stays up: nothing may fail

	console *pgconn.PgConn
	done    map[string]int // operations, by name
}

// operated is how the pooler is started, and what its revisions of settings vary.
type operated struct {
	mode, protocol      string
	loops, size         int
	clients             int
	port, second        int // that come and go
	http                [2]int
	authority           *testcert.Certificate
	dir, cert, key      string
	serial              string // of the certificate that was written last
	revision, revisions int    // the present one; how many there were
}

// load is how much is done in a cycle.
type load struct {
	reloads, pauses, reconnects, restarts, cycles int
	pgbench                                       time.Duration // one run
}

// TestOperationsStorm: while 200 clients of pgbench come, work and go, everything that an operator can do is done: reloads
// that change something of every section, pauses, suspensions, new backends, kills. No client sees an error. Then PostgreSQL
// is restarted under the same, and clients see only that. After each cycle nothing is left of it.
func TestOperationsStorm(t *testing.T) {
	onlyKinetic(t)
	amount := load{reloads: 5, pauses: 3, reconnects: 1, restarts: 1, cycles: 1, pgbench: time.Second}
	if *soak > 0 {
		amount = load{reloads: 50, pauses: 20, reconnects: 5, restarts: 5, cycles: 3, pgbench: 2 * time.Second}
	}
	t.Logf("-canary-seed %d", *canarySeed)
	s := pgtest.Start(t, pgtest.MaxConnections(300))
	s.Exec(t, "CREATE DATABASE bench")
	run(t, nil, program(s, "pgbench"), "-i", "-q", "-s", "2", s.DSN("postgres", "bench"))
	for _, how := range []operated{
		{mode: "transaction", protocol: "simple", loops: 1, clients: 200, size: 20},
		{mode: "transaction", protocol: "prepared", loops: 2, clients: 200, size: 20},
		{mode: "session", protocol: "prepared", loops: 2, clients: 200, size: 200},
	} {
		if how.mode == "session" && *soak == 0 {
			how.clients, how.size = 40, 40
		}
		t.Run(fmt.Sprintf("%s/%s/%d", how.mode, how.protocol, how.loops), func(t *testing.T) {
			o := operate(t, s, &how)
			start := o.balance(balance{})
			var second balance // the first fills caches
			for i, end := 0, time.Now().Add(long(0)); i < amount.cycles || time.Now().Before(end); i++ {
				began := time.Now()
				o.cycle(amount)
				if t.Failed() {
					return
				}
				b := o.balance(start)
				t.Logf("cycle %d, %.1fs: %v; %v", i+1, time.Since(began).Seconds(), o.done, b)
				if i == 1 {
					second = b
				}
				// The detector's own memory of what goroutines have done grows: make soak runs this without it, too.
				if i > 1 && (b.heap > second.heap+2<<20 || b.resident > second.resident+8<<20 && !pooler.Race) {
					t.Errorf("memory has grown: %v, and after the second cycle %v", b, second)
				}
			}
		})
	}
}

func operate(t *testing.T, s *pgtest.Server, how *operated) *operations {
	t.Helper()
	free := func() int {
		port, err := pgtest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	how.second, how.http = free(), [2]int{free(), free()}
	how.authority, how.dir = testcert.Authority("storm"), t.TempDir()
	o := &operations{operated: how, t: t, s: s, random: rand.New(rand.NewPCG(*canarySeed, uint64(how.loops))), done: map[string]int{}}
	o.p = pooler.Start(t, s, pooler.Options{
		Mode: how.mode, PoolSize: how.size, HTTP: fmt.Sprintf("127.0.0.1:%d", how.http[0]),
		Flags: []string{fmt.Sprintf("--server.loops=%d", how.loops)},
	})
	o.port = o.p.Port
	var err error
	if o.console, err = pgconn.Connect(t.Context(), o.p.DSN("postgres", "pg_kinetic")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.console.Close(context.Background()) })
	o.newCertificate()
	o.settle(0)
	return o
}

// cycle is operations without a restart, then operations with restarts.
func (o *operations) cycle(amount load) {
	o.calm = true
	clients := o.bench(amount.pgbench)
	for _, f := range o.plan(amount) {
		f()
		if o.t.Failed() {
			break
		}
	}
	clients.end()
	if o.t.Failed() {
		return
	}

	o.calm = false
	clients = o.bench(amount.pgbench)
	strict := o.ask(20)
	mode := pgtest.Fast
	for range amount.restarts {
		o.restart(mode, strict)
		if mode == pgtest.Fast {
			mode = pgtest.Immediate
		} else {
			mode = pgtest.Fast
		}
		if o.t.Failed() {
			break
		}
	}
	strict.end()
	clients.end()
}

// plan is what is done in a cycle, in an order by chance.
func (o *operations) plan(amount load) (todo []func()) {
	add := func(n int, f func()) {
		for range n {
			todo = append(todo, f)
		}
	}
	few := max(1, amount.pauses/4)
	add(amount.reloads-amount.reloads/3-2*few, o.reloadByCommand)
	add(amount.reloads/3, o.reloadBySignal)
	add(few, o.reloadByWatch) // two reloads
	add(amount.pauses-2*few, o.pauseDatabase)
	add(few, o.pauseAll)
	add(few, o.pauseRoute)
	add(few, o.suspend)
	add(amount.reconnects, o.reconnect)
	add(few, o.killClient)
	add(few, o.killDatabase)
	add(few, o.disable)
	add(few, o.set)
	add(few, o.look)
	o.random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	return todo
}

// restart restarts PostgreSQL while operations go on, and sees to it that clients are served again.
func (o *operations) restart(mode pgtest.Mode, clients *crowd) {
	o.t.Helper()
	until(o.t, 20*time.Second, "pgbench works", func() bool {
		return o.s.Value(o.t, "SELECT count(*) FILTER (WHERE query LIKE '%pgbench_accounts%' AND state <> 'idle') > 0 FROM pg_stat_activity WHERE datname = 'bench'") == "t"
	})
	back := make(chan error, 1)
	go func() { back <- o.s.Restart(mode) }()
	todo := o.plan(load{reloads: 4, pauses: 3, reconnects: 1})
	for err, ended := error(nil), false; !ended; {
		select {
		case err = <-back:
			ended = true
			if err != nil {
				o.t.Error(err)
			}
		default:
			todo[o.random.IntN(len(todo))]()
			ended = o.t.Failed() && <-back == nil
		}
	}
	began, answers := time.Now(), clients.answers.Load()
	until(o.t, 10*time.Second, "an answer after the restart", func() bool { return clients.answers.Load() > answers })
	if d := time.Since(began); d > 2*time.Second {
		o.t.Errorf("the first answer came %v after the restart", d)
	}
	o.done["restart"]++
}
