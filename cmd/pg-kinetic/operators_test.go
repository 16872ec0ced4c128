package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgtest"
)

// operated is a running process with console and HTTP.
type operated struct {
	*running
	http    int
	console *pgconn.PgConn
}

func operating(t *testing.T) *operated {
	t.Helper()
	o := &operated{}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	o.http = port
	o.running = serving(t, func(r *running, cmd *exec.Cmd) {
		r.settings += fmt.Sprintf("admin: {users: [postgres], listen: \"127.0.0.1:%d\"}\n", port)
		r.write("pg-kinetic.yaml", r.settings)
		cmd.Args = cmd.Args[:len(cmd.Args)-1] // --admin.listen=
	})
	cfg, err := pgconn.ParseConfig(fmt.Sprintf("postgres://postgres:first@127.0.0.1:%d/pg_kinetic?sslmode=verify-full&sslrootcert=%s", o.port, o.ca))
	if err != nil {
		t.Fatal(err)
	}
	if o.console, err = pgconn.ConnectConfig(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.console.Close(context.Background()) })
	return o
}

// command runs one on the console.
func (o *operated) command(sql string) (*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := o.console.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// get asks for a page on a port.
func get(port int, path string) (status int, text string, err error) {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// page is get of what must be there.
func (o *operated) page(path string) string {
	o.t.Helper()
	status, text, err := get(o.http, path)
	if err != nil || status != http.StatusOK {
		o.t.Fatalf("%s: %d, %v\n%s", path, status, err, text)
	}
	return text
}

// RELOAD is SIGHUP with an answer, and is counted.
func TestReloadOnTheConsole(t *testing.T) {
	t.Parallel()
	o := operating(t)
	if r, err := o.command("RELOAD"); err != nil || r.CommandTag.String() != "RELOAD" {
		t.Fatalf("%v, %v", r, err)
	}
	o.write("pg-kinetic.yaml", strings.Replace(o.settings, "hosts:", "hsots:", 1))
	_, err := o.command("RELOAD")
	if err == nil || !strings.Contains(err.Error(), o.config+":") || !strings.Contains(err.Error(), "hsots") {
		t.Errorf("a bad file: %v", err)
	}
	text := o.page("/metrics")
	for _, want := range []string{`pg_kinetic_config_reload_total{outcome="ok"} 1`, `pg_kinetic_config_reload_total{outcome="failed"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if !strings.Contains(o.page("/readyz"), `"ready":true`) {
		t.Error("a reload that failed has made it unready")
	}
}

// A reload moves HTTP to another address; where that is taken, nothing changes.
func TestReloadMovesHTTP(t *testing.T) {
	t.Parallel()
	o := operating(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	to := func(port int) error {
		o.write("pg-kinetic.yaml", strings.Replace(o.settings, fmt.Sprintf("listen: \"127.0.0.1:%d\"}", o.http), fmt.Sprintf("listen: \"127.0.0.1:%d\"}", port), 1))
		_, err := o.command("RELOAD")
		return err
	}
	if err := to(taken.Addr().(*net.TCPAddr).Port); err == nil || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("to a port in use: %v", err)
	}
	o.page("/livez")
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := to(port); err != nil {
		t.Fatal(err)
	}
	if status, _, err := get(port, "/livez"); status != http.StatusOK {
		t.Errorf("on the new address: %d, %v", status, err)
	}
	if status, _, err := get(o.http, "/livez"); err == nil {
		t.Errorf("on the old address: %d", status)
	}
}

// SHUTDOWN ends the process as SIGTERM does, and the pages answer until then.
func TestShutdownOnTheConsole(t *testing.T) {
	t.Parallel()
	o := operating(t)
	c, _ := o.enter("first")
	if _, err := c.Exec(context.Background(), "BEGIN").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.command("SHUTDOWN WAIT_FOR_CLIENTS"); err != nil {
		t.Fatal(err)
	}
	until(t, "it is not ready", func() bool {
		status, text, err := get(o.http, "/readyz")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(text, "draining")
	})
	if r, err := o.command("SHOW STATE"); err != nil || len(r.Rows) == 0 {
		t.Errorf("the console during the drain: %v", err)
	}
	o.page("/metrics")
	if _, err := c.Exec(context.Background(), "COMMIT").ReadAll(); err != nil {
		t.Error(err)
	}
	o.stopped = true
	if code, err := o.ExitCode(patience); code != 0 || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
}
