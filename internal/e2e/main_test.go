// Package e2e runs pg-kinetic as users do: the real binary, real PostgreSQL, real programs and drivers. It has tests only.
//
// Tests whose name holds Storm run for seconds, or for minutes with -soak. E2E_TARGET=direct or pgbouncer (see package
// pooler) checks the tests themselves; what only pg-kinetic promises is then skipped.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

var soak = flag.Duration("soak", 0, "how long each storm lasts (default: seconds)")

func TestMain(m *testing.M) { pgtest.Main(m) }

// long is the length of a storm.
func long(short time.Duration) time.Duration {
	if *soak > 0 {
		return *soak
	}
	return short
}

// onlyKinetic skips a test of something that other targets do not promise.
func onlyKinetic(t *testing.T) {
	t.Helper()
	if pooler.Chosen() != pooler.Kinetic {
		t.Skip("promised by pg-kinetic only")
	}
}

func login(t *testing.T, p *pooler.Pooler, params ...string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", p.Addr(), append([]string{"user", "postgres", "database", "postgres"}, params...)...)
}

// ask fails the test on an error; it returns the first value of the first row.
func ask(t *testing.T, c *pgwire.Conn, sql string) string {
	t.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(rows) == 0 || len(rows[0]) == 0 {
		return ""
	}
	return rows[0][0]
}

// code is the SQLSTATE of an error that a server sent, or a description of another error.
func code(err error) string {
	if e, ok := err.(*pgwire.Error); ok {
		return e.Code()
	}
	return fmt.Sprint(err)
}

// until waits for a condition on another process; it polls, since nothing here could wake us.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// resident is the resident memory of a process in bytes; descriptors counts its open files.
func resident(t *testing.T, pid int) int {
	t.Helper()
	n, err := residentMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func residentMemory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// program is the path of one of PostgreSQL's client programs.
func program(s *pgtest.Server, name string) string { return filepath.Join(s.Bin, name) }

// steady checks that nothing has leaked: after a storm each backend of the pool can be used at the same time again, one
// client more has to wait and is served in its turn, and the descriptors return to what they were.
func steady(t *testing.T, s *pgtest.Server, p *pooler.Pooler, size, before int) {
	t.Helper()
	if p.Target != pooler.Kinetic {
		return
	}
	var holders []*pgwire.Conn
	for i := range size {
		c := login(t, p)
		if _, err := c.Exec("BEGIN"); err != nil {
			t.Fatalf("backend %d of %d cannot be used: %v", i+1, size, err)
		}
		holders = append(holders, c)
	}
	waiter := login(t, p)
	if err := waiter.Send(pgwire.Query("SELECT 'served'")); err != nil {
		t.Fatal(err)
	}
	if !waiter.Silent(50 * time.Millisecond) {
		t.Errorf("a client was served although all %d permits are held", size)
	}
	if n := s.Backends(t); n != size {
		t.Errorf("PostgreSQL has %d sessions, want %d", n, size)
	}
	for _, c := range holders {
		ask(t, c, "COMMIT")
		c.Close()
	}
	if all, err := waiter.ReadUntil('Z', 1); err != nil || !strings.Contains(pgwire.Transcript(all), "served") {
		t.Errorf("the waiter got %q, %v", pgwire.Transcript(all), err)
	}
	waiter.Close()
	settle(t, p, before+size)
}

// baseline is the number of descriptors that are open with one client and one backend.
func baseline(t *testing.T, p *pooler.Pooler) int {
	t.Helper()
	c := login(t, p)
	defer c.Close()
	ask(t, c, "SELECT 1")
	return descriptors(t, p.PID())
}

// settle waits until the pooler has no more descriptors open than that.
func settle(t *testing.T, p *pooler.Pooler, limit int) {
	t.Helper()
	var n int
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if n = descriptors(t, p.PID()); n <= limit {
			return
		}
	}
	out, _ := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", p.PID())).CombinedOutput()
	t.Errorf("%d descriptors are open, want at most %d:\n%s", n, limit, out)
}
