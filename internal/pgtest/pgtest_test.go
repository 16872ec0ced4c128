package pgtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const childVariable = "PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		leaveServerBehind()
	}
	Main(m)
}

// leaveServerBehind is a process that starts a server, tells where, and waits to be killed.
func leaveServerBehind() {
	s, err := New()
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.dir, s.process.cmd.Process.Pid)
	select {}
}

func TestQueryAndCounts(t *testing.T) {
	s := Shared(t)
	before := s.Logins()
	conn, err := pgconn.Connect(t.Context(), s.DSN("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	if n := s.Backends(t); n != 1 {
		t.Errorf("Backends() = %d with one client", n)
	}
	if n := s.Logins() - before; n != 1 {
		t.Errorf("Logins() grew by %d with one login", n)
	}
	if n := s.KillBackends(t, "pid = 0"); n != 0 {
		t.Errorf("KillBackends of nobody = %d", n)
	}
	if n := s.KillBackends(t, ""); n != 1 {
		t.Errorf("KillBackends = %d with one client", n)
	}
	if _, err := Rows(conn, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("the killed session's query gave %v, want SQLSTATE 57P01", err)
	}
	if got := s.Exec(t, "SELECT 1, NULL; SELECT 'a', 2 UNION ALL SELECT 'b', 3"); fmt.Sprint(got) != "[[a 2] [b 3]]" {
		t.Errorf("rows = %v", got)
	}
}

func TestRestartKeepsDataAndPort(t *testing.T) {
	s := Start(t, MaxConnections(17), Setting("application_name", "it's"))
	s.Exec(t, "CREATE TABLE kept (x int)")
	port := s.Port
	for _, mode := range []Mode{Fast, Smart, Immediate} {
		if err := s.Restart(mode); err != nil {
			t.Fatal(err)
		}
		s.Exec(t, "SELECT * FROM kept")
	}
	if s.Port != port {
		t.Errorf("port %d became %d", port, s.Port)
	}
	if got := s.Value(t, "SHOW max_connections"); got != "17" {
		t.Errorf("max_connections = %s", got)
	}
	if err := s.Stop(Fast); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query("SELECT 1"); err == nil {
		t.Error("a stopped server answered")
	}
	if err := s.StartAgain(); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "SELECT * FROM kept")
}

func TestHBA(t *testing.T) {
	s := Shared(t)
	s.Exec(t, "CREATE ROLE scram LOGIN PASSWORD 'right'")
	s.HBA(t, "host all scram 127.0.0.1/32 scram-sha-256")
	defer s.HBA(t)
	login := func(password string) error {
		conn, err := pgconn.Connect(t.Context(), s.DSN("scram", "postgres")+"&password="+password)
		if err == nil {
			closeConn(conn)
		}
		return err
	}
	if err := login("right"); err != nil {
		t.Error(err)
	}
	if err := login("wrong"); err == nil || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("a wrong password gave %v, want SQLSTATE 28P01", err)
	}
	s.HBA(t)
	if err := login("wrong"); err != nil {
		t.Errorf("after HBA() without lines: %v", err)
	}
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var dir string
	var pid int
	if _, err := fmt.Sscan(line, &dir, &pid); err != nil {
		t.Fatalf("child said %q: %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	deadline := time.Now().Add(startTimeout)
	for {
		_, dirErr := os.Stat(dir)
		if os.IsNotExist(dirErr) && syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the process was killed: directory %v, postmaster %v", dirErr, syscall.Kill(pid, 0))
		}
		time.Sleep(10 * time.Millisecond) // polling another process: nothing here could wake us
	}
}
