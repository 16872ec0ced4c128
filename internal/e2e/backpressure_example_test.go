package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// exampleTOML is the example as users write it.
const exampleTOML = `[capacity]
max_route_in_flight = 8
max_route_waiters = 4
checkout_timeout_ms = 250
overload_error_code = "53300"
`

// exampleYAML says the same.
const exampleYAML = `capacity: {max_route_in_flight: 8, max_route_waiters: 4, checkout_timeout_ms: 250, overload_error_code: "53300"}
`

// withFile is a program that runs pg-kinetic with the settings file in place of the one that package pooler writes. The
// binary is the one that the running pooler was started from.
func withFile(t *testing.T, running *pooler.Pooler, file string) string {
	t.Helper()
	binary, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", running.PID()))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "pg-kinetic")
	// The arguments are: serve --config FILE flags…
	text := fmt.Sprintf("#!/bin/sh\nshift 3\nexec '%s' serve --config '%s' \"$@\"\n", binary, file)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestBackpressureExample: psycopg2 and the binary with the example's settings, on 1, 2 and 4 loops.
func TestBackpressureExample(t *testing.T) {
	onlyKinetic(t)
	env := pythonDrivers(t)
	s := pgtest.Shared(t)
	binary := pooler.Start(t, s, pooler.Options{})
	for _, test := range []struct {
		name, text string
		loops      int
	}{
		{"example.toml", exampleTOML, 1},
		{"example.toml", exampleTOML, 2},
		{"example.yaml", exampleYAML, 4},
	} {
		t.Run(fmt.Sprintf("%s/loops %d", test.name, test.loops), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), test.name)
			if err := os.WriteFile(file, []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
			port, err := pgtest.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			p := pooler.Start(t, s, pooler.Options{
				Binary: withFile(t, binary, file), Port: port,
				Flags: []string{
					fmt.Sprintf("--server.listen=127.0.0.1:%d", port), "--server.unix-socket-dir=" + s.SocketDir(),
					fmt.Sprintf("--server.loops=%d", test.loops), "--auth.method=trust",
				},
				Env: []string{fmt.Sprintf(`PG_KINETIC_DATABASES=[{"name": "*", "hosts": [%q]}]`, s.Addr())},
			})
			dsn := "postgres://postgres@%s/postgres"
			for range 5 {
				out := run(t, env, "python3", filepath.Join("testdata", "backpressure_psycopg2.py"),
					fmt.Sprintf(dsn, p.Addr()), fmt.Sprintf(dsn, s.Addr()), fmt.Sprint(test.loops))
				switch out {
				case "ok\n":
					return
				case "slow\n":
				default:
					t.Fatalf("the script printed %q", out)
				}
			}
			t.Fatal("the machine is too slow to see what happens within 250 ms")
		})
	}
}

// pythonDrivers installs the Python drivers and gives the environment in which scripts find them.
func pythonDrivers(t *testing.T) []string {
	t.Helper()
	root, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	run(t, nil, "sh", filepath.Join(root, "internal", "scripts", "drivers.sh"))
	return []string{"PYTHONPATH=" + filepath.Join(root, ".run", "drivers", "python"), "PYTHONDONTWRITEBYTECODE=1"}
}
