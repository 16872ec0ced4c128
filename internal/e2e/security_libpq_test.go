package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// TestAU05ChannelBinding of libpq: over TLS it is there for those who require it, else libpq itself refuses.
func TestAU05ChannelBinding(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "bound", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "bound", "secret"))
	for _, f := range []struct {
		more string
		ok   bool
	}{
		{"sslmode=require channel_binding=require password=secret", true},
		{"sslmode=require channel_binding=prefer password=secret", true},
		{"sslmode=require channel_binding=disable password=secret", true},
		{"sslmode=disable channel_binding=require password=secret", false},
		{"sslmode=require channel_binding=require password=guessed", false},
	} {
		out, ok := psql(t, nil, conninfo(p, "user=bound", f.more), "SELECT current_user")
		if ok != f.ok || ok && out != "bound" {
			t.Errorf("%s: %q", f.more, out)
		}
	}
}

// newestLibpq is the environment in which psql uses the libpq of PostgreSQL 18. It comes with make python, and the test is
// skipped where it could not be had.
func newestLibpq(t *testing.T) []string {
	t.Helper()
	root, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ".run", "libpq", "lib")
	if _, err := os.Stat(filepath.Join(dir, "libpq.so.5")); errors.Is(err, os.ErrNotExist) {
		t.Skip("the libpq of PostgreSQL 18 is not there: make python brings it, where npm packages can be had")
	}
	return []string{"LD_LIBRARY_PATH=" + dir}
}

// TestNewestLibpq: what libpq has had since PostgreSQL 16 and 17, and protocol 3.2.
func TestNewestLibpq(t *testing.T) {
	t.Parallel()
	env := newestLibpq(t)
	x := secured(t)
	file := []string{"letters", "secret"}
	for _, letter := range []string{"s_", "m_", "p_"} {
		x.role(t, letter+"newest", "secret")
		file = append(file, letter+"newest", "secret")
	}
	p := x.door(t, nil, "--auth.method=hba", "--auth.hba-file="+tempFile(t, "hba.conf", whoMayLogIn), "--auth.users-file="+users(t, file...))
	const direct = "sslmode=verify-full sslnegotiation=direct "
	for _, f := range []struct {
		user, more string
		ok         bool
	}{
		{"s_newest", "sslmode=verify-full", true},
		{"s_newest", direct, true},
		{"s_newest", direct + "channel_binding=require require_auth=scram-sha-256", true},
		{"s_newest", "sslmode=require require_auth=scram-sha-256", true},
		{"s_newest", "sslmode=require require_auth=md5,password", false},
		{"s_newest", "sslmode=require require_auth=none", false},
		{"m_newest", "sslmode=require require_auth=md5", true},
		{"m_newest", "sslmode=require require_auth=!md5", false},
		{"p_newest", "sslmode=require require_auth=password", true},
		{"p_newest", "sslmode=require require_auth=scram-sha-256", false},
		{"s_newest", direct + "max_protocol_version=3.2", true},
		{"s_newest", "sslmode=require min_protocol_version=3.2 max_protocol_version=latest", true},
		{"s_newest", "sslmode=disable max_protocol_version=3.2", true},
	} {
		out, ok := psql(t, env, conninfo(p, "password=secret user="+f.user, "sslrootcert="+x.path("ca.crt"), f.more), "SELECT current_user")
		if ok != f.ok || ok && out != f.user {
			t.Errorf("%s %s: %q", f.user, f.more, out)
		}
	}
	for _, more := range []string{"sslmode=require max_protocol_version=3.2", direct} {
		x.interrupt(t, p, env, "s_newest", "password=secret sslrootcert="+x.path("ca.crt")+" "+more)
	}
}

// TestInterruptedPsql: Ctrl-C in psql cancels over TLS sessions, though its request comes in clear.
func TestInterruptedPsql(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "interrupted", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "interrupted", "secret"), "--tls.client-mode=require", "--server.max-clients=1")
	x.interrupt(t, p, nil, "interrupted", "password=secret sslmode=require")
}

func (x *site) interrupt(t *testing.T, p *pooler.Pooler, env []string, user, more string) {
	t.Helper()
	cmd := exec.Command(program(pgtest.Shared(t), "psql"), "-XqAt", "-d", conninfo(p, "user="+user, more), "-c", "SELECT pg_sleep(30)")
	cmd.Env = append(pooler.CleanEnvironment(), env...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.sleeps(t, user)
	started := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if text := out.String(); err == nil || !strings.Contains(text, "canceling statement due to user request") {
		t.Errorf("%s: %v, %q", more, err, text)
	}
	if d := time.Since(started); d > 5*time.Second {
		t.Errorf("%s: the cancel took %v", more, d)
	}
}

// TestCopyOverTLS in both directions, by psql, with TLS on both sides.
func TestCopyOverTLS(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "copier", "secret")
	p := x.door(t, nil, "--auth.users-file="+users(t, "copier", "secret"))
	x.Exec(t, "CREATE TABLE public.copied(a int, b text); GRANT ALL ON public.copied TO copier")
	t.Cleanup(func() { x.Exec(t, "DROP TABLE public.copied") })
	var rows strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&rows, "%d\t%s\n", i, strings.Repeat("x", i%300))
	}
	in, out := tempFile(t, "in", rows.String()), filepath.Join(t.TempDir(), "out")
	for _, command := range []string{`\copy public.copied FROM '` + in + `'`, `\copy (SELECT * FROM public.copied ORDER BY a) TO '` + out + `'`} {
		if text, ok := psql(t, nil, conninfo(p, "user=copier password=secret sslmode=require"), command); !ok {
			t.Fatal(text)
		}
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != rows.String() {
		t.Errorf("%d bytes came back of %d: %v", len(got), rows.Len(), err)
	}
}
