package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
)

// unit is a unit file of systemd: the values of each key by section, in order.
type unit map[string]map[string][]string

const unitsDirectory = "../../configs"

// readUnit reads a unit file by the rules of systemd.syntax(7), as far as ours use them.
func readUnit(t *testing.T, name string) (u unit, text []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(unitsDirectory, name))
	if err != nil {
		t.Fatal(err)
	}
	u = unit{}
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		key, value, assigns := strings.Cut(line, "=")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			u[section] = map[string][]string{}
		case assigns && section != "" && regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(key):
			u[section][key] = append(u[section][key], value)
		default:
			t.Errorf("%s:%d: %q is no line of a unit", name, i+1, line)
		}
	}
	return u, text
}

// value is that of a key that is there once.
func (u unit) value(t *testing.T, section, key string) string {
	t.Helper()
	if len(u[section][key]) != 1 {
		t.Fatalf("%s= of [%s] is %q", key, section, u[section][key])
	}
	return u[section][key][0]
}

// The service fits what the program does and needs by default.
func TestServiceUnit(t *testing.T) {
	u, _ := readUnit(t, "pg-kinetic.service")
	seconds := func(key string) time.Duration {
		t.Helper()
		d, err := time.ParseDuration(u.value(t, "Service", key))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	defaults := configs.Default()
	if limit, drain := seconds("TimeoutStopSec"), time.Duration(defaults.Drain.TimeoutMs)*time.Millisecond; limit < drain+5*time.Second {
		t.Errorf("TimeoutStopSec=%v leaves a drain of %v no time", limit, drain)
	}
	if limit := seconds("WatchdogSec"); limit < 20*time.Second {
		t.Errorf("WatchdogSec=%v is shorter than what the loops may take twice", limit)
	}
	files, err := strconv.Atoi(u.value(t, "Service", "LimitNOFILE"))
	if need := configs.DescriptorsNeeded(defaults); err != nil || files < need {
		t.Errorf("LimitNOFILE=%d, %v; %d are needed", files, err, need)
	}
	command := strings.Fields(u.value(t, "Service", "ExecStart"))
	if inv, err := parseArgs(command[1:]); err != nil || inv.command != commandServe || inv.config == "" || len(inv.settings) > 0 {
		t.Errorf("ExecStart=%q: %+v, %v", command, inv, err)
	}
	for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "ExecReload": "/bin/kill -HUP $MAINPID"} {
		if got := u.value(t, "Service", key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	for _, family := range []string{"AF_UNIX", "AF_INET", "AF_INET6"} {
		if !slices.Contains(strings.Fields(u.value(t, "Service", "RestrictAddressFamilies")), family) {
			t.Errorf("no sockets of %s", family)
		}
	}
}

// The socket unit listens where the program does by default, so that it takes the place of that.
func TestSocketUnit(t *testing.T) {
	u, _ := readUnit(t, "pg-kinetic.socket")
	defaults := configs.Default().Server
	if got := u["Socket"]["ListenStream"]; !slices.Equal(got, defaults.Listen) {
		t.Errorf("ListenStream=%q, server.listen is %q", got, defaults.Listen)
	}
	if got := u.value(t, "Socket", "Backlog"); got != strconv.Itoa(defaults.Backlog) {
		t.Errorf("Backlog=%s, server.backlog is %d", got, defaults.Backlog)
	}
}

// systemd itself finds nothing to say about the units.
func TestUnitsAreVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd here")
	}
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"pg-kinetic.service", "pg-kinetic.socket"} {
		u, text := readUnit(t, name)
		if commands := u["Service"]["ExecStart"]; len(commands) == 1 { // a program that is installed
			text = bytes.Replace(text, []byte(strings.Fields(commands[0])[0]), []byte(os.Args[0]), 1)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, paths...)...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte(dir)) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
