// Command pq exercises github.com/lib/pq through database/sql, with and without binary_parameters.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"pgkinetic/internal/drivers/report"
)

func main() {
	os.Exit(report.Run(version(), []report.Scenario{
		{Name: "prepare", Run: with(prepare)},
		{Name: "workers", Run: workers},
		{Name: "error", Run: with(failing)},
		{Name: "transaction", Run: with(transaction)},
		{Name: "copy", Run: with(copying)},
		{Name: "cancel", Run: with(cancelling)},
		{Name: "types", Run: with(types)},
		{Name: "listen", Run: with(listening)},
		{Name: "setting", Run: with(setting)},
	}))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/lib/pq" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

func dsn() string { return report.URL() + "?sslmode=disable&connect_timeout=20&" + report.Variant() }

// with gives the scenario a pool of one connection.
func with(scenario func(context.Context, *sql.DB) error) func(context.Context) error {
	return func(ctx context.Context) error {
		db, err := sql.Open("postgres", dsn())
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		return errors.Join(scenario(ctx, db), db.Close())
	}
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func expect[T comparable](ctx context.Context, q querier, want T, query string, args ...any) error {
	var got T
	if err := q.QueryRowContext(ctx, query, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", query, got, want)
	}
	return nil
}

func wants(state string, err error) error {
	var failure *pq.Error
	if !errors.As(err, &failure) || string(failure.Code) != state {
		return fmt.Errorf("want SQLSTATE %s, got %v", state, err)
	}
	return nil
}

func prepare(ctx context.Context, db *sql.DB) error {
	pids := map[int]bool{}
	var statements []*sql.Stmt
	for _, name := range []string{"a", "b"} {
		statement, err := db.PrepareContext(ctx, "SELECT $1::text || '/"+name+"', pg_backend_pid()")
		if err != nil {
			return err
		}
		statements = append(statements, statement)
	}
	for i := range 60 {
		for n, statement := range statements {
			var got string
			var pid int
			if err := statement.QueryRowContext(ctx, fmt.Sprint(i)).Scan(&got, &pid); err != nil {
				return err
			}
			if want := fmt.Sprintf("%d/%c", i, 'a'+n); got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			pids[pid] = true
		}
		if err := expect(ctx, db, i+1, "SELECT $1::int + 1", i); err != nil {
			return err
		}
	}
	report.Backends(pids)
	return errors.Join(statements[0].Close(), statements[1].Close())
}

func workers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for n := range 8 {
		group.Go(func() error {
			return with(func(ctx context.Context, db *sql.DB) error {
				statement, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT '%d ' || $1::text", n))
				if err != nil {
					return err
				}
				for i := range 20 {
					var got string
					if err := statement.QueryRowContext(ctx, fmt.Sprint(i)).Scan(&got); err != nil {
						return err
					}
					if want := fmt.Sprintf("%d %d", n, i); got != want {
						return fmt.Errorf("got %q, want %q", got, want)
					}
					nonce := fmt.Sprintf("worker %d round %d", n, i)
					if err := expect(ctx, db, nonce, "SELECT $1::text", nonce); err != nil {
						return err
					}
				}
				return statement.Close()
			})(ctx)
		})
	}
	return group.Wait()
}

func failing(ctx context.Context, db *sql.DB) error {
	for i := range 5 {
		var n int
		if err := wants("22012", db.QueryRowContext(ctx, "SELECT 1 / $1::int", 0).Scan(&n)); err != nil {
			return err
		}
		_, err := db.PrepareContext(ctx, "SELECT $1::int FROM no_such_table")
		if err := errors.Join(wants("42P01", err), expect(ctx, db, i, "SELECT $1::int", i)); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "SELECT 1 / $1::int", 0)
	if err := wants("22012", err); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "SELECT $1::int", 1)
	return errors.Join(wants("25P02", err), tx.Rollback(), expect(ctx, db, 7, "SELECT $1::int", 7))
}

func transaction(ctx context.Context, db *sql.DB) error {
	for i, commit := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return err
		}
		var pid int
		if err := tx.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		for id := range 5 {
			if _, err := tx.ExecContext(ctx, "INSERT INTO items VALUES ($1, $2)", id+1, "row"); err != nil {
				return err
			}
			if err := expect(ctx, tx, pid, "SELECT pg_backend_pid()"); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "SAVEPOINT inner_block"); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO items VALUES ($1, 'again')", 1)
		if err := wants("23505", err); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO inner_block"); err != nil {
			return err
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := errors.Join(end(), expect(ctx, db, i*5, "SELECT count(*) FROM items WHERE id BETWEEN $1 AND 99", 1)); err != nil {
			return err
		}
	}
	return nil
}

// copying sends rows into a table; the library has no COPY TO.
func copying(ctx context.Context, db *sql.DB) error {
	in := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		rows, err := tx.PrepareContext(ctx, "COPY items (id, body) FROM STDIN")
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		for i := range 2000 {
			if _, err := rows.ExecContext(ctx, 1000+i, fmt.Sprintf("copied\t%d", i)); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if _, err := rows.ExecContext(ctx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return errors.Join(rows.Close(), tx.Commit())
	}
	return errors.Join(in(), wants("23505", in()), expect(ctx, db, 2000, "SELECT count(*) FROM items WHERE id >= $1", 1000))
}

// cancelling ends a context, upon which the driver sends a cancel request; the pool opens another session then.
func cancelling(ctx context.Context, db *sql.DB) error {
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := db.ExecContext(short, "SELECT pg_sleep($1)", 30)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			if err := wants("57014", err); err != nil {
				return err
			}
		}
		if err := expect(ctx, db, 1, "SELECT $1::int", 1); err != nil {
			return err
		}
	}
	return nil
}

func types(ctx context.Context, db *sql.DB) error {
	when := time.Date(2024, 2, 29, 23, 59, 58, 123456000, time.UTC)
	var gotTime time.Time
	if err := db.QueryRowContext(ctx, "SELECT $1::timestamptz", when).Scan(&gotTime); err != nil || !gotTime.Equal(when) {
		return fmt.Errorf("timestamptz: got %v, %w", gotTime, err)
	}
	var list pq.StringArray
	want := []string{"a", `b"\,`}
	if err := db.QueryRowContext(ctx, "SELECT $1::text[]", pq.Array(want)).Scan(&list); err != nil || !slices.Equal(list, want) {
		return fmt.Errorf("text[]: got %q, %w", list, err)
	}
	var octets []byte
	if err := db.QueryRowContext(ctx, "SELECT $1::bytea", []byte{0, 1, 255, '\\'}).Scan(&octets); err != nil || string(octets) != "\x00\x01\xff\\" {
		return fmt.Errorf("bytea: got %q, %w", octets, err)
	}
	return errors.Join(
		expect(ctx, db, int64(-1<<63), "SELECT $1::int8", int64(-1<<63)),
		expect(ctx, db, 0.1, "SELECT $1::float8", 0.1),
		expect(ctx, db, true, "SELECT $1::bool", true),
		expect(ctx, db, "grün 漢字 🐘", "SELECT $1::text", "grün 漢字 🐘"),
		expect(ctx, db, "12345678901234567890.000000001", "SELECT $1::numeric", "12345678901234567890.000000001"),
		expect(ctx, db, "6f8a1f5e-0000-4000-8000-0123456789ab", "SELECT $1::uuid", "6f8a1f5e-0000-4000-8000-0123456789ab"),
		expect(ctx, db, `{"k": [1, "ü"]}`, "SELECT $1::jsonb", `{"k": [1, "ü"]}`),
		expect(ctx, db, sql.NullString{}, "SELECT $1::text", nil),
	)
}

func listening(ctx context.Context, db *sql.DB) error {
	listener := pq.NewListener(dsn(), time.Second, time.Minute, nil)
	if err := listener.Listen("news"); err != nil {
		return err
	}
	for i := range 3 {
		if _, err := db.ExecContext(ctx, "SELECT pg_notify($1, $2)", "news", fmt.Sprint("item ", i)); err != nil {
			return err
		}
		select {
		case n := <-listener.Notify:
			if n == nil || n.Channel != "news" || n.Extra != fmt.Sprint("item ", i) {
				return fmt.Errorf("got %+v", n)
			}
		case <-ctx.Done():
			return errors.New("no notification")
		}
		if err := listener.Ping(); err != nil {
			return err
		}
	}
	return errors.Join(listener.Unlisten("news"), listener.Close())
}

func setting(ctx context.Context, db *sql.DB) error {
	return with(func(ctx context.Context, other *sql.DB) error {
		for _, query := range []string{"SET search_path = tenant", "SET TimeZone = 'Asia/Tokyo'"} {
			if _, err := db.ExecContext(ctx, query); err != nil {
				return err
			}
		}
		for range 20 {
			err := errors.Join(
				expect(ctx, db, "tenant", "SELECT name FROM place"),
				expect(ctx, db, "Asia/Tokyo", "SELECT current_setting($1)", "TimeZone"),
				expect(ctx, other, "public", "SELECT name FROM place"),
				expect(ctx, other, "UTC", "SELECT current_setting($1)", "TimeZone"),
			)
			if err != nil {
				return err
			}
		}
		return nil
	})(ctx)
}
