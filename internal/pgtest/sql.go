package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// adminName is the application_name of this package's own sessions; samples of pg_stat_activity leave it out.
const adminName = "pgtest"

// Connect opens a superuser session through the Unix socket, under this package's application_name.
func (s *Server) Connect() (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres database=postgres application_name=%s sslmode=disable",
		s.dir, s.Port, adminName))
}

// Query runs SQL as superuser in a session of its own and returns the rows of the last statement as text (NULL is "").
func (s *Server) Query(sql string) ([][]string, error) {
	conn, err := s.Connect()
	if err != nil {
		return nil, err
	}
	defer closeConn(conn)
	return Rows(conn, sql)
}

// Rows runs SQL in the given session and returns the rows of the last statement as text (NULL is "").
func Rows(conn *pgconn.PgConn, sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	if len(results) == 0 {
		return nil, nil
	}
	var rows [][]string
	for _, values := range results[len(results)-1].Rows {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the answers are read: how the session ends says nothing more
}

// Exec is Query that fails the test on an error.
func (s *Server) Exec(t testing.TB, sql string) [][]string {
	t.Helper()
	rows, err := s.Query(sql)
	if err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
	return rows
}

// Value is the first value of the first row.
func (s *Server) Value(t testing.TB, sql string) string {
	t.Helper()
	rows := s.Exec(t, sql)
	if len(rows) == 0 || len(rows[0]) == 0 {
		t.Fatalf("PostgreSQL: %s: no row", sql)
	}
	return rows[0][0]
}

// sessions is the condition for client sessions other than this package's.
const sessions = "backend_type = 'client backend' AND application_name <> '" + adminName + "'"

// Backends counts the client sessions that PostgreSQL has, this package's own excepted.
func (s *Server) Backends(t testing.TB) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE "+sessions), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// KillBackends terminates the client sessions that fulfil the condition on pg_stat_activity ("" = all), this package's own
// excepted, and returns how many.
func (s *Server) KillBackends(t testing.TB, where string) int {
	t.Helper()
	if where == "" {
		where = "true"
	}
	return len(s.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s AND (%s)", sessions, where)))
}

// HBA puts lines before the trusting ones of pg_hba.conf and reloads; none restores the start. The superuser postgres
// always gets in through the Unix socket, also to replicate. The lines are in force for every connection made after the return.
func (s *Server) HBA(t testing.TB, lines ...string) {
	t.Helper()
	if err := s.writeHBA(lines); err != nil {
		t.Fatal(err)
	}
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	const loaded = "SELECT extract(epoch FROM pg_conf_load_time())"
	before, err := Rows(conn, loaded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Rows(conn, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	// The postmaster reads the files before it tells the sessions, so a session that has seen the reload came after it.
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		after, err := Rows(conn, loaded)
		if err != nil {
			t.Fatal(err)
		}
		if after[0][0] != before[0][0] {
			return
		}
	}
	t.Fatal("PostgreSQL did not reload its configuration")
}

func (s *Server) writeHBA(lines []string) error {
	all := append([]string{"local all postgres trust", "local replication postgres trust"}, lines...)
	all = append(all, "local all all trust", "host all all 127.0.0.1/32 trust", "")
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(strings.Join(all, "\n")), 0o600)
}
