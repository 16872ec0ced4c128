package pgtest

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

//go:embed postgres.sh
var findScript string

// Programs is the directory of PostgreSQL's programs; it installs the system's packages if there is none (see
// postgres.sh, which also honours PG_BIN).
var Programs = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("sh", "-s")
	cmd.Stdin = strings.NewReader(findScript)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding PostgreSQL's programs: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// owner is who runs the server: ourselves, or somebody without privileges when we are root.
type owner struct {
	credential *syscall.Credential // nil: ourselves
}

func unprivileged() owner {
	if os.Geteuid() != 0 {
		return owner{}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return owner{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	// Neither is known by name: any number that is not 0 serves, PostgreSQL asks only for the name of a known one.
	return owner{credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// Unprivileged is the user under which programs run that refuse to run as root: nil (ourselves) unless we are root.
func Unprivileged() *syscall.Credential { return unprivileged().credential }

// privateDir makes a directory that belongs to the owner. Other users may look at the socket in it, since clients of the
// test run as ourselves.
func (o owner) privateDir() (string, error) {
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		return "", err
	}
	if err = os.Chmod(dir, 0o755); err == nil && o.credential != nil {
		err = os.Chown(dir, int(o.credential.Uid), int(o.credential.Gid))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// writeFile writes a file that only the owner can read.
func (o owner) writeFile(path string, text []byte) error {
	err := os.WriteFile(path, text, 0o600)
	if err == nil && o.credential != nil {
		err = os.Chown(path, int(o.credential.Uid), int(o.credential.Gid))
	}
	return err
}

// FreePort finds a TCP port of 127.0.0.1 that nobody listens on. It lies below the range from which the kernel takes the
// ports of outgoing connections, so that a stopped server finds its port free again.
func FreePort() (int, error) {
	for range 200 {
		port := 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free TCP port found between 12000 and 31999")
}

// watchdogScript ends when its standard input does: it stops what the .pid files of its directory name and removes the
// directory. Process numbers are read late, since a restarted server has a new one.
const watchdogScript = `
cat >/dev/null
gone() { for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do kill -0 "$1" 2>/dev/null || return 0; sleep 0.2; done; return 1; }
for file in "$1"/*.pid "$1"/data/postmaster.pid; do
	[ -s "$file" ] && read -r pid <"$file" || continue
	kill -QUIT "$pid" 2>/dev/null || continue
	gone "$pid" || kill -KILL "$pid"
done
rm -rf "$1"
`

// watchdog holds the write end of the watchdog's pipe.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func watch(dir string) (*watchdog, error) {
	cmd := exec.Command("sh", "-c", watchdogScript, "pgtest-watchdog", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

// release lets the watchdog end, and waits for it: it finds what was stopped stopped.
func (w *watchdog) release() {
	_ = w.pipe.Close()
	_ = w.cmd.Wait()
}
