package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestInvalidYAML(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		c, o, problems := Load(write(t, "f.yaml", text), nil, nil)
		if c != nil || o == nil {
			t.Errorf("config %v, origins %v", c, o)
		}
		expectProblems(t, problems, want)
	}
	// keys
	f("server:\n  max_cilents: 5\n", `f.yaml:2:3: unknown key "max_cilents" in server; nearest known key: "max_clients"`)
	f("server:\n  Max-Clients: 5\n", `f.yaml:2:3: unknown key "Max-Clients" in server; nearest known key: "max_clients"`)
	f("server:\n  pool_max_size: 5\n", `f.yaml:2:3: unknown key "pool_max_size" in server; it belongs to capacity`)
	f("serevr:\n  loops: 5\n", `f.yaml:1:1: unknown section "serevr"; nearest known: "server"`)
	f("max_clients: 5\n", `f.yaml:1:1: unknown section "max_clients"; nearest known: "server.max_clients"`)
	f("databases:\n  - name: a\n    max_checkout_waiters: 5\n", `f.yaml:3:5: max_checkout_waiters holds for the whole process and cannot be set in databases[0]: set capacity.max_checkout_waiters`)
	f("users:\n  - name: a\n    hosts: []\n", `f.yaml:3:5: unknown key "hosts" in users[0]; it belongs to databases`)
	f("console:\n  listen: x\n", `f.yaml:1:1: unknown section "console"; nearest known: "`)
	f("server:\n  loops: 1\n  loops: 2\n", `f.yaml:3:3: "loops" is written twice in server, first on line 2: keep one`)
	f("log:\n  level: info\nlog:\n  level: warn\n", `f.yaml:3:1: "log" is written twice in the file, first on line 1`)
	// shapes
	f("- a\n", "f.yaml:1:1: the file must be a mapping of sections")
	f("server: 5\n", "f.yaml:1:9: server must be a mapping of settings, not a whole number")
	f("databases: {name: a}\n", "f.yaml:1:12: databases must be a list of entries, not a mapping")
	f("databases: [a]\n", "f.yaml:1:13: databases[0] must be a mapping of settings, not a text")
	f("databases:\n  - hosts: [\"h:1\"]\n", "f.yaml:2:5: databases[0] has no name")
	f("server:\n  listen: \":1\"\n", "f.yaml:2:11: server.listen must be a list of texts, not a text: put it in [ ]")
	f("server:\n  loops: [1]\n", "f.yaml:2:10: server.loops must be a whole number, not a list")
	f("server:\n  loops:\n", "f.yaml:2:9: server.loops has no value: give it one or remove the line")
	f("a: 1\n---\nb: 1\n", "f.yaml:2:1: a second document begins here")
	// every problem, in order
	f("server:\n  loops: 65\n  backlog: 0\nlog:\n  level: loud\n",
		"f.yaml:2:10: server.loops must be from 0 to 64, not 65",
		"f.yaml:3:12: server.backlog must be from 1 to 65535, not 0",
		`f.yaml:5:10: log.level must be one of "debug", "info", "warn", "error", not "loud"; nearest: `)
	// syntax
	f("server: [\n", "f.yaml:")
	f("server:\n\tloops: 1\n", "f.yaml:2:1: not valid YAML")
	f("a: *b\n", "f.yaml:1:1: not valid YAML: an alias without its anchor")
}

func TestInvalidTOML(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.toml", text), nil, nil)
		expectProblems(t, problems, want)
	}
	f("[server]\nmax_cilents = 5\n", `f.toml:2:1: unknown key "max_cilents" in server; nearest known key: "max_clients"`)
	f("[server]\nloops = 65\n  backlog = 0\n", "f.toml:2:9: server.loops must be from 0 to 64, not 65", "f.toml:3:13: server.backlog must be")
	f("[[databases]]\nname = 'a'\n[[databases]]\nname = 'a'\nhosts = ['h:1', 'h:x']\n",
		`f.toml:4:8: databases has a second entry for "a" (the first: `, "f.toml:5:17: databases[1].hosts[1] must have a port from 1 to 65535")
	f("server.loops = 'x'\n", "f.toml:1:16: server.loops must be a whole number in decimal digits, not \"x\"")
	f("[server]\nloops = 1\nloops = 2\n", `f.toml:3:1: "loops" is written twice in server, first on line 2`)
	f("[server]\nloops = 1\n[server]\nbacklog = 0\n", "f.toml:3:2: not valid TOML: ", "f.toml:4:11: server.backlog must be")
	f("server = 1\n[server.loops]\nx = 1\n", "f.toml:1:10: server must be a mapping", "f.toml:2:")
	f("[log]\nlevel = = 1\n", "f.toml:2:9: not valid TOML: ")
	f("[log]\nlevel = 1979-05-27\n", `f.toml:2:9: log.level must be one of`)
	f("[drain]\ntimeout_ms = 1.5\n", `f.toml:2:14: drain.timeout_ms must be a whole number of milliseconds in decimal digits, not "1.5"`)
	f("databases = 5\n", "f.toml:1:13: databases must be a list of entries, not a whole number")
	f("databases = [{name='a', nmae=1}]\n", `f.toml:1:25: unknown key "nmae" in databases[0]; nearest known key: "name"`)
}

func TestInvalidValues(t *testing.T) {
	f := func(section, line, want string) {
		t.Helper()
		text := section + ":\n  " + line + "\n"
		if isList(section) {
			text = section + ":\n- name: x\n  " + line + "\n"
		}
		_, _, problems := Load(write(t, "f.yaml", text), nil, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) || problems[0].Place.Line < 2 {
			t.Errorf("%s: got %q, want %q", line, problemLines(problems), want)
		}
	}
	// numbers
	f("server", `max_clients: "5"`, "write 5 without quotes")
	f("server", "max_clients: 1e3", `in decimal digits, not "1e3"`)
	f("server", "max_clients: 010", `in decimal digits, not "010"`)
	f("server", "max_clients: 0x10", `in decimal digits, not "0x10"`)
	f("server", "max_clients: 99999999999999999999", `must be from 1 to 1000000, not "99999999999999999999"`)
	f("server", "max_clients: -1", "must be from 1 to 1000000, not -1")
	f("server", "max_clients: yes", "must be a whole number in decimal digits")
	f("capacity", "checkout_timeout_ms: 5s", `must be a whole number of milliseconds: write 5000, not "5s"`)
	f("capacity", "checkout_timeout_ms: 0", "must be from 1 to 2147483647")
	f("capacity", "max_client_buffer_bytes: 100", "must be from 32768 to 1073741824")
	// sizes
	f("server", "max_buffer_memory: 256MB", "unknown unit")
	f("server", "max_buffer_memory: 1.5GiB", "must be a size such as")
	f("server", "max_buffer_memory: 1000000TiB", "must be from 1MiB to 1TiB")
	f("server", "max_buffer_memory: 9999999999999999999999", "must be from 1MiB to 1TiB")
	f("server", "max_buffer_memory: 99999999999999999999TiB", "must be from 1MiB to 1TiB")
	f("server", "max_buffer_memory: 4096", "must be from 1MiB to 1TiB")
	f("server", "max_buffer_memory: -1", "must be from 1MiB to 1TiB")
	f("server", "max_buffer_memory: true", "must be a size such as")
	// words and codes
	f("log", "connections: yes", `must be true or false, not "yes"`)
	f("log", `connections: "true"`, "must be true or false")
	f("server", "pool_mode: transactoin", `nearest: "transaction"`)
	f("server", `unix_socket_mode: "0888"`, `octal mode such as "0777"`)
	f("server", `unix_socket_mode: rwx`, `octal mode such as "0777"`)
	f("capacity", `overload_error_code: "5330"`, `five of 0-9 and A-Z`)
	f("capacity", `overload_error_code: "53e00"`, `five of 0-9 and A-Z`)
	f("capacity", `overload_error_code: "533000"`, `five of 0-9 and A-Z`)
	f("capacity", `reset_query: " "`, "must not be empty")
	// texts
	f("databases", "dbname: 2024", "databases[0].dbname must be a text, not a whole number: put it in quotes")
	f("databases", `dbname: "a\0b"`, "NUL")
	f("databases", "dbname: 2024-01-01", "databases[0].dbname must be a text, not a date or other special value")
	f("databases", "password: !!binary aGk=", "databases[0].password must be a text, not a date or other special value")
	f("databases", "dbname: "+strings.Repeat("x", 64), "has 64 bytes; at most 63")
	f("databases", "password_env: my-secret", "must be the name of an environment variable")
	f("databases", "password_env: NOT_THERE", "names the variable NOT_THERE, which is not set")
	f("databases", "password_file: /nonexistent/x", `names "/nonexistent/x", which cannot be read: no such file or directory`)
	f("databases", "password_file: /", "cannot be read: it is a directory")
	f("server", "unix_socket_dir: run", "must be an absolute path")
	f("users", "max_clients: 0", "users[0].max_clients must be from 1 to 1000000")
	// mappings
	f("databases", "startup_parameters: [a]", "must be a mapping of names to texts, not a list")
	f("databases", "startup_parameters: {DateStyle: 1}", "must be a text, not a whole number: put it in quotes")
	f("databases", "startup_parameters: {user: x}", "databases[0].startup_parameters.user is part of the login: use user")
	f("databases", "startup_parameters: {Database: x}", "is part of the login: use dbname")
	f("databases", "startup_parameters: {replication: x}", "cannot be pooled")
	f("databases", `startup_parameters: {"a b": x}`, "is not a parameter name")
	// hosts and listeners
	f("databases", `hosts: []`, "is empty: name at least one host")
	f("databases", `hosts: ["a", "a:5432"]`, `databases[0].hosts names "a:5432" twice`)
	f("databases", "hosts: ["+strings.Repeat("h, ", 16)+"h]", "at most 16")
	f("databases", "target_session_attrs: master", "must be one of")
	// the console and the HTTP server
	f("admin", "database: '*'", "admin.database must be one name")
	f("admin", "database: ''", "admin.database must not be empty")
	f("admin", "listen: 127.0.0.1:6432", "admin.listen is an address of server.listen too")
	f("admin", "listen: 127.0.0.1", "admin.listen must be host:port")
	f("admin", "listen: /run", "admin.listen must be host:port")
	f("admin", "users: ['*']", "must be the name of one user")
	f("databases", `hosts: ["a:1", "a:1"]`, "databases[0].hosts[1] is there twice")
	f("databases", `hosts: [5432]`, "databases[0].hosts[0] must be a text")
	f("databases", `hosts: ["::1"]`, "brackets")
	f("server", `listen: []`, "nothing to listen on")
	f("server", `listen: ["*:6432"]`, `leave the host out to listen on every address: ":6432"`)
	f("server", `listen: ["6432"]`, "must be host:port")
	f("server", `listen: ["/tmp"]`, "server.unix_socket_dir")
	f("server", `listen: [":65536"]`, "must have a port from 0 to 65535")
}

func TestInvalidEntries(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.yaml", text), nil, nil)
		expectProblems(t, problems, want)
	}
	f("databases:\n- name: pg_kinetic\n", `f.yaml:2:9: databases[0].name is "pg_kinetic", by which clients reach the console`)
	f("databases:\n- name: pg_kinetic\nadmin:\n  database: ops\n")
	f("databases:\n- name: a\n- name: pgbouncer\n", `f.yaml:3:9: databases[1].name is "pgbouncer", by which clients reach the console too`)
	f("databases:\n- name: a\n- name: b\n- name: a\n", `f.yaml:4:9: databases has a second entry for "a"`)
	f("users:\n- name: a\n- name: a\n", `f.yaml:3:9: users has a second entry for "a"`)
	f("users:\n- name: \"*\"\n", `f.yaml:2:9: users[0].name must be the name of one user`)
	f("databases:\n- name: \"\"\n", `f.yaml:2:9: databases[0].name must not be empty`)
	f("databases:\n- name: a\n  password: x\n  password_env: HOME\n", `f.yaml:4:17: databases[0].password_env stands beside password: keep one`)
	f("databases:\n- name: a\n  password_file: x\n  password_env: HOME\n", `f.yaml:3:18: databases[0].password_file stands beside password_env: keep one`)
}

func TestInvalidFiles(t *testing.T) {
	f := func(path string, want string) {
		t.Helper()
		_, _, problems := Load(path, nil, nil)
		expectProblems(t, problems, []string{want})
	}
	f(filepath.Join(t.TempDir(), "none.yaml"), "none.yaml: cannot be read: no such file or directory")
	dir := filepath.Join(t.TempDir(), "dir.yaml")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f(dir, "dir.yaml: cannot be read: it is a directory: name a file")
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f(pipe, "pipe.yaml: cannot be read: it is a pipe into which nobody writes any more")
	f(write(t, "a.yaml", "databases: [{name: a, password_file: "+pipe+"}]"), "a.yaml:1:38: databases[0].password_file names "+strconv.Quote(pipe)+", which cannot be read: it is a pipe")
	f(write(t, "latin.yaml", "log:\n  level: \xe9\n"), "latin.yaml:2:10: not UTF-8 (byte 0xe9)")
	f(write(t, "utf16.toml", "\xff\xfe[\x00"), "utf16.toml:1:1: not UTF-8 (byte 0xff)")
	f(write(t, "big.yaml", strings.Repeat("#\n", maxFile/2+1)), "big.yaml: cannot be read: it has more than 4194304 bytes")
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		name := string(rune('b' + i))
		previous := string(rune('a' + i))
		bomb += name + ": &" + name + " [" + strings.Repeat("*"+previous+",", 10) + "]\n"
	}
	f(write(t, "bomb.yaml", bomb), "bomb.yaml:")
	f(write(t, "deep.toml", "a = "+strings.Repeat("[", 50_000)), "deep.toml:1:")
	f(write(t, "many.toml", "a = ["+strings.Repeat("1,", maxNodes+1)+"]"), "many.toml:1:200002: too much: at most 100000 values")
	f(write(t, "deep.yaml", strings.Repeat("[", 100)+strings.Repeat("]", 100)), "deep.yaml:1:")
}

// A shell's pipe, <(…), is read as long as its writer takes.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	written := make(chan error, 1)
	go func() {
		_, err := w.WriteString("log: {level: ")
		time.AfterFunc(50*time.Millisecond, func() {
			_, _ = w.WriteString("debug}")
			_ = w.Close()
		})
		written <- err
	}()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	c, _, problems := Load(path, nil, nil)
	if len(problems) > 0 || c.Log.Level != "debug" || <-written != nil {
		t.Fatalf("%v", problems)
	}
	_, _, problems = Load(path, nil, nil)
	expectProblems(t, problems, []string{filepath.Base(path) + ": cannot be read: it is a pipe"})
}

func TestInvalidEnvironment(t *testing.T) {
	_, _, problems := Load("", []string{
		"PG_KINETIC_CAPACITY__MAX_ROUTE_IN_FLIGT=8",
		"PG_KINETIC_CAPACITY__POOL_MAX_SIZE=many",
		`PG_KINETIC_DATABASES=[{"name":"a","nmae":"b"}]`,
		"PG_KINETIC_LOG__CONNECTIONS=",
		"PG_KINETIC_PORT=6432",
		`PG_KINETIC_SERVER__LISTEN=["a`,
		`PG_KINETIC_USERS=[{"name":`,
	}, nil)
	expectProblems(t, problems, []string{
		"environment PG_KINETIC_CAPACITY__MAX_ROUTE_IN_FLIGT: no such setting; nearest known variable: PG_KINETIC_CAPACITY__MAX_ROUTE_IN_FLIGHT",
		`environment PG_KINETIC_CAPACITY__POOL_MAX_SIZE: capacity.pool_max_size must be a whole number in decimal digits, not "many"`,
		`environment PG_KINETIC_DATABASES: unknown key "nmae" in databases[0]; nearest known key: "name"`,
		`environment PG_KINETIC_LOG__CONNECTIONS: log.connections must be true or false, not ""`,
		"environment PG_KINETIC_PORT: no such setting",
		"environment PG_KINETIC_SERVER__LISTEN: server.listen is not valid JSON",
		"environment PG_KINETIC_USERS: users is not valid JSON at byte",
	})
}

func TestListsInTheEnvironment(t *testing.T) {
	c, _ := mustLoad(t, "", []string{
		`PG_KINETIC_DATABASES=[{"name":"a","max_clients":5,"startup_parameters":{"b":"c"},"hosts":["/tmp"]},{"name":"b"}]`,
		`PG_KINETIC_USERS=[]`,
	}, nil)
	if len(c.Databases) != 2 || *c.Databases[0].MaxClients != 5 || c.Databases[0].StartupParameters["b"] != "c" || c.Databases[1].Host().Address != "127.0.0.1:5432" {
		t.Errorf("databases: %+v", c.Databases)
	}
	f := func(text, want string) {
		t.Helper()
		_, _, problems := Load("", []string{"PG_KINETIC_DATABASES=" + text}, nil)
		expectProblems(t, problems, []string{"environment PG_KINETIC_DATABASES: " + want})
	}
	f(`{"name":"a"}`, "databases must be a list of entries, not a mapping")
	f(`null`, "databases must be a list of entries, not nothing")
	f(`["a"]`, "databases[0] must be a mapping of settings, not a text")
	f(`[{"name":"a","max_clients":1.5}]`, "databases[0].max_clients must be a whole number")
	f(`[{"name":"a","max_clients":true}]`, "databases[0].max_clients must be a whole number")
	f(`[{"name":"a","max_clients":null}]`, "databases[0].max_clients has no value")
	f(`[{"name":"a","max_clients":1,"max_clients":2}]`, `"max_clients" is written twice in databases[0]: keep one`)
	f(`[{"name":"a"}] x`, "databases is not valid JSON at byte 16")
	f("", "databases is not valid JSON at byte 0")
	f(strings.Repeat("[", 50)+strings.Repeat("]", 50), "databases is too much")
	f("["+strings.Repeat("1,", maxNodes)+"1]", "databases is too much")
}

func TestInvalidFlags(t *testing.T) {
	_, _, problems := Load("", nil, []string{
		"--server.max-cilents=5", "--log.level=loud", "stray", "--databases.0.password=hunter2", "-x", "--server.loops=x", "--=y", "--drain.timeout-ms",
	})
	want := map[string]string{
		"--server.max-cilents":   "no such flag; nearest known: --server.max-clients",
		"--log.level":            `log.level must be one of`,
		"command line":           "1 argument(s) that are no flags: settings are given as --section.name=value",
		"--databases.0.password": "databases has no flags: use the file or the variable PG_KINETIC_DATABASES",
		"-x":                     "no such flag; nearest known: ",
		"--server.loops":         "server.loops must be a whole number",
		"--":                     "no such flag",
		"--drain.timeout-ms":     "has no value: write --drain.timeout-ms=value",
	}
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d:\n%s", len(problems), len(want), strings.Join(problemLines(problems), "\n"))
	}
	for _, p := range problems {
		if w, ok := want[p.Place.Name]; !ok || !strings.HasPrefix(p.Message, w) {
			t.Errorf("%s: want %q", p, w)
		}
	}
}

func TestProblemsOfAllLayersAreTold(t *testing.T) {
	_, _, problems := Load(write(t, "f.yaml", "log:\n  level: loud\n"), []string{"PG_KINETIC_X__Y=1"}, []string{"--z"})
	expectProblems(t, problems, []string{"f.yaml:2:10: ", "environment PG_KINETIC_X__Y: ", "--z: "})
}
