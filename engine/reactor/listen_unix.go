package reactor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// State: unixFile is the file of a Unix socket and the lock beside it. Owner:
// the acceptor. Invariant: while lock is held nobody else who asks for it may
// touch the socket's file; the lock is the flock on it, its existence means
// nothing.

// unixFile guards a socket path as PostgreSQL does, by path + ".lock" with the
// process id in its first line, so that a PostgreSQL server too recognises that
// the path is in use.
type unixFile struct {
	path string
	lock *os.File
}

// unixPath is the name under which libpq looks for a server's socket.
func unixPath(dir string, port int) string {
	return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
}

// listenUnix listens on a path. One that begins with @ is in the abstract name
// space and has no file.
func listenUnix(path string, mode fs.FileMode, backlog int) (*Listener, error) {
	if len(path) > unixPathMax {
		return nil, fmt.Errorf("listen on %q: the path has %d bytes, %d are possible; choose a shorter server.unix_socket_dir", path, len(path), unixPathMax)
	}
	var file *unixFile
	if !strings.HasPrefix(path, "@") {
		var err error
		if file, err = claimUnixFile(path); err != nil {
			return nil, unixError(path, err)
		}
	}
	fd, err := openUnix(path, mode, backlog, file != nil)
	if err != nil {
		file.releaseLock()
		return nil, unixError(path, err)
	}
	return &Listener{Network: "unix", Address: path, fd: fd, file: file}, nil
}

func openUnix(path string, mode fs.FileMode, backlog int, hasFile bool) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	bind := func() error {
		if hasFile {
			// bind creates the file with the socket's mode less the umask, so it
			// is never more open than asked for; the second call adds what the
			// umask took.
			if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
				return os.NewSyscallError("fchmod", err)
			}
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if hasFile {
			if err := os.Chmod(path, mode.Perm()); err != nil {
				_ = os.Remove(path)
				return err
			}
		}
		return os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err := bind(); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

var errUnixInUse = errors.New("another process serves this socket")

// claimUnixFile takes the lock and removes a socket file that nobody serves.
func claimUnixFile(path string) (*unixFile, error) {
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	f := &unixFile{path: path, lock: lock}
	if err := removeStale(path); err != nil {
		f.releaseLock()
		return nil, err
	}
	return f, nil
}

// takeLock opens and locks the file. Between open and lock the previous holder
// may have removed it: then the lock is on a file without a name, and void.
func takeLock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = file.Close()
			if err == unix.EWOULDBLOCK {
				return nil, errUnixInUse
			}
			return nil, os.NewSyscallError("flock", err)
		}
		here, errHere := file.Stat()
		named, errNamed := os.Stat(path)
		if errHere == nil && errNamed == nil && os.SameFile(here, named) {
			return file, writePid(file)
		}
		_ = file.Close()
	}
}

func writePid(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// removeStale removes what lies at path if it is a socket that nobody answers
// on; anything else stays and is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket is in the way")
	}
	fd, _, err := Dial("unix", path)
	switch {
	case err == nil:
		_ = unix.Close(fd)
		return errUnixInUse
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, unix.EAGAIN): // its backlog is full: somebody serves it
		return errUnixInUse
	}
	return err
}

func unixError(path string, err error) error {
	remedy := "check server.unix_socket_dir"
	switch {
	case errors.Is(err, errUnixInUse), errors.Is(err, unix.EADDRINUSE):
		remedy = "stop it, or choose another port or server.unix_socket_dir"
	case errors.Is(err, fs.ErrNotExist):
		remedy = "create the directory or change server.unix_socket_dir"
	case errors.Is(err, fs.ErrPermission):
		remedy = "the process needs write permission in server.unix_socket_dir"
	}
	return fmt.Errorf("listen on %q: %w; %s", path, err, remedy)
}

// remove takes the socket's file and the lock away; nil is nothing to do.
func (f *unixFile) remove() {
	if f == nil {
		return
	}
	_ = os.Remove(f.path)
	f.releaseLock()
}

func (f *unixFile) releaseLock() {
	if f == nil {
		return
	}
	_ = os.Remove(f.path + ".lock") // before the lock falls: see takeLock
	_ = f.lock.Close()
}
