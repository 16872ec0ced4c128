package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Standby starts a streaming standby of s, made by pg_basebackup. It is stopped and removed when the test ends.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	copied, err := s.newStandby()
	if err != nil {
		t.Fatalf("starting a standby: %v", err)
	}
	t.Cleanup(copied.Remove)
	return copied
}

func (s *Server) newStandby() (*Server, error) {
	c := &Server{Bin: s.Bin, owner: s.owner}
	var err error
	if c.dir, err = c.owner.privateDir(); err != nil {
		return nil, err
	}
	if c.watchdog, err = watch(c.dir); err != nil {
		os.RemoveAll(c.dir)
		return nil, err
	}
	if err = c.follow(s); err != nil {
		c.Remove()
		return nil, err
	}
	return c, nil
}

func (s *Server) follow(primary *Server) error {
	out, err := s.command("pg_basebackup", "-h", primary.dir, "-p", fmt.Sprint(primary.Port), "-U", "postgres",
		"-D", s.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	_ = os.Remove(filepath.Join(s.data(), "postmaster.pid"))
	// The socket's directory is the primary's so far.
	if err := s.appendFile("postgresql.conf", []string{fmt.Sprintf("unix_socket_directories = '%s'", s.dir)}); err != nil {
		return err
	}
	if s.Port, err = FreePort(); err != nil {
		return err
	}
	return s.StartAgain()
}

// StartAsStandby is StartAgain of a server that was stopped cleanly, as a standby: read-only, of no primary, until it is
// promoted.
func (s *Server) StartAsStandby() error {
	if err := s.owner.writeFile(filepath.Join(s.data(), "standby.signal"), nil); err != nil {
		return err
	}
	return s.StartAgain()
}

// Promote makes a standby a primary and returns when it is one.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "select pg_promote(false)")
	for end := time.Now().Add(startTimeout); s.Value(t, "select pg_is_in_recovery()::text") != "false"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the standby was not promoted")
		}
	}
}
