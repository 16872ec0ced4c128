package pooler

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"pgkinetic/internal/pgtest"
)

// kineticCommand writes a configuration file and prepares the product's process.
func (p *Pooler) kineticCommand(o Options, base string) (*exec.Cmd, error) {
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = Built(); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(`server:
  listen: ["%s"]
  unix_socket_dir: "%s"
  pool_mode: %s
databases:
%sauth:
  method: trust
capacity:
  pool_max_size: %d
drain:
  timeout_ms: 5000
admin:
  listen: "%s"
  users: [postgres]
`, p.Addr(), p.server.SocketDir(), o.Mode, p.databases(o), o.PoolSize, o.HTTP)
	if err := os.WriteFile(base+".yaml", []byte(config), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, append([]string{"serve", "--config", base + ".yaml"}, o.Flags...)...)
	// By default a process with the race detector sleeps a second at its end, for races that are being reported.
	cmd.Env = append(CleanEnvironment(), "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=50")
	cmd.Env = append(cmd.Env, o.Env...)
	return cmd, nil
}

// databases is the list of the entries of databases, in YAML.
func (p *Pooler) databases(o Options) string {
	entries := o.Databases
	if len(entries) == 0 {
		entries = []string{`name: "*"`}
	}
	var list strings.Builder
	for _, entry := range entries {
		fmt.Fprintf(&list, "  - {hosts: [%q], %s}\n", p.server.Addr(), entry)
	}
	return list.String()
}

// CleanEnvironment leaves out variables that would change the product's settings or a client's.
func CleanEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return env
}

// Built is the product's binary, made once per test process.
var Built = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := "pg-kinetic-test"
	args := []string{"build"}
	if Race {
		name += "-race"
		args = append(args, "-race")
	}
	path := filepath.Join(root, "bin", name)
	// Test processes that run at the same time share the name, and a running binary cannot be written: rename.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	cmd := exec.Command("go", append(args, "-o", fresh, "./cmd/pg-kinetic")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pg-kinetic: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

// Root is the module's directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the working directory")
}

// pgbouncerCommand writes PgBouncer's files and prepares its process. It refuses to run as root.
func (p *Pooler) pgbouncerCommand(o Options, base string) (*exec.Cmd, error) {
	binary, err := PgBouncerProgram()
	if err != nil {
		return nil, err
	}
	ini := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir = %s
auth_type = trust
auth_file = %s.users
pool_mode = %s
default_pool_size = %d
max_client_conn = 20000
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
log_stats = 0
`, p.server.Port, p.Port, p.server.SocketDir(), base, o.Mode, o.PoolSize)
	users := "\"postgres\" \"\"\n\"app\" \"\"\n"
	if err := os.WriteFile(base+".users", []byte(users), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(base+".ini", []byte(ini), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, base+".ini")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Unprivileged()}
	return cmd, nil
}

// PgBouncerProgram finds PgBouncer, or tells how to get it.
func PgBouncerProgram() (string, error) {
	for _, path := range []string{"/usr/sbin/pgbouncer", "pgbouncer"} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no pgbouncer found; install it (Debian/Ubuntu: apt-get install pgbouncer)")
}
