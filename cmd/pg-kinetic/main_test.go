package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
)

// settings writes a settings file and returns its path.
func settings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pg-kinetic.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trust lets clients in whose secrets nobody knows, which settings without any would not.
const trust = "--auth.method=trust"

// expectRun runs a command line and looks for texts in its two outputs, which hold nothing when the text is empty.
func expectRun(t *testing.T, args, environ []string, code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(args, environ, &out, &errs); got != code {
		t.Errorf("%v: exit %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	for _, o := range []struct{ name, got, want string }{{"stdout", out.String(), stdout}, {"stderr", errs.String(), stderr}} {
		if o.want == "" && o.got != "" || !strings.Contains(o.got, o.want) {
			t.Errorf("%v: %s is %q, want %q", args, o.name, o.got, o.want)
		}
	}
}

func TestCheck(t *testing.T) {
	f := func(text string, environ, flags []string, code int, stdout, stderr string) {
		t.Helper()
		expectRun(t, append([]string{"check", "--config", settings(t, text)}, flags...), environ, code, stdout, stderr)
	}
	f("auth: {method: trust}\n", nil, nil, exitOK, "pg-kinetic.yaml: valid\n", "")
	f("", nil, nil, exitFailure, "", "default: auth.method is scram-sha-256, but nothing says where the users' secrets are: set auth.users_file, or")
	f("server:\n  max_cilents: 5\n", nil, nil, exitFailure, "", `pg-kinetic.yaml:2:3: unknown key "max_cilents" in server; nearest known key: "max_clients"`)
	f("server:\n  loops: 99\n  backlog: 0\n", nil, nil, exitFailure, "", "pg-kinetic.yaml:3:12: server.backlog")
	f("server:\n  loops: 99\n  backlog: 0\n", nil, nil, exitFailure, "", "pg-kinetic.yaml:2:10: server.loops")
	f("", []string{"PG_KINETIC_NOPE=1"}, nil, exitFailure, "", "environment PG_KINETIC_NOPE: no such setting")
	f("", nil, []string{"--server.lops=1"}, exitFailure, "", "--server.lops: no such flag; nearest known: --server.loops")
	f("capacity:\n  max_route_in_flight: 30\nauth: {method: trust}\n", nil, nil, exitOK, "pg-kinetic.yaml: valid, 1 warning(s)\n",
		"pg-kinetic.yaml:2:24: warning: max_route_in_flight 30 is above pool_max_size 20")
	expectRun(t, []string{"check", trust}, nil, exitOK, "settings: valid\n", "")
	expectRun(t, nil, nil, exitFailure, "", "auth.method trust lets everybody in without a password")
	expectRun(t, []string{"check", "--config=/nonexistent.yaml"}, nil, exitFailure, "", "/nonexistent.yaml: cannot be read: no such file or directory")
}

func TestCheckTellsWhenDescriptorsAreTooFew(t *testing.T) {
	if hard := hardDescriptorLimit(); hard > 1_100_000 {
		// No setting needs more than that: the test runs again below a limit of its own.
		again := exec.Command("sh", "-c", `ulimit -n 4096 && exec "$0" -test.run "^$1\$" -test.count 1`, os.Args[0], t.Name())
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	expectRun(t, []string{"check", trust, "--server.max-clients=1000000", "--server.max-unauthenticated=100000"}, nil, exitOK,
		"settings: valid, 1 warning(s)\n", "--server.max-clients: warning: 1100218 file descriptors are needed")
	expectRun(t, []string{trust, "--server.max-clients=1000000", "--server.max-unauthenticated=100000"}, nil, exitFailure,
		"", "1100218 file descriptors are needed")
}

func TestConfigPrintsWhatHolds(t *testing.T) {
	path := settings(t, "databases:\n- name: app\n  password: hunter2\n")
	var out, errs bytes.Buffer
	code := run([]string{"config", "-c", path, "--server.loops", "2"}, []string{"PG_KINETIC_LOG__LEVEL=warn"}, &out, &errs)
	if code != exitOK || errs.Len() > 0 || strings.Contains(out.String(), "hunter2") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s", code, errs.String(), out.String())
	}
	for _, line := range []string{
		"  loops: 2 # flag --server.loops\n", "  level: warn # env PG_KINETIC_LOG__LEVEL\n", "  max_pools: 1000 # default\n",
		`    password: "***" # file ` + path + ":3:13\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in:\n%s", line, out.String())
		}
	}
}

func TestCommandLine(t *testing.T) {
	f := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		expectRun(t, args, nil, code, stdout, stderr)
	}
	f(exitOK, "pg-kinetic "+release, "", "version")
	f(exitOK, "pg-kinetic "+release, "", "--version")
	f(exitOK, "--capacity.max-route-in-flight int", "", "--help")
	f(exitOK, "Usage:", "", "check", "-h")
	f(exitOK, "Usage:", "", "help")
	f(exitUsage, "", `no such command "chek"; commands: serve, check, config, version`, "chek")
	f(exitUsage, "", "--config needs the path of a file", "check", "--config")
	f(exitUsage, "", "-c needs the path of a file", "check", "-c")
	f(exitUsage, "", "--config needs the path of a file", "check", "--config=")
	f(exitUsage, "", `--config is given twice: "a" and "b"`, "check", "-c", "a", "--config=b")
	f(exitFailure, "", "command line: 1 argument(s) that are no flags", "check", "x.yaml")
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	style := newLogStyle(configs.Log{Level: "warn", Format: "json"})
	log := style.logger(&out)
	log.Info("quiet")
	log.Warn("told", "secret", configs.Secret("hunter2"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "told" || line["secret"] != "***" {
		t.Errorf("json: %q, %v", out.String(), err)
	}
	out.Reset()
	derived := log.With("who", "me").WithGroup("g")
	style.set(configs.Log{Level: "debug", Format: "text"})
	derived.Debug("told", "k", 1)
	if !strings.Contains(out.String(), "level=DEBUG msg=told who=me g.k=1") || !log.Enabled(t.Context(), slog.LevelDebug) {
		t.Errorf("text: %q", out.String())
	}
}
