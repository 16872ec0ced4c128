package guide

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// RetryAfter tells how long to wait if the request was refused before it began.
func RetryAfter(err error) (time.Duration, bool) {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "53300" || !strings.HasPrefix(e.Message, "pg-kinetic: ") {
		return 0, false
	}
	n := 100
	_, _ = fmt.Sscanf(e.Hint, "retry after %d ms", &n) // without a hint n stays
	return time.Duration(n) * time.Millisecond, true
}

// Run calls work, one whole transaction.
func Run(ctx context.Context, work func() error, spend func() bool) error {
	for attempt := 0; ; attempt++ {
		err := work()
		wait, refused := RetryAfter(err)
		if !refused || attempt == 3 || !spend() {
			return err
		}
		select {
		case <-time.After(time.Duration(float64(wait<<attempt) * (1 + rand.Float64()))):
		case <-ctx.Done():
			return err
		}
	}
}

// oneAtATime is a pooler that runs one request and lets nobody wait.
func oneAtATime(t *testing.T) *pooler.Pooler {
	t.Helper()
	return start(t, pgtest.Shared(t), "capacity: {max_route_in_flight: 1, max_route_waiters: 0}", "--admission.route-key=database,user")
}

// foreign is the SQLSTATE of a refusal from somebody else.
const foreign = "do $$ begin raise exception using errcode = '53300'; end $$"

func TestGoOfTheGuide(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("retry_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "\n"+overload.block(t, "go", "RetryAfter")) {
		t.Error("the guide's Go is not what is tested here")
	}
	p := oneAtATime(t)
	busy := login(t, p)
	must(t, busy, "begin")
	config, err := pgx.ParseConfig(p.DSN("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	calls := 0
	query := func(sql string) func() error {
		calls = 0
		return func() error {
			if calls++; calls == 2 {
				must(t, busy, "commit")
			}
			_, err := conn.Exec(t.Context(), sql)
			return err
		}
	}
	if err := Run(t.Context(), query("select 1"), func() bool { return false }); err == nil || calls != 1 {
		t.Errorf("without a budget: %d calls, %v", calls, err)
	}
	if err := Run(t.Context(), query("select 1"), func() bool { return true }); err != nil || calls < 2 {
		t.Errorf("refused once: %d calls, %v", calls, err)
	}
	if err := Run(t.Context(), query(foreign), func() bool { return true }); err == nil || calls != 1 {
		t.Errorf("an error of PostgreSQL: %d calls, %v", calls, err)
	}
}

// client uses the guide's Python against a pooler that is busy until the second attempt.
const client = `
import sys

busy, conn = psycopg2.connect(sys.argv[1]), psycopg2.connect(sys.argv[1])
busy.autocommit = conn.autocommit = True
busy.cursor().execute("begin")
calls = []


def query(sql):
    def work():
        calls.append(sql)
        if len(calls) == 2:
            busy.cursor().execute("commit")
        conn.cursor().execute(sql)

    calls.clear()
    return work


def fails(sql, budget):
    try:
        run(query(sql), budget)
    except psycopg2.Error:
        return len(calls)
    raise AssertionError(sql)


empty = Budget()
while empty.spend():
    pass
assert empty.tokens < 1 and fails("select 1", empty) == 1
used = Budget()
run(query("select 1"), used)
assert len(calls) >= 2 and used.tokens == 10 - (len(calls) - 1)
assert fails(sys.argv[2], Budget()) == 1
print("ok")
`

func TestPythonOfTheGuide(t *testing.T) {
	t.Parallel()
	root, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", filepath.Join(root, "internal", "scripts", "drivers.sh")).CombinedOutput(); err != nil {
		t.Fatalf("installing psycopg2: %v\n%s", err, out)
	}
	script := write(t, "client.py", overload.block(t, "python", "def retry_after")+client)
	cmd := exec.Command("python3", script, oneAtATime(t).DSN("postgres", "postgres"), foreign)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, ".run", "drivers", "python"))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
