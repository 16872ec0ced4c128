package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// run runs a program that must succeed and returns what it printed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long(0)+2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPsql(t *testing.T) {
	s := pgtest.Shared(t)
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{Mode: mode, PoolSize: 2})
			file := filepath.Join(t.TempDir(), "rows")
			psql := func(sql string) string {
				t.Helper()
				out := run(t, nil, program(s, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", p.DSN("postgres", "postgres"), "-c", sql)
				return strings.TrimSpace(out)
			}
			if got := psql("SELECT 1, 'two', NULL"); got != "1|two|" {
				t.Errorf("got %q", got)
			}
			psql("DROP TABLE IF EXISTS psql_t; CREATE TABLE psql_t(a int, b text); INSERT INTO psql_t SELECT g, 'row ' || g FROM generate_series(1, 1000) g")
			psql(`\copy psql_t TO '` + file + `'`)
			psql("TRUNCATE psql_t")
			psql(`\copy psql_t FROM '` + file + `'`)
			if got := psql("SELECT count(*), sum(a) FROM psql_t"); got != "1000|500500" {
				t.Errorf("after \\copy out and in: %q", got)
			}
			if got := psql(`\d psql_t`); got != "a|integer|||\nb|text|||" {
				t.Errorf("\\d gave %q", got)
			}
			script := filepath.Join(t.TempDir(), "script.sql")
			if err := os.WriteFile(script, []byte("BEGIN;\nSELECT 1;\nSAVEPOINT a;\nSELECT 1/0;\nROLLBACK TO a;\nSELECT 2;\nCOMMIT;\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			out := run(t, nil, program(s, "psql"), "-XqAt", "-d", p.DSN("postgres", "postgres"), "-f", script)
			if !strings.HasPrefix(out, "1\n") || !strings.Contains(out, "division by zero") || !strings.HasSuffix(out, "2\n") {
				t.Errorf("a script with a savepoint gave %q", out)
			}
		})
	}
}

// pgbenchTables makes pgbench's tables once per server, directly.
func pgbenchTables(t *testing.T, s *pgtest.Server) {
	t.Helper()
	if s.Value(t, "SELECT to_regclass('pgbench_accounts') IS NULL") == "t" {
		run(t, nil, program(s, "pgbench"), "-i", "-q", "-s", "2", s.DSN("postgres", "postgres"))
	}
}

// sample polls pg_stat_activity every 20 ms and keeps the highest numbers of sessions and of active ones.
type sample struct {
	sessions, active atomic.Int64
	stop             chan struct{}
	done             chan error
}

func sampleSessions(t *testing.T, s *pgtest.Server) *sample {
	t.Helper()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	m := &sample{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		defer func() { _ = conn.Close(context.Background()) }()
		for {
			rows, err := pgtest.Rows(conn, `SELECT count(*), count(*) FILTER (WHERE state = 'active') FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
			if err != nil {
				m.done <- err
				return
			}
			var sessions, active int64
			if _, err := fmt.Sscan(rows[0][0]+" "+rows[0][1], &sessions, &active); err != nil {
				m.done <- err
				return
			}
			m.sessions.Store(max(m.sessions.Load(), sessions))
			m.active.Store(max(m.active.Load(), active))
			select {
			case <-m.stop:
				m.done <- nil
				return
			case <-tick.C:
			}
		}
	}()
	return m
}

// end stops the sampling and returns the highest numbers.
func (m *sample) end(t *testing.T) (sessions, active int) {
	t.Helper()
	close(m.stop)
	if err := <-m.done; err != nil {
		t.Errorf("sampling pg_stat_activity: %v", err)
	}
	return int(m.sessions.Load()), int(m.active.Load())
}

func pgbench(t *testing.T, s *pgtest.Server, p *pooler.Pooler, d time.Duration, args ...string) {
	t.Helper()
	args = append(args, "-n", "-T", fmt.Sprint(int(d.Seconds())), p.DSN("postgres", "postgres"))
	out := run(t, nil, program(s, "pgbench"), args...)
	if !strings.Contains(out, "number of failed transactions: 0 ") || strings.Contains(out, "aborted") {
		t.Errorf("pgbench %v:\n%s", args, out)
	}
}

func TestPgbenchStorm(t *testing.T) {
	s := pgtest.Start(t, pgtest.MaxConnections(300))
	pgbenchTables(t, s)
	for _, test := range []struct {
		mode, protocol string
		clients, size  int
		script         string
	}{
		{"transaction", "simple", 200, 20, "select-only"},
		{"transaction", "extended", 200, 20, "select-only"},
		{"transaction", "simple", 40, 10, "tpcb-like"},
		{"transaction", "extended", 40, 10, "tpcb-like"},
		{"session", "prepared", 10, 10, "tpcb-like"},
		{"session", "prepared", 10, 10, "select-only"},
	} {
		name := fmt.Sprintf("%s/%s/%s", test.mode, test.protocol, test.script)
		t.Run(name, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{Mode: test.mode, PoolSize: test.size})
			samples := sampleSessions(t, s)
			pgbench(t, s, p, long(time.Second), "-M", test.protocol, "-c", fmt.Sprint(test.clients), "-j", "2", "-b", test.script)
			sessions, _ := samples.end(t)
			if p.Target != pooler.Direct && sessions > test.size {
				t.Errorf("PostgreSQL had %d sessions at once, the pool's size is %d", sessions, test.size)
			}
			if sessions < test.size/2 {
				t.Errorf("PostgreSQL had %d sessions at most: the pool of %d was not used", sessions, test.size)
			}
		})
	}
}
