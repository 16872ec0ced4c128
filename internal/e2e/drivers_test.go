package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// workers runs the function in 16 goroutines with names that are their nonces.
func workers(t *testing.T, work func(nonce string) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := work(fmt.Sprintf("worker %d", i)); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

func TestPgx(t *testing.T) {
	s := pgtest.Shared(t)
	for _, test := range []struct {
		mode string
		size int
		exec pgx.QueryExecMode
	}{
		{"transaction", 2, pgx.QueryExecModeExec},
		{"transaction", 2, pgx.QueryExecModeSimpleProtocol},
		// Named statements hold their backend until sessions are virtual: as many backends as workers.
		{"transaction", 16, pgx.QueryExecModeCacheStatement},
		{"transaction", 16, pgx.QueryExecModeDescribeExec},
		{"session", 16, pgx.QueryExecModeCacheStatement},
		{"session", 16, pgx.QueryExecModeCacheDescribe},
	} {
		t.Run(fmt.Sprintf("%s/%v", test.mode, test.exec), func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{Mode: test.mode, PoolSize: test.size})
			workers(t, func(nonce string) error { return pgxWorker(t.Context(), p, test.exec, nonce) })
		})
	}
}

func pgxWorker(ctx context.Context, p *pooler.Pooler, mode pgx.QueryExecMode, nonce string) error {
	config, err := pgx.ParseConfig(p.DSN("postgres", "postgres"))
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for i := range 50 {
		var text string
		var number int
		if err := conn.QueryRow(ctx, "SELECT $1::text, $2::int", nonce, i).Scan(&text, &number); err != nil {
			return err
		}
		if text != nonce || number != i {
			return fmt.Errorf("asked for %q %d, got %q %d", nonce, i, text, number)
		}
	}
	return pgxTransaction(ctx, conn, nonce)
}

func pgxTransaction(ctx context.Context, conn *pgx.Conn, nonce string) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	var pid int
	if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	for range 10 {
		var again int
		var text string
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid(), $1::text", nonce).Scan(&again, &text); err != nil {
			return err
		}
		if again != pid || text != nonce {
			return fmt.Errorf("in a block on backend %d, %q: got %d, %q", pid, nonce, again, text)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil
	}
	return pgxBatch(ctx, conn, nonce)
}

// pgxBatch sends ten statements in one pipeline, of which the last fails.
func pgxBatch(ctx context.Context, conn *pgx.Conn, nonce string) error {
	var batch pgx.Batch
	for range 9 {
		batch.Queue("SELECT $1::text", nonce)
	}
	batch.Queue("SELECT 1 / $1::int", 0)
	results := conn.SendBatch(ctx, &batch)
	for range 9 {
		var text string
		if err := results.QueryRow().Scan(&text); err != nil || text != nonce {
			return errors.Join(err, results.Close(), fmt.Errorf("batch of %q got %q", nonce, text))
		}
	}
	if err := results.Close(); err == nil {
		return errors.New("the failing statement of a batch gave no error")
	}
	return nil
}

func TestLibPQ(t *testing.T) {
	s := pgtest.Shared(t)
	for _, mode := range []string{"transaction", "session"} {
		for _, binary := range []string{"no", "yes"} {
			t.Run(mode+"/binary_parameters="+binary, func(t *testing.T) {
				p := pooler.Start(t, s, pooler.Options{Mode: mode, PoolSize: 16})
				workers(t, func(nonce string) error {
					return libPQWorker(p.DSN("postgres", "postgres")+"&binary_parameters="+binary, nonce)
				})
			})
		}
	}
}

func libPQWorker(dsn, nonce string) (err error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	for i := range 30 {
		var text string
		if err := db.QueryRow("SELECT $1::text", nonce).Scan(&text); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
		if text != nonce {
			return fmt.Errorf("asked for %q, got %q", nonce, text)
		}
	}
	statement, err := db.Prepare("SELECT $1::text || $2::text")
	if err != nil {
		return err
	}
	var text string
	err = errors.Join(statement.QueryRow(nonce, "!").Scan(&text), statement.Close())
	if err == nil && text != nonce+"!" {
		err = fmt.Errorf("prepared: got %q", text)
	}
	return err
}

// TestPythonDrivers runs scripts with psycopg2 (libpq, simple protocol) and asyncpg (named statements, binary).
func TestPythonDrivers(t *testing.T) {
	root, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	run(t, nil, "sh", filepath.Join(root, "internal", "scripts", "drivers.sh"))
	env := []string{"PYTHONPATH=" + filepath.Join(root, ".run", "drivers", "python"), "PYTHONDONTWRITEBYTECODE=1"}
	s := pgtest.Shared(t)
	for _, test := range []struct {
		script, mode string
		size         int
	}{
		{"psycopg2_client.py", "transaction", 2},
		{"psycopg2_client.py", "session", 8},
		{"asyncpg_client.py", "transaction", 8},
		{"asyncpg_client.py", "session", 8},
	} {
		t.Run(test.script+"/"+test.mode, func(t *testing.T) {
			p := pooler.Start(t, s, pooler.Options{Mode: test.mode, PoolSize: test.size})
			dsn := fmt.Sprintf("postgres://postgres@%s/postgres", p.Addr())
			out := run(t, env, "python3", filepath.Join("testdata", test.script), dsn)
			if out != "ok\n" {
				t.Errorf("the script printed %q", out)
			}
		})
	}
	if _, err := os.Stat("testdata/__pycache__"); err == nil {
		t.Error("Python left its cache in the tree")
	}
}
