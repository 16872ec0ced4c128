package e2e

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// consoleFlags: postgres may do everything on the console, app may look.
var consoleFlags = []string{"--admin.users=postgres", "--admin.stats-users=app"}

// TestConsolePsql: psql on the console, by both of its names.
func TestConsolePsql(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: consoleFlags})
	for _, database := range []string{"pg_kinetic", "pgbouncer"} {
		psql := func(sql string) string {
			t.Helper()
			out := run(t, nil, program(s, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", p.DSN("postgres", database), "-c", sql)
			return strings.TrimSpace(out)
		}
		if got := psql("SHOW STATE"); got != "active|yes\npaused|no\nsuspended|no" {
			t.Errorf("%q", got)
		}
		if got := psql("PAUSE; SHOW STATE; RESUME;"); got != "active|no\npaused|yes\nsuspended|no" {
			t.Errorf("%q", got)
		}
		if got := psql("SHOW HELP"); !strings.Contains(got, "SHOW BACKPRESSURE") && !strings.Contains(got, "|BACKPRESSURE") {
			t.Errorf("%q", got)
		}
		if got := psql("SHOW VERSION"); !strings.HasPrefix(got, "pg-kinetic ") {
			t.Errorf("%q", got)
		}
	}
}

// TestConsoleStats: a user of statistics reads what exporters read, and commands nothing.
func TestConsoleStats(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: consoleFlags})
	ask(t, login(t, p), "SELECT 1")
	db, err := sql.Open("postgres", p.DSN("app", "pgbouncer"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, view := range []string{"STATS", "STATS_TOTALS", "POOLS", "DATABASES", "LISTS", "CONFIG", "VERSION"} {
		rows, err := db.Query("SHOW " + view + ";")
		if err != nil {
			t.Fatalf("SHOW %s: %v", view, err)
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
			t.Errorf("SHOW %s: %d rows, %v", view, n, err)
		}
	}
	for _, command := range []string{"PAUSE", "KILL postgres", "RELOAD", "SHUTDOWN", "SET capacity.max_route_in_flight = 1", "SHOW FDS"} {
		if _, err := db.Exec(command); !strings.Contains(errorText(err), "permission denied") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestConsolePause: a PAUSE waits for what runs; cancelled, it stays, and RESUME lets clients go on.
func TestConsolePause(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: consoleFlags})
	busy := login(t, p)
	ask(t, busy, "BEGIN")
	console, err := pgx.Connect(t.Context(), p.DSN("postgres", "pg_kinetic"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = console.Close(context.Background()) }()

	ended := make(chan error, 1)
	go func() {
		_, err := console.Exec(context.Background(), "PAUSE")
		ended <- err
	}()
	other, err := pgx.Connect(t.Context(), p.DSN("postgres", "pg_kinetic"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	paused := func() bool {
		rows, err := other.Query(t.Context(), "SHOW STATE")
		if err != nil {
			t.Fatal(err)
		}
		states, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			t.Fatal(err)
		}
		return states[1]["value"] == "yes"
	}
	until(t, 20*time.Second, "paused", paused)
	select {
	case err := <-ended:
		t.Fatalf("PAUSE returned while a transaction was open: %v", err)
	default:
	}
	if err := console.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](<-ended); !ok || e.Code != "57014" {
		t.Fatalf("a cancelled PAUSE: %v", e)
	}
	if !paused() {
		t.Error("a cancelled PAUSE has been taken back")
	}
	ask(t, busy, "COMMIT")
	if _, err := console.Exec(t.Context(), "RESUME"); err != nil {
		t.Fatal(err)
	}
	ask(t, busy, "SELECT 1")
}
