package e2e

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// psqlConsole starts the product and gives how to run psql on its console, with arguments and an input: what it prints, and its
// exit status.
func psqlConsole(t *testing.T) func(input string, args ...string) (printed string, status int) {
	t.Helper()
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: consoleFlags})
	return func(input string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program(s, "psql"), append([]string{"-X", "-d", p.DSN("postgres", "pg_kinetic")}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

const stateAsCSV = "key,value\nactive,yes\npaused,no\nsuspended,no\n"

// What an operator types: statements from a pipe, a file and the command line, other databases and back, expanded rows, a
// failed statement in the middle, autocommit off.
func TestConsolePsqlSession(t *testing.T) {
	psql := psqlConsole(t)
	file := filepath.Join(t.TempDir(), "commands.sql")
	if err := os.WriteFile(file, []byte("PAUSE;\n-- meanwhile\nRESUME;\nSHOW STATE;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		input  string
		args   []string
		want   []string // parts of what is printed, in this order
		status int
	}{
		{"show state;\nSHOW State\n;", []string{"--csv"}, []string{stateAsCSV + stateAsCSV}, 0},
		{"", []string{"-q", "-f", file, "--csv"}, []string{stateAsCSV}, 0},
		{"", []string{"-1", "-f", file, "--csv"}, []string{"PAUSE\nRESUME\n" + stateAsCSV}, 0},
		{"", []string{"--csv", "-c", "PAUSE; RESUME; SHOW STATE", "-c", "SHOW STATE"}, []string{stateAsCSV + stateAsCSV}, 0},
		{"SHOW STATE;", []string{"-xtA"}, []string{"key|active\nvalue|yes\n\nkey|paused"}, 0},
		{"SHOW VERSION \\gx\n", []string{"-A"}, []string{"version|pg-kinetic "}, 0},
		{"SHOW VERSION \\gset\n\\echo got :version\n", nil, []string{"got pg-kinetic "}, 0},
		{"\\conninfo\n\\c postgres\nSELECT 40 + 2;\n\\c pgbouncer\n\\conninfo\nSHOW STATE;\n", []string{"--csv"}, []string{
			`database "pg_kinetic" as user "postgres"`, `now connected to database "postgres"`, "42\n",
			`now connected to database "pgbouncer"`, `database "pgbouncer" as user "postgres"`, stateAsCSV,
		}, 0},
		{"\\c - app\nSHOW STATE;\nPAUSE;\n", []string{"--csv"}, []string{`as user "app"`, stateAsCSV, "permission denied"}, 0},
		{"SHOW STATES;\nSHOWS;\nSHOW STATE;\n", []string{"--csv"}, []string{`nearest: STATS`, "ERROR:", stateAsCSV}, 0},
		{"SHOWS;\nSHOW STATE;\n", []string{"-v", "ON_ERROR_STOP=1"}, []string{"nearest: SHOW"}, 3},
		{"", []string{"-c", "SHOWS"}, []string{"nearest: SHOW"}, 1},
		{"\\set AUTOCOMMIT off\nSHOW STATE;\nCOMMIT;\nSHOWS;\nSHOW STATE;\nROLLBACK;\nSHOW STATE;\n", []string{"--csv"}, []string{
			stateAsCSV, "COMMIT\n", "nearest: SHOW", "current transaction is aborted", "ROLLBACK\n", stateAsCSV,
		}, 0},
	} {
		got, status := psql(c.input, c.args...)
		rest := got
		for _, part := range c.want {
			var found bool
			if _, rest, found = strings.Cut(rest, part); !found {
				t.Errorf("%q %q prints\n%s\nwithout %q", c.args, c.input, got, part)
				break
			}
		}
		if status != c.status {
			t.Errorf("%q %q: exit status %d, want %d", c.args, c.input, status, c.status)
		}
	}
}

// A database that is paused, and from which RECONNECT parts, can be copied or dropped meanwhile; who comes waits, and is served
// after RESUME.
func TestConsolePsqlParts(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	s.Exec(t, "CREATE DATABASE original")
	p := pooler.Start(t, s, pooler.Options{Flags: append([]string{"--capacity.pool-min-idle=2"}, consoleFlags...)})
	connected := func() string {
		return s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'original'")
	}
	psql := func(commands string) {
		t.Helper()
		run(t, nil, program(s, "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", p.DSN("postgres", "pgbouncer"), "-c", commands)
	}
	c := pgwire.Login(t, "tcp", p.Addr(), "user", "postgres", "database", "original")
	ask(t, c, "SELECT 1")
	until(t, 20*time.Second, "idle backends", func() bool { return connected() == "2" || connected() == "3" })
	psql("PAUSE original; RECONNECT original; WAIT_CLOSE original")
	until(t, 20*time.Second, "PostgreSQL has seen them go", func() bool { return connected() == "0" })
	if err := c.Send(pgwire.Query("SELECT 42")); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "CREATE DATABASE copied TEMPLATE original")
	s.Exec(t, "DROP DATABASE copied")
	if got := connected(); got != "0" {
		t.Errorf("%s backends of a paused database", got)
	}
	psql("RESUME original")
	if all, err := c.ReadUntil('Z', 1); err != nil || len(all) != 4 {
		t.Errorf("after RESUME: %d messages, %v", len(all), err)
	}
}

// \watch asks again and again; it ends with psql.
func TestConsolePsqlWatch(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{Flags: consoleFlags})
	cmd := exec.CommandContext(t.Context(), program(s, "psql"), "-XAt", "-d", p.DSN("postgres", "pg_kinetic"))
	cmd.Stdin = strings.NewReader("SHOW STATE \\watch 0.1\n")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for shown := 0; shown < 3 && lines.Scan(); {
		if lines.Text() == "suspended|no" {
			shown++
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("it ended by itself: %v", err)
	}
	_, _ = stdout.Close(), cmd.Wait() // it was interrupted
}
