package targets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

func definition(t *testing.T, name string) Definition {
	t.Helper()
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("there is no %s", name)
	return Definition{}
}

func TestWhichPgBouncerTracksStatements(t *testing.T) {
	d := definition(t, "pgbouncer")
	for _, c := range []struct {
		report, version string
		tracks          bool
	}{
		{"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n", "1.18.0", false},
		{"PgBouncer 1.20.1\n", "1.20.1", false},
		{"PgBouncer 1.21.0\n", "1.21.0", true},
		{"PgBouncer 1.25.1\n", "1.25.1", true},
		{"PgBouncer 2.0\n", "2.0", true},
	} {
		version, err := d.readVersion(c.report)
		if err != nil || version != c.version || d.tracks(version) != c.tracks {
			t.Errorf("%q: %q, %v, %v; want %q, %v", c.report, version, d.tracks(version), err, c.version, c.tracks)
		}
		ini, err := fill("ini", d.Files["pgbouncer.ini"], Place{Version: version})
		if err != nil || strings.Contains(ini, "max_prepared_statements") != c.tracks {
			t.Errorf("%s: %v\n%s", version, err, ini)
		}
	}
	if _, err := d.readVersion("no such program\n"); err == nil {
		t.Error("a report without a version was taken")
	}
	if d.Prepared = ""; d.tracks("99") {
		t.Error("a pooler that never can is said to carry statements")
	}
	if d.Prepared = "0"; !d.tracks("0.1") {
		t.Error("a pooler that always can is said not to")
	}
}

func TestVersionsInOrder(t *testing.T) {
	versions := []string{"", "0.9", "1.2", "1.2.1", "1.10", "1.10.3rc1", "2"}
	for i, a := range versions {
		for k, b := range versions {
			got := compareVersions(a, b)
			if (got < 0) != (i < k) || (got == 0) != (i == k) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

// All templates of all definitions can be filled, with a password and without, with TLS and without.
func TestTemplates(t *testing.T) {
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		for _, c := range []struct {
			password string
			security Security
		}{{}, {password: "secret"}, {security: Security{TLS: "both", Scram: true}}} {
			if c.security != (Security{}) && !d.Secure {
				continue
			}
			place := Place{
				Dir: t.TempDir() + "/x", Port: 7001, Extra: 7002, Backends: 33, Clients: 444, Version: "1.21", Security: c.security,
				Server: Server{Host: "127.0.0.1", Port: 5999, User: "someone", Password: c.password, Database: "somedb"},
			}
			if err := writeFiles(&d, &place, nil); err != nil {
				t.Errorf("%s: %v", d.Name, err)
				continue
			}
			args, err1 := fillAll(d.Args, place)
			env, err2 := fillAll(d.Env, place)
			text := strings.Join(append(args, env...), "\n")
			for name := range d.Files {
				content, err := os.ReadFile(filepath.Join(place.Dir, name))
				if err != nil {
					t.Error(err)
				}
				text += string(content)
			}
			if err := errors.Join(err1, err2); err != nil || len(d.Programs) > 0 && !strings.Contains(text, "7001") ||
				len(d.Programs) > 0 && !strings.Contains(text, "5999") || strings.Contains(text, "<no value>") {
				t.Errorf("%s: %v\n%s", d.Name, err, text)
			}
			if c.security.Scram && len(d.Programs) > 0 && (!strings.Contains(text, place.Secret) || !strings.Contains(text, place.Cert())) {
				t.Errorf("%s has no secret or no certificate:\n%s", d.Name, text)
			}
			if !d.OneToOne && !strings.Contains(text, "33") {
				t.Errorf("%s does not bound its backends:\n%s", d.Name, text)
			}
		}
	}
}

func TestMistakesInADefinition(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown key":     "name: a\ntitle: A\nport: 7\n",
		"no title":           "name: a\n",
		"no version":         "name: a\ntitle: A\nprograms: [a]\nargs: [b]\n",
		"a bad pattern":      "name: a\ntitle: A\nprograms: [a]\nargs: [b]\nversion: {match: '('}\n",
		"a bad kind of yaml": "name: [a\n",
	} {
		_, err := read(fstest.MapFS{"a.yaml": &fstest.MapFile{Data: []byte(text)}})
		if err == nil || !strings.HasPrefix(err.Error(), "a.yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgramsThatAreNotThere(t *testing.T) {
	f := Fleet{Definitions: []Definition{{Name: "a", Title: "A", Programs: []string{"no-such-pooler"}}}, Dir: t.TempDir()}
	if _, err := f.Start(Choice{Name: "a", Of: "a"}); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("%v", err)
	}
	if _, err := f.Start(Choice{Name: "a", Of: "a", Security: Security{TLS: "clients"}}); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("TLS where the definition knows none: %v", err)
	}
	if _, err := f.Start(Choice{Name: "b", Of: "b"}); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("a target without definition: %v", err)
	}
}

func TestTargetsThatAreInstalledStart(t *testing.T) {
	server := pgtest.Shared(t)
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	dir, remove, err := pgtest.PrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	f := Fleet{
		Definitions: all, Server: Server{Host: "127.0.0.1", Port: server.Port, User: "postgres", Database: "postgres"},
		Backends: 5, Clients: 100, Dir: dir,
	}
	for _, d := range all {
		if d.Name == "pg-kinetic" {
			continue // its binary is not built here; others start it
		}
		target, err := f.Start(Choice{Name: d.Name, Of: d.Name})
		if errors.Is(err, ErrNotInstalled) {
			t.Log(err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		if answer := ask(t, target); answer != "1" {
			t.Errorf("%s answers %q", target.Describe(), answer)
		}
		if (len(target.Roots()) == 0) != (len(d.Programs) == 0) {
			t.Errorf("%s has the processes %v", d.Name, target.Roots())
		}
		if err := target.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func ask(t *testing.T, target *Target) string {
	t.Helper()
	c := pgwire.Login(t, "tcp", net.JoinHostPort(target.Server.Host, strconv.Itoa(target.Server.Port)), "user", "postgres",
		"database", "postgres")
	defer c.Close() // some wait for their clients before they end
	rows, err := c.Exec("select 1")
	if err != nil || len(rows) != 1 {
		return fmt.Sprint(rows, err)
	}
	return rows[0][0]
}

func TestMain(m *testing.M) { pgtest.Main(m) }
