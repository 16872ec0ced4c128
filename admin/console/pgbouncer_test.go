package console

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// leftOut are columns of PgBouncer's that are not here: keys of SCRAM are shown to
// nobody.
var leftOut = map[string][]string{"FDS": {"scram_client_key", "scram_server_key"}}

// renamed are columns that PgBouncer 1.25 calls otherwise than 1.18.
var renamed = map[string]string{"reserve_pool": "reserve_pool_size"}

func namesOf(v viewOf) (names []string) {
	for _, c := range v.columns {
		names = append(names, c.Name)
	}
	return names
}

func viewNamed(t *testing.T, name string) viewOf {
	t.Helper()
	i := slices.IndexFunc(views, func(v viewOf) bool { return v.name == name })
	if i < 0 {
		t.Fatalf("no view %s", name)
	}
	return views[i]
}

// TestColumnsOfPgBouncer: where PgBouncer has a view, ours begins with its columns.
// The file lists them as of version 1.25.
func TestColumnsOfPgBouncer(t *testing.T) {
	text, err := os.ReadFile("testdata/pgbouncer-1.25.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		name, columns, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		seen++
		want := slices.DeleteFunc(strings.Fields(columns), func(c string) bool { return slices.Contains(leftOut[name], c) })
		got := namesOf(viewNamed(t, name))
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("SHOW %s has %v, not %v", name, got, want)
		}
	}
	if seen < 17 {
		t.Errorf("only %d views were compared", seen)
	}
}

// TestPgBouncerInstalled asks the PgBouncer of this machine, whichever version it
// is: its columns are ours, in the same order, with others between.
func TestPgBouncerInstalled(t *testing.T) {
	address := startPgBouncer(t)
	c := pgwire.Login(t, "tcp", address, "user", "admin", "database", "pgbouncer")
	compared := 0
	for _, v := range views {
		if err := c.Send(pgwire.Query("SHOW " + v.name)); err != nil {
			t.Fatal(err)
		}
		answers, err := c.ReadUntil('Z', 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range answers {
			if m.Type != 'T' {
				continue
			}
			compared++
			ours := namesOf(v)
			for column := range strings.FieldsSeq(strings.TrimPrefix(m.String(), "RowDescription ")) {
				column, _, _ = strings.Cut(column, ":")
				if now, ok := renamed[column]; ok {
					column = now
				}
				at := slices.Index(ours, column)
				if at < 0 && !slices.Contains(leftOut[v.name], column) {
					t.Errorf("SHOW %s: %s is not here, or in another place", v.name, column)
				}
				ours = ours[at+1:]
			}
		}
	}
	if compared < 15 {
		t.Errorf("PgBouncer has only %d of these views", compared)
	}
}

// startPgBouncer starts PgBouncer for its console; nothing of PostgreSQL is needed.
func startPgBouncer(t *testing.T) (address string) {
	t.Helper()
	program, err := pooler.PgBouncerProgram()
	if err != nil {
		t.Skip(err)
	}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // it runs as somebody else when we are root
		t.Fatal(err)
	}
	base := filepath.Join(dir, "pgbouncer")
	ini := fmt.Sprintf("[databases]\n* =\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\nadmin_users = admin\n", port)
	if err := os.WriteFile(base+".ini", []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, base+".ini")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Unprivileged()}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	p, err := pooler.Launch(cmd, base, func() bool {
		c, err := pgwire.Open("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return address
}
