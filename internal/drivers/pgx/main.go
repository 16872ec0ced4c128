// Command pgx exercises github.com/jackc/pgx in one of its five ways to execute a query, named by the argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"pgkinetic/internal/drivers/report"
)

var modes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement,
	"cache_describe":  pgx.QueryExecModeCacheDescribe,
	"describe_exec":   pgx.QueryExecModeDescribeExec,
	"exec":            pgx.QueryExecModeExec,
	"simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

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
		{Name: "batch", Run: with(batch)},
		{Name: "login", Run: login},
		{Name: "console", Run: console},
	}))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/jackc/pgx/v5" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

// login: every method that applies, with TLS and without; a wrong password is told as one.
func login(ctx context.Context) error {
	in := os.Getenv("DRIVERS_CERTIFICATES")
	secure := "sslmode=verify-full&sslrootcert=" + in + "/ca.crt"
	certificate := secure + "&sslcert=" + in + "/client.crt&sslkey=" + in + "/client.key"
	for _, way := range [][3]string{
		{"by_scram", "secret", "sslmode=disable"},
		{"by_scram", "secret", secure},
		{"by_scram", "secret", secure + "&channel_binding=require"},
		{"by_md5", "secret", "sslmode=disable"},
		{"by_md5", "secret", secure},
		{"by_password", "secret", secure},
		{"by_cert", "", certificate},
		{"by_scram", "guessed", secure},
	} {
		user, password, options := way[0], way[1], way[2]
		conn, err := pgx.Connect(ctx, strings.Replace(report.URL(), "postgres@", user+":"+password+"@", 1)+"?"+options)
		var refused *pgconn.PgError
		if password == "guessed" {
			if !errors.As(err, &refused) || refused.Code != "28P01" {
				return fmt.Errorf("a wrong password: %w", err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", user, options, err)
		}
		if err := errors.Join(expect(ctx, conn, user, "SELECT current_user::text"), conn.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// console: views and a refusal on the console of the same port.
func console(ctx context.Context) error {
	conn, err := connectTo(ctx, report.ConsoleURL())
	if err != nil {
		return err
	}
	for range 3 {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		for _, view := range []string{"POOLS", "CLIENTS", "SERVERS", "LISTS", "BACKPRESSURE", "LIMITS"} {
			rows, err := tx.Query(ctx, "SHOW "+view)
			if err != nil {
				return err
			}
			all, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil || len(all) == 0 {
				return fmt.Errorf("SHOW %s: %v, %w", view, all, err)
			}
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "SHOW NOTHING")
	return errors.Join(wants("42601", err), conn.Close(ctx))
}

func connect(ctx context.Context) (*pgx.Conn, error) { return connectTo(ctx, report.URL()) }

func connectTo(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url + "?sslmode=disable")
	if err != nil {
		return nil, err
	}
	mode, ok := modes[report.Variant()]
	if !ok {
		return nil, fmt.Errorf("no mode %q", report.Variant())
	}
	config.DefaultQueryExecMode = mode
	return pgx.ConnectConfig(ctx, config)
}

func with(scenario func(context.Context, *pgx.Conn) error) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		return errors.Join(scenario(ctx, conn), conn.Close(ctx))
	}
}

// expect compares the only value of a query.
func expect[T any](ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, want T, sql string, args ...any,
) error {
	var got T
	if err := q.QueryRow(ctx, sql, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", sql, got, want)
	}
	return nil
}

// wants checks the SQLSTATE of an error.
func wants(state string, err error) error {
	var failure *pgconn.PgError
	if !errors.As(err, &failure) || failure.Code != state {
		return fmt.Errorf("want SQLSTATE %s, got %v", state, err)
	}
	return nil
}

func prepare(ctx context.Context, conn *pgx.Conn) error {
	for name, sql := range map[string]string{"a": "SELECT $1::text || '/a', pg_backend_pid()", "b": "SELECT $1::text || '/b', pg_backend_pid()"} {
		if _, err := conn.Prepare(ctx, name, sql); err != nil {
			return err
		}
	}
	pids := map[int]bool{}
	for i := range 60 {
		for _, name := range []string{"a", "b", "SELECT $1::text || '/c', pg_backend_pid()"} {
			want := fmt.Sprintf("%d/%s", i, name[:1])
			if len(name) > 1 {
				want = fmt.Sprintf("%d/c", i)
			}
			var got string
			var pid int
			if err := conn.QueryRow(ctx, name, fmt.Sprint(i)).Scan(&got, &pid); err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			pids[pid] = true
		}
	}
	report.Backends(pids)
	return conn.Deallocate(ctx, "a")
}

func workers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for n := range 8 {
		group.Go(func() error {
			return with(func(ctx context.Context, conn *pgx.Conn) error {
				for i := range 20 {
					nonce := fmt.Sprintf("worker %d round %d", n, i)
					if err := expect(ctx, conn, nonce, "SELECT $1::text", nonce); err != nil {
						return err
					}
					if err := expect(ctx, conn, n*1000+i, fmt.Sprintf("SELECT %d + $1::int", n*1000), i); err != nil {
						return err
					}
				}
				return nil
			})(ctx)
		})
	}
	return group.Wait()
}

func failing(ctx context.Context, conn *pgx.Conn) error {
	for i := range 5 {
		var n int
		if err := wants("22012", conn.QueryRow(ctx, "SELECT 1 / $1::int", 0).Scan(&n)); err != nil {
			return err
		}
		if err := wants("42P01", conn.QueryRow(ctx, "SELECT $1::int FROM no_such_table", i).Scan(&n)); err != nil {
			return err
		}
		if err := expect(ctx, conn, i, "SELECT $1::int", i); err != nil {
			return err
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SELECT 1 / $1::int", 0)
	if err := wants("22012", err); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SELECT $1::int", 1)
	if err := wants("25P02", err); err != nil {
		return err
	}
	return errors.Join(tx.Rollback(ctx), expect(ctx, conn, 7, "SELECT $1::int", 7))
}

func transaction(ctx context.Context, conn *pgx.Conn) error {
	count := func(want int) error {
		return expect(ctx, conn, want, "SELECT count(*)::int FROM items WHERE id BETWEEN $1 AND $2", 1, 99)
	}
	for i, commit := range []bool{false, true} {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		var pid int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		for id := range 5 {
			if _, err := tx.Exec(ctx, "INSERT INTO items VALUES ($1, $2)", id+1, "row"); err != nil {
				return err
			}
			if err := expect(ctx, tx, pid, "SELECT pg_backend_pid()"); err != nil {
				return err
			}
		}
		inner, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return err
		}
		_, err = inner.Exec(ctx, "INSERT INTO items VALUES ($1, $2)", 1, "again")
		if err := errors.Join(wants("23505", err), inner.Rollback(ctx)); err != nil {
			return err
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := errors.Join(end(ctx), count(i*5)); err != nil {
			return err
		}
	}
	return nil
}

func copying(ctx context.Context, conn *pgx.Conn) error {
	var rows [][]any
	for i := range 2000 {
		rows = append(rows, []any{1000 + i, fmt.Sprintf("copied\t%d", i)})
	}
	n, err := conn.CopyFrom(ctx, pgx.Identifier{"items"}, []string{"id", "body"}, pgx.CopyFromRows(rows))
	if err != nil || n != 2000 {
		return fmt.Errorf("copied %d rows: %w", n, err)
	}
	var out strings.Builder
	if _, err := conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT"); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2000 || lines[1999] != `copied\t1999` {
		return fmt.Errorf("COPY TO gave %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"items"}, []string{"id", "body"}, pgx.CopyFromRows(rows))
	return errors.Join(wants("23505", err), expect(ctx, conn, 1, "SELECT $1::int", 1))
}

// cancelling uses a cancel request and goes on with the session; a context that ends would close it.
func cancelling(ctx context.Context, conn *pgx.Conn) error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep($1::int)", 30)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return errors.Join(wants("57014", err), expect(ctx, conn, 1, "SELECT $1::int", 1))
		case <-time.After(100 * time.Millisecond): // until it hits
			if err := conn.PgConn().CancelRequest(ctx); err != nil {
				return err
			}
		}
	}
}

func types(ctx context.Context, conn *pgx.Conn) error {
	when := time.Date(2024, 2, 29, 23, 59, 58, 123456000, time.UTC)
	var gotTime time.Time
	if err := conn.QueryRow(ctx, "SELECT $1::timestamptz", when).Scan(&gotTime); err != nil || !gotTime.Equal(when) {
		return fmt.Errorf("timestamptz: got %v, %w", gotTime, err)
	}
	var none *string
	var gotMap map[string]any
	if err := conn.QueryRow(ctx, "SELECT $1::jsonb", `{"k": [1, "ü"]}`).Scan(&gotMap); err != nil || fmt.Sprint(gotMap) != "map[k:[1 ü]]" {
		return fmt.Errorf("jsonb: got %v, %w", gotMap, err)
	}
	var list []string
	if err := conn.QueryRow(ctx, "SELECT $1::text[]", []string{"a", `b"\,`}).Scan(&list); err != nil || !slices.Equal(list, []string{"a", `b"\,`}) {
		return fmt.Errorf("text[]: got %q, %w", list, err)
	}
	return errors.Join(
		expect(ctx, conn, int64(-1<<63), "SELECT $1::int8", int64(-1<<63)),
		expect(ctx, conn, 0.1, "SELECT $1::float8", 0.1),
		expect(ctx, conn, true, "SELECT $1::bool", true),
		expect(ctx, conn, "grün 漢字 🐘", "SELECT $1::text", "grün 漢字 🐘"),
		expect(ctx, conn, []byte{0, 1, 255, '\\'}, "SELECT $1::bytea", []byte{0, 1, 255, '\\'}),
		expect(ctx, conn, "12345678901234567890.000000001", "SELECT $1::numeric::text", "12345678901234567890.000000001"),
		expect(ctx, conn, "6f8a1f5e-0000-4000-8000-0123456789ab", "SELECT $1::uuid::text", "6f8a1f5e-0000-4000-8000-0123456789ab"),
		expect(ctx, conn, none, "SELECT $1::text", none),
	)
}

func listening(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN news"); err != nil {
		return err
	}
	other, err := connect(ctx)
	if err != nil {
		return err
	}
	for i := range 3 {
		want := fmt.Sprintf("item %d", i)
		if _, err := other.Exec(ctx, "SELECT pg_notify($1, $2)", "news", want); err != nil {
			return err
		}
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel != "news" || n.Payload != want {
			return fmt.Errorf("got %+v, want %q", n, want)
		}
		if err := expect(ctx, conn, i, "SELECT $1::int", i); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "UNLISTEN news")
	return errors.Join(err, other.Close(ctx))
}

func setting(ctx context.Context, conn *pgx.Conn) error {
	other, err := connect(ctx)
	if err != nil {
		return err
	}
	for _, sql := range []string{"SET search_path = tenant", "SET TimeZone = 'Asia/Tokyo'"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for range 20 {
		err := errors.Join(
			expect(ctx, conn, "tenant", "SELECT name FROM place"),
			expect(ctx, conn, "Asia/Tokyo", "SELECT current_setting($1)", "TimeZone"),
			expect(ctx, other, "public", "SELECT name FROM place"),
			expect(ctx, other, "UTC", "SELECT current_setting($1)", "TimeZone"),
		)
		if err != nil {
			return err
		}
	}
	return other.Close(ctx)
}

func batch(ctx context.Context, conn *pgx.Conn) error {
	for round := range 5 {
		var b pgx.Batch
		for i := range 20 {
			b.Queue("SELECT $1::int", i).QueryRow(func(row pgx.Row) error {
				var got int
				if err := row.Scan(&got); err != nil || got != i {
					return fmt.Errorf("statement %d gave %d, %w", i, got, err)
				}
				return nil
			})
		}
		if err := conn.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		b = pgx.Batch{}
		b.Queue("INSERT INTO items VALUES ($1, $2)", 500+round, "batch")
		b.Queue("SELECT 1 / $1::int", 0)
		if err := wants("22012", conn.SendBatch(ctx, &b).Close()); err != nil {
			return err
		}
		if err := expect(ctx, conn, 0, "SELECT count(*)::int FROM items WHERE id = $1", 500+round); err != nil {
			return err
		}
	}
	return nil
}
