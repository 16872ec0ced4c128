package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestPS21ErrorsLeaveNothingOwed: a SET with a bad value and a PREPARE that fails are told where they stand.
func TestPS21ErrorsLeaveNothingOwed(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		for range 3 {
			a.wantGroup("7", pgwire.Parse("", "SELECT $1::int"), invoke("", "7"))
			a.want("1", "SELECT 1")
			s.move()
			a.fails("22023", "SET lock_timeout TO 'sdf'")
			a.want("1", "SELECT 1")
			s.move()
			a.failsGroup("22023", pgwire.Parse("", "SET lock_timeout TO 'sdf'"), invoke(""), pgwire.Parse("n", "SELECT 2"))
			a.fails("42704", "SET no_such_setting = 1")
			a.fails("42601", "PREPARE x AS bad; EXECUTE x")
			s.move()
			a.fails("22023", "SET work_mem = '8MB'; SET lock_timeout = 'sdf'; SELECT 1")
			a.want("4MB", "SHOW work_mem")
		}
	})
}

// TestPS22NonceStorm: clients on two backends, each with texts of its own under the same names, that give up, cancel and
// reset at random: nobody sees anybody else's rows.
func TestPS22NonceStorm(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 2, Flags: []string{"--server.loops=2", "--capacity.checkout-timeout-ms=20000"}})
	before := baseline(t, p)
	end := time.Now().Add(long(3 * time.Second))
	var all sync.WaitGroup
	var answers, given atomic.Int64
	for i := range 50 {
		random := rand.New(rand.NewPCG(22, uint64(i)))
		all.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				ok, err := nonceSession(p, random, fmt.Sprintf("client %d session %d", i, n), end)
				answers.Add(int64(ok))
				if err != nil {
					t.Error(err)
					return
				}
				given.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d answers in %d sessions", answers.Load(), given.Load())
	if answers.Load() < 100 {
		t.Errorf("only %d answers", answers.Load())
	}
	steady(t, s, p, 2, before)
}

// nonceSession asks for nonces until it gives up in the middle of a query. It returns how many answers were right.
func nonceSession(p *pooler.Pooler, random *rand.Rand, who string, end time.Time) (int, error) {
	c, err := open(p)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", who, err)
	}
	defer c.Reset()
	name := ""
	for n := 0; ; n++ {
		if n%4 == 0 {
			name = []string{"", fmt.Sprint("s", n)}[random.IntN(2)]
			if err := c.Send(pgwire.Parse(name, "SELECT '"+who+"', $1::text, pg_sleep(0.001)"), pgwire.Sync()); err != nil {
				return n, err
			}
			if _, err := c.ReadUntil('Z', 1); err != nil {
				return n, fmt.Errorf("%s: %w", who, err)
			}
		}
		nonce := fmt.Sprint("nonce ", random.Uint64())
		if err := c.Send(invoke(name, nonce), pgwire.Sync()); err != nil {
			return n, err
		}
		if time.Now().After(end) || random.IntN(8) == 0 { // gives up
			if random.IntN(2) == 0 {
				return n, pgwire.Cancel("tcp", p.Addr(), c.PID, c.Key)
			}
			return n, nil
		}
		answer, err := c.ReadUntil('Z', 1)
		if err != nil || !strings.HasPrefix(row(answer), who+"|"+nonce+"|") {
			return n, fmt.Errorf("%s asked for %q: %v, got\n%s", who, nonce, err, pgwire.Transcript(answer))
		}
	}
}

// TestPS29TwoParametersInAPipeline: rows first, then what has changed.
func TestPS29TwoParametersInAPipeline(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.send(pgwire.Parse("", "SELECT set_config('application_name', 'x', false), set_config('DateStyle', 'SQL, DMY', false)"), invoke(""),
			pgwire.Parse("", "SELECT 1"), invoke(""), pgwire.Sync())
		a.read('Z', 1)
		a.want("x", "SHOW application_name")
		a.want("SQL, DMY", "SHOW DateStyle")
	})
}

// TestPS31FunctionCall in and out of a block, and behind a pipeline.
func TestPS31FunctionCall(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		const lower = 870 // lower(text)
		for range 2 {
			a.send(pgwire.FunctionCall(lower, []byte("ABC")))
			a.read('Z', 1)
			a.exec("BEGIN")
			a.send(pgwire.FunctionCall(lower, []byte("DEF")))
			a.read('Z', 1)
			a.exec("COMMIT")
			s.move()
			a.send(pgwire.Parse("", "SELECT 1"), invoke(""), pgwire.Sync(), pgwire.FunctionCall(lower, []byte("X")), pgwire.FunctionCall(1), pgwire.Query("SELECT 2"))
			a.read('Z', 4)
		}
	})
}

// TestPS32EmptyQuery by both protocols.
func TestPS32EmptyQuery(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.query("")
		a.query(" ; ")
		a.group(pgwire.Parse("", ""), pgwire.Bind("", ""), pgwire.Describe('P', ""), pgwire.Execute("", 0))
		a.group(pgwire.Parse("empty", "/* nothing */"), pgwire.Describe('S', "empty"))
		for range 2 {
			s.move()
			a.group(pgwire.Describe('S', "empty"), invoke("empty"))
		}
	})
}

// TestPS34AnswersAcrossSegments: rows of 4 kB, sent for a byte at a time.
func TestPS34AnswersAcrossSegments(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("rows", "SELECT repeat('r', $1::int + g) FROM generate_series(1, 9) g"))
		for i := range 3 {
			s.move()
			group := append(invoke("rows", fmt.Sprint(4080+i)), pgwire.Sync()...)
			for _, b := range group {
				a.send([]byte{b})
			}
			a.read('Z', 1)
			a.send(group, group, pgwire.Query("SELECT repeat('q', 8190)"), group)
			a.read('Z', 4)
		}
	})
}

// TestPS33PgbenchPrepared: a script of several commands outside a block, by many clients on few backends. (Inside a block
// pgbench would wait for itself: a thread blocks in one client's Parse while its other clients hold all backends.)
func TestPS33PgbenchPrepared(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "DROP TABLE IF EXISTS bench_prepared; CREATE TABLE bench_prepared AS SELECT g AS id, 0 AS n FROM generate_series(1, 100) g")
	p := pooler.Start(t, s, pooler.Options{PoolSize: 4, Flags: []string{"--server.loops=2"}})
	script := filepath.Join(t.TempDir(), "script.sql")
	text := `\set id random(1, 100)
UPDATE bench_prepared SET n = n + 1 WHERE id = :id;
SELECT n FROM bench_prepared WHERE id = :id;
SELECT count(*) FROM bench_prepared WHERE id <= :id;
`
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(s, "pgbench"), "-n", "-M", "prepared", "-c", "40", "-j", "2", "-t", "50", "-f", script,
		"-h", "127.0.0.1", "-p", fmt.Sprint(p.Port), "-U", "postgres", "postgres")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "ERROR") {
		t.Fatalf("pgbench: %v\n%s", err, out)
	}
	if got := s.Value(t, "SELECT sum(n) FROM bench_prepared"); got != "2000" {
		t.Errorf("%s updates, want 2000", got)
	}
}

// TestFailedBlockElsewhere: a block fails on a backend that has not parsed what the client has prepared.
func TestFailedBlockElsewhere(t *testing.T) {
	play(t, staging{setup: []string{"DROP TABLE IF EXISTS failed; CREATE TABLE failed(a int)"}}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("read", "SELECT 1"), pgwire.Parse("write", "INSERT INTO failed VALUES (1)"), pgwire.Parse("undo", "ROLLBACK"), pgwire.Parse("none", ""))
		for range 2 {
			a.fails("22012", "BEGIN; SELECT 1/0")
			for _, name := range []string{"read", "write", "none"} {
				a.failsGroup("25P02", invoke(name))
			}
			a.failsGroup("25P02", pgwire.Describe('S', "read"))
			a.failsGroup("26000", pgwire.Describe('S', "nothing"))
			a.failsGroup("26000", invoke("nothing"))
			a.failsGroup("25P02", pgwire.Parse("new", "SELECT 2"))
			a.failsGroup("25P02", pgwire.Parse("read", "SELECT 2"))
			a.failsGroup("42P05", pgwire.Parse("undo", "ROLLBACK"))
			a.group(pgwire.Parse("empty", ""), pgwire.Close('S', "empty"))
			a.group(pgwire.Describe('S', "undo"), invoke("undo"))
			s.move()
		}
		a.want("0", "SELECT count(*) FROM failed")
	})
}
