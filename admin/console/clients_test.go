package console

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/lib/pq"

	"pgkinetic/internal/pgwire"
)

func url(l *listener, user string) string {
	return fmt.Sprintf("postgres://%s@%s/pg_kinetic?sslmode=prefer", user, l.address)
}

func connectPgx(t *testing.T, l *listener) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url(l, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestPgxReadsEveryView: pgx asks for binary values and decodes them by their types.
// They are the rows' values, so that text and binary format mean the same.
func TestPgxReadsEveryView(t *testing.T) {
	c := connectPgx(t, listen(t, newFake()))
	for _, v := range views {
		binary := values(t, c, "SHOW "+v.name, pgx.QueryExecModeCacheStatement)
		text := values(t, c, "SHOW "+v.name, pgx.QueryExecModeSimpleProtocol)
		if len(binary) == 0 || !reflect.DeepEqual(binary, text) {
			t.Errorf("SHOW %s: binary %v, text %v", v.name, binary, text)
		}
	}
}

// values are the values of all rows as pgx decodes them.
func values(t *testing.T, c *pgx.Conn, query string, mode pgx.QueryExecMode) (all [][]any) {
	t.Helper()
	rows, err := c.Query(t.Context(), query, mode)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// TestPgxTypes: what the types of Go become, and large counts.
func TestPgxTypes(t *testing.T) {
	c := connectPgx(t, listen(t, newFake()))
	got := values(t, c, "SELECT 1, 'x', true, NULL, current_user", pgx.QueryExecModeCacheStatement)
	if want := [][]any{{int64(1), "x", true, nil, "admin"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	pools := values(t, c, "SHOW POOLS", pgx.QueryExecModeCacheStatement)
	want := newFake().Pools()[0]
	last := len(pools[0]) - 1
	if pools[0][0] != want.Database || pools[0][2] != int64(want.ClActive) || pools[0][last-1] != true || pools[0][last] != want.OldestCheckoutMs {
		t.Errorf("SHOW POOLS: %v, want %+v", pools[0], want)
	}
}

// TestPgxTransaction: pgx opens a transaction around a command, and prepares more
// commands than a session had statements if it kept few.
func TestPgxTransaction(t *testing.T) {
	control := newFake()
	c := connectPgx(t, listen(t, control))
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "PAUSE app"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("KILL_CLIENT %d", i), pgx.QueryExecModeCacheStatement); err != nil {
			t.Fatal(err)
		}
	}
	if did := control.did(); !strings.HasPrefix(did, `pause database "app"; kill_client 0;`) || !strings.HasSuffix(did, "kill_client 599") {
		t.Error(did)
	}
}

// TestExporter does what the Prometheus exporter for PgBouncer does, by lib/pq: the
// views that it reads, the columns that it insists on, and numbers that it can parse.
func TestExporter(t *testing.T) {
	db, err := sql.Open("postgres", connString(t, listen(t, newFake())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	numbers := map[string]string{
		"DATABASES":    "pool_size max_connections current_connections paused disabled",
		"STATS_TOTALS": "query_count query_time bytes_received bytes_sent wait_time xact_count xact_time client_parse_count server_parse_count bind_count",
		"POOLS": "cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used " +
			"sv_tested sv_login maxwait",
	}
	labels := map[string]string{"DATABASES": "name host port database force_user pool_mode", "STATS_TOTALS": "database", "POOLS": "database user"}
	for name, columns := range numbers {
		for _, row := range rowsOf(t, db, "SHOW "+name+";") {
			for column := range strings.FieldsSeq(columns) {
				if _, ok := row[column].(int64); !ok {
					t.Errorf("SHOW %s: %s is %v", name, column, row[column])
				}
			}
			for column := range strings.FieldsSeq(labels[name]) {
				if _, ok := row[column]; !ok {
					t.Errorf("SHOW %s has no column %s", name, column)
				}
			}
		}
	}
	for name, columns := range map[string]int{"STATS": 23, "VERSION": 1, "LISTS": 2, "CONFIG": 4} {
		if rows := rowsOf(t, db, "SHOW "+name+";"); len(rows) == 0 || len(rows[0]) != columns {
			t.Errorf("SHOW %s: %v", name, rows)
		}
	}
}

// connString is for lib/pq, a user of statistics.
func connString(t *testing.T, l *listener) string {
	t.Helper()
	host, port, _ := strings.Cut(l.address, ":")
	return fmt.Sprintf("host=%s port=%s user=stats dbname=pgbouncer sslmode=disable", host, port)
}

func rowsOf(t *testing.T, db *sql.DB, query string) (all []map[string]any) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		row := map[string]any{}
		for i, c := range columns {
			row[c] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// TestPqPrepares: lib/pq in the extended protocol, in a transaction.
func TestPqPrepares(t *testing.T) {
	db, err := sql.Open("postgres", connString(t, listen(t, newFake())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	st, err := tx.Prepare("SHOW VERSION")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var version string
		if err := st.QueryRow().Scan(&version); err != nil || version != "pg-kinetic "+testVersion {
			t.Fatalf("%q %v", version, err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestCancel: a CancelRequest ends a command that waits; what it has begun stays.
func TestCancel(t *testing.T) {
	for _, query := range []string{"PAUSE", "PAUSE ROUTE r", "WAIT_CLOSE app", "SUSPEND"} {
		control := newFake()
		control.block, control.begun, control.done = true, make(chan struct{}), make(chan struct{}, 1)
		c := connectPgx(t, listen(t, control))
		go func() {
			<-control.begun
			_ = c.PgConn().CancelRequest(context.Background())
		}()
		_, err := c.Exec(t.Context(), query)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != codeCanceled {
			t.Errorf("%s: %v", query, err)
		}
		<-control.done
		if _, err := c.Exec(t.Context(), "SHOW STATE"); err != nil {
			t.Errorf("after a cancelled %s: %v", query, err)
		}
	}
}

// TestLateCancel: a CancelRequest that finds no command running cancels none of the
// later ones.
func TestLateCancel(t *testing.T) {
	control := newFake()
	l := listen(t, control)
	c := connectPgx(t, l)
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := c.Exec(t.Context(), "PAUSE"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientGone: a command that waits ends when its client is gone.
func TestClientGone(t *testing.T) {
	control := newFake()
	control.block, control.begun, control.done = true, make(chan struct{}), make(chan struct{}, 1)
	l := listen(t, control)
	c := client(t, l, "admin")
	if err := c.Send(pgwire.Query("PAUSE")); err != nil {
		t.Fatal(err)
	}
	<-control.begun
	l.hangUp(1)
	select {
	case <-control.done:
	case <-time.After(time.Minute):
		t.Fatal("PAUSE goes on without its client")
	}
}
